"""What tokens cost: by model and day, from the user's prices, Adsum's own, and a bigger table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

import msgspec

from adsum_shared.price_file import SHIPPED, Price, PriceFileError, Rates, read_prices
from adsum_shared.price_names import Names, names_of

__all__ = ["Book", "Lookup", "Price", "PriceFileError", "Used", "load_book"]

#: A model's bare name and an ISO date -> its price on that day.
Lookup = Callable[[str, str], Price | None]

MILLION: Final = 1_000_000
_LAST_DAY: Final = "9999-12-31"


class Used(Protocol):
    """What has a cost. Cache writes by how long they are to be kept."""

    @property
    def input_tokens(self) -> int: ...
    @property
    def output_tokens(self) -> int: ...
    @property
    def cache_read_tokens(self) -> int: ...
    @property
    def cache_5m_tokens(self) -> int: ...
    @property
    def cache_1h_tokens(self) -> int: ...
    @property
    def web_searches(self) -> int: ...


class _Each(msgspec.Struct, frozen=True, gc=False):
    """Dollars of one token, or of one search, with all that multiplies it."""

    input: float
    output: float
    cache_read: float
    cache_5m: float
    cache_1h: float
    web_search: float


class Book:
    """overrides, known: prices by model, the earliest first. fallback: asked for models in neither.

    Whatever it finds it keeps: a hub asks for the same few models and days again and again.
    """

    def __init__(
        self,
        known: dict[str, list[Price]],
        overrides: dict[str, list[Price]] | None = None,
        fallback: Lookup | None = None,
    ) -> None:
        self._known = known
        self._overrides = overrides or {}
        self._fallback = fallback
        self._names: dict[str, Names | None] = {}
        self._each: dict[tuple[str, str, bool, str, bool], _Each | None] = {}

    def cost(
        self,
        model: str,
        day: str,
        usage: Used,
        *,
        fast: bool = False,
        geo: str = "",
        long: bool = False,
    ) -> float | None:
        """Dollars; None if that has no price. day: ISO date. long: prompts above `limit(model)`."""
        kind = (model, day, fast, geo, long)
        try:
            each = self._each[kind]
        except KeyError:
            each = self._each[kind] = self._priced(*kind)
        if each is None:
            return None
        return (
            usage.input_tokens * each.input
            + usage.output_tokens * each.output
            + usage.cache_read_tokens * each.cache_read
            + usage.cache_5m_tokens * each.cache_5m
            + usage.cache_1h_tokens * each.cache_1h
            + usage.web_searches * each.web_search
        )

    def limit(self, model: str) -> int | None:
        """Tokens of prompt above which other prices hold, on some day at least."""
        for price in reversed(self._all(model)):
            if price.limit is not None:
                return price.limit
        return None

    def context(self, model: str) -> int | None:
        """How many tokens the model's window has."""
        names = self._names_of(model)
        if names is None:
            return None
        if names.million:
            return MILLION
        for price in reversed(self._all(model)):
            if price.context is not None:
                return price.context
        other = self._fallback(names.bare, _LAST_DAY) if self._fallback else None
        return other.context if other else None

    def _all(self, model: str) -> list[Price]:
        names = self._names_of(model)
        if names is None:
            return []
        tables = (self._known, self._overrides)
        return [price for table in tables for price in _entries(table, names)]

    def _names_of(self, model: str) -> Names | None:
        try:
            return self._names[model]
        except KeyError:
            return self._names.setdefault(model, names_of(model))

    def _priced(self, model: str, day: str, fast: bool, geo: str, long: bool) -> _Each | None:  # noqa: FBT001 - the parts of a key
        names = self._names_of(model)
        price = self._price(names, day) if names is not None else None
        if names is None or price is None:
            return None
        if fast and price.fast is None:
            # Fast modes have cost 2 and 6 times as much: a guess would be wrong by as much.
            return None
        factor = (price.fast or 1.0) if fast else 1.0
        # Where the work is done costs once, whether the id or the answer says so. A name that was
        # priced as it is spelt has its region in its price.
        at_us = price.us if geo == "us" else 1.0
        in_region = price.regional if names.regional and names.exact not in price.models else 1.0
        rates = price.long if long and price.long is not None else price
        return _each(price, rates, factor * max(at_us, in_region))

    def _price(self, names: Names, day: str) -> Price | None:
        override = _entries(self._overrides, names)
        if override and override[0].since <= day:
            return _on(override, day)
        known = _entries(self._known, names)
        if known:
            return _on(known, day)
        other = self._fallback(names.bare, day) if self._fallback else None
        return other or (override[0] if override else None)


def load_book(override: Path | None = None, fallback: Lookup | None = None) -> Book:
    """Raises PriceFileError if there is a file at `override` that cannot be used.

    Nothing there: nothing to override. A caller that goes on without it asks again without it.
    """
    overrides = None if override is None else read_prices(override, missing_ok=True)
    return Book(read_prices(SHIPPED), overrides, fallback)


def _entries(table: dict[str, list[Price]], names: Names) -> list[Price]:
    return table.get(names.exact) or table.get(names.bare) or []


def _on(entries: list[Price], day: str) -> Price:
    """The latest that holds by then; before all of them the first, for something was paid."""
    return next((price for price in reversed(entries) if price.since <= day), entries[0])


def _each(price: Price, rates: Rates, factor: float) -> _Each:
    token = factor / MILLION
    return _Each(
        rates.input * token,
        rates.output * token,
        rates.cache_read * token,
        rates.cache_write_5m * token,
        rates.cache_write_1h * token,
        price.web_search / 1000,
    )
