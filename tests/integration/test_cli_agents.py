"""`adsum agents`, `hosts` and `show` against a stand-in hub: what is printed, and how they end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from adsum_shared.state import ActivityEntry, GapView, Group, HostWitness, HubTrouble
from tests.brokers import free_port
from tests.hubs import NOW, StandIn, host, session, stand_in_hub
from tests.integration.conftest import Run
from tests.support import wait_until

ASKS = session("0a1b2c3d", Group.NEEDS_YOU, "needs_permission", label="Needs permission: Bash")
WORKS = session("0a1bffff", title="Write the docs")
AWAY = session("77777777", Group.NEEDS_YOU, "idle", host="desk", reachability="offline")


@pytest.fixture
def hub() -> Iterator[StandIn]:
    with stand_in_hub() as hub:
        yield hub


@pytest.fixture(autouse=True)
def _narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def test_the_table_fits_80_columns_with_who_needs_you_first(hub: StandIn, run: Run) -> None:
    hub.sessions = [WORKS, ASKS, session("x" * 36, title="long " * 40, label="wide " * 30)]
    code, out, err = run("agents", "--hub", hub.url)
    lines = out.splitlines()
    assert (code, err, len(lines)) == (0, "", 5)
    assert all(len(line) <= 80 for line in lines)
    assert lines[1].startswith("▲ Needs permission: Bash")
    assert lines[4] == "1 needs you · 2 working · 0 delivered"


def test_stale_hosts_are_named_and_make_it_partial(hub: StandIn, run: Run) -> None:
    hub.sessions = [WORKS, AWAY]
    hub.hosts = [host(), host("desk", "offline")]
    code, out, _ = run("agents", "--hub", hub.url)
    assert code == 5
    assert "desk offline, last seen 4m ago" in out
    assert out.splitlines()[3].startswith("0 need you · 1 working")


def test_exit_status_is_10_when_someone_waits(hub: StandIn, run: Run) -> None:
    hub.sessions = [AWAY]
    assert run("agents", "--hub", hub.url, "--exit-status")[0] == 5
    hub.sessions = [AWAY, ASKS]
    assert run("agents", "--hub", hub.url, "--exit-status")[0] == 10
    assert run("agents", "--hub", hub.url)[0] == 5


def test_json_is_the_hubs_own_answer_with_all_pages_in_one(hub: StandIn, run: Run) -> None:
    hub.sessions = [ASKS, WORKS, AWAY]
    hub.page_most = 2
    code, out, _ = run("agents", "--hub", hub.url, "--json")
    answer = json.loads(out)
    assert (code, answer["schema"], answer["total"]) == (5, 1, 3)
    first = answer["sessions"][0]
    assert (first["state"]["group"], first["state"]["state"]) == ("needs_you", "needs_permission")
    assert [one["host"] for one in answer["sessions"]] == ["laptop", "laptop", "desk"]


def test_jsonl_is_one_object_a_line(hub: StandIn, run: Run) -> None:
    hub.sessions = [ASKS, WORKS]
    _, out, _ = run("agents", "--hub", hub.url, "--jsonl")
    assert [json.loads(line)["session_id"] for line in out.splitlines()] == ["0a1b2c3d", "0a1bffff"]


def test_filters_are_the_hubs(hub: StandIn, run: Run) -> None:
    hub.sessions = [ASKS, WORKS]
    words = ("--needs-you", "--host", "laptop", "--state", "idle", "--project", "a b")
    words += ("--agent", "Claude Code")
    _, out, _ = run("agents", "--hub", hub.url, *words)
    assert "Needs permission" in out
    assert "Write the docs" not in out
    assert "state=idle&host=laptop&agent=claude_code&project=a+b&needs_you=1" in hub.asked[0]


def test_nothing_to_show_says_what_to_do_next(hub: StandIn, run: Run) -> None:
    code, out, err = run("agents", "--hub", hub.url)
    assert (code, out) == (0, "")
    assert "Start `claude`" in err
    assert "No session matches" in run("agents", "--hub", hub.url, "--state", "idle")[2]
    hub.hosts = []
    assert "adsum up" in run("agents", "--hub", hub.url)[2]


def test_a_name_that_nothing_bears_is_said_with_those_there_are(hub: StandIn, run: Run) -> None:
    code, _, err = run("agents", "--hub", hub.url, "--state", "nonsense")
    assert code == 2
    assert "'nonsense' is no state. --state is one of needs_permission, awaiting_input, " in err

    hub.notes = ["There is no host `nowhere`; there are: laptop."]
    code, _, err = run("agents", "--hub", hub.url, "--host", "nowhere")
    assert (code, err.strip()) == (0, f"{hub.notes[0]}")
    assert "/api/v1/history?host=nowhere&limit=1&offset=0" in hub.asked


def test_no_hub_is_exit_3_with_the_next_step(run: Run) -> None:
    for command in (["agents"], ["hosts"], ["show", "a"], ["agents", "-w", "--jsonl"]):
        code, out, err = run(*command, "--hub", f"http://127.0.0.1:{free_port()}")
        assert (code, out) == (3, "")
        assert "No hub answers" in err
        assert "adsum up" in err


def test_a_server_that_is_no_hub_is_exit_3(hub: StandIn, run: Run) -> None:
    hub.refusal = 418
    code, _, err = run("agents", "--hub", hub.url)
    assert code == 3
    assert "not as a hub of Adsum (HTTP 418)" in err


def test_a_refusal_is_exit_4_with_the_hubs_own_words(hub: StandIn, run: Run) -> None:
    hub.refusal = 401
    code, _, err = run("agents", "--hub", hub.url)
    assert code == 4
    assert "The token is wrong. Log in again." in err
    assert run("agents", "-w", "--jsonl", "--hub", hub.url)[0] == 4


def test_a_state_directory_that_is_not_there_is_named_where_a_token_is_missed(
    hub: StandIn, run: Run, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.refusal = 401
    words = ("agents", "--hub", hub.url, "--state-dir", "/nosuch")
    assert "There is no /nosuch, where its token would lie" in run(*words)[2]
    assert "There is no" not in run(*words[:-1], str(home))[2]
    monkeypatch.setenv("ADSUM_TOKEN", "adsum_wrong")
    assert "There is no" not in run(*words)[2]


@pytest.mark.parametrize(
    "words",
    [["--json", "--jsonl"], ["-w", "--json"], ["-w", "--exit-status"], ["-w"], ["--group", "x"]],
)
def test_options_that_do_not_go_together_are_usage_errors(words: list[str], run: Run) -> None:
    code, out, err = run("agents", *words)
    assert (code, out) == (2, "")
    assert err.startswith("adsum: ")


def test_the_hub_of_this_machine_is_found_by_its_file(
    hub: StandIn, run: Run, tmp_path: Path
) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "hub.json").write_text(json.dumps({"url": hub.url, "pid": 1}))
    hub.sessions = [ASKS]
    assert "Needs permission" in run("agents")[1]


def test_hosts(hub: StandIn, run: Run) -> None:
    hub.hosts = [host(), host("desk", "late")]
    code, out, _ = run("hosts", "--hub", hub.url)
    assert code == 5
    assert [line.split() for line in out.splitlines()[1:3]] == [
        ["laptop", "live", "1", "4m"],
        ["desk", "late", "1", "4m"],
    ]
    assert out.splitlines()[3].startswith("  late since ")
    assert json.loads(run("hosts", "--hub", hub.url, "--json")[1])["schema"] == 1


def test_hosts_say_below_each_what_is_wrong_with_it(hub: StandIn, run: Run) -> None:
    gaps = (GapView(NOW - 3_600_000, "cap", 12),)
    hub.hosts = [
        host("desk", problem="Its disk is full.", backlog=7, gaps=gaps, set_aside=1),
        host(),
    ]
    code, out, err = run("hosts", "--hub", hub.url)
    lines = out.splitlines()
    assert (code, err) == (0, "")
    assert lines[1].split() == ["desk", "live", "1", "4m"]
    assert lines[2] == "  Its disk is full."
    assert lines[3].startswith("  12 signals from before ")
    assert lines[3].endswith(" are missing: its disk allowance was used up.")
    assert lines[4].startswith("  1 entry was set aside")
    assert lines[5] == "  7 signals on their way"
    assert lines[6].split()[0] == "laptop"
    assert all(line == line.rstrip() for line in lines)


BLIND = HubTrouble("Redis cannot be read (gone). Start it.", NOW - 60_000, blind=True)


@pytest.mark.parametrize("command", [["hosts"], ["agents"], ["agents", "--json"], ["show", "0a1b"]])
def test_a_list_that_stands_still_says_so_beside_its_data(
    hub: StandIn, run: Run, command: list[str]
) -> None:
    hub.sessions, hub.trouble = [ASKS], BLIND
    code, out, err = run(*command, "--hub", hub.url)
    assert code == (0 if command[0] == "show" else 5)
    assert err.startswith("adsum: The list stands still since ")
    assert err.endswith(": Redis cannot be read (gone). Start it.\n")
    assert "stands still" not in out


def test_nothing_to_show_is_not_nobody_while_the_hub_is_blind(hub: StandIn, run: Run) -> None:
    hub.hosts, hub.trouble = [], BLIND
    for command in ("agents", "hosts"):
        code, out, err = run(command, "--hub", hub.url)
        assert (code, out, err.count("\n")) == (5, "", 1)
        assert "stands still" in err


def test_no_age_grows_while_the_list_stands_still(hub: StandIn, run: Run) -> None:
    hub.sessions = [session("a", since=NOW - 300_000)]
    assert run("agents", "--hub", hub.url)[1].splitlines()[1].endswith(" 5m")
    hub.trouble = HubTrouble("Gone.", NOW - 240_000, blind=True)
    assert run("agents", "--hub", hub.url)[1].splitlines()[1].endswith(" 1m")


def test_hosts_as_json_carry_trouble_and_gaps(hub: StandIn, run: Run) -> None:
    hub.hosts = [host(gaps=(GapView(NOW, "lost"),), set_aside=3)]
    hub.trouble = BLIND
    answer = json.loads(run("hosts", "--hub", hub.url, "--json")[1])
    assert answer["hosts"][0]["gaps"] == [{"at": NOW, "reason": "lost", "numbers": 0}]
    assert answer["hosts"][0]["set_aside"] == 3
    assert answer["trouble"]["blind"] is True


def test_show_says_why_a_session_is_incomplete(hub: StandIn, run: Run) -> None:
    hub.sessions = [session("0a1b", incomplete=True)]
    hub.hosts = [host(gaps=(GapView(NOW, "corrupt"),))]
    _, out, _ = run("show", "0a1b", "--hub", hub.url)
    assert "missing" in out
    assert "is missing: its spool was damaged." in " ".join(out.split())


def test_show_takes_the_start_of_an_id(hub: StandIn, run: Run) -> None:
    hub.sessions = [ASKS, WORKS]
    code, out, _ = run("show", "0a1b2", "--hub", hub.url)
    assert code == 0
    assert "▲ Needs permission: Bash (needs_permission), for 1m" in out
    assert (
        json.loads(run("show", "laptop-id:0a1bf", "--hub", hub.url, "--json")[1])["id"] == WORKS.id
    )
    code, out, err = run("show", "0a1b", "--hub", hub.url)
    assert (code, out) == (1, "")
    assert ASKS.id in err
    assert WORKS.id in err


def test_show_ends_with_what_it_did_last(hub: StandIn, run: Run) -> None:
    hub.sessions = [ASKS]
    hub.activity = [
        ActivityEntry(NOW - 1_000 * n, "tool.started", f"n{n}") for n in range(40, 0, -1)
    ]
    shown = run("show", ASKS.id, "--hub", hub.url)[1].splitlines()
    assert [line.split() for line in shown[-15:]] == [
        [f"{n}s", "tool.started", f"n{n}"] for n in range(15, 0, -1)
    ]
    assert shown[-16] == "activity"
    assert "n3\n" not in run("show", ASKS.id, "--activity", "2", "--hub", hub.url)[1]
    assert "activity" not in run("show", ASKS.id, "--activity", "0", "--hub", hub.url)[1]
    assert run("show", ASKS.id, "--activity", "101", "--hub", hub.url)[0] == 2


def test_show_as_json_holds_all_it_did(hub: StandIn, run: Run) -> None:
    hub.sessions = [ASKS]
    hub.activity = [ActivityEntry(NOW, "tool.started", f"n{n}", "a1") for n in range(40)]
    whole = json.loads(run("show", ASKS.id, "--json", "--hub", hub.url)[1])
    assert (whole["id"], len(whole["activity"])) == (ASKS.id, 40)
    few = json.loads(run("show", ASKS.id, "--json", "--activity", "1", "--hub", hub.url)[1])
    assert few["activity"] == [{"at": NOW, "kind": "tool.started", "text": "n39", "agent_id": "a1"}]


def test_hosts_as_json_carry_every_witness(hub: StandIn, run: Run) -> None:
    witnesses = (
        HostWitness("hook", "trouble", NOW, {"HTTP 401": 2}, "Wrong."),
        HostWitness("shim"),
    )
    hub.hosts = [host(witnesses=witnesses)]
    answer = json.loads(run("hosts", "--hub", hub.url, "--json")[1])
    assert msgspec.convert(answer["hosts"][0]["witnesses"], tuple[HostWitness, ...]) == witnesses
    assert "hook: trouble, 2 messages were refused (HTTP 401). Wrong." in " ".join(
        run("hosts", "--hub", hub.url)[1].split()
    )


def test_a_reader_that_stops_reading_is_told_nothing(hub: StandIn) -> None:
    hub.sessions = [session(f"{number:08}", title="t" * 200) for number in range(900)]
    command = f"{sys.executable} -m adsum agents --jsonl --hub {hub.url} | head -1"
    ended = subprocess.run(["sh", "-c", command], check=True, capture_output=True)
    assert ended.stdout.count(b"\n") == 1
    assert ended.stderr == b""


def test_a_reader_that_reads_nothing_is_told_nothing(hub: StandIn) -> None:
    hub.sessions = [ASKS]
    command = f"{sys.executable} -m adsum agents --hub {hub.url} | true"
    env = {**os.environ, "PYTHONUNBUFFERED": ""}
    ended = subprocess.run(["sh", "-c", command], env=env, check=True, capture_output=True)
    assert ended.stderr == b""


def test_a_reader_that_stops_reading_a_watch_is_told_nothing(hub: StandIn) -> None:
    hub.sessions = [session(f"{number:08}", title="t" * 200) for number in range(900)]
    command = f"{sys.executable} -m adsum agents --watch --jsonl --hub {hub.url} | head -1"
    ended = subprocess.run(["sh", "-c", command], check=True, capture_output=True, timeout=30)
    assert ended.stdout.count(b"\n") == 1
    assert ended.stderr == b""


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    ("where", "why"),
    [
        (">&-", "Bad file descriptor"),
        pytest.param(
            *(">/dev/full", "No space left on device"),
            marks=pytest.mark.skipif(sys.platform != "linux", reason="no /dev/full"),
        ),
    ],
)
def test_output_that_cannot_be_written_is_one_sentence(
    hub: StandIn, where: str, why: str, unbuffered: str
) -> None:
    hub.sessions = [ASKS]
    env = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    for words in ("agents", "agents --json", "agents --help"):
        command = f"{sys.executable} -m adsum {words} --hub {hub.url} {where}"
        ended = subprocess.run(
            ["sh", "-c", command], env=env, check=False, capture_output=True, text=True
        )
        said = f"adsum: Standard output cannot be written ({why}): send it elsewhere.\n"
        assert (ended.returncode, ended.stderr) == (1, said), words


def test_where_nothing_is_to_be_shown_a_closed_output_is_no_fault(hub: StandIn) -> None:
    command = f"{sys.executable} -m adsum agents --hub {hub.url} >&-"
    ended = subprocess.run(["sh", "-c", command], check=False, capture_output=True, text=True)
    assert (ended.returncode, "Start `claude`" in ended.stderr) == (0, True)


def test_json_is_whole_where_the_terminal_has_no_unicode(hub: StandIn) -> None:
    hub.sessions = [session("0a1b", title="Grüße ☃ 😀")]
    words = [sys.executable, "-m", "adsum", "agents", "--json", "--hub", hub.url]
    env = {**os.environ, "PYTHONIOENCODING": "ascii"}
    ended = subprocess.run(words, env=env, capture_output=True, check=True)
    assert json.loads(ended.stdout.decode("ascii"))["sessions"][0]["title"] == "Grüße ☃ 😀"


def test_lines_are_shown_where_the_terminal_has_no_unicode(hub: StandIn) -> None:
    hub.usage_csv = "by,key\r\nhost,Gr\u00fcn\r\n".encode()
    words = [sys.executable, "-m", "adsum", "usage", "--csv", "--hub", hub.url]
    env = {**os.environ, "PYTHONIOENCODING": "ascii"}
    ended = subprocess.run(words, env=env, capture_output=True, check=True)
    assert b"host,Gr?n" in ended.stdout


async def test_watching_streams_changes_across_a_lost_connection(hub: StandIn) -> None:
    hub.sessions = [ASKS]
    watch = subprocess.Popen(
        [sys.executable, "-m", "adsum", "agents", "-w", "--jsonl", "--needs-you", "--hub", hub.url],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert watch.stdout is not None
    try:
        await wait_until(lambda: hub.watchers, timeout=15)
        assert json.loads(watch.stdout.readline())["session_id"] == "0a1b2c3d"
        hub.tell(session("new", Group.NEEDS_YOU, "idle"), WORKS)
        assert json.loads(watch.stdout.readline())["session_id"] == "new"
        hub.drop_watchers()
        await wait_until(lambda: len(hub.resumes) == 2 and hub.watchers, timeout=15)
        assert hub.resumes == [{"epoch": None, "offset": None}, {"epoch": "e", "offset": 1}]
        # It works now, so it no longer needs you: the reader is told to drop it.
        hub.tell(session("new"), gone=(ASKS.id,))
        rest = [json.loads(watch.stdout.readline()) for _ in range(2)]
        assert sorted(one["id"] for one in rest) == [ASKS.id, "laptop-id:new"]
        assert all(one["gone"] for one in rest)
    finally:
        watch.send_signal(signal.SIGINT)
        watch.communicate(timeout=10)
    assert watch.returncode == 0


def test_watching_draws_on_a_terminal_and_leaves_it_as_it_was(hub: StandIn) -> None:
    hub.sessions = [ASKS, AWAY]
    hub.hosts = [host(), host("desk", "offline")]
    terminal, inside = os.openpty()
    watch = subprocess.Popen(
        [sys.executable, "-m", "adsum", "agents", "-w", "--hub", hub.url],
        stdin=inside,
        stdout=inside,
        stderr=inside,
        env={**os.environ, "COLUMNS": "80", "LINES": "24", "TERM": "xterm"},
    )
    os.close(inside)
    drawn = read_until(terminal, b"last seen")
    watch.send_signal(signal.SIGINT)
    drawn += read_until(terminal, b"\x1b[?1049l")
    assert watch.wait(10) == 0
    os.close(terminal)
    assert "▲ Needs permission: Bash".encode() in drawn
    assert b"\x1b[?1049h" in drawn


def test_watching_owns_up_to_trouble_while_it_lasts(hub: StandIn) -> None:
    hub.sessions = [ASKS]
    terminal, inside = os.openpty()
    watch = subprocess.Popen(
        [sys.executable, "-m", "adsum", "agents", "-w", "--hub", hub.url],
        stdin=inside,
        stdout=inside,
        stderr=inside,
        env={**os.environ, "COLUMNS": "80", "LINES": "24", "TERM": "xterm"},
    )
    os.close(inside)
    read_until(terminal, b"1 needs you")
    hub.own_up(BLIND)
    drawn = read_until(terminal, b"Start it.")
    assert b"The list stands still since" in drawn
    assert "▲ Needs permission: Bash".encode() in drawn
    hub.own_up(None)
    read_until(terminal, b"1 needs you")
    watch.send_signal(signal.SIGINT)
    read_until(terminal, b"\x1b[?1049l")
    assert watch.wait(10) == 0
    os.close(terminal)


async def test_watching_a_stream_tells_of_trouble_beside_it(hub: StandIn) -> None:
    hub.sessions = [ASKS]
    watch = subprocess.Popen(
        [sys.executable, "-m", "adsum", "agents", "-w", "--jsonl", "--hub", hub.url],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert watch.stdout is not None
    try:
        await wait_until(lambda: hub.watchers, timeout=15)
        hub.own_up(BLIND)
        hub.own_up(BLIND)
        hub.own_up(None)
        hub.tell(WORKS)
        lines = [json.loads(watch.stdout.readline())["session_id"] for _ in range(2)]
        assert lines == ["0a1b2c3d", "0a1bffff"]
    finally:
        watch.send_signal(signal.SIGINT)
        _, err = watch.communicate(timeout=10)
    assert err.count("stands still") == 1
    assert err.endswith("Redis cannot be read (gone). Start it.\n")


def read_until(terminal: int, end: bytes) -> bytes:
    read = b""
    while end not in read:
        read += os.read(terminal, 65536)
    return read
