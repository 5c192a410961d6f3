"""What each process of a scan does: see `bench.scan_run`."""

from __future__ import annotations

import gc
import os
import resource
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import UTC
from pathlib import Path

import msgspec

from adsum_collector.agents.claude_code.usage_lines import used_by
from adsum_collector.agents.records import TranscriptFile, UsageRecord
from adsum_collector.transcripts.cursors import Stamp
from adsum_collector.usage.ledger import BATCH_RECORDS, FileTurn, Ledger
from adsum_collector.usage.scan import Scanned, Scanner, ScanPlace

CLASSES = ("messages", "input", "output", "cache_read", "cache_5m", "cache_1h", "web_searches")
#: The made-up history lies in the past of anybody who reads it then, ms.
LATEST = 2_000_000_000_000
NUMBER_BYTES = 4
SIZE_BYTES = 4


class Found(msgspec.Struct, array_like=True, gc=False):
    session_id: str
    begun: int
    records: list[UsageRecord]
    faults: dict[str, int]


gc.disable()  # as the worker does
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Found).decode


def paths_below(root: str) -> list[str]:
    """The largest first, so that no process is left alone with one at the end."""
    sizes: dict[str, int] = {}
    for directory, _, names in os.walk(root):
        for name in names:
            if name.endswith(".jsonl"):
                path = f"{directory}/{name}"
                sizes[path] = os.stat(path).st_size  # noqa: PTH116 - a Path costs more than this
    return sorted(sizes, key=lambda path: (-sizes[path], path))


def scanned(root: str, paths: list[str], queue: int) -> Iterator[Found]:
    """What the files of this process hold, a turn at a time."""
    scanner, cares = Scanner(), dict[str, int]()

    def turns(path: str) -> Iterator[Found]:
        session_id = path[len(root) + 1 :].split("/")[1].removesuffix(".jsonl")
        place, more = None, True
        while more:
            turn = scanner.scan(path, place)
            place, more = turn.place, turn.more
            cares[path] = place.care
            yield Found(session_id, place.begun or 0, turn.records, turn.faults)

    while number := os.read(queue, NUMBER_BYTES):
        yield from turns(paths[int.from_bytes(number, "little")])
    while again := [path for path, care in cares.items() if care < scanner.care]:
        for path in again:
            yield from turns(path)


def second(root: str, queue: int) -> None:
    """Never waits for the first but at the end."""
    out, waiting = sys.stdout.fileno(), bytearray()
    os.set_blocking(out, False)
    for found in scanned(root, paths_below(root), queue):
        waiting += _framed(found)
        try:
            del waiting[: os.write(out, waiting)]
        except BlockingIOError:
            continue
    waiting += _framed(Found("", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, [], {}))
    os.set_blocking(out, True)
    while waiting:
        del waiting[: os.write(out, waiting)]


def _framed(found: Found) -> bytes:
    data = _encode(found)
    return len(data).to_bytes(SIZE_BYTES, "little") + data


class Inbox:
    """What the second process hands over, as far as it has come."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._data = bytearray()

    def taken(self, *, wait: bool = False) -> Iterator[Found]:
        os.set_blocking(self._descriptor, wait)
        while True:
            end = SIZE_BYTES + int.from_bytes(self._data[:SIZE_BYTES], "little")
            if len(self._data) >= end > SIZE_BYTES:
                yield _decode(self._data[SIZE_BYTES:end])
                del self._data[:end]
                continue
            try:
                data = os.read(self._descriptor, 1 << 20)
            except BlockingIOError:
                return
            if not data:
                return
            self._data += data


def first(root: str, queue: int, fill: int, pipe: int | None) -> None:
    paths = paths_below(root)
    for number in range(len(paths)):
        os.write(fill, number.to_bytes(NUMBER_BYTES, "little"))
    os.close(fill)
    inbox = Inbox(pipe) if pipe is not None else None
    added, faults = _Added(), Counter[str]()

    def add(found: Found) -> int:
        """The memory of the second process, which it tells last."""
        if not found.session_id:
            return found.begun
        added.add(found)
        faults.update(found.faults)
        return 0

    told = 0
    for found in scanned(root, paths, queue):
        add(found)
        for each in inbox.taken() if inbox else ():
            told += add(each)
    for each in inbox.taken(wait=True) if inbox else ():
        told += add(each)
    if inbox and not (told and os.wait()[1] == 0):
        raise SystemExit("the second process failed")
    _report(added.ledger(), faults, told)


class _Added:
    """A ledger in memory, filled in batches."""

    def __init__(self) -> None:
        self._ledger = Ledger.in_memory(lambda _model: None, UTC)
        self._turns: list[FileTurn] = []
        self._records = 0

    def add(self, found: Found) -> None:
        # nobody asks this ledger which file it was
        whose, stamp = TranscriptFile(found.session_id), Stamp(0, 0, 0, 0)
        place = ScanPlace(begun=found.begun or None)
        self._turns.append(
            FileTurn(b"", whose, stamp, Scanned(found.records, place, more=False, faults={}))
        )
        self._records += len(found.records)
        if self._records >= BATCH_RECORDS:
            self.ledger()

    def ledger(self) -> Ledger:
        self._ledger.take(self._turns, LATEST)
        self._turns, self._records = [], 0
        return self._ledger


def as_installed(root: str, directory: str, *, pasts: bool) -> None:
    """What the worker does, with the prices' limits and the ledger on the disk."""
    # The others do without.
    from adsum_collector.agents import known_agents
    from adsum_collector.usage.reading import Errand, UsageReading, shipped_limit

    state = Path(directory) / str(os.getpid())
    state.mkdir(parents=True)
    ledger = Ledger.open(state, shipped_limit, UTC)
    file_of = known_agents()[0].transcripts
    errands = []
    for path in paths_below(root):
        whose = file_of.file_of(path[len(root) + 1 :]) or used_by(path)
        if whose is not None:
            errands.append(Errand(os.fsencode(path), whose, past=pasts and whose.agent_id is None))
    faults = Counter[str]()
    for batch in UsageReading(ledger, file_of.history, lambda: LATEST).read(errands):
        faults.update(batch.faults)
    _report(ledger, faults, 0)
    ledger.close()


def _report(ledger: Ledger, faults: Counter[str], told: int) -> None:
    sums = dict.fromkeys(CLASSES, 0)
    for total in ledger:
        for name in CLASSES:
            sums[name] += getattr(total, name)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss + told
    report = {"sums": sums, "faults": faults, "rss_kb": memory}
    sys.stdout.buffer.write(msgspec.json.encode(report))
