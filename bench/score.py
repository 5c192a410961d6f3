"""The score of timelines against labels: what settled right, for how long, how soon, how steadily.

*Settled*: of every labelled span of at least 250 ms, whether the state 20 ms before its end is right;
a change at most 500 ms early, towards what is right next, is no miss. Ended sessions count apart.
*Time-weighted*: the share of labelled time that is right, without 500 ms around each boundary.

*Ceiling*: the most a set of witnesses can reach, by the labels' `known_to`. A witness that tells
nothing near a span's beginning cannot know of it: it still shows what it showed before. So a span
counts as within reach if one of the witnesses heard is in its `known_to`, or if what was right at the
last span within reach would be right here too. (After an unscored span that somebody knew of, anything
may be shown.) The ceiling of *settled* is the number of spans within reach, that of *time-weighted*
the share of scored time inside them; what came out right nevertheless, because somebody told of it
later in the span, counts as within reach. `known_to` names hooks and transcript only; registry,
process table and status line count as knowing everything, so with any of them the ceiling is 100 %.
It is an upper bound: that a witness said something does not mean that it said enough.

*Interval*: Wilson's for 95 %, over spans. A bootstrap would call a perfect score certain, which no
number of spans makes it. A share of time stands on as many spans as Kish's effective sample size says:
few, where one span lasts as long as all others. Spans of one trace resemble each other, so the true
doubt is somewhat greater.

*Unlabelled*: sessions that were listed and that no label names, in scenarios with labels.

*By cause*: seconds of false and missed needs_you by what was shown and what the label says stood there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from math import sqrt

import msgspec

from bench.replay import Change, state_at
from bench.traces import Label, Trace

SHORTEST = 250
BEFORE_END = 20
EARLY = 500
EDGE = 500
FLICKER = 1_000

#: What a witness is called in `known_to`.
KNOWN_AS = {"hooks": "hook", "transcript": "line"}


class Miss(msgspec.Struct):
    """A span that did not settle. reach: whether anyone heard could have known."""

    scenario: str
    session_id: str
    from_ms: int
    to_ms: int
    why: str
    want: str
    got: str
    known_to: list[str]
    reach: bool


class Score(msgspec.Struct):
    settled: int = 0
    segments: int = 0
    reachable: int = 0
    ended: int = 0
    ended_segments: int = 0
    right_ms: int = 0
    scored_ms: int = 0
    squared_ms: int = 0
    reachable_ms: int = 0
    false_ms: int = 0
    missed_ms: int = 0
    flickers: int = 0
    delays: list[int] = []
    misses: list[Miss] = []
    false_by: dict[str, int] = {}
    missed_by: dict[str, int] = {}
    #: Sessions that were listed and that no label names, in scenarios with labels.
    unlabelled: list[str] = []

    @property
    def settled_share(self) -> float:
        return share(self.settled, self.segments)

    @property
    def settled_ceiling(self) -> float:
        return share(self.reachable, self.segments)

    @property
    def weighted_share(self) -> float:
        return share(self.right_ms, self.scored_ms)

    @property
    def settled_interval(self) -> tuple[float, float]:
        return interval(self.settled_share, self.segments)

    @property
    def weighted_interval(self) -> tuple[float, float]:
        effective = self.scored_ms**2 / self.squared_ms if self.squared_ms else 0
        return interval(self.weighted_share, effective)

    @property
    def weighted_ceiling(self) -> float:
        return share(self.reachable_ms, self.scored_ms)


def share(part: int, whole: int) -> float:
    return part / whole if whole else 1.0


def interval(part: float, count: float) -> tuple[float, float]:
    """Wilson's 95 % interval of a share among so many spans; see above."""
    if not count:
        return 0.0, 1.0
    z = 1.96
    middle = part + z * z / (2 * count)
    reach = z * sqrt(part * (1 - part) / count + z * z / (4 * count * count))
    scale = 1 + z * z / count
    return max(0.0, (middle - reach) / scale), min(1.0, (middle + reach) / scale)


def percentile(values: list[int], part: float) -> int:
    return sorted(values)[min(len(values) - 1, int(len(values) * part))] if values else 0


def score(
    trace: Trace, lines: dict[str, list[Change]], total: Score, witnesses: Iterable[str]
) -> None:
    names = set(witnesses)
    heard = None if names - KNOWN_AS.keys() else {KNOWN_AS[name] for name in names}
    for session in sorted({label.session_id for label in trace.labels}):
        labels = [label for label in trace.labels if label.session_id == session]
        line = lines.get(session, [])
        reach = within_reach(labels, heard)
        for label, known in zip(labels, reach, strict=True):
            if label.group is not None:
                _settle(trace.name, label, labels, line, total, known=known)
                _delay(label, line, total)
        _weigh(labels, reach, line, total)
        total.flickers += _flickers(labels, line)
    if trace.labels:
        others = lines.keys() - {label.session_id for label in trace.labels}
        total.unlabelled += [
            f"{trace.name} {each[:8]}" for each in sorted(others) if _listed(lines[each])
        ]


