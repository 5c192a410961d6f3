"""The views of what was used up: by a session, a machine, a report."""

from __future__ import annotations

from typing import Literal

import msgspec


class UsageView(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was used up. cache_write_tokens: for five minutes and for an hour.

    cost_usd: None if there are tokens and none of them has a price. cost_source: `reported` by the
    agent itself; `computed` from prices; `mixed`. unpriced_tokens: not part of cost_usd.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    web_searches: int = 0
    cost_usd: float | None = None
    cost_source: Literal["reported", "computed", "mixed"] = "computed"
    unpriced_tokens: int = 0


class ContextView(msgspec.Struct, frozen=True, omit_defaults=True):
    """How full the context is. size: None where nobody says."""

    tokens: int
    size: int | None = None


class RateLimitView(msgspec.Struct, frozen=True, omit_defaults=True):
    """name: `five_hour`, `seven_day`. resets_at: hub clock, ms; 0 = not told."""

    name: str
    used_percent: float
    resets_at: int = 0


class ScanProgress(msgspec.Struct, frozen=True, omit_defaults=True):
    """A machine's reading of its history; all 0 = it still looks for it.

    left_s: how long it will go on; None = not known yet.
    """

    files: int
    files_done: int
    bytes: int
    bytes_done: int
    bytes_per_s: int = 0
    left_s: float | None = None

    @property
    def percent(self) -> int:
        """Never all of it, for what is read has still to be reported."""
        return min(99, 100 * self.bytes_done // self.bytes) if self.bytes > 0 else 0


class UsageRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line of a usage report. key: the day, host id, project, model or session's view id.

    label: what a person knows it by.
    """

    key: str
    label: str
    usage: UsageView
    sessions: int = 0


class UsagePoint(msgspec.Struct, frozen=True, omit_defaults=True):
    """One day of a series. cost_usd: None if none of its tokens has a price."""

    day: str
    tokens: int = 0
    cost_usd: float | None = None


class UsageSeries(msgspec.Struct, frozen=True):
    """Day by day what a host, project or model used. key: as a row's; None = all others."""

    key: str | None
    label: str
    points: list[UsagePoint]


class UsageReport(msgspec.Struct, frozen=True):
    """since, until: ISO dates, both included. by: what a row stands for. notes: for people.

    sessions: in all of it. series: where `split` was asked for, those with the most dollars or
    tokens, then all others as one. before: in as many days before `since`, where asked for.
    """

    schema: int
    now: int
    since: str
    until: str
    by: Literal["day", "host", "project", "model", "session"]
    rows: list[UsageRow]
    total: UsageView
    notes: list[str]
    sessions: int = 0
    split: Literal["host", "project", "model"] | None = None
    series: list[UsageSeries] = []
    before: UsageView | None = None


class BudgetUse(msgspec.Struct, frozen=True, omit_defaults=True):
    """Who is under a budget, and how far. key: the host's id, the project, the session's view id.

    since: when the limit was reached, by the machine's own clock, ms; None = it was not, or nobody
    knows.
    """

    key: str
    label: str
    spent_usd: float
    since: int | None = None


class BudgetView(msgspec.Struct, frozen=True):
    """One entry of the hub's budgets. name: its pattern. when: for people, behind a sum.

    uses: the fullest first; more: how many others have spent anything of it.
    """

    scope: Literal["session", "project", "host", "team"]
    usd: float
    per: Literal["session", "day", "7 days", "30 days"]
    name: str | None
    when: str
    uses: list[BudgetUse]
    more: int


class Budgets(msgspec.Struct, frozen=True):
    schema: int
    now: int
    budgets: list[BudgetView]
