"""The doctor's findings about the machine and the hub, and how they are told."""

from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from adsum.doctor.agents import AGAIN_S, Difference, told, twice
from adsum.doctor.checks import (
    DOCS,
    IDLE,
    Finding,
    Listing,
    check_clock,
    check_collector,
    check_host,
    check_hub,
    check_witnesses,
    from_text,
    is_hub_alone,
    no_collector_wanted,
    nothing_runs,
)
from adsum.doctor.doctor import summary, table
from adsum_shared.state import GapView, HostView, HostWitness, HubTrouble
from tests.brokers import free_port
from tests.hubs import stand_in_hub

NOW = 1_764_000_000_000
HOST = HostView("h1", "anvil", "live", NOW - 1_000, lag_ms=3)


def seen(**changes: object) -> Listing:
    return Listing(NOW, [msgspec.structs.replace(HOST, **changes)])


def host_finding(tmp_path: Path, listing: Listing | None, host_id: str | None = "h1") -> Finding:
    return check_host(listing, host_id, tmp_path)


def test_a_live_host_is_well_with_its_lag(tmp_path: Path) -> None:
    found = host_finding(tmp_path, seen())
    assert found.result == "ok"
    assert "anvil" in found.what
    assert "3 ms" in found.what


def test_a_host_that_is_not_live_fails_and_names_the_log(tmp_path: Path) -> None:
    found = host_finding(tmp_path, seen(reachability="offline"))
    assert found.result == "fail"
    assert "as offline, last seen 1s ago" in found.what
    assert "collector.log" in (found.fix or "")


def test_an_unknown_host_fails(tmp_path: Path) -> None:
    found = host_finding(tmp_path, seen(), "another")
    assert (found.result, found.what) == ("fail", "The hub has never heard of this machine.")
    assert "ADSUM_REDIS_URL" in (found.fix or "")


def test_a_backlog_or_a_problem_is_a_warning(tmp_path: Path) -> None:
    assert host_finding(tmp_path, seen(backlog=3)).result == "ok"
    assert host_finding(tmp_path, seen(backlog=4_000)).result == "warn"
    found = host_finding(tmp_path, seen(problem="The disk is full. Make room."))
    assert (found.result, found.what, found.fix) == ("warn", "The disk is full.", "Make room.")


def test_what_was_lost_of_a_live_host_in_the_last_day_is_a_warning(tmp_path: Path) -> None:
    old, new = GapView(NOW - 25 * 3_600_000, "cap", 5), GapView(NOW - 3_600_000, "lost")
    assert host_finding(tmp_path, seen(gaps=(old,))).result == "ok"
    found = host_finding(tmp_path, seen(gaps=(old, new)))
    assert found.result == "warn"
    assert "something of it is missing" in found.what
    (detail,) = found.details
    assert detail.endswith("is missing: its spool was deleted.")


def test_without_a_hub_or_an_identity_the_host_is_left_out(tmp_path: Path) -> None:
    assert host_finding(tmp_path, None).result == "skip"
    assert host_finding(tmp_path, seen(), None).result == "skip"


@pytest.mark.parametrize(("offset", "result"), [(0, "ok"), (5_000, "ok"), (-5_001, "warn")])
def test_a_clock_more_than_five_seconds_off_is_a_warning(offset: int, result: str) -> None:
    found = check_clock(msgspec.structs.replace(HOST, clock_offset_ms=offset))
    assert found.result == result


def test_the_way_a_clock_is_off_is_told() -> None:
    assert "2m ahead of" in check_clock(msgspec.structs.replace(HOST, clock_offset_ms=120_000)).what
    assert "2m behind" in check_clock(msgspec.structs.replace(HOST, clock_offset_ms=-120_000)).what
    assert check_clock(None).result == "skip"


def test_a_witness_in_trouble_is_a_warning_with_its_note_and_counts() -> None:
    witnesses = (
        HostWitness("hook", "ok", NOW - 4_000),
        HostWitness("transcript", "silent"),
        HostWitness("shim", "missing", note="No shim was heard. Run `adsum hooks install`."),
        HostWitness("registry", "trouble", NOW, {"no such process": 3}),
    )
    found = check_witnesses(msgspec.structs.replace(HOST, witnesses=witnesses), NOW)
    assert [(each.id, each.result) for each in found] == [
        ("witness-hook", "ok"),
        ("witness-transcript", "ok"),
        ("witness-shim", "warn"),
        ("witness-registry", "warn"),
    ]
    assert found[0].what == "Last heard 4s ago."
    assert (found[2].what, found[2].fix) == ("No shim was heard.", "Run `adsum hooks install`.")
    assert found[3].details == ("3 entries named processes that had ended already",)


