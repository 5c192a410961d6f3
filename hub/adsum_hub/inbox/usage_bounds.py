"""What of a usage signal cannot be: such a signal is set aside, counted and told of. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any

from adsum_shared import signals as s

#: A hundred years of the busiest agent there is.
MOST_TOKENS = 10**15
MOST_USD = 1e9
MOST_MODELS = 100
#: A machine's own zone may be ahead of UTC by fourteen hours.
AHEAD = timedelta(hours=14)
FIRST_DAY = date(2020, 1, 1)

_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_NAME = re.compile(r"[^\x00-\x1f\x7f]{1,200}")
_GEO = re.compile(r"[\w.-]{0,40}")
_COUNTS = (
    "messages",
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_5m_tokens",
    "cache_1h_tokens",
    "web_searches",
)
_MODEL_COUNTS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")


def wrong_with(signal: s.AnySignal) -> str | None:
    """Why it is not to be believed; None for all other signals as well."""
    check = _CHECKS.get(type(signal))
    return check(signal) if check is not None else None


def _usage(signal: s.UsageTotalled) -> str | None:
    if not _DAY.fullmatch(signal.day):
        return f"day is {signal.day[:40]!r}"
    try:
        day = date.fromisoformat(signal.day)
        latest = (datetime.fromtimestamp(signal.seen / 1000, UTC) + AHEAD).date()
    except (ValueError, OverflowError):
        return f"day is {signal.day!r}, seen is {signal.seen}"
    if not FIRST_DAY <= day <= latest:
        return f"day is {signal.day!r}, told on {latest}"
    if not _NAME.fullmatch(signal.model) or not _GEO.fullmatch(signal.geo):
        return f"model is {signal.model[:40]!r}, geo {signal.geo[:40]!r}"
    return _counts(signal, _COUNTS)


def _cost(signal: s.CostReported) -> str | None:
    models = signal.models or {}
    if len(models) > MOST_MODELS:
        return f"it names {len(models)} models"
    if not _is_usd(signal.cost_usd):
        return f"cost_usd is {signal.cost_usd}"
    for name, model in models.items():
        wrong = _counts(model, _MODEL_COUNTS)
        if wrong or not _is_usd(model.cost_usd):
            return f"{wrong or f'cost_usd is {model.cost_usd}'} for {name[:40]!r}"
    return None


def _gauges(signal: s.GaugesReported) -> str | None:
    for name in ("context_tokens", "context_size"):
        number = getattr(signal, name)
        if number is not None and not 0 <= number <= MOST_TOKENS:
            return f"{name} is {number}"
    for limit in signal.limits or ():
        if not math.isfinite(limit.used_percent) or not 0 <= limit.used_percent <= 10_000:
            return f"used_percent is {limit.used_percent}"
        if not 0 <= limit.resets_at <= MOST_TOKENS or not _NAME.fullmatch(limit.name):
            return f"resets_at is {limit.resets_at} of {limit.name[:40]!r}"
    return None


def _is_usd(number: float) -> bool:
    return math.isfinite(number) and 0 <= number <= MOST_USD


def _counts(holder: object, names: tuple[str, ...]) -> str | None:
    for name in names:
        number = getattr(holder, name)
        if not 0 <= number <= MOST_TOKENS:
            return f"{name} is {str(number)[:40]}"
    return None


_CHECKS: dict[type, Callable[[Any], str | None]] = {
    s.UsageTotalled: _usage,
    s.CostReported: _cost,
    s.GaugesReported: _gauges,
}
