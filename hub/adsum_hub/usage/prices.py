"""The hub's prices: the user's own, ours, and those of genai-prices once a model needs them."""

from __future__ import annotations

import asyncio
import logging
import math
import re
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from adsum_shared.prices import (
    Book,
    Lookup,
    Price,
    PriceFileError,
    load_book,
    names_of,
    regional_factor,
)

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo

_DATE: Final = re.compile(r"[-@](\d{8}|\d{4}-\d\d-\d\d)")


def known_price(model: str, day: str) -> Price | None:
    """What the table in the installed package says; it asks nobody on the network."""
    info = _info(model)
    if info is None:
        return None
    try:
        noon = datetime.fromisoformat(f"{day}T12:00:00").replace(tzinfo=UTC)
    except ValueError:
        return None
    prices = info.get_prices(noon)
    plain, read = _rate(prices.input_mtok), _rate(prices.cache_read_mtok)
    output = _rate(prices.output_mtok)
    for_5m, for_1h = _rate(prices.cache_write_mtok), _rate(prices.cache_write_1h_mtok)
    rates = (plain, output, read, for_5m, for_1h)
    if (
        plain is None
        or output is None
        or any(rate is not None and math.isnan(rate) for rate in rates)
    ):
        return None
    # Who has no rate of its own for a cache bills its tokens as any others.
    write = plain if for_5m is None else for_5m
    place = regional_factor(model)
    return Price(
        models=[model],
        input=plain,
        output=output,
        cache_read=plain if read is None else read,
        cache_write_5m=write,
        cache_write_1h=write if for_1h is None else for_1h,
        us=place,
        regional=place,
        context=info.context_window,
    )


def load_table() -> None:
    """Takes 0.2 s and 30 MB, once; a look-up does it as well."""
    _info("")


@cache
def _info(model: str) -> ModelInfo | None:
    from genai_prices.data_snapshot import get_snapshot

    try:
        _, info = get_snapshot().find_provider_model(model, None, None, None)
    except LookupError:
        return None
    # Some of its models stand for every id that begins like theirs: `…-fast`, `…-mini`.
    found = names_of(info.id)
    same = found is not None and found.bare == model
    return info if same or _DATE.fullmatch(model.removeprefix(info.id)) else None


def _rate(price: Any) -> float | None:
    """Not a number if it depends on the prompt's size: machines do not know from which on."""
    if price is None:
        return None
    return float(price) if isinstance(price, Decimal) else math.nan


log = logging.getLogger(__name__)


class Opened(NamedTuple):
    """problem: why the user's prices do not hold, for people."""

    book: Book
    problem: str | None = None


class Wanted:
    """Stands for the bigger table until it is loaded: of no model it has a price.

    Most hubs never need it, and to load it takes 0.2 s and 30 MB: not while everybody waits for the
    loop. (Rejected: at each start, for those who need it. They would wait, the others have less
    memory for nothing.)
    """

    def __init__(self) -> None:
        self.asked = asyncio.Event()

    def __call__(self, model: str, day: str) -> Price | None:
        del model, day
        self.asked.set()
        return None


def open_book(file: Path, lookup: Lookup) -> Opened:
    """A slip of the pen in a file of prices must not keep anybody from seeing who needs them."""
    try:
        return Opened(load_book(file, lookup))
    except PriceFileError as error:
        cause = str(error)
    except OSError as error:
        cause = f"{file} cannot be read: {error.strerror}. Let the hub's user read it."
    log.warning("prices: %s", cause)
    text = f"Your own prices are not used, so dollars may be wrong. {cause} Then restart the hub."
    return Opened(load_book(None, lookup), text)


async def complete_book(wanted: Wanted, file: Path, use: Callable[[Book], None]) -> None:
    """Once a model is met that our table lacks, have the bigger one loaded beside the loop."""
    await wanted.asked.wait()
    await asyncio.to_thread(load_table)
    # Another book, for the first has kept that it found nothing.
    use(open_book(file, known_price).book)
