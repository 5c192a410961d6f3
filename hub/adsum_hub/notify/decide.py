"""What a change means to the rules: what is pending from now on, and what is no longer. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from adsum_hub.notify.cases import NOT_URGENT, Case
from adsum_hub.notify.rules import STALE_MS, Rule


class Decision(msgspec.Struct, frozen=True):
    """pending: channel -> when it is due, if the case still stands then.

    cancelled: what was pending for the case before is dropped. covered: channels that have been
    told of something at least as urgent, in the same stretch of time; they count as told.
    """

    pending: dict[str, int] = {}
    cancelled: bool = False
    covered: tuple[str, ...] = ()


NOTHING = Decision()


def decide(
    rules: Sequence[Rule],
    before: Case | None,
    after: Case | None,
    now: int,
    *,
    told: Mapping[str, int],
    begun: Mapping[str, int],
) -> Decision:
    """told: channel -> how urgent what it was told was, since the session began to need somebody.

    begun: rule id -> since when there is such a rule; it tells nothing that was so before.
    """
    if after is None:
        return Decision(cancelled=before is not None)
    if before is not None and before.identity == after.identity:
        return NOTHING
    pending: dict[str, int] = {}
    for rule in rules:
        if not rule.matches(after) or after.since < max(begun.get(rule.id, now), now - STALE_MS):
            continue
        at = rule.due_at(after.since, now)
        for channel in rule.channels:
            pending[channel] = min(at, pending.get(channel, at))
    covered = tuple(
        channel
        for channel in pending
        if told.get(channel, NOT_URGENT) <= after.urgency < NOT_URGENT
    )
    for channel in covered:
        del pending[channel]
    return Decision(pending, before is not None, covered)
