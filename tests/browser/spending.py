"""Fleets that have used something up: tokens, dollars, contexts, limits; reports and sessions that are over."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec.structs import replace

from adsum_shared.state import (
    BudgetUse,
    BudgetView,
    ContextView,
    RateLimitView,
    ScanProgress,
    SessionView,
    Summary,
    UsagePoint,
    UsageReport,
    UsageRow,
    UsageSeries,
    UsageView,
)
from tests.browser import fleets
from tests.browser.conftest import wall_ms
from tests.browser.fleets import HOUR, MINUTE
from tests.browser.standin import StandIn

DAY = 24 * HOUR
SUMMARY = Summary(total_cost_today_usd=12.4031, total_tokens_today=3_214_555)
#: More than any session can use, and still a number the page must be able to show.
HUGE = UsageView(10**12, 10**12, 10**12, 10**12, cost_usd=12_345_678.9)

USES = (
    UsageView(12_400, 48_211, 2_103_455, 310_002, 3, cost_usd=1.2418),
    UsageView(900, 2_100, 40_000, 9_000, cost_usd=0.3071, cost_source="reported"),
    UsageView(4_000, 1_000, 80_000, 2_000),
    UsageView(700_000, 300_000, 52_000_000, 6_000_000, cost_usd=104.2, cost_source="mixed"),
    UsageView(100, 50, 0, 0, cost_usd=0.0004, unpriced_tokens=70),
)
CONTEXTS = (
    ContextView(124_000, 200_000),
    ContextView(184_400, 200_000),
    ContextView(18_000, 1_000_000),
    ContextView(61_000),
)


def limits(now: int, five_hour: float = 42, seven_day: float = 18.4) -> tuple[RateLimitView, ...]:
    return (
        RateLimitView("five_hour", five_hour, now + 64 * MINUTE + 30_000),
        RateLimitView("seven_day", seven_day, now + 3 * DAY + 2 * HOUR + 30_000),
    )


def reading(share: float = 0.37) -> ScanProgress:
    size = 4_812_000_000
    return ScanProgress(5000, int(5000 * share), size, int(size * share), 38_000_000, 80.0)


def fleet(now: int) -> fleets.Fleet:
    """The full fleet; one machine near its limit, one that reads its history."""
    sessions, _ = fleets.full(now)
    sessions = [
        replace(view, usage=USES[n % len(USES)], context=CONTEXTS[n % len(CONTEXTS)])
        for n, view in enumerate(sessions)
    ]
    hosts = [
        fleets.host("alpha", now, sessions=12, limits=limits(now, five_hour=92.4)),
        fleets.host("beta", now, sessions=10, limits=limits(now), scan=reading()),
    ]
    return sessions, hosts


def over(now: int, number: int = 0, **more: Any) -> SessionView:
    """One that is over since so many days and an hour."""
    ended = now - number * DAY - HOUR
    view = fleets.session(
        f"past-{number}", "session_ended", "Session closed", now=now, age=now - ended,
        **{"title": f"Work of day {number}", "project": "billing", "model": "claude-opus-4-1",
           "started_at": ended - 2 * HOUR, "ended_at": ended, "usage": USES[number % len(USES)],
           **more},
    )  # fmt: skip
    return replace(view, updated_at=ended)


def report(by: Any, count: int = 7, total: UsageView | None = None) -> UsageReport:
    today = datetime(2026, 11, 22, tzinfo=UTC).date()
    days = [(today - timedelta(days=n)).isoformat() for n in range(count)]
    names = {
        "day": [(day, day) for day in days],
        "host": [("h-1", "alpha"), ("h-2", "beta")],
        "project": [("billing", "billing"), ("payments-api", "payments-api"), ("", "")],
        "model": [("claude-opus-4-1-20250805",) * 2, ("claude-sonnet-4-5-20250929",) * 2],
        "agent": [("claude_code", "Claude Code"), ("codex", "Codex")],
        "session": [(f"alpha:past-{n}", f"Work of day {n}") for n in range(count)],
    }[by]
    rows = [
        UsageRow(key, label, USES[n % len(USES)], n + 1) for n, (key, label) in enumerate(names)
    ]
    notes = ["80,000 tokens of 1 model have no price: see `adsum usage --help`."]
    return UsageReport(
        1, 0, days[-1], days[0], by, rows, total or USES[3], notes, 12, "model",
        series(days), USES[0],
    )  # fmt: skip


MODELS = ("claude-opus-4-1", "claude-sonnet-4-5", "claude-haiku-4-5", "gpt-5", None)


def series(days: list[str], names: tuple[str | None, ...] = MODELS) -> list[UsageSeries]:
    """Less with each; a day without anything now and then."""
    return [
        UsageSeries(
            name,
            name or "all others",
            [
                UsagePoint(day, 10_000 * (n % 5 + 1) // (rank + 1), 4.2 * (n % 4 + 1) / (rank + 1))
                for n, day in enumerate(sorted(days))
                if (n + rank) % 6
            ],
        )
        for rank, name in enumerate(names)
    ]


def budgets(now: int) -> list[BudgetView]:
    uses = [
        BudgetUse("payments-api", "payments-api", 12.4, now - 75 * MINUTE),
        BudgetUse("billing", "billing", 8.6),
        BudgetUse("web", "web", 0.31),
    ]
    return [
        BudgetView("project", 10.0, "day", None, "a day", uses, 3),
        BudgetView("session", 5.0, "session", "web*", "", [], 0),
        BudgetView("team", 500.0, "30 days", None, "in 30 days", [BudgetUse("", "", 217.0)], 0),
    ]


def reports() -> dict[str, UsageReport]:
    return {by: report(by) for by in ("day", "host", "project", "model", "agent", "session")}


def spent(hub: StandIn, *, read: bool = False) -> None:
    """read: all of the machines' history has been counted."""
    now = wall_ms()
    views, hosts = fleet(now)
    hub.load(views, [replace(host, scan=None) for host in hosts] if read else hosts)
    hub.summary, hub.reports = SUMMARY, reports()
    hub.past = [over(now, n) for n in range(7)]
