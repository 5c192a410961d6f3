"""Each machine is a line with its trouble below, readable at 80 columns and far fewer."""

from __future__ import annotations

import io
import time

import pytest
from rich.console import Console

from adsum.text.tables import BAR_CELLS, host_notes, host_table
from adsum_shared.state import (
    GapView,
    HostView,
    HostWitness,
    RateLimitView,
    Reachability,
    ScanProgress,
)

NOW = int(time.mktime((2026, 11, 21, 15, 0, 0, 0, 0, -1)) * 1000)
MINUTE = 60_000


def host(label: str = "laptop", reachability: Reachability = "live", **more: object) -> HostView:
    return HostView("h", label, reachability, NOW - 4 * MINUTE, **more)  # type: ignore[arg-type]  # test builder


def lines_of(*hosts: HostView, width: int = 80) -> list[str]:
    file = io.StringIO()
    console = Console(file=file, width=width, highlight=False)
    console.print(host_table(hosts, NOW, console))
    return file.getvalue().splitlines()


def told(*hosts: HostView, width: int = 80) -> str:
    """All notes as one text, whatever the lines."""
    return " ".join(" ".join(lines_of(*hosts, width=width)).split())


WITNESSES = (
    HostWitness("hook", "missing", 0, {"HTTP 401": 2}, "No hooks. Next: adsum hooks install"),
    HostWitness("shim"),
    HostWitness("transcript", "ok", NOW, {"no JSON": 3}),
    HostWitness("registry", "ok", NOW),
    HostWitness("process", "ok", NOW),
    HostWitness("statusline", "ok", NOW),
)
SICK = host(
    "a-rather-long-host-name.example.org",
    "offline",
    sessions=12,
    problem="Redis at redis://127.0.0.1:6379 is out of memory. Raise its maxmemory.",
    gaps=(GapView(NOW - 55 * MINUTE, "cap", 1_234),),
    set_aside=2,
    backlog=40_000,
    clock_offset_ms=-90_000,
    witnesses=WITNESSES,
)


def test_a_machine_that_is_well_is_one_line() -> None:
    quiet = host(witnesses=(HostWitness("hook"), HostWitness("process", "ok", NOW)))
    assert lines_of(quiet, host("desk", sessions=3)) == [
        "HOST    STATE  SESSIONS  SEEN",
        "laptop  live          0    4m",
        "desk    live          3    4m",
    ]


def test_what_is_wrong_stands_below_the_machine_worst_first() -> None:
    assert lines_of(SICK, width=100)[2:] == [
        "  Redis at redis://127.0.0.1:6379 is out of memory. Raise its maxmemory.",
        "  offline since 14:56; its sessions are shown as they were then",
        "  1,234 signals from before 14:05 are missing: its disk allowance was used up.",
        "  2 entries were set aside: unreadable, or sent by a copy of it",
        "  40,000 signals on their way",
        "  its clock is 1m behind",
        "  heard: transcript, registry, status line",
        "  hook: missing, 2 messages were refused (HTTP 401). No hooks. Next: adsum hooks install",
        "  transcript: 3 lines could not be read",
    ]


@pytest.mark.parametrize("width", [80, 60, 40, 33])
def test_no_line_is_wider_than_the_terminal_and_no_word_is_lost(width: int) -> None:
    lines = lines_of(SICK, host("日本語のホスト名" * 9), width=width)
    assert all(Console().measure(line).maximum <= width for line in lines)
    text = " ".join(" ".join(lines).split())
    assert "are missing: its disk allowance was used up." in text
    assert "adsum hooks install" in text
    assert lines[1].split()[1:] == ["offline", "12", "4m"]


def test_a_name_is_cut_before_the_rest_of_its_line() -> None:
    (_, row, *_) = lines_of(host("x" * 200), width=40)
    assert row.split()[1:] == ["live", "0", "4m"]
    assert "…" in row


