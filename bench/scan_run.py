"""Adsum's scan of a directory of transcripts, alone or with a second process, as JSON of its sums.

    python -m bench.scan_run DIRECTORY [--processes 2]

Both take files from one queue, a pipe of their numbers. The second hands its records over as it
goes; the first, which adds everything up, takes them in between two files of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import UTC

import msgspec

from adsum_collector.agents.usage import Record
from adsum_collector.usage_scan import Scanner
from adsum_collector.usage_totals import Source, Totals

CLASSES = ("messages", "input", "output", "cache_read", "cache_5m", "cache_1h", "web_searches")
NUMBER_BYTES = 4
SIZE_BYTES = 4


class Found(msgspec.Struct, array_like=True, gc=False):
    session_id: str
    begun: int
    records: list[Record]
    faults: dict[str, int]


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


def session_of(path: str, root: str) -> str:
    return path[len(root) + 1 :].split("/")[1].removesuffix(".jsonl")


def scanned(root: str, queue: int) -> Iterator[Found]:
    """What the files of this process hold, a turn at a time."""
    paths, scanner = paths_below(root), Scanner()
    while number := os.read(queue, NUMBER_BYTES):
        path = paths[int.from_bytes(number, "little")]
        place, more = None, True
        while more:
            turn = scanner.scan(path, place)
            place, more = turn.place, turn.more
            yield Found(session_of(path, root), place.begun or 0, turn.records, turn.faults)


def second(root: str, queue: int) -> None:
    """Never waits for the first but at the end."""
    out, waiting = sys.stdout.fileno(), bytearray()
    os.set_blocking(out, False)
    for found in scanned(root, queue):
        data = _encode(found)
        waiting += len(data).to_bytes(SIZE_BYTES, "little") + data
        try:
            del waiting[: os.write(out, waiting)]
        except BlockingIOError:
            continue
    os.set_blocking(out, True)
    waiting += bytes(SIZE_BYTES)
    while waiting:
        del waiting[: os.write(out, waiting)]


class Inbox:
    """What the second process hands over, as far as it has come."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._data = bytearray()
        os.set_blocking(descriptor, False)

    def taken(self, *, wait: bool = False) -> Iterator[Found]:
        os.set_blocking(self._descriptor, wait)
        while True:
            size = int.from_bytes(self._data[:SIZE_BYTES], "little")
            end = SIZE_BYTES + size
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


def first(root: str, processes: int) -> None:
    totals, faults = Totals(UTC, lambda _model: None), Counter[str]()

    def add(found: Found) -> None:
        totals.add(Source(found.begun, found.session_id), found.records)
        faults.update(found.faults)

    queue, fill = os.pipe()
    child = None
    if processes > 1:
        import subprocess

        command = [sys.executable, "-m", "bench.scan_run", root, "--queue", str(queue)]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, pass_fds=[queue])
    for number in range(len(paths_below(root))):
        os.write(fill, number.to_bytes(NUMBER_BYTES, "little"))
    os.close(fill)
    inbox = Inbox(child.stdout.fileno()) if child and child.stdout else None
    for found in scanned(root, queue):
        add(found)
        for each in inbox.taken() if inbox else ():
            add(each)
    for each in inbox.taken(wait=True) if inbox else ():
        add(each)
    if child and child.wait():
        raise SystemExit("the second process failed")
    sums = {name: sum(getattr(total, name) for total in totals) for name in CLASSES}
    memory = [resource.getrusage(who).ru_maxrss for who in (0, resource.RUSAGE_CHILDREN)]
    sys.stdout.write(json.dumps({"sums": sums, "faults": faults, "rss_kb": sum(memory)}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory")
    parser.add_argument("--processes", type=int, choices=(1, 2), default=1)
    parser.add_argument(
        "--queue", type=int, help="of the second process: where it takes files from"
    )
    options = parser.parse_args()
    root = options.directory
    if options.queue is not None:
        second(root, options.queue)
    else:
        first(root, options.processes)


if __name__ == "__main__":
    main()
