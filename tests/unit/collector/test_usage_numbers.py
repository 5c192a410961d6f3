"""What a ledger is not asked for: never a message that it holds, whoever wrote it there."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from datetime import UTC
from pathlib import Path

import pytest

from adsum_collector.agents.records import TranscriptFile, UsageRecord
from adsum_collector.transcripts.cursors import Stamp
from adsum_collector.usage.ledger import SIEVE_BYTES, FileTurn, Ledger
from adsum_collector.usage.scan import Scanned, ScanPlace

NOON = 1_795_262_400_000


Opened = Callable[[], Ledger]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    """Of the same file each time."""
    with contextlib.ExitStack() as stack:

        def once_more() -> Ledger:
            ledger = Ledger.open(tmp_path, lambda _model: None, UTC)
            stack.callback(ledger.close)
            return ledger

        yield once_more


def take(ledger: Ledger, *keys: int) -> None:
    records = [UsageRecord(key, 7, NOON, "m", output=5) for key in keys]
    scanned = Scanned(records, ScanPlace(), more=False, faults={})
    ledger.take([FileTurn(b"f", TranscriptFile("s"), Stamp(1, 2, 3, 4), scanned)], NOON)


def spent(ledger: Ledger) -> tuple[int, int]:
    """Messages that are kept, and those that were added up."""
    return len(ledger), sum(total.messages for total in ledger)


def asked(ledger: Ledger, *keys: int) -> str:
    """The statement by which rows of these messages are looked for, with what it asks for."""
    said: list[str] = []
    ledger._db.set_trace_callback(said.append)
    take(ledger, *keys)
    ledger._db.set_trace_callback(None)
    (statement,) = [each for each in said if "CROSS JOIN messages" in each]
    return statement


def test_a_message_told_again_in_a_later_batch_counts_once(opened: Opened) -> None:
    ledger = opened()
    for _ in range(2):
        take(ledger, 1, 2)
    assert spent(ledger) == (2, 2)


def test_a_message_of_another_connections_counts_once(opened: Opened) -> None:
    mine, other = opened(), opened()
    take(mine, 1)
    take(other, 2)
    take(mine, 2, 3)
    take(other, 3, 1)
    assert spent(mine) == (3, 3)


def test_a_message_of_an_earlier_run_counts_once(opened: Opened) -> None:
    before = opened()
    take(before, 1)
    before.close()
    ledger = opened()
    take(ledger, 1)
    assert spent(ledger) == (1, 1)


def test_messages_that_the_sieve_cannot_tell_apart_are_two(opened: Opened) -> None:
    ledger = opened()
    for key in (3, 3 + SIEVE_BYTES, 3):
        take(ledger, key)
    assert spent(ledger) == (2, 2)


def test_a_message_that_could_not_be_kept_counts_when_it_comes_again(opened: Opened) -> None:
    ledger = opened()
    ledger._db.execute(
        "CREATE TEMP TRIGGER refused BEFORE INSERT ON files BEGIN SELECT raise(ABORT, 'no'); END"
    )
    with pytest.raises(sqlite3.Error):
        take(ledger, 1)
    ledger._db.execute("DROP TRIGGER refused")
    for _ in range(2):
        take(ledger, 1)
    assert spent(ledger) == (1, 1)


def test_of_a_new_ledger_only_messages_it_may_hold_are_looked_for(opened: Opened) -> None:
    ledger = opened()
    assert "'[]'" in asked(ledger, 1, 2)
    assert "'[2]'" in asked(ledger, 2, 3)


def test_of_an_old_ledger_every_message_is_looked_for(opened: Opened) -> None:
    take(opened(), 1)
    assert "'[2,3]'" in asked(opened(), 2, 3)
