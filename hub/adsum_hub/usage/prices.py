"""The hub's price book: with the user's own prices if they can be read, and the bigger table once wanted."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from adsum_hub.usage.known_prices import known_price, load_table
from adsum_shared.price_book import Book, Lookup, Price, PriceFileError, load_book

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
