"""Replays recorded scenarios of the real CLI through adapter, fold and verdict, and scores them.

    python -m bench.accuracy TRACES_DIR… [--witness hooks,transcript,…] [--without Stop,…] [-v]
    python -m bench.accuracy TRACES_DIR --timeline OUT.jsonl
    python -m bench.accuracy TRACES_DIR --floor bench/score.json [--accept]
    python -m bench.accuracy DIR --recordings [--minutes 10] [--hub URL]

Time is simulated: signals are folded when they arrived, deadlines fire between them. Without
`--witness` it prints one line per set of witnesses, each with its ceiling; bench/score.py defines both.
Of several directories it prints one table, which says whose word the labels of each are, and then
the seconds of false and missed needs_you by cause. Other agents than Claude Code are not scored.
With `--recordings` it first records into the directory what tmux and the hub tell of the sessions
that run here, labelled by the screen.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from adsum.outcome import CommandError
from bench import floor
from bench.misses import explained
from bench.recordings import record
from bench.replay import REPLAYED, WITNESSES, Arrival, arrivals, heard, timelines
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
    "registry": Way(("registry",)),
}

AS_INSTALLED = ", as installed"

Told = list[tuple[Trace, list[Arrival]]]


class Labelled(NamedTuple):
    """One directory. left_out: how many scenarios of agents that bench.replay has no adapter for."""

    name: str
    told: Told
    left_out: Counter[str]

    @property
    def sources(self) -> str:
        """Whose word the labels are."""
        labels = (label for trace, _ in self.told for label in trace.labels)
        return " + ".join(sorted({label.source for label in labels})) or "none"

    @property
    def not_scored(self) -> list[str]:
        return [
            f"not scored: {count} of {agent}, for which bench.replay has no adapter"
            for agent, count in sorted(self.left_out.items())
        ]


def read(folder: Path) -> Told:
    """Every scenario and what its witnesses said. Raises NoTracesError."""
    return read_labelled(folder).told


def read_labelled(folder: Path) -> Labelled:
    """Raises NoTracesError."""
    traces = load_all(folder)
    ours = [trace for trace in traces if trace.agent in REPLAYED]
    others = Counter(trace.agent for trace in traces if trace.agent not in REPLAYED)
    name = folder.resolve().name
    return Labelled(name, [(trace, arrivals(trace)) for trace in ours], others)


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
        "unlabelled_sessions": len(total.unlabelled),
        "delay_p50_ms": percentile(total.delays, 0.5),
        "delay_p99_ms": percentile(total.delays, 0.99),
    }


def doubt(total: Score) -> dict[str, Any]:
    """What --json says beyond the figures that the floor holds."""
    settled, weighted = total.settled_interval, total.weighted_interval
    return {
        "settled_interval_percent": [round(100 * each, 2) for each in settled],
        "time_weighted_interval_percent": [round(100 * each, 2) for each in weighted],
        "false_needs_you_s_by_cause": in_seconds(total.false_by),
        "missed_needs_you_s_by_cause": in_seconds(total.missed_by),
    }


def in_seconds(by_cause: dict[str, int]) -> dict[str, float]:
    """The greatest first."""
    found = sorted(by_cause.items(), key=lambda each: -each[1])
    return {cause: round(took / 1000, 1) for cause, took in found}


HEADINGS = (
    *("witnesses", "settled", "95 %", "at most", "ended", "time", "95 %", "at most"),
    *("false s", "missed s", "flickers", "unlabelled", "p50 ms", "p99 ms"),
)
OF_A_SET = ("set", "labels")


def row(name: str, total: Score) -> tuple[str, ...]:
    found = figures(total)
    return (
        name,
        f"{total.settled}/{total.segments} {total.settled_share:.1%}",
        between(total.settled_interval),
        f"{total.reachable}/{total.segments} {total.settled_ceiling:.1%}",
        f"{total.ended}/{total.ended_segments}",
        f"{total.weighted_share:.1%}",
        between(total.weighted_interval),
        f"{total.weighted_ceiling:.1%}",
        f"{found['false_needs_you_s']}",
        f"{found['missed_needs_you_s']}",
        f"{total.flickers}",
        f"{len(total.unlabelled)}",
        f"{found['delay_p50_ms']}",
        f"{found['delay_p99_ms']}",
    )


def between(interval: tuple[float, float]) -> str:
    low, high = interval
    return f"{100 * low:.1f}-{100 * high:.1f}"


def aligned(rows: Sequence[Sequence[str]], words: Collection[int] = (0,)) -> str:
    """As a table. words: the columns that begin at the left."""
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column in words else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ).rstrip()
        for cells in rows
    )


def table(scores: dict[str, Score]) -> str:
    return aligned([HEADINGS, *(row(name, total) for name, total in scores.items())])


def table_of_sets(sets: Sequence[tuple[Labelled, dict[str, Score]]]) -> str:
    rows = [(*OF_A_SET, *HEADINGS)]
    for each, scores in sets:
        rows += [(each.name, each.sources, *row(name, total)) for name, total in scores.items()]
    return aligned(rows, words=range(len(OF_A_SET) + 1))


def by_cause(sets: Sequence[tuple[str, dict[str, Score]]]) -> str:
    """Seconds of false and missed needs_you: a line a cause, a column a set of witnesses."""
    ways = list(sets[0][1])
    rows = [("set", "needs_you", *ways, "cause")]
    for name, scores in sets:
        for kind in ("false", "missed"):
            found = [
                total.false_by if kind == "false" else total.missed_by for total in scores.values()
            ]
            causes = {
                cause: max(each.get(cause, 0) for each in found) for each in found for cause in each
            }
            for cause in sorted(causes, key=lambda cause: -causes[cause]):
                took = (each.get(cause, 0) / 1000 for each in found)
                rows.append((name, kind, *(f"{each:.1f}" if each else "." for each in took), cause))
    return (
        aligned(rows, words=(0, 1, len(ways) + 2))
        if len(rows) > 1
        else "needs_you: never false, never missed"
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
    parser.add_argument(
        "traces", type=Path, nargs="+", help="folders of scenarios, each with meta.json"
    )
    parser.add_argument("--recordings", action="store_true", help="record your own sessions first")
    parser.add_argument("--minutes", type=float, default=10, help="how long, unless Ctrl-C ends it")
    parser.add_argument("--hub", help="the hub that hears them, if it is not this machine's")
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
    if given.floor is not None and len(given.traces) > 1:
        sys.exit("--floor compares one folder of scenarios: give one")
    try:
        if given.recordings:
            record(given.traces[0], given.minutes, given.hub)
        sets = [read_labelled(folder) for folder in given.traces]
    except (NoTracesError, CommandError) as error:
        sys.exit(str(error))
    told = [each for one in sets for each in one.told]
    for trace, _ in told:
        for fault in trace.faults:
            print(f"left out: {fault}", file=sys.stderr)
    if given.timeline is not None:
        count = write_timeline(told, next(iter(chosen.values())), given.timeline)
        print(f"{count} changes of {len(told)} scenarios in {given.timeline}", file=sys.stderr)
    scored = [(one, {name: run(one.told, way) for name, way in chosen.items()}) for one in sets]
    report(scored, chosen, given)
    if given.floor is not None:
        compare({name: figures(total) for name, total in scored[0][1].items()}, given)


def report(
    sets: Sequence[tuple[Labelled, dict[str, Score]]],
    chosen: dict[str, Way],
    given: argparse.Namespace,
) -> None:
    told = [each for one, _ in sets for each in one.told]
    labelled = [(one, scores) for one, scores in sets if any(trace.labels for trace, _ in one.told)]
    if given.json:
        whole = [as_json(one, scores, alone=len(sets) == 1) for one, scores in sets]
        found = (
            whole[0] if len(whole) == 1 else dict(zip(map(str, given.traces), whole, strict=True))
        )
        print(json.dumps(found, indent=1))
    elif not labelled:
        where = ", ".join(map(str, given.traces))
        print(f"no labels in {where}: nothing to score", file=sys.stderr)
    elif len(sets) == 1:
        print(table(labelled[0][1]))
    else:
        print(table_of_sets(labelled))
    if labelled and not given.json and (len(sets) > 1 or given.verbose):
        print("\n" + by_cause([(one.name, scores) for one, scores in labelled]))
    for one, scores in sets:
        for line in one.not_scored:
            print(f"{one.name}: {line}", file=sys.stderr if given.json else sys.stdout)
        if given.verbose:
            explain(scores, chosen)
    unlabelled = sum(not trace.labels for trace, _ in told)
    faults = sum(len(trace.faults) for trace, _ in told)
    if faults or unlabelled:
        print(f"{faults} faults left out, {unlabelled} scenarios without labels", file=sys.stderr)


def as_json(one: Labelled, scores: dict[str, Score], *, alone: bool) -> dict[str, Any]:
    """alone: as it was always told of one folder, by set of witnesses."""
    found = {name: figures(total) | doubt(total) for name, total in scores.items()}
    if alone:
        return found
    return {"labels": one.sources, "not_scored": one.not_scored, "witnesses": found}


def explain(scores: dict[str, Score], chosen: dict[str, Way]) -> None:
    for name, total in scores.items():
        print(f"\n{name}: {len(total.misses) or 'no'} missed")
        for session in total.unlabelled:
            print(f"  {session}: listed, though no label names it")
        hooked = scores.get(name.removesuffix(AS_INSTALLED))
        also = [place(miss) for miss in hooked.misses] if hooked is not None else []
        for miss in total.misses:
            left_out = chosen[name].as_installed and place(miss) not in also
            print(explained(miss, chosen[name].witnesses, by_left_out=left_out))


def compare(found: dict[str, Any], given: argparse.Namespace) -> None:
    if given.accept:
        floor.accept(given.floor, found)
        print(f"accepted: {given.floor}", file=sys.stderr)
        return
    worse, better = floor.against(given.floor, found)
    for line in better:
        print(line, file=sys.stderr)
    if worse:
        again = f"python -m bench.accuracy {given.traces[0]} --floor {given.floor} --accept"
        why = "The score has fallen. If that is meant, accept it and say why in the commit:"
        sys.exit("\n".join([*worse, f"{why}\n    {again}"]))


if __name__ == "__main__":
    main()
