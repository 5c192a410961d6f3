"""Replays recorded scenarios of the real CLI through adapter, fold and verdict, and scores them.

    python -m bench.accuracy TRACES_DIR [--witness hooks,transcript,…] [--without Stop,…] [-v]
    python -m bench.accuracy TRACES_DIR --timeline OUT.jsonl
    python -m bench.accuracy TRACES_DIR --floor bench/score.json [--accept]

Time is simulated: signals are folded when they arrived, deadlines fire between them. Without
`--witness` it prints one line per set of witnesses, each with its ceiling; bench/score.py defines both.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from bench import floor
from bench.misses import explained
from bench.replay import WITNESSES, Arrival, arrivals, heard, timelines
from bench.score import Miss, Score, percentile, score
from bench.traces import NoTracesError, Trace, load_all


class Way(NamedTuple):
    """A set of witnesses. as_installed: only hooks that our installer subscribes to."""

    witnesses: tuple[str, ...]
    without: tuple[str, ...] = ()
    as_installed: bool = False


#: Labels rest on the registry, so only the ways without it are independent of them.
WAYS = {
    "all": Way(WITNESSES),
    "all, as installed": Way(WITNESSES, as_installed=True),
    "hooks + transcript": Way(("hooks", "transcript")),
    "hooks + transcript, as installed": Way(("hooks", "transcript"), as_installed=True),
    "hooks": Way(("hooks",)),
    "transcript": Way(("transcript",)),
}

AS_INSTALLED = ", as installed"

Told = list[tuple[Trace, list[Arrival]]]


def read(folder: Path) -> Told:
    """Every scenario and what its witnesses said. Raises NoTracesError."""
    return [(trace, arrivals(trace)) for trace in load_all(folder)]


def run(told: Told, way: Way) -> Score:
    total = Score()
    for trace, found in told:
        listened = heard(found, way.witnesses, way.without, as_installed=way.as_installed)
        score(trace, timelines(trace, listened), total, way.witnesses)
    return total


def figures(total: Score) -> dict[str, Any]:
    """The score as plain numbers, for --json and for the floor."""
    return {
        "settled": total.settled,
        "segments": total.segments,
        "settled_percent": round(100 * total.settled_share, 2),
        "settled_ceiling_percent": round(100 * total.settled_ceiling, 2),
        "ended": total.ended,
        "ended_segments": total.ended_segments,
        "time_weighted_percent": round(100 * total.weighted_share, 2),
        "time_weighted_ceiling_percent": round(100 * total.weighted_ceiling, 2),
        "false_needs_you_s": round(total.false_ms / 1000, 1),
        "missed_needs_you_s": round(total.missed_ms / 1000, 1),
        "flickers": total.flickers,
        "delay_p50_ms": percentile(total.delays, 0.5),
        "delay_p99_ms": percentile(total.delays, 0.99),
    }


HEADINGS = (
    *("witnesses", "settled", "at most", "ended", "time", "at most"),
    *("false s", "missed s", "flickers", "p50 ms", "p99 ms"),
)


def row(name: str, total: Score) -> tuple[str, ...]:
    found = figures(total)
    return (
        name,
        f"{total.settled}/{total.segments} {total.settled_share:.1%}",
        f"{total.reachable}/{total.segments} {total.settled_ceiling:.1%}",
        f"{total.ended}/{total.ended_segments}",
        f"{total.weighted_share:.1%}",
        f"{total.weighted_ceiling:.1%}",
        f"{found['false_needs_you_s']}",
        f"{found['missed_needs_you_s']}",
        f"{total.flickers}",
        f"{found['delay_p50_ms']}",
        f"{found['delay_p99_ms']}",
    )


def table(scores: dict[str, Score]) -> str:
    rows = [HEADINGS, *(row(name, total) for name, total in scores.items())]
    widths = [max(len(cells[column]) for cells in rows) for column in range(len(HEADINGS))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ).rstrip()
        for cells in rows
    )


def place(miss: Miss) -> tuple[str, str, int]:
    return miss.scenario, miss.session_id, miss.from_ms


def write_timeline(told: Told, way: Way, out: Path) -> int:
    """JSON lines, one per change, as the traces' README defines them."""
    count = 0
    with out.open("w", encoding="utf-8") as file:
        for trace, found in told:
            listened = heard(found, way.witnesses, way.without, as_installed=way.as_installed)
            for session, line in timelines(trace, listened).items():
                for change in line:
                    row = {
                        "scenario": trace.name,
                        "session_id": session,
                        "t_ms": change.t_ms,
                        "group": change.group,
                        "state": change.state,
                        "source": change.source,
                        "confidence": change.confidence,
                    }
                    file.write(json.dumps(row) + "\n")
                    count += 1
    return count


