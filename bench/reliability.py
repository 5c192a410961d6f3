"""The table of docs/reliability.md, from what runs of chaos have left: `make chaos` says where.

    python -m bench.reliability RESULTS.jsonl [...]

A row for each fault: in how many runs it happened, what those runs accepted, lost and doubled, and
how long after its end news of every host was on every hub's WebSocket again, where no other fault
hid that.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

HEADINGS = (
    *("fault", "runs", "signals", "faults", "lost", "doubled"),
    *("recovery p50", "max", "command"),
)
#: What the oracle calls a loss, and a doubling.
LOST = ("lost", "silent loss", "torn")
DOUBLED = ("doubled", "refused", "extra")
LINES = "transcript torn, cut, moved, begun anew"
MIXED = "**all of these, several at once**"


class Result(msgspec.Struct):
    """A line of results; what a table does not show is left out."""

    seed: int
    events: dict[str, int]
    faults: dict[str, int]
    line_faults: dict[str, int]
    kinds: dict[str, int]
    recovery_s: dict[str, list[float]]
    live_s: float
    only: list[str] = []


class Row:
    def __init__(self) -> None:
        self.runs = self.signals = self.faults = self.lost = self.doubled = 0
        self.recovery: list[float] = []

    def add(self, result: Result, faults: int, recovery: Iterable[float]) -> None:
        self.runs += 1
        self.signals += result.events.get("ok", 0)
        self.faults += faults
        self.lost += sum(result.kinds.get(kind, 0) for kind in LOST)
        self.doubled += sum(result.kinds.get(kind, 0) for kind in DOUBLED)
        self.recovery += recovery

    def cells(self, name: str, command: str) -> tuple[str, ...]:
        p50, most = quantile(self.recovery, 0.5), quantile(self.recovery, 1.0)
        counts = (self.runs, self.signals, self.faults, self.lost, self.doubled)
        return (name, *(f"{count:,}" for count in counts), p50, most, f"`{command}`")


def quantile(values: Sequence[float], share: float) -> str:
    if not values:
        return "-"
    return f"{sorted(values)[max(0, math.ceil(share * len(values)) - 1)]:.2f} s"


def read(files: Iterable[Path]) -> Iterator[Result]:
    decode = msgspec.json.Decoder(Result).decode
    for file in files:
        for line in file.read_bytes().splitlines():
            yield decode(line)


def table(results: Sequence[Result]) -> str:
    """Recovery of all together: of a run's last fault."""
    rows: defaultdict[str, Row] = defaultdict(Row)
    mixed = Row()
    for result in results:
        for kind, count in result.faults.items():
            rows[kind].add(result, count, result.recovery_s.get(kind, ()))
        lines = sum(result.line_faults.values())
        rows[LINES].add(result, lines, ())
        if not result.only:
            mixed.add(result, sum(result.faults.values()) + lines, (result.live_s,))
    sweep = f"make chaos SEEDS={mixed.runs}"
    told = [
        row.cells(name, sweep if name == LINES else f"python -m tests.chaos --only '{name}'")
        for name, row in sorted(rows.items())
    ]
    told.append(mixed.cells(MIXED, sweep))
    ruler = ("---", *["--:"] * (len(HEADINGS) - 2), "---")
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (HEADINGS, ruler, *told))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="+", type=Path)
    results = list(read(parser.parse_args().files))
    print(table(results))
    failed = sorted({result.seed for result in results if result.kinds})
    if failed:
        sys.exit(f"seeds that failed: {failed}")


if __name__ == "__main__":
    main()
