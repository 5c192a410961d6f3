"""Folds what a session uses up: tokens, the agent's own dollars, gauges."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from adsum_hub.facts import USAGE_MAX, Cost, Facts, Trail, Usage
from adsum_shared import signals as s

Changes = dict[str, Any]

Steps = tuple[tuple[int, int], ...]

STEP_MS = 60_000
#: Steps of the day that runs, of a day that is over, and days: no budget looks back further.
MOST_STEPS = 48
OLD_STEPS = 4
MOST_DAYS = 31

_FIELDS = Usage.__struct_fields__
_NOTHING = Usage()


def usage_totalled(facts: Facts, signal: s.UsageTotalled) -> Changes:
    """The later takes the earlier's place: they come in order, and a total may fall."""
    key = usage_key(signal)
    told = Usage(**{name: getattr(signal, name) for name in _FIELDS})
    if facts.usage.get(key, _NOTHING) == told:
        return {}
    usage = {**facts.usage, key: told}
    if told == _NOTHING:
        del usage[key]
    if len(usage) > USAGE_MAX:
        del usage[min(usage)]  # keys begin with the day
    # A prompt between two reports begins a new step, so that it can be said which came first.
    prompted = max(facts.typed_at, facts.queued)
    trail = walked(facts.trail, usage, signal.day, signal.at, prompted)
    return {"usage": usage, "trail": trail, "used_at": max(facts.used_at, signal.at)}


def usage_key(signal: s.UsageTotalled) -> str:
    """Sorts by day. See `parts.Usage`."""
    marks = f"{'fast' * signal.fast},{signal.geo},{'long' * signal.long}"
    return f"{signal.day} {marks} {signal.model}"


def cost_reported(facts: Facts, signal: s.CostReported) -> Changes:
    held = facts.costs.get(signal.source)
    told = Cost(signal.at, signal.cost_usd, signal.models)
    if held is not None and (told == held or told.at < held.at):
        return {}
    if held is not None and (told.cost_usd, told.models) == (held.cost_usd, held.models):
        return {}  # every tick repeats it: no reason to write the facts anew
    return {"costs": {**facts.costs, signal.source: told}}


def gauges_reported(facts: Facts, signal: s.GaugesReported) -> Changes:
    """Gauge by gauge, the last by event time."""
    limits = None if signal.limits is None else tuple(signal.limits)
    news = {
        "context_tokens": signal.context_tokens,
        "context_size": signal.context_size,
        "limits": limits,
    }
    changes: dict[str, Any] = {}
    for name, value in news.items():
        held = getattr(facts.gauges, name)
        if value is not None and (held is None or signal.at > held[0]):
            changes[name] = (signal.at, value)
    return {"gauges": replace(facts.gauges, **changes)} if changes else {}


# The trail: by when a session had used up how much of a day's total.
#
# Totals alone do not say when a budget was crossed, and no hub may depend on having watched. So facts
# keep steps: (when, units by then), at most one a minute. Where steps are merged, the earlier time is
# kept with the later sum: a crossing is then dated a little too early and never moves to later, and a
# session whose human has answered it stays answered. (Rejected: dollars in the fold; it knows no
# prices. Rejected: a step for each report; a day has thousands.)


def units(usage: Usage) -> int:
    """What a group weighs beside others of its day, in twentieths of a token.

    As the prices of all models relate to each other: output five times input, a cache read a tenth,
    a cache write 1.25 times and twice.
    """
    written = 25 * usage.cache_5m_tokens + 40 * usage.cache_1h_tokens
    return (
        20 * usage.input_tokens + 100 * usage.output_tokens + 2 * usage.cache_read_tokens + written
    )


def walked(trail: Trail, usage: Mapping[str, Usage], day: str, at: int, prompted: int) -> Trail:
    """The trail after the usage has changed. prompted: when a human last typed a prompt."""
    total = sum(units(group) for key, group in usage.items() if key.startswith(day))
    steps = trail.get(day)
    if steps is None:
        kept = sorted(trail)[1 - MOST_DAYS :] if len(trail) >= MOST_DAYS else trail
        return {old: thinned(trail[old], OLD_STEPS) for old in kept} | {day: ((at, total),)}
    # A total that falls was another session's: it was so from the begin.
    steps = tuple((when, min(sum_, total)) for when, sum_ in steps)
    last, before = steps[-1]
    if at < last + STEP_MS and not last < prompted <= at:
        return {**trail, day: (*steps[:-1], (last, total))}
    if last < prompted < at:
        # Nothing was used by the prompt itself: what comes after it is dated no earlier.
        steps = (*steps, (prompted, before))
    return {**trail, day: thinned((*steps, (max(at, last), total)), MOST_STEPS)}


def thinned(steps: Steps, most: int) -> Steps:
    """Those closest to each other are merged, so that all of a day stays equally fine; the last is kept."""
    found = list(steps)
    while len(found) > most:
        at = min(range(len(found) - 2), key=lambda at: found[at + 1][0] - found[at][0])
        found[at : at + 2] = [(found[at][0], found[at + 1][1])]
    return tuple(found)
