"""A file of prices: the one that Adsum ships, and the one in which a user sets others right."""

from __future__ import annotations

import tomllib
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta
from msgspec.structs import replace

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
            cause = _in_our_words(error)
            raise PriceFileError(
                file, entry, cause, f"Correct it; an entry has {_fields()}."
            ) from error
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
    told = str(error).replace("`$.", "`").replace("Object contains", "there is an")
    return told.replace("Invalid RFC3339 encoded date", "that is no date such as 2026-11-22")


def _called(raw: Any) -> str:
    models = raw.get("models") if isinstance(raw, dict) else None
    named = [name for name in models if isinstance(name, str)] if isinstance(models, list) else []
    return f" ({', '.join(named)})" if named else ""


def _fields() -> str:
    return ", ".join(f"`{name}`" for name in sorted(Price.__struct_fields__))
