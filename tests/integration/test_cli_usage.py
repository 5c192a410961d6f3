"""`adsum usage` and `history` against a stand-in hub: what is asked and printed, and how they end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator

import msgspec
import pytest

from adsum_shared import MOST_DAYS
from adsum_shared.state import Group, HubTrouble, SessionView, UsageReport, UsageRow, UsageView
from tests.brokers import free_port
from tests.hubs import NOW, StandIn, host, report, session, stand_in_hub
from tests.integration.conftest import Run

USED = UsageView(1_234_567, 345_678, 98_765_432, 7_654_321, cost_usd=12.34)
TODAY = report("day", UsageRow("2025-11-24", "2025-11-24", USED, 3))
COMMANDS = [["usage"], ["history"]]


def over(name: str, title: str = "Fix the build") -> SessionView:
    return session(name, Group.DELIVERED, "session_ended", title=title, ended_at=NOW - 7_200_000)


OVER = [over("0a1b2c3d", "Fix the login page"), over("1a1b2c3d"), over("2a1b2c3d")]


@pytest.fixture
def hub() -> Iterator[StandIn]:
    with stand_in_hub() as hub:
        hub.usage, hub.over = TODAY, OVER
        yield hub


@pytest.fixture(autouse=True)
def _narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def test_usage_is_a_table_of_the_last_days(hub: StandIn, run: Run) -> None:
    code, out, err = run("usage", "--hub", hub.url)
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "DAY             COST  INPUT  OUTPUT  CACHE READ  CACHE WRITE  SESSIONS",
        "2025-11-24  ≈ $12.34   1.2M    346k       98.8M         7.7M         3",
        "2025-11-18 to 2025-11-24 · ≈ from list prices",
    ]
    assert hub.asked[0] == "/api/v1/usage?by=day&days=7"


def test_what_is_asked_of_usage_reaches_the_hub(hub: StandIn, run: Run) -> None:
    days = ("--since", "2025-11-01", "--until", "2025-11-02")
    whose = (
        "--by",
        "model",
        "--host",
        "h",
        "--model",
        "m",
        "--project",
        "a b&c",
        "--agent",
        "codex",
    )
    assert run("usage", *days, *whose, "--hub", hub.url)[0] == 0
    assert hub.asked[0] == (
        "/api/v1/usage?by=model&host=h&project=a+b%26c&model=m&agent=codex&since=2025-11-01&until=2025-11-02"
    )


@pytest.mark.parametrize("command", ["usage", "history", "agents", "show"])
def test_a_terminal_without_unicode_gets_what_it_can_show(hub: StandIn, command: str) -> None:
    hub.sessions, hub.over = [session("0a1b", title="日本語")], [over("1a1b", "日本語 " * 30)]
    words = [sys.executable, "-m", "adsum", command, "--hub", hub.url]
    ended = subprocess.run(
        [*words, "0a1b"] if command == "show" else words,
        env={**os.environ, "PYTHONIOENCODING": "ascii", "COLUMNS": "80"},
        capture_output=True,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert ended.stdout.decode("ascii")


def test_usage_as_json_is_the_hubs_own_answer(hub: StandIn, run: Run) -> None:
    code, out, _ = run("usage", "--json", "--hub", hub.url)
    answer = json.loads(out)
    assert (code, answer["schema"], answer["rows"][0]["usage"]["cost_usd"]) == (0, 1, 12.34)


def test_csv_is_passed_on_to_the_byte(hub: StandIn, run: Run) -> None:
    """What is safe to open as a table the hub has seen to: nothing is parsed and written anew."""
    hub.usage_csv = 'day,label\r\n2025-11-24,"\'=HYPERLINK(1)"\r\né,\r\n'.encode()
    code, out, _ = run("usage", "--csv", "--days", "3", "--hub", hub.url)
    assert (code, out.encode()) == (0, hub.usage_csv)
    assert hub.asked[0] == "/api/v1/usage?by=day&days=3&format=csv"


@pytest.mark.parametrize("body", [b"<html>", b"{}"])
def test_what_answers_csv_with_something_else_is_no_hub(
    hub: StandIn, run: Run, body: bytes
) -> None:
    hub.csv_kind, hub.usage_csv = "text/html", body
    code, out, err = run("usage", "--csv", "--hub", hub.url)
    assert (code, out) == (3, "")
    assert "not as a hub of Adsum" in err


def test_a_refusal_of_csv_is_told_as_any_other(hub: StandIn, run: Run) -> None:
    hub.refusal = 418
    assert run("usage", "--csv", "--hub", hub.url)[0] == 3
    hub.refusal = 401
    code, out, err = run("usage", "--csv", "--hub", hub.url)
    assert (code, out) == (4, "")
    assert "The token is wrong. Log in again." in err


def test_notes_are_beside_the_data(hub: StandIn, run: Run) -> None:
    hub.usage = UsageReport(**{**_fields(TODAY), "notes": ["Two \x1b[2J hosts share a home."]})
    _, out, err = run("usage", "--hub", hub.url)
    assert err == "adsum: Two  [2J hosts share a home.\n"
    assert "share" not in out
    assert run("usage", "--json", "--hub", hub.url)[2] == ""


def _fields(of: UsageReport) -> dict[str, object]:
    return {name: getattr(of, name) for name in of.__struct_fields__}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_host_that_is_away_makes_it_partial(hub: StandIn, run: Run, command: list[str]) -> None:
    hub.hosts = [host(), host("desk", "offline")]
    code, out, err = run(*command, "--hub", hub.url)
    assert (code, err) == (
        5,
        "adsum: desk is offline, last seen 4m ago: what came later is missing.\n",
    )
    assert out
    assert run(*command, "--json", "--hub", hub.url)[0] == 5
    assert run(*command, "--host", "laptop", "--hub", hub.url)[0] == 0
    assert run(*command, "--host", "desk-id", "--hub", hub.url)[0] == 5


def test_days_that_are_over_are_whole_although_a_host_sleeps_today(hub: StandIn, run: Run) -> None:
    hub.hosts = [host("desk", "offline")]
    hub.usage = UsageReport(**{**_fields(TODAY), "until": "2025-11-20"})
    code, _, err = run("usage", "--until", "2025-11-20", "--hub", hub.url)
    assert (code, err) == (0, "")
    assert run("usage", "--until", "2025-11-20", "--csv", "--hub", hub.url)[0] == 0


@pytest.mark.parametrize("command", COMMANDS)
def test_a_hub_that_is_blind_says_so_beside_the_data(
    hub: StandIn, run: Run, command: list[str]
) -> None:
    hub.trouble = HubTrouble("Redis cannot be read (gone). Start it.", NOW - 60_000, blind=True)
    code, out, err = run(*command, "--hub", hub.url)
    assert code == 5
    assert out
    assert err.startswith("adsum: The list stands still since ")


@pytest.mark.parametrize("command", [*COMMANDS, ["usage", "--csv"]])
def test_no_hub_is_exit_3_and_no_hubs_address_exit_2(run: Run, command: list[str]) -> None:
    code, out, err = run(*command, "--hub", f"http://127.0.0.1:{free_port()}")
    assert (code, out) == (3, "")
    assert "adsum up" in err
    assert run(*command, "--hub", "nowhere")[0] == 2


@pytest.mark.parametrize(
    "words",
    [
        "usage --since yesterday",
        "usage --since 2025-11-20 --until 2025-11-19",
        "usage --since 2025-11-20 --days 2",
        "usage --by week",
        "usage --days 0",
        f"usage --days {MOST_DAYS + 1}",
        "usage --days many",
        "usage --json --csv",
        "usage --limit 3",
        "usage --limit 0 --by session",
        "history --limit 0",
    ],
)
def test_what_makes_no_sense_is_a_usage_error_and_asks_nothing(
    hub: StandIn, run: Run, words: str
) -> None:
    code, out, err = run(*words.split(), "--hub", hub.url)
    assert (code, out, hub.asked) == (2, "", [])
    assert words.split()[1] in err or "--csv" in err


def test_nothing_used_says_what_to_do_next(hub: StandIn, run: Run) -> None:
    hub.usage = report()
    code, out, err = run("usage", "--hub", hub.url)
    assert (code, out) == (0, "")
    assert "Further back: `adsum usage --days 90`" in err
    assert json.loads(run("usage", "--json", "--hub", hub.url)[1])["rows"] == []


def test_history_is_a_table_of_the_latest(hub: StandIn, run: Run) -> None:
    code, out, err = run("history", "--limit", "2", "--hub", hub.url)
    assert (code, err) == (0, "")
    assert [line.split()[0] for line in out.splitlines()] == ["ENDED", "2h", "2h", "2"]
    assert out.splitlines()[-1].startswith("2 of 3 sessions")
    assert hub.asked[0] == "/api/v1/history?limit=2&offset=0"


def test_history_is_searched_by_all_words(hub: StandIn, run: Run) -> None:
    _, out, _ = run("history", "login", "page", "--project", "adsum", "--hub", hub.url)
    assert "Fix the login page" in out
    assert "Fix the build" not in out
    assert hub.asked[0].startswith("/api/v1/history?q=login+page&project=adsum&")
    code, out, err = run("history", "no such", "--hub", hub.url)
    assert (code, out) == (0, "")
    assert "No session that is over matches" in err


def test_history_as_json_has_all_pages_in_one(hub: StandIn, run: Run) -> None:
    hub.page_most = 2
    answer = json.loads(run("history", "--json", "--hub", hub.url)[1])
    assert [one["session_id"] for one in answer["sessions"]] == [one.session_id for one in OVER]
    assert (answer["total"], answer["sessions"][0]["ended_at"]) == (3, NOW - 7_200_000)
    hub.asked.clear()
    few = json.loads(run("history", "--json", "--limit", "3", "--hub", hub.url)[1])
    assert len(few["sessions"]) == 3
    assert hub.asked[1] == "/api/v1/history?limit=1&offset=2"


def test_show_finds_a_session_that_is_over_by_the_start_of_its_id(hub: StandIn, run: Run) -> None:
    hub.sessions = [session("0a1bffff")]
    code, out, _ = run("show", "0a1b2", "--hub", hub.url)
    assert code == 0
    assert "Fix the login page" in out
    assert "ended" in out
    assert run("show", "laptop-id:1a1b", "--hub", hub.url)[0] == 0
    assert "laptop-id:0a1bffff" in run("show", "0a1b", "--hub", hub.url)[1]


def test_show_of_an_id_nobody_has_says_where_to_look(hub: StandIn, run: Run) -> None:
    code, out, err = run("show", "build", "--hub", hub.url)
    assert (code, out) == (1, "")
    assert "adsum agents" in err
    assert "adsum history" in err


def test_of_many_sessions_twenty_rows_are_shown_unless_more_are_asked_for(
    hub: StandIn, run: Run
) -> None:
    rows = [UsageRow(f"h:{n:08}", f"Work {n}", USED, 1) for n in range(30)]
    hub.usage = report("session", *rows, total=USED)
    out = run("usage", "--by", "session", "--hub", hub.url)[1]
    assert out.count("Work ") == 20
    assert "20 of 30 sessions, more with --limit N" in out
    out = run("usage", "--by", "session", "--limit", "30", "--hub", hub.url)[1]
    assert out.count("Work ") == 30
    assert "--limit" not in out
    rows_told = json.loads(run("usage", "--by", "session", "--json", "--hub", hub.url)[1])["rows"]
    assert len(rows_told) == 30


def test_a_pipe_gets_all_of_every_column(
    hub: StandIn, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS")
    project = "a-project-with-a-name-of-some-length"
    hub.over = [msgspec.structs.replace(over("0a1b", "t" * 700), project=project)]
    out = run("history", "--hub", hub.url)[1]
    assert project in out
    assert "t" * 700 in out


def test_the_address_that_was_tried_is_the_configured_one(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = free_port()
    monkeypatch.setenv("ADSUM_HUB_PORT", str(port))
    code, _, err = run("usage")
    assert code == 3
    assert f"No hub answers at http://127.0.0.1:{port} " in err


@pytest.mark.parametrize("name", ["nobody", ""])
def test_of_a_host_that_is_none_one_thing_is_said(hub: StandIn, run: Run, name: str) -> None:
    note = f"There is no host `{name}`; there are: laptop."
    hub.usage = msgspec.structs.replace(report(), notes=[note])

    code, out, err = run("usage", "--host", name, "--hub", hub.url)

    assert (code, out, err) == (0, "", f"adsum: {note}\n")
