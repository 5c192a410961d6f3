"""Trouble in words for people: what is missing since when, and what keeps the list from being true. Pure."""

from __future__ import annotations

import time
from collections.abc import Sequence

import msgspec

from adsum_shared.state import GapView, HubTrouble, SessionView

#: The latest: what was lost long ago is of less interest.
GAPS_SHOWN = 3

#: The page has the same words, in web/gaps.js.
GAP_REASONS = {
    "cap": "its disk allowance was used up",
    "corrupt": "its spool was damaged",
    "copy": "an older copy of its disk was restored",
    "rollback": "an older copy of its disk was restored",
    "retention": "it was older than what that machine keeps",
    "lost": "its spool was deleted",
    "undecodable": "entries could not be read",
}


def moment(at: int, now: int) -> str:
    """The time of day, with the date unless it is today's. Both in ms."""
    then, today = time.localtime(at / 1000), time.localtime(now / 1000)
    form = "%H:%M" if then[:3] == today[:3] else "%-d %b %H:%M"
    return time.strftime(form, then)


def gap_sentence(gap: GapView, now: int) -> str:
    when, what, verb = moment(gap.at, now), f"{gap.numbers:,} signals from", "are"
    if gap.numbers <= 1:
        what, verb = "1 signal from" if gap.numbers else "Something", "is"
    why = GAP_REASONS.get(gap.reason, gap.reason.replace("_", " "))
    return f"{what} before {when} {verb} missing: {why}."


def missing_of(view: SessionView, gaps: Sequence[GapView], now: int) -> list[str]:
    """Why a session is incomplete: its host's gaps since it began, the latest first."""
    since = [gap for gap in gaps if gap.at >= (view.started_at or 0)] or gaps[-1:]
    told = [gap_sentence(gap, now) for gap in reversed(since[-GAPS_SHOWN:])]
    return told or ["Something of what it did is missing."]


def trouble_sentence(trouble: HubTrouble, now: int) -> str:
    since = moment(trouble.since, now)
    what = "The list stands still" if trouble.blind else "Trouble"
    return f"{what} since {since}: {trouble.problem}"


def trouble_in(answer: dict[str, object]) -> HubTrouble | None:
    """Of an answer or a message of the hub, which has none while all is well."""
    told = answer.get("trouble")
    return msgspec.convert(told, HubTrouble) if told else None


def as_of(now: int, trouble: HubTrouble | None) -> int:
    """The time that a list is of: no age grows while it stands still."""
    return trouble.since if trouble is not None and trouble.blind else now