def test_what_a_witness_could_not_read_is_told_though_it_is_heard() -> None:
    witnesses = (
        HostWitness("transcript", "ok", NOW - 4_000, {"no JSON": 3, "too long": 1}),
        HostWitness("statusline", "silent", 0, {"malformed": 2}),
    )
    found = check_witnesses(msgspec.structs.replace(HOST, witnesses=witnesses), NOW)
    assert [(each.result, each.details) for each in found] == [
        ("ok", ("3 lines could not be read", "1 message was too long and was refused")),
        ("ok", ("2 messages could not be understood",)),
    ]


def test_a_collector_that_tells_nothing_of_witnesses_is_left_out() -> None:
    assert [each.result for each in check_witnesses(HOST, NOW)] == ["skip"]
    assert [each.result for each in check_witnesses(None, NOW)] == ["skip"]


def test_a_collector_that_does_not_run_fails(tmp_path: Path) -> None:
    found = check_collector(tmp_path / "state")
    assert (found.result, found.fix) == ("fail", "Start it with `adsum up`.")
    assert not (tmp_path / "state").exists()


def hub_on(state: Path, url: str = "http://h") -> Path:
    (state / "logs").mkdir(parents=True)
    (state / "hub.json").write_text(json.dumps({"url": url}))
    return state


def test_a_machine_that_holds_a_hub_alone_has_no_collector_to_miss(tmp_path: Path) -> None:
    state = hub_on(tmp_path / "state")
    assert is_hub_alone(state, "http://h", seen())
    found = no_collector_wanted(state)
    assert (found.id, found.result) == ("collector", "skip")
    assert "`adsum collector`" in found.what


@pytest.mark.parametrize("left", ["host.json", "machine.json", "logs/collector.log"])
def test_a_collector_that_ran_beside_the_hub_once_is_missed(tmp_path: Path, left: str) -> None:
    state = hub_on(tmp_path / "state")
    (state / left).write_text("{")  # not even readable
    assert not is_hub_alone(state, "http://h", seen())


def test_beside_a_hub_elsewhere_or_one_that_is_gone_a_collector_is_missed(tmp_path: Path) -> None:
    state = hub_on(tmp_path / "state")
    assert not is_hub_alone(state, "http://elsewhere", seen())
    assert not is_hub_alone(state, "http://h", None)
    assert not is_hub_alone(tmp_path, "http://h", seen())


def test_a_hub_that_cannot_be_reached_is_a_finding_and_no_crash() -> None:
    found, listing = check_hub(f"http://127.0.0.1:{free_port()}")
    assert (found.result, listing) == ("fail", None)
    assert found.what.startswith("No hub answers at")
    assert "adsum up" in (found.fix or "")


def difference(session_id: str, ours: str = "idle", *, grave: bool = True) -> Difference:
    return Difference(session_id, ours, "busy", f"{session_id} is {ours}", grave)


def test_only_what_differs_both_times_is_told() -> None:
    looks = iter(
        [
            (3, [difference("a"), difference("b"), difference("c")]),
            (3, [difference("a"), difference("b", "thinking"), difference("d")]),
        ]
    )
    paused: list[float] = []
    count, found = twice(lambda: next(looks), paused.append)
    assert (count, [each.session_id for each in found]) == (3, ["a"])
    assert paused == [AGAIN_S]


def test_what_agrees_is_not_looked_at_again() -> None:
    looks = iter([(2, list[Difference]())])
    assert twice(lambda: next(looks), lambda _: pytest.fail("paused")) == (2, [])


def test_a_difference_fails_and_what_they_may_not_see_only_warns() -> None:
    assert told(0, [], title="Claude Code").what.startswith("Neither")
    assert (
        told(1, [], title="Claude Code").what
        == "Claude Code says the same of 1 session on this machine."
    )
    failed = told(2, [difference("a"), difference("b", grave=False)], title="Claude Code")
    assert (failed.result, failed.details) == ("fail", ("a is idle", "b is idle"))
    assert told(2, [difference("b", grave=False)], title="Claude Code").result == "warn"