def ways(witness: str | None, without: Iterable[str]) -> dict[str, Way]:
    left_out = tuple(filter(None, without))
    if witness is None:
        return {name: way._replace(without=left_out) for name, way in WAYS.items()}
    names = tuple(filter(None, witness.split(",")))
    if not names or not set(names) <= set(WITNESSES):
        wrong = ", ".join(sorted(set(names) - set(WITNESSES))) or "none given"
        sys.exit(f"--witness: {wrong}; known are {', '.join(WITNESSES)}")
    return {" + ".join(names): Way(names, left_out)}


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("traces", type=Path, help="folder of scenarios, each with meta.json")
    parser.add_argument("--witness", help=f"one set only, of: {','.join(WITNESSES)}")
    parser.add_argument("--without", default="", help="hook events that are not subscribed to")
    parser.add_argument("--timeline", type=Path, help="write what was shown, one change a line")
    parser.add_argument("--floor", type=Path, help="fail if any figure is worse than in this file")
    parser.add_argument("--accept", action="store_true", help="write the figures to --floor")
    parser.add_argument("--json", action="store_true", help="the figures as JSON")
    parser.add_argument("-v", "--verbose", action="store_true", help="explain every miss")
    return parser.parse_args()


def main() -> None:
    given = options()
    chosen = ways(given.witness, given.without.split(","))
    try:
        told = read(given.traces)
    except NoTracesError as error:
        sys.exit(str(error))
    for trace, _ in told:
        for fault in trace.faults:
            print(f"left out: {fault}", file=sys.stderr)
    if given.timeline is not None:
        count = write_timeline(told, next(iter(chosen.values())), given.timeline)
        print(f"{count} changes of {len(told)} scenarios in {given.timeline}", file=sys.stderr)
    scores = {name: run(told, way) for name, way in chosen.items()}
    report(scores, chosen, told, given)
    if given.floor is not None:
        compare({name: figures(total) for name, total in scores.items()}, given)


def report(
    scores: dict[str, Score], chosen: dict[str, Way], told: Told, given: argparse.Namespace
) -> None:
    unlabelled = sum(not trace.labels for trace, _ in told)
    faults = sum(len(trace.faults) for trace, _ in told)
    if given.json:
        print(json.dumps({name: figures(total) for name, total in scores.items()}, indent=1))
    elif unlabelled == len(told):
        print(f"no labels in {given.traces}: nothing to score", file=sys.stderr)
    else:
        print(table(scores))
    if given.verbose:
        for name, total in scores.items():
            print(f"\n{name}: {len(total.misses) or 'no'} missed")
            hooked = scores.get(name.removesuffix(AS_INSTALLED))
            also = [place(miss) for miss in hooked.misses] if hooked is not None else []
            for miss in total.misses:
                left_out = chosen[name].as_installed and place(miss) not in also
                print(explained(miss, chosen[name].witnesses, by_left_out=left_out))
    if faults or unlabelled:
        print(f"{faults} faults left out, {unlabelled} scenarios without labels", file=sys.stderr)


def compare(found: dict[str, Any], given: argparse.Namespace) -> None:
    if given.accept:
        floor.accept(given.floor, found)
        print(f"accepted: {given.floor}", file=sys.stderr)
        return
    worse, better = floor.against(given.floor, found)
    for line in better:
        print(line, file=sys.stderr)
    if worse:
        again = f"python -m bench.accuracy {given.traces} --floor {given.floor} --accept"
        why = "The score has fallen. If that is meant, accept it and say why in the commit:"
        sys.exit("\n".join([*worse, f"{why}\n    {again}"]))


if __name__ == "__main__":
    main()
