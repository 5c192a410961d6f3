"""Reads transcripts into the ledger, batch by batch; a long history by two processes. Blocks.

    python -I -m adsum_collector.usage.reading

reads a history, gentle enough not to be felt: on stdin one line says what (`Order`), on stdout lines
report what has been kept (`WorkerReport`). It ends when nobody listens any more.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import os
import select
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from adsum_collector.agents import known_agents, usage_lines
from adsum_collector.agents.base import Agent
from adsum_collector.agents.records import Past, TranscriptFile
from adsum_collector.line_reader import first_lines, last_lines, open_transcript, split_lines
from adsum_collector.transcripts.cursors import Stamp
from adsum_collector.usage.ledger import (
    BATCH_RECORDS,
    DAY_MS,
    SQL_ERRORS,
    FileTurn,
    Ledger,
    LedgerError,
    is_spoilt,
    sentence,
)
from adsum_collector.usage.merge import FUTURE
from adsum_collector.usage.scan import Scanned, Scanner, ScanPlace
from adsum_shared import WallClock

if TYPE_CHECKING:
    from adsum_shared.prices import Book

BATCH_S: Final = 2.0
#: Where whose a file is, and since when it has been there, is sought.
HEAD_BYTES: Final = 256 << 10
TAIL_BYTES: Final = 16 << 10
#: Sought so far from the end for a line that is whole.
MOST_TAIL_BYTES: Final = 4 << 20
#: What the second process has found and the first has not taken yet; then it waits.
MOST_WAITING_BYTES: Final = 8 << 20
SIZE_BYTES: Final = 4
PIPE_BYTES: Final = 1 << 20
UNREADABLE: Final = "unreadable"
NOBODYS: Final = "nobody's file"

History = Callable[[Sequence[bytes], Sequence[bytes], TranscriptFile], Past | None]


class Errand(msgspec.Struct, frozen=True):
    """A file to read. past: also find out what its session was about.

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


class UsageBatch(msgspec.Struct, frozen=True, omit_defaults=True):
    """What has been kept in the ledger. done: files that were read to their ends.

    faults: cause -> how often.
    """

    done: list[tuple[bytes, Stamp]] = []
    bytes_read: int = 0
    faults: dict[str, int] = {}
    pasts: list[PastOf] = []


class FileFindings(msgspec.Struct, frozen=True, gc=False):
    """What one go at a file has found. errand: its number. care: see `Scanner`, of who read it.

    faults: cause -> how often.
    """

    errand: int
    turn: FileTurn | None = None
    care: int = 0
    bytes_read: int = 0
    faults: dict[str, int] = {}


class FileReader:
    """What an agent's files hold, without a ledger. now: ms of wall clock."""

    def __init__(self, agent: Agent, now: WallClock) -> None:
        self._history = agent.transcripts.history
        self._now = now
        self.scanner = Scanner(lines=usage_lines(agent))

    def read(self, number: int, errand: Errand, place: ScanPlace | None) -> Iterator[FileFindings]:
        """From `place` to the file's end, a turn at a time."""
        path, more = os.fsdecode(errand.path), True
        while more:
            before = place.offset if place else 0
            try:
                descriptor = open_transcript(path)
                try:
                    turn = self._turn(descriptor, errand, place)
                finally:
                    os.close(descriptor)
            except FileNotFoundError:
                return
            except OSError:
                yield FileFindings(number, faults={UNREADABLE: 1})
                return
            if turn is None:
                yield FileFindings(number, faults={NOBODYS: 1})
                return
            place, more = turn.scanned.place, turn.scanned.more
            read = max(place.offset - before, 0)
            yield FileFindings(number, turn, self.scanner.care, read, turn.scanned.faults)

    def _turn(self, descriptor: int, errand: Errand, place: ScanPlace | None) -> FileTurn | None:
        """None if no line of its begin tells whose it is. Raises OSError."""
        whose = errand.whose
        if not whose.session_id:
            session_id = self.scanner.lines.session_in(os.pread(descriptor, HEAD_BYTES, 0))
            if session_id is None:
                return None
            whose = TranscriptFile(session_id, whose.agent_id)
        stamp = Stamp.of(os.fstat(descriptor))
        scanned = self.scanner.scan_open(descriptor, place)
        whose = scanned.whose or whose
        if whose.agent_id is None:
            scanned = self._dated(descriptor, place, scanned)
        past = None
        if errand.past and not scanned.more:
            begun = max(scanned.place.begun or 0, 0)
            past = read_past(descriptor, whose, begun, self._history, self._now())
        return FileTurn(errand.path, whose, stamp, scanned, past)

    def _dated(self, descriptor: int, before: ScanPlace | None, scanned: Scanned) -> Scanned:
        """Since when it has been there, as far as that is known by now.

        Negative, if it was begun then at the latest: a line of its own in its midst tells no more.
        Where none tells anything, what the file held at first is remembered, so that it stays one source
        however often it grows.
        """
        begun, held = scanned.place.begun, scanned.place.held
        if begun is not None and before is not None and before.begun == begun:
            return scanned
        found = self.scanner.lines.begun_in(os.pread(descriptor, HEAD_BYTES, 0))
        if found is None and begun is not None:
            found = -begun
        if found is None and held is None and scanned.records:
            held = scanned.records[-1].at
        place = msgspec.structs.replace(scanned.place, begun=found, held=held)
        return msgspec.structs.replace(scanned, place=place)