def test_what_is_left_out_while_nothing_runs_is_one_line() -> None:
    console = Console(width=80, no_color=True)
    left = [Finding(each, "skip", IDLE) for each in ("hub", "host", "clock")]
    with console.capture() as capture:
        console.print(table([nothing_runs(Path("/s"), "http://h"), *left], console))
    lines = [" ".join(line.split()) for line in capture.get().splitlines()]
    assert lines == [
        "fail collector Nothing runs here: no collector on /s, and no hub at http://h.",
        "Next: `adsum up` starts all of it.",
        "skip others Left out while nothing runs: hub, host, clock.",
    ]


FINDINGS = [
    Finding("hub", "ok", "The hub is there."),
    Finding("agents", "fail", "long " * 40, "Do " * 30, ("a detail " * 12,)),
]


def drawn(*, terminal: bool) -> list[str]:
    console = Console(width=80, force_terminal=terminal, no_color=True)
    with console.capture() as capture:
        console.print(table(FINDINGS, console))
    return capture.get().splitlines()


def test_findings_fit_80_columns_with_the_next_step_under_each() -> None:
    lines = drawn(terminal=False)
    assert all(len(line) <= 80 for line in lines)
    assert lines[0].split() == ["ok", "hub", "The", "hub", "is", "there."]
    assert lines[1].startswith("fail  agents  long long")
    assert any(line.strip().startswith("- a detail") for line in lines)
    assert any(line.strip().startswith("Next: Do Do") for line in lines)


def test_a_terminal_gets_marks_for_words() -> None:
    assert drawn(terminal=True)[0].split("hub")[0].strip().endswith("✓")


def test_the_summary_counts_what_is_not_well() -> None:
    skipped = Finding("clock", "skip", "Not compared.")
    assert summary([FINDINGS[0], skipped]).plain == "All is well: 1 checks, 1 left out."
    assert summary([*FINDINGS, skipped]).plain == (
        f"1 failed, 1 well, 1 left out. More on each: {DOCS}"
    )


def test_a_text_becomes_a_sentence_and_a_step() -> None:
    found = from_text("hub", "fail", "No hub at 127.0.0.1 (refused). Start it. Or another.")
    assert (found.what, found.fix) == ("No hub at 127.0.0.1 (refused).", "Start it. Or another.")
    told = from_text("redis", "fail", "No Redis (Error 1. Failed ('h', 1).). Start it. Wait.")
    assert (told.what, told.fix) == ("No Redis (Error 1. Failed ('h', 1).).", "Start it. Wait.")
    assert from_text("hub", "fail", "Gone").as_json() == {
        "id": "hub",
        "result": "fail",
        "what": "Gone.",
        "fix": None,
        "docs": "docs/doctor.md#hub",
    }


def test_every_check_has_its_place_in_the_docs() -> None:
    root = Path(__file__).parents[3]
    source = "".join(file.read_text() for file in (root / "cli" / "adsum" / "doctor").glob("*.py"))
    ids = set(re.findall(r'(?:Finding|from_text)\(\s*"([a-z-]+)"', source))
    ids |= {f"witness-{name}" for name in ("hook", "shim", "transcript", "registry", "process")}
    ids.add("witness-statusline")
    headings = set(re.findall(r"^#+ (\S+)$", (root / DOCS).read_text(), re.MULTILINE))
    named = {"collector", "spool", "redis", "hub", "host", "clock", "hooks", "agents", "witnesses"}
    assert named <= ids
    assert ids <= headings


def test_the_next_step_is_not_announced_twice() -> None:
    found = from_text("hook", "warn", "Every hook so far was refused. Next: adsum hooks verify")
    assert (found.what, found.fix) == ("Every hook so far was refused.", "adsum hooks verify")


def test_a_cause_stands_with_what_is_wrong_and_not_as_a_step() -> None:
    told = (
        "Your own prices are not used, so dollars may be wrong. /etc/prices.toml: it is no TOML "
        "(line 3. Odd.). Correct the line, or remove the file. Then restart the hub."
    )
    found = from_text("hub", "warn", told)
    assert found.what.endswith("/etc/prices.toml: it is no TOML (line 3. Odd.).")
    assert found.fix == "Correct the line, or remove the file. Then restart the hub."


def test_whatever_troubles_the_hub_is_a_warning() -> None:
    with stand_in_hub() as hub:
        assert check_hub(hub.url)[0].result == "ok"
        hub.trouble = HubTrouble("Channel `mail` keeps failing: HTTP 500. Look at it.", NOW)
        found, listing = check_hub(hub.url)
    assert (found.result, found.fix) == ("warn", "Look at it.")
    assert "Channel `mail` keeps failing" in found.what
    assert listing is not None
    assert not summary([found]).plain.startswith("All is well")
