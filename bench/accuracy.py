"""Replays traces of the real CLI through adapter, fold and resolve, and scores the result.

    python -m bench.accuracy TRACES_DIR [--witness hooks,registry,process] [--without Stop,…] [-v]

Time is simulated: signals are folded when they arrived, deadlines fire between them. The score's
definition stands in the traces' README; `settled` and `time-weighted` are its main figures.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

import msgspec

from bench.replay import WITNESSES, Change, Label, Trace, arrivals, load, state_at, timelines


class Score(msgspec.Struct):
    settled: int = 0
    segments: int = 0
    ended: int = 0
    ended_segments: int = 0
    right_ms: int = 0
    scored_ms: int = 0
    false_ms: int = 0
    missed_ms: int = 0
    flickers: int = 0
    delays: list[int] = []
    misses: list[str] = []

    @property
    def settled_share(self) -> float:
        return self.settled / self.segments if self.segments else 1.0

    @property
    def weighted_share(self) -> float:
        return self.right_ms / self.scored_ms if self.scored_ms else 1.0


def score(trace: Trace, lines: dict[str, list[Change]], total: Score) -> None:
    for session in {label.session_id for label in trace.labels}:
        labels = [label for label in trace.labels if label.session_id == session]
        line = lines.get(session, [])
        for label in labels:
            if label.group is not None:
                _settle(trace, label, labels, line, total)
                _delay(label, line, total)
        _weigh(labels, line, total)
        total.flickers += _flickers(labels, line)


def _settle(
    trace: Trace, label: Label, labels: list[Label], line: list[Change], total: Score
) -> None:
    if label.to_ms - label.from_ms < 250:
        return
    at = label.to_ms - 20
    right = label.right(state_at(line, at)) or _early(label, labels, line, at)
    if label.states == ["session_ended"]:
        total.ended_segments += 1
        total.ended += right
    else:
        total.segments += 1
        total.settled += right
    if not right:
        shown = state_at(line, at)
        got = f"{shown.state} ({shown.source})" if shown else "nothing"
        want = f"{label.group} {label.states or ''}".strip()
        total.misses.append(
            f"{trace.name} {label.from_ms}-{label.to_ms} {label.why}: want {want}, got {got};"
            f" known to {', '.join(label.known_to) or 'nobody'}"
        )


def _early(label: Label, labels: list[Label], line: list[Change], at: int) -> bool:
    """The registry is written up to 0.5 s late: a change towards what is right next is no miss."""
    shown = state_at(line, at)
    if shown is None or shown.t_ms < label.to_ms - 500:
        return False
    return any(
        later.group is None or later.right(shown)
        for later in labels
        if label.to_ms <= later.from_ms <= shown.t_ms + 500
    )


def _weigh(labels: list[Label], line: list[Change], total: Score) -> None:
    edges = sorted({edge for label in labels for edge in (label.from_ms, label.to_ms)})
    for label in labels:
        if label.group is None:
            continue
        cuts = sorted(
            {change.t_ms for change in line} | {e + d for e in edges for d in (-500, 500)}
        )
        points = [
            label.from_ms,
            *(cut for cut in cuts if label.from_ms < cut < label.to_ms),
            label.to_ms,
        ]
        for start, stop in pairwise(points):
            middle = (start + stop) / 2
            if any(abs(middle - edge) < 500 for edge in edges):
                continue
            shown = state_at(line, middle)
            total.scored_ms += stop - start
            total.right_ms += (stop - start) * label.right(shown)
            needs = shown is not None and shown.group == "needs_you"
            total.false_ms += (stop - start) * (needs and label.group != "needs_you")
            total.missed_ms += (stop - start) * (not needs and label.group == "needs_you")


def _delay(label: Label, line: list[Change], total: Score) -> None:
    if label.right(state_at(line, label.from_ms)):
        total.delays.append(0)
        return
    for change in line:
        if label.from_ms < change.t_ms < label.to_ms and label.right(change):
            total.delays.append(change.t_ms - label.from_ms)
            return


def _flickers(labels: list[Label], line: list[Change]) -> int:
    """Changes of group undone within a second that no label shows."""
    count = 0
    for one, two, three in zip(line, line[1:], line[2:], strict=False):
        undone = one.group == three.group != two.group and three.t_ms - two.t_ms < 1_000
        shown = any(
            label.group in (two.group, None)
            and label.from_ms - 500 <= three.t_ms
            and label.to_ms + 500 >= two.t_ms
            for label in labels
        )
        count += undone and not shown
    return count


def run(folder: Path, witnesses: Iterable[str], without: Iterable[str] = ()) -> Score:
    total = Score()
    for meta in sorted(folder.glob("*/meta.json")):
        trace = load(meta.parent)
        score(trace, timelines(trace, arrivals(trace, witnesses, without)), total)
    return total


def percentile(values: list[int], share: float) -> int:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))] if values else 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else None)
    parser.add_argument("traces", type=Path, help="folder of traces, each with meta.json")
    parser.add_argument("--witness", default="hooks,registry,process")
    parser.add_argument("--without", default="", help="hook events that are not subscribed to")
    parser.add_argument("--timeline", help="print this trace's timeline as JSON lines and stop")
    parser.add_argument("-v", "--verbose", action="store_true", help="explain every miss")
    options = parser.parse_args()
    witnesses = set(options.witness.split(","))
    if not witnesses <= WITNESSES:
        sys.exit(
            f"unknown witness: {', '.join(sorted(witnesses - WITNESSES))}; known: "
            f"{', '.join(sorted(WITNESSES))}"
        )
    without = set(filter(None, options.without.split(",")))
    if options.timeline:
        trace = load(options.traces / options.timeline)
        for session, line in timelines(trace, arrivals(trace, witnesses, without)).items():
            for change in line:
                row = {
                    "scenario": trace.name,
                    "session_id": session,
                    **msgspec.structs.asdict(change),
                }
                print(json.dumps(row))
        return
    total = run(options.traces, witnesses, without)
    if not total.segments:
        sys.exit(
            f"no scored traces in {options.traces}: each needs meta.json, events.jsonl, "
            "labels.jsonl"
        )
    print(
        f"{'+'.join(sorted(witnesses))}{' without ' + ','.join(sorted(without)) if without else ''}:"
        f" settled {total.settled}/{total.segments} = {total.settled_share:.1%},"
        f" ended {total.ended}/{total.ended_segments},"
        f" time-weighted {total.weighted_share:.1%},"
        f" false needs_you {total.false_ms / 1000:.1f} s, missed {total.missed_ms / 1000:.1f} s,"
        f" flickers {total.flickers},"
        f" delay p50 {percentile(total.delays, 0.5)} ms p99 {percentile(total.delays, 0.99)} ms"
    )
    if options.verbose:
        print("\n".join(total.misses))


if __name__ == "__main__":
    main()