def read_past(
    descriptor: int, whose: TranscriptFile, begun: int, history: History, now: int
) -> Past | None:
    """What a session was about, from both ends of its main file. Raises OSError.

    begun: when the file was, ms, if that is known: a fork's copies are older. What is dated more
    than a day after both now and the file's own time is not believed.
    """
    stat = os.fstat(descriptor)
    _, tail = last_lines(descriptor, stat.st_size, TAIL_BYTES, MOST_TAIL_BYTES)
    past = history(first_lines(descriptor), split_lines(tail), whose)
    if past is None:
        return None
    rested = stat.st_mtime_ns // 1_000_000
    is_ahead = past.ended > max(now, rested) + DAY_MS
    # At now it would be a sign of life to the hub.
    ended = past.ended if 0 < past.ended <= now else min(rested, now)
    started = min(max(past.started, begun) or ended, ended)
    cost = None if is_ahead else past.cost
    return msgspec.structs.replace(past, started=started, ended=ended, cost=cost)


class UsageReading:
    """now: ms of wall clock. processes: two at most."""

    def __init__(self, ledger: Ledger, agent: Agent, now: WallClock, processes: int = 1) -> None:
        self._ledger, self._now, self._processes = ledger, now, processes
        self._reader = FileReader(agent, now)
        self._care = 0
        self._read: dict[bytes, tuple[Errand, ScanPlace]] = {}
        self._doubtful: list[Errand] = []
        self._begin_batch()

    def _begin_batch(self) -> None:
        self._turns: list[FileTurn] = []
        self._records = self._bytes_read = 0
        self._urgent = False
        self._faults = Counter[str]()
        self._until = time.monotonic() + BATCH_S

    def read(self, errands: Sequence[Errand]) -> Iterator[UsageBatch]:
        """Raises sqlite3.Error."""
        self._begin_batch()
        apart = self._by_two if self._processes > 1 and len(errands) > 1 else self._by_one
        while errands:
            for found in apart(errands):
                errand = errands[found.errand]
                if self._turns and self._urgent and not errand.urgent:
                    yield self._keep()
                self._urgent = errand.urgent
                self._note(errand, found)
                if self._records >= BATCH_RECORDS or time.monotonic() > self._until:
                    yield self._keep()
            errands, self._doubtful, apart = self._doubtful, [], self._by_one
        yield self._keep()

    def _by_one(self, errands: Sequence[Errand]) -> Iterator[FileFindings]:
        for number, errand in enumerate(errands):
            yield from self._reader.read(number, errand, self._ledger.place(errand.path))

    def _by_two(self, errands: Sequence[Errand]) -> Iterator[FileFindings]:
        """The first process and a second share the files as they get to them; the first adds all up."""
        places = self._ledger.places()
        second = SecondReader(self._reader, errands, places)
        with contextlib.closing(second):
            for number in second.numbers():
                yield from self._reader.read(
                    number, errands[number], _place(places, errands[number])
                )
                yield from second.taken()
            yield from second.taken(wait=True)

    def _note(self, errand: Errand, found: FileFindings) -> None:
        self._bytes_read += found.bytes_read
        self._faults.update(found.faults)
        if (turn := found.turn) is None:
            return
        self._turns.append(turn)
        self._records += len(turn.scanned.records)
        place = turn.scanned.place
        self._read[errand.path] = msgspec.structs.replace(errand, whose=turn.whose), place
        if found.care > self._care:
            self._doubt(found.care)
        elif found.care < self._care and place.care < self._care:
            self._doubt_one(errand.path, turn.whose.session_id, place)

    def _doubt(self, care: int) -> None:
        """One file has taught to read with more care: all that were read with less are read again.

        Noted as not read to their ends: whoever comes after a kill reads them with that care too. So
        are files that others have read. They wait for the next start: a history is no thread's affair.
        """
        self._care = self._reader.scanner.care = care
        known = self._ledger.places()
        known |= {
            path: (each.whose.session_id, place) for path, (each, place) in self._read.items()
        }
        for path, (session_id, place) in known.items():
            if place.care < care:
                self._doubt_one(path, session_id, place)

    def _doubt_one(self, path: bytes, session_id: str, place: ScanPlace) -> None:
        if read := self._read.pop(path, None):
            self._doubtful.append(msgspec.structs.replace(read[0], past=False, urgent=False))
        scanned = Scanned([], place.with_care(self._care), more=True, faults={})
        never = Stamp(0, 0, 0, 0)
        self._turns.append(FileTurn(path, TranscriptFile(session_id), never, scanned))

    def _keep(self) -> UsageBatch:
        turns, faults, bytes_read = self._turns, self._faults, self._bytes_read
        self._begin_batch()
        if turns:
            faults[FUTURE] += self._ledger.take(turns, self._now())
        done = {turn.path: turn.stamp for turn in turns if not turn.scanned.more}
        pasts = [PastOf(each.path, each.whose.session_id, each.past) for each in turns if each.past]
        return UsageBatch(list(done.items()), bytes_read, dict(+faults), pasts)


