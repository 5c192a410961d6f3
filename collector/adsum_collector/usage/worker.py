"""The process that reads the history into the ledger, gentle enough not to be felt.

    python -I -m adsum_collector.usage.worker

On stdin one line says what to read (`Order`); on stdout lines report what has been kept (`WorkerReport`).
It ends when nobody listens any more. A long history is read by two processes, where there are cores.
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from adsum_collector.agents import known_agents
from adsum_collector.usage.ledger import SQL_ERRORS, Ledger, LedgerError, is_spoilt, sentence
from adsum_collector.usage.reading import Errand, UsageBatch, UsageReading, shipped_limit

GENTLE: Final = 19


class Order(msgspec.Struct, frozen=True):
    """What the process reads, on stdin. directory: the ledger's. processes: two at most.

    agent: the name of the one whose files these are.
    """

    agent: str
    directory: str
    errands: Sequence[Errand]
    processes: int = 1


class WorkerReport(UsageBatch, frozen=True, omit_defaults=True):
    """What it says, on stdout: a batch; or a failure, damage if the ledger is; or that this is all."""

    failure: str | None = None
    damage: bool = False
    over: bool = False


def carry_out(order: Order) -> None:
    """Raises LedgerError, sqlite3.Error."""
    ledger = Ledger.open(Path(order.directory), shipped_limit)
    with contextlib.closing(ledger):
        agent = next(each for each in known_agents() if each.name == order.agent)
        for batch in UsageReading(ledger, agent, _now, order.processes).read(order.errands):
            _write(batch)
            # Whoever started us holds the other end of stdin for as long as he lives.
            if select.select([0], [], [], 0)[0]:
                raise SystemExit(1)


def _now() -> int:
    return time.time_ns() // 1_000_000


def _write(report: UsageBatch) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(report) + b"\n")
    sys.stdout.buffer.flush()


def main() -> None:
    os.nice(GENTLE)
    gc.disable()  # it would look for cycles among a history's records, and there are none
    order = msgspec.json.decode(sys.stdin.buffer.readline(), type=Order)
    try:
        carry_out(order)
        _write(WorkerReport(over=True))
    except BrokenPipeError:
        os._exit(1)  # nobody is left to read it, not even that stdout cannot be flushed
    except LedgerError as error:
        _write(WorkerReport(failure=str(error)))
    except SQL_ERRORS as error:
        why = sentence(error, Path(order.directory))
        _write(WorkerReport(failure=why, damage=is_spoilt(error)))


if __name__ == "__main__":
    main()
