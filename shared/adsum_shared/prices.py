"""Knows what tokens cost by model and day: the user's prices, Adsum's own, and a bigger table.

First how a model may be spelt, then the files of prices, then the book that is asked.
"""

import re
import tomllib
from collections.abc import Callable
from datetime import date
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Final, Protocol

import msgspec
from msgspec import Meta
from msgspec.structs import replace

#: At the end of an id: it asks for a context of so many tokens.
_LONG_CONTEXT: Final = "[1m]"
#: What local messages of an agent bear in a model's place.
NOBODY: Final = "<synthetic>"
#: How ids are spelt; see the file.
_SPELT: Final = tomllib.loads(Path(__file__).with_name("models.toml").read_text(encoding="utf-8"))
_PATHS, _REGION, _FAMILY, _SNAPSHOT, _LOCAL = (
    re.compile(_SPELT[name]) for name in ("paths", "region", "family", "snapshot", "local")
)
_POINT: Final = re.compile(r"(?<=\d)\.(?=\d)")
_LONGEST: Final = 300


class Names(msgspec.Struct, frozen=True):
    """exact: as it was spelt. bare: without all that does not change the price.

    regional: it must stay in one part of the world. million: it asked for so long a context.
    """

    exact: str
    bare: str
    regional: bool = False
    million: bool = False


@lru_cache(maxsize=10_000)
def names_of(model: str) -> Names | None:
    """None for what is no model."""
    exact = model.strip().lower()
    if exact in ("", NOBODY) or len(exact) > _LONGEST:
        return None
    bare = _PATHS.sub("", exact.removesuffix(_LONG_CONTEXT))
    regional = False
    if region := _REGION.match(bare):
        regional = region[2] != "global"
        bare = bare[region.end() :]
    if _FAMILY.match(bare):
        bare = _POINT.sub("-", _SNAPSHOT.sub("", bare))
    return Names(exact, bare, regional, exact.endswith(_LONG_CONTEXT))


def regional_factor(bare: str) -> float:
    """What a model's tokens cost more where their place is set, for models without a price of ours."""
    return 1.1 if _LOCAL.match(bare) else 1.0


SHIPPED: Final = Path(__file__).with_name("prices.toml")

#: Dollars for a million tokens, or for a thousand searches: a rate above this is a slip of the
#: pen, as dollars for a token would be one below any that could be noticed.
Rate = Annotated[float, Meta(ge=0, le=10_000)]
Factor = Annotated[float, Meta(gt=0, le=100)]
Tokens = Annotated[int, Meta(gt=0, le=1_000_000_000)]


class PriceFileError(Exception):
    """A file of prices cannot be used. The text names the file, the entry, the cause, what to do."""

    def __init__(self, file: Path, entry: str, cause: str, step: str) -> None:
        where = f"{file}, {entry}" if entry else str(file)
        super().__init__(f"{where}: {cause}. {step}")