def _place(places: Mapping[bytes, tuple[str, ScanPlace]], errand: Errand) -> ScanPlace | None:
    known = places.get(errand.path)
    return known[1] if known else None


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(FileFindings).decode


class SecondReader:
    """A fork of this process that reads some of the files, and ends with it.

    Both take their next file from one list of numbers, a file whose offset they share. Raises
    OSError where there can be no second process.
    """

    def __init__(
        self,
        reader: FileReader,
        errands: Sequence[Errand],
        places: Mapping[bytes, tuple[str, ScanPlace]],
    ) -> None:
        self._queue = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - closed by `close`
        self._queue.write(b"".join(n.to_bytes(SIZE_BYTES, "little") for n in range(len(errands))))
        self._queue.seek(0)
        self._inbox, out = os.pipe()
        self._data = bytearray()
        self._pid = os.fork()
        if self._pid == 0:
            code = 1
            try:
                os.close(self._inbox)
                self._carry_out(reader, errands, places, out)
                code = 0
            finally:
                os._exit(code)  # nothing of the first process's is to be flushed or closed
        os.close(out)

    def numbers(self) -> Iterator[int]:
        while number := self._queue.read(SIZE_BYTES):
            yield int.from_bytes(number, "little")

    def taken(self, *, wait: bool = False) -> Iterator[FileFindings]:
        """What it has handed over. wait: until it is through. Raises OSError if it has failed."""
        os.set_blocking(self._inbox, wait)
        while True:
            end = SIZE_BYTES + int.from_bytes(self._data[:SIZE_BYTES], "little")
            if len(self._data) >= end > SIZE_BYTES:
                yield _decode(self._data[SIZE_BYTES:end])
                del self._data[:end]
                continue
            try:
                data = os.read(self._inbox, PIPE_BYTES)
            except BlockingIOError:
                return
            if not data:
                break
            self._data += data
        if wait and self._ended():
            raise OSError("a process that reads the history has failed")

    def close(self) -> None:
        self._queue.close()
        os.close(self._inbox)  # it ends when nobody listens any more
        self._ended()

    def _ended(self) -> int:
        """Its exit status, once."""
        pid, self._pid = self._pid, 0
        return os.waitpid(pid, 0)[1] if pid else 0

    def _carry_out(
        self,
        reader: FileReader,
        errands: Sequence[Errand],
        places: Mapping[bytes, tuple[str, ScanPlace]],
        out: int,
    ) -> None:
        """Waits for the first only where that is far behind, and at the end."""
        waiting = bytearray()
        for number in self.numbers():
            errand = errands[number]
            for found in reader.read(number, errand, _place(places, errand)):
                data = _encode(found)
                waiting += len(data).to_bytes(SIZE_BYTES, "little") + data
                os.set_blocking(out, len(waiting) > MOST_WAITING_BYTES)
                with contextlib.suppress(BlockingIOError):
                    del waiting[: os.write(out, waiting)]
        os.set_blocking(out, True)
        while waiting:
            del waiting[: os.write(out, waiting)]


def shipped_limit(model: str) -> int | None:
    """The prompt above which the model's prices are others, by the prices Adsum brings along."""
    return _book().limit(model)


@functools.cache
def _book() -> Book:
    from adsum_shared.prices import load_book

    return load_book(None)


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