def _listed(line: list[Change]) -> bool:
    return any(change.group is not None for change in line)


def right(label: Label, change: Change | None) -> bool:
    if change is None or change.group != label.group:
        return False
    return label.states is None or change.state in label.states


def within_reach(labels: list[Label], heard: set[str] | None) -> list[bool]:
    """Per span: whether its state can be shown at all; see the ceiling above."""
    found: list[bool] = []
    believed: Label | None = None
    for label in labels:
        known = heard is None or not heard.isdisjoint(label.known_to)
        found.append(known or (believed is not None and _also(believed, label)))
        if known:
            believed = label
    return found


def _also(believed: Label, label: Label) -> bool:
    """Something that is right for the one is right for the other."""
    if believed.group is None:
        return True
    if believed.group != label.group:
        return False
    if believed.states is None or label.states is None:
        return True
    return not set(believed.states).isdisjoint(label.states)


def _settle(
    name: str, label: Label, labels: list[Label], line: list[Change], total: Score, *, known: bool
) -> None:
    if label.to_ms - label.from_ms < SHORTEST:
        return
    shown = state_at(line, label.to_ms - BEFORE_END)
    settled = right(label, shown) or _early(label, labels, line, shown)
    if label.states == ["session_ended"]:
        total.ended_segments += 1
        total.ended += settled
    else:
        total.segments += 1
        total.settled += settled
        total.reachable += known or settled
    if not settled:
        total.misses.append(
            Miss(
                scenario=name,
                session_id=label.session_id,
                from_ms=label.from_ms,
                to_ms=label.to_ms,
                why=label.why,
                want=" or ".join(label.states or []) or f"any {label.group}",
                got=f"{shown.state} by {shown.source}" if shown else "nothing",
                known_to=label.known_to,
                reach=known,
            )
        )


def _early(label: Label, labels: list[Label], line: list[Change], shown: Change | None) -> bool:
    """The registry is written up to 0.5 s late: a change towards what is right next is no miss.

    Only if the span was shown right before: who was wrong all along is not early.
    """
    if shown is None or shown.t_ms < label.to_ms - EARLY:
        return False
    before = [change for change in line if label.from_ms < change.t_ms < shown.t_ms]
    if not any(right(label, each) for each in [state_at(line, label.from_ms), *before]):
        return False
    return any(
        later.group is None or right(later, shown)
        for later in labels
        if label.to_ms <= later.from_ms <= shown.t_ms + EARLY
    )


def _weigh(labels: list[Label], reach: list[bool], line: list[Change], total: Score) -> None:
    for label, known in zip(labels, reach, strict=True):
        if label.group is None:
            continue
        before = total.scored_ms
        for start, stop in _inner(label, labels, line):
            shown = state_at(line, (start + stop) / 2)
            took = stop - start
            total.scored_ms += took
            total.reachable_ms += took * (known or right(label, shown))
            total.right_ms += took * right(label, shown)
            needs = shown is not None and shown.group == "needs_you"
            state, why = shown.state if shown else "nothing", label.why or label.group
            if needs and label.group != "needs_you":
                total.false_ms += took
                _add(total.false_by, f"{state}, while {why}", took)
            elif not needs and label.group == "needs_you":
                total.missed_ms += took
                wanted = " or ".join(label.states or []) or "needs_you"
                _add(total.missed_by, f"{wanted} ({why}), shown as {state}", took)
        total.squared_ms += (total.scored_ms - before) ** 2


def _add(to: dict[str, int], cause: str, took: int) -> None:
    to[cause] = to.get(cause, 0) + took


def _inner(label: Label, labels: list[Label], line: list[Change]) -> Iterator[tuple[int, int]]:
    """The span in pieces in which nothing changes, without what lies near any boundary."""
    edges = {edge for other in labels for edge in (other.from_ms, other.to_ms)}
    cuts = {change.t_ms for change in line} | {e + d for e in edges for d in (-EDGE, EDGE)}
    points = [label.from_ms, *sorted(c for c in cuts if label.from_ms < c < label.to_ms)]
    for start, stop in pairwise([*points, label.to_ms]):
        middle = (start + stop) / 2
        if all(abs(middle - edge) >= EDGE for edge in edges):
            yield start, stop


def _delay(label: Label, line: list[Change], total: Score) -> None:
    """From a boundary until what it began was shown; 0 if it was shown before."""
    if right(label, state_at(line, label.from_ms)):
        total.delays.append(0)
        return
    for change in line:
        if label.from_ms < change.t_ms < label.to_ms and right(label, change):
            total.delays.append(change.t_ms - label.from_ms)
            return


def _flickers(labels: list[Label], line: list[Change]) -> int:
    """Changes of group undone within a second that no label shows."""
    count = 0
    for one, two, three in zip(line, line[1:], line[2:], strict=False):
        undone = one.group == three.group != two.group and three.t_ms - two.t_ms < FLICKER
        shown = any(
            label.group in (two.group, None)
            and label.from_ms - EARLY <= three.t_ms
            and label.to_ms + EARLY >= two.t_ms
            for label in labels
        )
        count += undone and not shown
    return count
