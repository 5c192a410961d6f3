"""Fold steps for what a session uses up: tokens, the agent's own dollars, gauges."""

from __future__ import annotations

import re
from typing import Any

from msgspec.structs import replace

from adsum_hub.facts import Facts
from adsum_hub.parts import USAGE_MAX, Cost, Usage
from adsum_hub.trail import walked
from adsum_shared import signals as s

Changes = dict[str, Any]

_FIELDS = Usage.__struct_fields__
_NOTHING = Usage()
_KEY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2} (fast)?,[\w.-]*,(long)? .+")


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


def is_usage_key(key: str) -> bool:
    """Whether it can be taken apart again: versions before told of usage by other keys."""
    return _KEY.fullmatch(key) is not None


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