@pytest.mark.parametrize(
    ("gap", "words"),
    [
        (GapView(NOW, "lost"), "Something before 15:00 is missing: its spool was deleted."),
        (
            GapView(NOW, "rollback"),
            "Something before 15:00 is missing: an older copy of its disk was restored.",
        ),
        (
            GapView(NOW, "undecodable", 1),
            "1 signal from before 15:00 is missing: entries could not be read.",
        ),
        (
            GapView(NOW - 26 * 3_600_000, "undecodable", 2),
            "2 signals from before 20 Nov 13:00 are missing: entries could not be read.",
        ),
        (GapView(NOW, "solar_flare"), "Something before 15:00 is missing: solar flare."),
    ],
)
def test_a_gap_says_what_is_missing_since_when_and_why(gap: GapView, words: str) -> None:
    assert words in told(host(gaps=(gap,)))


def test_of_many_gaps_the_latest_are_told() -> None:
    gaps = tuple(GapView(NOW - n * MINUTE, "corrupt", n) for n in range(8, 1, -1))
    text = told(host(gaps=gaps))
    assert text.index("2 signals from before 14:58") < text.index("3 signals from before 14:57")
    assert "and 4 earlier gaps" in text
    assert "5 signals" not in text


def test_what_the_hub_says_of_a_backlog_is_not_said_twice() -> None:
    said = "About 40,000 of its signals are still on their way: 34 s more at this pace."
    assert told(host(problem=said, backlog=40_213)).count("on their way") == 1
    assert "1 signal on their way" not in told(host())
    assert "1 signal on their way" in told(host(backlog=1))


def test_a_clock_within_five_seconds_is_no_news() -> None:
    assert "clock" not in told(host(clock_offset_ms=5_000))
    assert "its clock is 6s ahead" in told(host(clock_offset_ms=6_000))


SCAN = ScanProgress(3_000, 1_234, 7_400_000_000, 3_100_000_000, 210_000_000, 80.4)
LIMITS = (
    RateLimitView("five_hour", 42.4, NOW + 130 * MINUTE),
    RateLimitView("seven_day", 10, NOW + 70 * 60 * MINUTE),
)


def test_a_machine_that_reads_its_history_has_a_bar() -> None:
    assert [line.rstrip() for line in lines_of(host(scan=SCAN))[2:]] == [
        "  reads its history ██████░░░░░░░░░░ 41%, 1m left, 3.1 GB of 7.4 GB, 210 MB/s,",
        "  1,234 of 3,000 files",
    ]
    (bar,) = [note for note, _ in host_notes(host(scan=SCAN), NOW, plain=True)]
    assert bar.startswith("reads its history ######---------- 41%, ")


@pytest.mark.parametrize(
    ("scan", "words"),
    [
        (ScanProgress(0, 0, 0, 0), "looks for its history"),
        (ScanProgress(1, 0, 5, 0), "░░ 0%, 0 B of 5 B, 0 of 1 files"),
        (ScanProgress(1, 9, 5, 50), "██ 99%, 50 B of 5 B, 9 of 1 files"),
        (ScanProgress(1, 0, 5, -5), "░░ 0%, 0 B of 5 B, 0 of 1 files"),
    ],
)
def test_a_bar_stays_within_its_bounds(scan: ScanProgress, words: str) -> None:
    (row,) = lines_of(host(scan=scan))[2:]
    assert row.endswith(words)
    assert row.count("█") + row.count("░") in (0, BAR_CELLS)


def test_rate_limits_are_one_line_in_yellow_when_nearly_used_up() -> None:
    (line,) = host_notes(host(limits=LIMITS), NOW)
    said = "rate limits used: 5h 42%, resets in 2h 10m; 7d 10%, resets in 2d 22h"
    assert line == (said, "")
    full = (*LIMITS, RateLimitView("\x1b[2Jodd", 80))
    ((told, style),) = host_notes(host(limits=full), NOW)
    assert style == "yellow"
    assert told == f"{said};  [2Jodd 80%"


def test_nothing_a_machine_says_steers_the_terminal() -> None:
    evil = "\x1b]0;owned\x07\u202e"
    text = told(host(evil, problem=evil, gaps=(GapView(NOW, evil),)))
    assert "\x1b" not in text
    assert "\u202e" not in text


def test_what_is_read_is_never_all_of_it_while_more_comes() -> None:
    done = ScanProgress(9, 9, 5_000_000_000, 5_000_000_000, 10**8, 0.0)
    text = told(host(scan=done))
    assert "99%, 5.0 GB of 5.0 GB" in text
    assert "left" not in text
