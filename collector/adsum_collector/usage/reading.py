"""Reads transcripts into the ledger, batch by batch, in a process or a thread. Blocks."""

from __future__ import annotations

import functools
import itertools
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final

import msgspec

from adsum_collector.agents.records import TranscriptFile
from adsum_collector.agents.transcript import Past
from adsum_collector.transcripts.cursors import Stamp
from adsum_collector.usage.heads import NobodysError, dated, owned
from adsum_collector.usage.kept import BATCH_RECORDS, Turn
from adsum_collector.usage.ledger import Ledger
from adsum_collector.usage.merge import FUTURE
from adsum_collector.usage.past import History, read_past
from adsum_collector.usage.scan import Scanned, Scanner, ScanPlace

if TYPE_CHECKING:
    from adsum_shared.prices import Book

BATCH_S: Final = 2.0
UNREADABLE: Final = "unreadable"
NOBODYS: Final = "nobody's file"


class Errand(msgspec.Struct, frozen=True):
    """A file to read. past: also tell what its session was about.

    urgent: those that are go into a batch of their own.
    """

    path: bytes  # need not be text
    whose: TranscriptFile
    past: bool = False
    urgent: bool = False


class PastOf(msgspec.Struct, frozen=True):
    path: bytes
    session_id: str
    past: Past


class Batch(msgspec.Struct, frozen=True, omit_defaults=True):
    """What has been kept in the ledger. done: files that were read to their ends.

    faults: cause -> how often.
    """

    done: list[tuple[bytes, Stamp]] = []
    bytes_read: int = 0
    faults: dict[str, int] = {}
    pasts: list[PastOf] = []


class Reading:
    """history: see `Transcripts`. now: ms of wall clock."""

    def __init__(self, ledger: Ledger, history: History, now: Callable[[], int]) -> None:
        self._ledger = ledger
        self._history = history
        self._now = now
        self._scanner = Scanner()
        self._care = 0
        self._read: dict[bytes, tuple[Errand, ScanPlace]] = {}
        self._doubtful: list[Errand] = []
        self._batch = _Batch()

    def read(self, errands: Iterable[Errand]) -> Iterator[Batch]:
        """Raises sqlite3.Error."""
        self._batch = batch = _Batch()
        for errand in itertools.chain(errands, self._once_more()):
            if batch.turns and batch.urgent and not errand.urgent:
                yield self._keep()
            self._batch.urgent = errand.urgent
            for turn in self._turns(errand):
                batch = self._batch
                batch.turns.append(turn)
                batch.records += len(turn.scanned.records)
                if batch.is_full():
                    yield self._keep()
            batch = self._batch
        yield self._keep()

    def _once_more(self) -> Iterator[Errand]:
        while self._doubtful:
            yield self._doubtful.pop()

    def _turns(self, errand: Errand) -> Iterator[Turn]:
        path = os.fsdecode(errand.path)
        place, more = self._ledger.place(path), True
        while more:
            try:
                stamp = Stamp.of(os.stat(path))  # noqa: PTH116 - a path may be bytes as text
                errand = msgspec.structs.replace(errand, whose=owned(path, errand.whose))
                scanned = self._scanner.scan(path, place)
                if errand.whose.agent_id is None:
                    scanned = dated(path, place, scanned)
                more = scanned.more
                past = errand.past and not more and self._read_past(errand, scanned.place)
            except FileNotFoundError:
                return
            except NobodysError:
                self._batch.faults[NOBODYS] += 1
                return
            except OSError:
                self._batch.faults[UNREADABLE] += 1
                return
            before = place.offset if place else 0
            self._batch.bytes_read += max(scanned.place.offset - before, 0)
            self._batch.faults.update(scanned.faults)
            place = scanned.place
            self._read[errand.path] = errand, place
            if self._care < self._scanner.care:
                self._doubt()
            yield Turn(path, errand.whose, stamp, scanned, past=past)

    def _doubt(self) -> None:
        """One file has taught to read with more care: all that were read with less are read again.

        Noted as not read to their ends: whoever comes after a kill reads them with that care too. So
        are files that others have read. They wait for the next start: a history is no thread's affair.
        """
        self._care = care = self._scanner.care
        known = self._ledger.places()
        known |= {
            path: (each.whose.session_id, place) for path, (each, place) in self._read.items()
        }
        for path, (session_id, place) in known.items():
            if place.care < care:
                if read := self._read.pop(path, None):
                    again = msgspec.structs.replace(read[0], past=False, urgent=False)
                    self._doubtful.append(again)
                scanned = Scanned([], place.with_care(care), more=True, faults={})
                whose, never = TranscriptFile(session_id), Stamp(0, 0, 0, 0)
                self._batch.turns.append(Turn(os.fsdecode(path), whose, never, scanned))

    def _read_past(self, errand: Errand, place: ScanPlace) -> bool:
        path, whose = os.fsdecode(errand.path), errand.whose
        past = read_past(path, whose, max(place.begun or 0, 0), self._history, self._now())
        if past is not None:
            self._batch.pasts.append(PastOf(errand.path, whose.session_id, past))
        return past is not None

    def _keep(self) -> Batch:
        batch, self._batch = self._batch, _Batch()
        if batch.turns:
            batch.faults[FUTURE] += self._ledger.take(batch.turns, self._now())
        done = {os.fsencode(turn.path): turn.stamp for turn in batch.turns if not turn.scanned.more}
        faults = {cause: times for cause, times in batch.faults.items() if times}
        return Batch(list(done.items()), batch.bytes_read, faults, batch.pasts)


class _Batch:
    def __init__(self) -> None:
        self.turns: list[Turn] = []
        self.records = 0
        self.bytes_read = 0
        self.urgent = False
        self.faults: Counter[str] = Counter()
        self.pasts: list[PastOf] = []
        self._until = time.monotonic() + BATCH_S

    def is_full(self) -> bool:
        return self.records >= BATCH_RECORDS or time.monotonic() > self._until


def shipped_limit(model: str) -> int | None:
    """The prompt above which the model's prices are others, by the prices Adsum brings along."""
    return _book().limit(model)


@functools.cache
def _book() -> Book:
    from adsum_shared.prices import load_book

    return load_book(None)
