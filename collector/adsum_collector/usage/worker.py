"""The process that reads the history into the ledger, gentle enough not to be felt.

    python -I -m adsum_collector.usage.worker

On stdin one line says what to read (`Order`); on stdout lines tell what has been kept (`Word`). It
ends when nobody listens any more.
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from adsum_collector.agents import known_agents
from adsum_collector.usage.file import SQL_ERRORS, LedgerError, is_spoilt, sentence
from adsum_collector.usage.ledger import Ledger
from adsum_collector.usage.past import History
from adsum_collector.usage.reading import Errand, Reading, shipped_limit
from adsum_collector.usage.wire import Order, Word

GENTLE: Final = 19


def carry_out(order: Order, history: History, tell: Callable[[bytes], None]) -> None:
    """Raises LedgerError, sqlite3.Error."""
    ledger = Ledger.open(Path(order.directory), shipped_limit)
    with contextlib.closing(ledger):
        for batch in Reading(ledger, history, _now).read(_while_heard(order.errands)):
            tell(msgspec.json.encode(batch))


def _while_heard(errands: Sequence[Errand]) -> Iterator[Errand]:
    """Whoever started us holds the other end of stdin for as long as he lives."""
    for errand in errands:
        if select.select([0], [], [], 0)[0]:
            raise SystemExit(1)
        yield errand


def _now() -> int:
    return time.time_ns() // 1_000_000


def _tell(line: bytes) -> None:
    sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()


def main() -> None:
    os.nice(GENTLE)
    gc.disable()  # it would look for cycles among a history's records, and there are none
    order = msgspec.json.decode(sys.stdin.buffer.readline(), type=Order)
    try:
        carry_out(order, known_agents()[0].transcripts.history, _tell)
        _tell(msgspec.json.encode(Word(over=True)))
    except BrokenPipeError:
        os._exit(1)  # nobody is left to be told, not even that stdout cannot be flushed
    except LedgerError as error:
        _tell(msgspec.json.encode(Word(failure=str(error))))
    except SQL_ERRORS as error:
        why = sentence(error, Path(order.directory))
        _tell(msgspec.json.encode(Word(failure=why, damage=is_spoilt(error))))


if __name__ == "__main__":
    main()
