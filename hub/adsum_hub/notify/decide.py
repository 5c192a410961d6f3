"""What a change means to the rules: what is pending from now on, and what is no longer. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from adsum_hub.notify.cases import NOT_URGENT, Case, Telling
from adsum_hub.notify.rules import STALE_MS, Rule

#: Nothing new is asked of whoever was told of the session before.
RESTING = frozenset({"idle", "stuck"})
#: It is the same need that has grown.
LASTING = frozenset({"budget_exceeded"})


class Decision(msgspec.Struct, frozen=True):
    """pending: channel -> when it is due, if the case still stands then.

    cancelled: what was pending for the case before is dropped. covered: channels to which this is
    no news after what they have been told in the same stretch of time; they count as told.
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
    told: Mapping[str, Mapping[str, Telling]],
    begun: Mapping[str, int],
) -> Decision:
    """told: channel -> state -> what it was told, since the session began to need somebody.

    begun: rule id -> since when there is such a rule; it tells nothing that was so before.
    """
    if after is None:
        return Decision(cancelled=before is not None)
    if before is not None and before.identity == after.identity:
        return NOTHING
    # What a more urgent need has hidden gets its whole time once it shows: whoever met that is there.
    hidden = before is not None and before.on == after.on and before.urgency < after.urgency
    since = now if hidden else after.since
    pending: dict[str, int] = {}
    for rule in rules:
        if not rule.matches(after) or after.since < max(begun.get(rule.id, now), now - STALE_MS):
            continue
        at = rule.due_at(max(since, after.since), now)
        for channel in rule.channels:
            pending[channel] = min(at, pending.get(channel, at))
    covered = tuple(each for each in pending if _is_covered(after, told.get(each, {})))
    for channel in covered:
        del pending[channel]
    return Decision(pending, before is not None, covered)


def _is_covered(case: Case, told: Mapping[str, Telling]) -> bool:
    """Whether whoever was told that knows this too, or need not: a session that only rests, say.

    Another need, which met a human's eye never, is not covered by a more urgent one that is met.
    """
    least = min((each.urgency for each in told.values()), default=NOT_URGENT)
    if not least <= case.urgency < NOT_URGENT:
        return False
    if case.state in RESTING:
        return True
    same = told.get(case.state)
    return same is not None and (case.since <= same.at or case.state in LASTING)
