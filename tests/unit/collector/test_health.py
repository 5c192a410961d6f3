"""Witness health of a machine: what is wrong with its hooks, who was heard, and little of it."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from adsum_collector.agents.base import HookFile
from adsum_collector.agents.claude_code.agent import ClaudeCode, install_hooks, remove_hooks
from adsum_collector.agents.gemini.agent import GeminiCli
from adsum_collector.agents.installer import Installation, Target
from adsum_collector.app import AgentWitnesses, Witnesses
from adsum_collector.health import CAUSES_MAX, LOOK_MS, HookFiles, hook_witness, witness
from adsum_shared.envelope import Beat, encode_beat
from adsum_shared.state import HostWitness

START = 1_700_000_000_000
PORT = 47892


@pytest.fixture
def path(tmp_path: Path) -> Path:
    folder = tmp_path / "claude"
    folder.mkdir()
    return folder / "settings.json"


@pytest.fixture
def target(tmp_path: Path) -> Target:
    shim = Path("/opt/adsum/adsum_collector/shim.py")
    return Target(
        PORT, "secret-token", "/usr/bin/python3", shim, tmp_path / "collector.sock", "http"
    )


class Look:
    """One settings file, looked at whenever the time between two looks has passed."""

    def __init__(self, path: Path) -> None:
        self.now = START
        self.files = HookFiles(ClaudeCode(), [path.parent], PORT, START)

    def __call__(self) -> HookFile:
        self.now += LOOK_MS
        return self.files.look(self.now)[0]


def install(path: Path, target: Target) -> None:
    install_hooks(Installation(path, path.parent / "state", target, (2, 1, 330)))


def edit(path: Path, **more: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **more}))


def test_nothing_is_said_of_the_settings_right_after_the_start(path: Path) -> None:
    files = HookFiles(ClaudeCode(), [path.parent], PORT, START)

    assert files.look(START + LOOK_MS - 1)[0].state == "ok"
    assert files.look(START + LOOK_MS)[0].state == "missing"


def test_hooks_are_missing_where_there_are_none_and_the_next_step_is_named(
    path: Path, target: Target
) -> None:
    look = Look(path)
    assert look().state == "missing"
    path.write_text('{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "ls"}]}]}}')
    missing = look()
    install(path, target)
    installed = look()
    remove_hooks(path, path.parent / "state")

    assert (missing.state, look().state) == ("missing", "missing")
    assert str(path) in (missing.note or "")
    assert (missing.note or "").endswith("Next: adsum hooks install")
    assert (installed.state, installed.note) == ("ok", None)


def test_all_hooks_switched_off_is_trouble(path: Path, target: Target) -> None:
    install(path, target)
    edit(path, disableAllHooks=True)

    found = Look(path)()

    assert found.state == "trouble"
    assert "disableAllHooks" in (found.note or "")


def test_hooks_that_stand_twice_are_trouble(path: Path, target: Target) -> None:
    install(path, target)
    hooks = json.loads(path.read_text())["hooks"]
    edit(path, hooks={event: groups * 2 for event, groups in hooks.items()})

    assert "twice" in (Look(path)().note or "")


def test_hooks_that_report_to_another_port_are_trouble(path: Path, target: Target) -> None:
    install(path, target)

    found = HookFiles(ClaudeCode(), [path.parent], 5000, START).look(START + LOOK_MS)[0]

    assert found.state == "trouble"
    assert f"port {PORT}, not 5000" in (found.note or "")


def test_an_address_that_is_not_permitted_is_trouble(path: Path, target: Target) -> None:
    install(path, target)
    edit(path, allowedHttpHookUrls=["https://example.org/*"])

    assert "allowedHttpHookUrls" in (Look(path)().note or "")


def test_settings_that_cannot_be_read_are_trouble_with_the_place(path: Path) -> None:
    path.write_text('{"hooks": ')

    found = Look(path)()

    assert found.state == "trouble"
    assert "line 1" in (found.note or "")


@pytest.mark.parametrize(
    "text",
    [
        *(
            '{"hooks": {"Stop": [{"hooks": [{"type": "command", "args": ' + args + "}]}]}}"
            for args in ("true", "7", '{"a": 1}', '"x"', "null")
        ),
        '{"\\ud800": 1, "\\ud800": 2}',
        '{"a": ' * 990 + "1" + "}" * 990,
        "[" * 100_000,
        '{"statusLine": 7, "hooks": {"Stop": [7, {"hooks": 7}, {"hooks": [7, {"type": "http"}]}]}}',
        "9" * 10_000,
    ],
    ids=[*"tnos-", "surrogate", "deep", "unclosed", "shapes", "digits"],
)
def test_no_settings_end_the_collector(path: Path, text: str) -> None:
    path.write_text(text)

    found = parts(path).health(START + LOOK_MS)

    assert found[0].state in ("missing", "trouble")
    assert encode_beat(Beat("h", "lab", START, "n", "s", witnesses=found))


def test_settings_nested_as_deep_as_can_just_be_read_do_not_end_the_collector(path: Path) -> None:
    """Parts are read again from further down the stack."""
    for depth in range(900, 1000):
        path.write_text('{"a": ' * depth + "1" + "}" * depth)
        assert Look(path)().state in ("missing", "trouble")


def test_a_pipe_in_the_place_of_the_settings_does_not_hold_us_up(path: Path) -> None:
    os.mkfifo(path)

    found = Look(path)()

    assert (found.state, found.note) == (
        "trouble",
        f"{path} cannot be read: {path} is no plain file.",
    )


def test_settings_too_large_to_be_any_are_not_read(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)

    assert "larger than 4 MB" in (Look(path)().note or "")


def test_a_file_that_has_not_changed_is_not_read_again(path: Path, target: Target) -> None:
    read: list[Path] = []

    class Inspected(ClaudeCode):
        def look_at_hooks(self, path: Path, port: int) -> HookFile:
            read.append(path)
            return super().look_at_hooks(path, port)

    install(path, target)
    look = Look(path)
    look.files = HookFiles(Inspected(), [path.parent], PORT, START)
    for _ in range(5):
        look()
    assert len(read) == 1

    os.utime(path, ns=(1, 1))
    look.files.look(look.now + LOOK_MS - 1)
    assert len(read) == 1, "not within LOOK_MS"
    look()
    assert len(read) == 2


def test_a_clock_set_back_does_not_stop_the_looks(path: Path, target: Target) -> None:
    files = HookFiles(ClaudeCode(), [path.parent], PORT, START)
    install(path, target)

    assert files.look(START - 3_600_000)[0].changed_at > 0


MISSING = HookFile("missing", "none", changed_at=START)


@pytest.mark.parametrize(
    ("files", "accepted", "refused", "heard_at", "state"),
    [
        ([HookFile("ok")], 0, {}, 0, "silent"),
        ([HookFile("ok")], 3, {}, START, "ok"),
        ([HookFile("ok")], 3, {401: 9}, START, "ok"),
        ([HookFile("ok")], 0, {401: 9}, 0, "trouble"),
        ([MISSING], 0, {}, 0, "missing"),
        ([MISSING], 3, {}, START + 2_000, "missing"),
        ([MISSING], 3, {}, START + LOOK_MS + 1, "ok"),
        ([HookFile("ok"), MISSING], 0, {}, 0, "missing"),
        ([HookFile("trouble", "off"), MISSING], 3, {}, START, "trouble"),
    ],
)
def test_what_the_hooks_are_said_to_be(
    files: list[HookFile], accepted: int, refused: dict[int, int], heard_at: int, state: str
) -> None:
    found = hook_witness(files, accepted, refused, heard_at)

    assert (found.name, found.state, found.heard_at) == ("hook", state, heard_at)
    assert found.counts == {f"HTTP {status}": times for status, times in refused.items()}


def test_a_wrong_token_names_the_remedy() -> None:
    note = hook_witness([], 0, {401: 1}, 0).note

    assert note == "Every hook so far was refused. Next: adsum hooks install"


def test_causes_are_bounded_and_the_most_frequent_kept() -> None:
    counts = witness("shim", 0, {f"cause {n} " + "x" * 99: n for n in range(40)}).counts

    assert len(counts) == CAUSES_MAX
    assert next(iter(counts)).startswith("cause 39 ")
    assert max(map(len, counts)) <= 40


def parts(path: Path, **more: Any) -> Witnesses:
    first: dict[str, Any] = {
        "agent": ClaudeCode(),
        "directories": [path.parent],
        "intake": SimpleNamespace(),
        "tailer": SimpleNamespace(roots=["/t"], read_at=0, faults=Counter(), too_long={}),
        "hooks": HookFiles(ClaudeCode(), [path.parent], PORT, START),
        "usage": SimpleNamespace(witness=lambda: HostWitness("usage")),
    }
    parts: dict[str, Any] = {
        "receiver": SimpleNamespace(accepted=0, heard_at=0, refused=Counter()),
        "local": SimpleNamespace(heard_at=0, refused=Counter()),
        "watch": SimpleNamespace(files=0, counts=Counter()),
        "statusline": SimpleNamespace(heard_at=0, outcomes=Counter()),
        "agents": [AgentWitnesses(**(first | {k: more.pop(k) for k in [*more] if k in first}))],
    }
    return Witnesses(**(parts | more))


def test_every_witness_of_the_machine_is_named_also_before_it_was_heard(path: Path) -> None:
    assert [(each.name, each.state) for each in parts(path).health(START)] == [
        ("hook", "silent"),
        ("shim", "silent"),
        ("transcript", "silent"),
        ("registry", "silent"),
        ("process", "ok"),
        ("statusline", "silent"),
        ("usage", "silent"),
    ]


def test_another_agent_is_listed_once_its_directory_is_there(path: Path, tmp_path: Path) -> None:
    machine, home = parts(path), tmp_path / "other"
    machine.agents = [*machine.agents, *parts(path, directories=[home]).agents]
    names = [each.name for each in parts(path).health(START)]
    assert [each.name for each in machine.health(START)] == names

    home.mkdir()

    also = ["hook (Claude Code)", "transcript (Claude Code)", "usage (Claude Code)"]
    assert [each.name for each in machine.health(START)] == [*names, *also]


def test_of_an_agent_known_from_its_files_its_row_tells_what_they_do_not(
    path: Path, tmp_path: Path
) -> None:
    tmp_path.joinpath("other").mkdir()
    (other,) = parts(path, directories=[tmp_path / "other"]).agents
    other.agent, other.hooks = GeminiCli(), HookFiles(GeminiCli(), [tmp_path], PORT, START)

    told = other.health(START)

    assert [each.name for each in told] == ["transcript (Gemini CLI)", "usage (Gemini CLI)"]
    assert told[0].note == GeminiCli.limits


def test_what_was_heard_is_told_with_its_time_and_what_went_wrong(path: Path) -> None:
    heard = parts(
        path,
        receiver=SimpleNamespace(accepted=5, heard_at=START - 20, refused=Counter()),
        local=SimpleNamespace(heard_at=START - 30, refused=Counter()),
        watch=SimpleNamespace(files=1, counts=Counter({"unreadable": 2})),
        tailer=SimpleNamespace(read_at=START - 70, faults=Counter({"no JSON": 3}), too_long={}),
        statusline=SimpleNamespace(heard_at=START - 40, outcomes=Counter({"failed": 1})),
    )

    found = {each.name: each for each in heard.health(START)}

    assert (found["hook"].state, found["hook"].heard_at) == ("ok", START - 20)
    assert (found["shim"].state, found["shim"].heard_at) == ("ok", START - 30)
    assert found["transcript"].heard_at == START - 70
    assert found["transcript"].counts == {"no JSON": 3}
    assert (found["registry"].state, found["registry"].counts) == ("ok", {"unreadable": 2})
    assert (found["statusline"].state, found["statusline"].counts) == ("ok", {"failed": 1})
    assert found["statusline"].heard_at == START - 40


def test_the_heartbeat_stays_small(path: Path) -> None:
    faults = Counter({f"cause {n}": 10**6 for n in range(50)})
    worst = parts(
        path,
        tailer=SimpleNamespace(
            read_at=START, faults=faults, too_long={"/p/" + "x" * 4000: 1 << 40}
        ),
        statusline=SimpleNamespace(heard_at=START, outcomes=faults),
        local=SimpleNamespace(heard_at=START, refused=faults),
        watch=SimpleNamespace(files=1, counts=faults),
    )

    beat = Beat("h" * 36, "lab", START, "n" * 16, "s" * 16, witnesses=worst.health(START + LOOK_MS))

    assert len(encode_beat(beat)) < 3_000


def test_a_transcript_of_absurd_size_is_named_with_what_to_do(path: Path) -> None:
    there = SimpleNamespace(
        read_at=START,
        faults=Counter(),
        too_long={"/p/small.jsonl": 5 << 30, "/p/\udcffbig.jsonl": 1 << 40},
    )

    told = {each.name: each for each in parts(path, tailer=there).health(START)}["transcript"]

    assert told.state == "trouble"
    assert told.note == (
        "Not read, as it is longer than 4 GB: /p/?big.jsonl (1,024 GB), as are 1 more. "
        "Next: delete it or cut it short."
    )


def test_an_agent_that_is_not_on_the_machine_misses_no_hooks_until_it_is(tmp_path: Path) -> None:
    directory = tmp_path / ".claude"
    files = HookFiles(ClaudeCode(), [directory], PORT, START)
    assert [each.state for each in files.look(START + LOOK_MS)] == ["ok"]
    directory.mkdir()
    assert [each.state for each in files.look(START + 2 * LOOK_MS)] == ["missing"]
