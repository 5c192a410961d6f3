"""A usage report fits any terminal, has its total, and explains each of its marks."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from adsum.text.tables import show, usage_footer, usage_table
from adsum_shared.state import UsageReport, UsageRow, UsageView
from tests.hubs import report


def usage(usd: float | None = 12.34, source: Any = "computed", unpriced: int = 0) -> UsageView:
    return UsageView(1_234_567, 345_678, 98_765_432, 7_654_321, 0, usd, source, unpriced)


def row(label: str, used: UsageView, sessions: int = 3, key: str | None = None) -> UsageRow:
    return UsageRow(key or label, label, used, sessions)


@pytest.fixture
def drawn(capsys: pytest.CaptureFixture[str]) -> Any:
    def drawn(asked: UsageReport, width: int = 80, encoding: str = "utf-8") -> list[str]:
        file = io.TextIOWrapper(io.BytesIO(), encoding)
        console = Console(file=file, width=width, highlight=False)
        show(console, usage_table(asked, console), usage_footer(asked, console))
        return capsys.readouterr().out.splitlines()

    return drawn


DAYS = report(
    "day",
    row("2025-11-24", usage()),
    row("2025-11-23", usage(1234.5, "reported"), 12),
    row("2025-11-22", usage(None, unpriced=108_000_000), 0),
    total=usage(1246.84, "mixed", 108_000_000),
)


def test_a_report_at_80_columns(drawn: Any) -> None:
    assert drawn(DAYS) == [
        "DAY                COST  INPUT  OUTPUT  CACHE READ  CACHE WRITE  SESSIONS",
        "2025-11-24     ≈ $12.34   1.2M    346k       98.8M         7.7M         3",
        "2025-11-23    $1,234.50   1.2M    346k       98.8M         7.7M        12",
        "2025-11-22     unpriced   1.2M    346k       98.8M         7.7M         0",
        "total       ≥ $1,246.84   1.2M    346k       98.8M         7.7M",
        "2025-11-18 to 2025-11-24 · ≈ from list prices, the others as the agent reports",
        "≥ at least: some lack a price. Add it: prices.toml beside the hub's config.toml",
    ]


def test_a_narrow_terminal_gets_fewer_columns(drawn: Any) -> None:
    assert drawn(DAYS, 60)[:2] == [
        "DAY                COST  INPUT  OUTPUT  C.READ  C.WRITE",
        "2025-11-24     ≈ $12.34   1.2M    346k   98.8M     7.7M",
    ]
    assert drawn(DAYS, 30)[0].split() == ["DAY", "COST", "INPUT"]
    assert drawn(DAYS, 20)[0].split() == ["DAY", "COST"]


LONG = report(
    "project",
    row("a long name " * 30, usage(99_999.99)),
    row("日本語のプロジェクト" * 20, usage(10.0**300)),
    total=UsageView(10**30, 10**30, 10**30, 10**30, 0, float("inf")),
)


@pytest.mark.parametrize("width", [200, 110, 80, 60, 40, 25])
def test_no_line_is_wider_than_the_terminal(drawn: Any, width: int) -> None:
    lines = drawn(LONG, width)
    assert all(Console().measure(line).maximum <= width for line in lines)
    assert lines[0].split()[:2] == ["PROJECT", "COST"]
    assert "$99,999.99" in lines[1]


@pytest.mark.parametrize(
    ("by", "count"), [("host", "7"), ("project", "7"), ("day", ""), ("model", "")]
)
def test_sessions_are_added_up_only_where_none_is_in_two_rows(
    drawn: Any, by: str, count: str
) -> None:
    total = drawn(report(by, row("a", usage(), 3), row("b", usage(), 4), total=usage()))[3]
    assert total.startswith("total")
    assert total.split()[7:] == ([count] if count else [])


def test_one_row_needs_no_total(drawn: Any) -> None:
    assert not any(line.startswith("total") for line in drawn(report("day", row("a", usage()))))


def test_a_session_has_the_start_of_its_id_for_show(drawn: Any) -> None:
    one = row("Fix the build", usage(3.5, "reported"), key="laptop-id:0a1b2c3d4e")
    head, line, foot = drawn(report("session", one))
    assert head.split()[:3] == ["SESSION", "ID", "COST"]
    assert "SESSIONS" not in head
    assert line.startswith("Fix the build  0a1b2c  $3.50")
    assert foot == "2025-11-18 to 2025-11-24 · as the agent reports"
    assert "0a1b2c3d " in drawn(report("session", one), 120)[1]


@pytest.mark.parametrize(
    ("sources", "words"),
    [
        (["reported"], " · as the agent reports"),
        (["computed"], " · ≈ from list prices"),
        (["computed", "reported"], " · ≈ from list prices, the others as the agent reports"),
        (["mixed", "reported"], " · ≈ from list prices, wholly or in part"),
    ],
)
def test_the_footer_says_whose_word_the_costs_are(
    drawn: Any, sources: list[str], words: str
) -> None:
    rows = [row(f"r{n}", usage(1, source)) for n, source in enumerate(sources)]
    assert drawn(report("day", *rows))[-1] == f"2025-11-18 to 2025-11-24{words}"


def test_a_mark_that_no_row_bears_is_not_explained(drawn: Any) -> None:
    asked = report("day", row("2025-11-24", usage(3, unpriced=5)))
    assert drawn(asked)[2] == "2025-11-18 to 2025-11-24 · from list prices"


def test_where_nothing_has_a_price_no_mark_is_explained(drawn: Any) -> None:
    asked = report("model", row("acme-1", usage(None, unpriced=9_000_000)))
    assert drawn(asked)[1:] == [
        "acme-1  unpriced   1.2M    346k       98.8M         7.7M         3",
        "2025-11-18 to 2025-11-24",
        "unpriced: no price is known. Add it: prices.toml beside the hub's config.toml",
    ]


def test_a_terminal_without_unicode_gets_other_marks(drawn: Any) -> None:
    lines = drawn(DAYS, encoding="ascii")
    assert ">= $1,246.84" in lines[4]
    assert lines[-1].startswith(">= at least: some lack a price")


def test_a_label_cannot_steer_the_terminal(drawn: Any) -> None:
    evil = "\x1b]0;owned\x07\u202e[red]x[/red]"
    text = "\n".join(drawn(report("project", row(evil, usage()), row("", usage(), key=" "))))
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "[red]x[/red]" in text
    assert "(none)" in text


def test_no_color_is_obeyed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    file = io.StringIO()
    console = Console(file=file, width=80, force_terminal=True, highlight=False)
    console.print(usage_table(DAYS, console), usage_footer(DAYS, console))
    assert "\x1b[33" not in file.getvalue()


def test_of_many_sessions_some_are_shown_with_the_total_of_all(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = [row(f"Work {n}", usage(3.5), key=f"h:{n:08}") for n in range(997)]
    asked = report("session", *rows, total=usage(3_489.5))
    console = Console(file=io.TextIOWrapper(io.BytesIO(), "utf-8"), width=80)
    show(console, usage_table(asked, console, 2), usage_footer(asked, console, 2))
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[:4]] == ["SESSION", "Work", "Work", "total"]
    assert "≈ $3,489.50" in lines[3]
    assert lines[4] == "2 of 997 sessions, more with --limit N"
    assert len(lines) == 6