class Rates(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Dollars per million tokens."""

    input: Rate
    output: Rate
    cache_read: Rate
    cache_write_5m: Rate
    cache_write_1h: Rate


class Price(Rates, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An entry, as it stands in the file. The file that is shipped says what the fields mean."""

    models: Annotated[list[Annotated[str, Meta(min_length=1)]], Meta(min_length=1)]
    effective_from: date | None = None
    web_search: Rate = 10.0
    fast: Factor | None = None
    us: Factor = 1.0
    regional: Factor = 1.0
    limit: Tokens | None = None
    long: Rates | None = None
    context: Tokens | None = None

    def __post_init__(self) -> None:
        if not all(map(_named, self.models)):
            raise ValueError("a model's name is empty")
        if (self.limit is None) != (self.long is None):
            raise ValueError("`limit` and `long` are only given together")

    @property
    def since(self) -> str:
        """The ISO date; before all others if none is given."""
        return "" if self.effective_from is None else self.effective_from.isoformat()


def read_prices(file: Path, *, missing_ok: bool = False) -> dict[str, list[Price]]:
    """By model in lower case, the earliest first. missing_ok: no file has no prices."""
    prices: dict[str, list[Price]] = {}
    for number, raw in enumerate(_entries(file, missing_ok), 1):
        entry = f"price {number}{_called(raw)}"
        try:
            price = msgspec.convert(raw, Price)
            price = replace(price, models=[*dict.fromkeys(map(_named, price.models))])
        except msgspec.ValidationError as error:
            fields = ", ".join(f"`{name}`" for name in sorted(Price.__struct_fields__))
            step = f"Correct it; an entry has {fields}."
            raise PriceFileError(file, entry, _in_our_words(error), step) from error
        for model in price.models:
            known = prices.setdefault(model, [])
            _fit(file, entry, model, price, known)
            known.append(price)
            known.sort(key=lambda each: each.since)
    return prices


def _fit(file: Path, entry: str, model: str, price: Price, known: list[Price]) -> None:
    if any(other.since == price.since for other in known):
        day = price.since or "its first day"
        step = "Remove one of the two, or give the later one its `effective_from`."
        raise PriceFileError(file, entry, f"{model} has a price from {day} on already", step)
    limits = {other.limit for other in [*known, price]} - {None}
    if len(limits) > 1:
        # Machines sort prompts by the limit before they know the day's prices.
        step = "Give all entries of a model the same limit."
        raise PriceFileError(file, entry, f"{model} has another `limit` in another entry", step)


def _entries(file: Path, missing_ok: bool) -> list[Any]:  # noqa: FBT001 - of its one caller
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        if missing_ok and isinstance(error, FileNotFoundError):
            return []
        step = "Make it readable for the user who runs Adsum, or remove it."
        raise PriceFileError(file, "", f"it cannot be read ({error.strerror})", step) from error
    except UnicodeDecodeError as error:
        raise PriceFileError(file, "", "it is not UTF-8", "Save it as UTF-8.") from error
    except ValueError as error:  # not all that tomllib raises is its own: a number may be too long
        step = "Correct the line, or remove the file."
        raise PriceFileError(file, "", f"it is no TOML ({error})", step) from error
    step = "Begin every entry with a line [[price]]."
    if others := content.keys() - {"price"}:
        raise PriceFileError(file, "", f"`{min(others)}` stands outside of any entry", step)
    entries = content.get("price", [])
    if not isinstance(entries, list):
        raise PriceFileError(file, "", "`price` is not a list of entries", step)
    return entries


def _named(model: str) -> str:
    return model.strip().lower()


def _in_our_words(error: msgspec.ValidationError) -> str:
    text = str(error).replace("`$.", "`").replace("Object contains", "there is an")
    return text.replace("Invalid RFC3339 encoded date", "that is no date such as 2026-11-22")


def _called(raw: Any) -> str:
    models = raw.get("models") if isinstance(raw, dict) else None
    named = [name for name in models if isinstance(name, str)] if isinstance(models, list) else []
    return f" ({', '.join(named)})" if named else ""


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
        if kind not in self._each:
            self._each[kind] = self._priced(*kind)
        if (each := self._each[kind]) is None:
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
        limits = (price.limit for price in reversed(self._all(model)))
        return next((limit for limit in limits if limit is not None), None)

    def context(self, model: str) -> int | None:
        """How many tokens the model's window has."""
        names = names_of(model)
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
        names = names_of(model)
        if names is None:
            return []
        tables = (self._known, self._overrides)
        return [price for table in tables for price in _of_names(table, names)]

    def _priced(self, model: str, day: str, fast: bool, geo: str, long: bool) -> _Each | None:  # noqa: FBT001 - the parts of a key
        names = names_of(model)
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
        override = _of_names(self._overrides, names)
        if override and override[0].since <= day:
            return _on(override, day)
        known = _of_names(self._known, names)
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


def _of_names(table: dict[str, list[Price]], names: Names) -> list[Price]:
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
