"""What was used up, as the hub tells it: of a session, a machine, a report."""

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
    """A machine's reading of its history. left_s: how long it will go on; None = not known yet."""

    files: int
    files_done: int
    bytes: int
    bytes_done: int
    bytes_per_s: int = 0
    left_s: float | None = None


class UsageRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line of a usage report. key: the day, host id, project, model or session's view id.

    label: what a person knows it by.
    """

    key: str
    label: str
    usage: UsageView
    sessions: int = 0


class UsageReport(msgspec.Struct, frozen=True):
    """since, until: ISO dates, both included. by: what a row stands for. notes: for people."""

    schema: int
    now: int
    since: str
    until: str
    by: Literal["day", "host", "project", "model", "session"]
    rows: list[UsageRow]
    total: UsageView
    notes: list[str]
