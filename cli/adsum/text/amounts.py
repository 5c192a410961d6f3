"""Tokens, dollars, bytes and percentages as short text for people, on the page in figures.js. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator

from adsum_shared.usage import ContextView, RateLimitView, UsageView

UNPRICED = "unpriced"
NONE = "-"
PRICES = "Add it: prices.toml beside the hub's config.toml"

_UNITS = ("k", "M", "G", "T", "P")
_MOST = 10**18
#: Less than this would be rounded to no cent at all.
CENT_LEAST = 0.005
LIMIT_NAMES = {"five_hour": "5h", "seven_day": "7d"}


def short(number: float) -> str:
    """At most five characters: 0, 999, 1.2k, 12.3M, 123G; what is beyond all units is so named."""
    size = float(min(max(0, number), _MOST))
    if size < 999.5:
        return _rounded(size, 0)
    for unit in _UNITS:
        size /= 1000
        if size < 99.95:
            return f"{_rounded(size, 1)}{unit}"
        if size < 999.5:
            return f"{_rounded(size, 0)}{unit}"
    return f">999{_UNITS[-1]}"


def _rounded(number: float, digits: int) -> str:
    """Half is up, as on the page, which is to show the same."""
    return f"{math.floor(number * 10**digits + 0.5) / 10**digits:,.{digits}f}"


def octets(count: float) -> str:
    """0 B, 3.1 GB."""
    said = short(count)
    number = said.rstrip("kMGTP")
    return f"{number} {said[len(number) :]}B"


def dollars(usd: float) -> str:
    """To the cent, while that can be read. Something is never told as nothing."""
    if usd <= 0:
        return "$0.00"
    if usd < CENT_LEAST:
        return "< $0.01"
    return f"${_rounded(usd, 2)}" if usd < 99_999.995 else f"${short(usd)}"


def tokens_of(usage: UsageView) -> int:
    return (
        usage.input_tokens
        + usage.output_tokens
        + usage.cache_read_tokens
        + usage.cache_write_tokens
    )


def marks(*, plain: bool) -> tuple[str, str]:
    """Before dollars that were computed from prices, wholly or in part; before those that lack some.

    plain: for a terminal without Unicode.
    """
    return ("~", ">=") if plain else ("≈", "≥")


def cost(usage: UsageView | None, *, plain: bool = False) -> str:
    """Whose word it is shows in its mark; what has no price is never told as $0.00."""
    if usage is None:
        return NONE
    if usage.cost_usd is None:
        return UNPRICED if usage.unpriced_tokens or tokens_of(usage) else NONE
    if usage.cost_usd <= 0 and not tokens_of(usage) and not usage.web_searches:
        return NONE  # not even begun: no price was applied to anything
    computed, at_least = marks(plain=plain)
    if usage.unpriced_tokens:
        if usage.cost_usd < CENT_LEAST:
            return UNPRICED  # next to nothing of it has a price
        return f"{at_least} {dollars(usage.cost_usd)}"
    # Less than something is a guess as it is.
    bare = usage.cost_source == "reported" or 0 < usage.cost_usd < CENT_LEAST
    return dollars(usage.cost_usd) if bare else f"{computed} {dollars(usage.cost_usd)}"


def percent(part: float, whole: float) -> str:
    return f"{min(999, max(0, part / whole * 100)):.0f}%" if whole > 0 else NONE


def context(view: ContextView | None) -> str:
    """How full it is; the tokens where nobody says of how many."""
    if view is None:
        return NONE
    return percent(view.tokens, view.size) if view.size else short(view.tokens)


def span(ms: float) -> str:
    """A duration in two units: 42s, 5m, 2h 10m, 3d 4h."""
    minutes, seconds = divmod(int(max(0, ms)) // 1000, 60)
    if not minutes:
        return f"{seconds}s"
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    parts = [(days, "d"), (hours, "h"), (minutes, "m")]
    while not parts[0][0]:
        parts.pop(0)
    return " ".join(f"{count}{unit}" for count, unit in parts[:2] if count)


def limit_words(limits: tuple[RateLimitView, ...], now: int) -> Iterator[str]:
    for limit in limits:
        name = LIMIT_NAMES.get(limit.name, limit.name.replace("_", " "))
        used = percent(limit.used_percent, 100)
        if limit.resets_at and limit.resets_at <= now:
            yield f"{name} was {used}, reset since"
        elif limit.resets_at:
            yield f"{name} {used}, resets in {span(limit.resets_at - now)}"
        else:
            yield f"{name} {used}"
