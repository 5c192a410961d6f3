"""The oracle: from what was sent and what every hub shows, all that is not as promised. Pure."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from tests.chaos.ledger import Sent

Tape = Sequence[str]
Kind = Literal[
    "lost",  # a 200, and never applied
    "silent loss",  # lost as the fault allows, but the host is not called incomplete
    "false gap",  # called incomplete, and nothing that happened could have lost anything
    "doubled",
    "swapped",
    "torn",  # of one piece some signals were applied and some not
    "refused",  # a 503, and applied all the same
    "extra",  # nobody sent it
    "apart",  # hubs, or a hub and its client, or facts and their sequential fold, differ
    "regressed",  # a client saw it and then no longer
    "slow",
    "died",
    "bounds",
    "odd",  # an answer that no well-formed hook must get
]


class Finding(msgspec.Struct, frozen=True):
    kind: Kind
    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.kind} ({self.where}): {self.what}"


class Allowed(msgspec.Struct):
    """What the faults of a run excuse in one host.

    lost: spans of time (seconds) of which what was accepted may be lost. Of one from which nothing
    at all has left the machine, nobody else can know, and it may be lost in silence. repeat_lines:
    a transcript may have been read again. gap: it may be called incomplete.
    """

    lost: list[tuple[float, float]] = []
    repeat_lines: bool = False
    gap: bool = False

    def losing(self, sent: Sent) -> list[tuple[float, float]]:
        """Accepted at some time between its sending and its answer."""
        return [span for span in self.lost if span[0] <= sent.done and sent.at <= span[1]]


class Shown(msgspec.Struct):
    """One hub at rest. tapes: session -> ids as applied. incomplete: hosts that it calls so."""

    tapes: Mapping[str, Tape]
    incomplete: set[str]


def judge(
    streams: Mapping[tuple[str, str], Sequence[Sent]],
    shown: Mapping[str, Shown],
    allowed: Mapping[str, Allowed],
) -> list[Finding]:
    found: list[Finding] = []
    for hub, each in shown.items():
        found += _judge_hub(hub, streams, each, allowed)
    found += _compare(shown)
    return found


def _judge_hub(
    hub: str,
    streams: Mapping[tuple[str, str], Sequence[Sent]],
    shown: Shown,
    allowed: Mapping[str, Allowed],
) -> Iterator[Finding]:
    sent_to: dict[str, set[str]] = {}
    losing: set[str] = set()
    known = _known_spans(streams, shown, allowed)
    for (session, _), sent in streams.items():
        sent_to.setdefault(session, set()).update(each.id for each in sent)
        tape = shown.tapes.get(session, ())
        excuse = allowed.get(sent[0].host, Allowed()) if sent else Allowed()
        for finding in _judge_stream(f"{hub} {session}", sent, tape, excuse):
            if finding.kind == "silent loss":
                losing.add(sent[0].host)
                if sent[0].host in shown.incomplete or not known.get(sent[0].host):
                    continue  # not silent, or nobody could tell
            yield finding
    for session, tape in shown.tapes.items():
        for name in set(tape) - sent_to.get(session, set()):
            yield Finding("extra", f"{hub} {session}", name)
    for host in shown.incomplete - losing:
        if not allowed.get(host, Allowed()).gap:
            yield Finding("false gap", hub, f"{host} is called incomplete")


def _known_spans(
    streams: Mapping[tuple[str, str], Sequence[Sent]],
    shown: Shown,
    allowed: Mapping[str, Allowed],
) -> dict[str, set[tuple[float, float]]]:
    """Host -> the spans in which it lost something and of which something else has come."""
    known: dict[str, set[tuple[float, float]]] = {}
    for (session, _), sent in streams.items():
        applied = set(shown.tapes.get(session, ()))
        for each in sent:
            # A line that is there was perhaps read a second time, from its file.
            if each.id in applied and each.host in allowed and each.source != "line":
                # One that was under way when a span began may lie before it.
                spans = (span for span in allowed[each.host].losing(each) if span[0] < each.at)
                known.setdefault(each.host, set()).update(spans)
    return known


def _judge_stream(
    where: str, sent: Sequence[Sent], tape: Tape, excuse: Allowed
) -> Iterator[Finding]:
    times = Counter(tape)
    for each in sent:
        if each.id not in times and each.outcome == "ok":
            yield Finding("silent loss" if excuse.losing(each) else "lost", where, each.id)
        if each.id in times and each.outcome == "refused":
            yield Finding("refused", where, each.id)
        if times[each.id] > 1 and not (each.source == "line" and excuse.repeat_lines):
            yield Finding("doubled", where, f"{each.id}, {times[each.id]} times")
    yield from _swapped(where, sent, tape)
    yield from _torn(where, [each for each in sent if not excuse.losing(each)], tape)


def _swapped(where: str, sent: Sequence[Sent], tape: Tape) -> Iterator[Finding]:
    """What nobody answered may have been applied at any later time, but at no earlier one."""
    first: dict[str, int] = {}
    for place, name in enumerate(tape):
        first.setdefault(name, place)
    latest, latest_id = -1, ""
    for each in sent:
        place = first.get(each.id, len(tape))
        if each.source == "forged":
            continue
        if place < latest:
            yield Finding("swapped", where, f"{each.id} before {latest_id}")
        elif each.outcome == "ok" and place < len(tape):
            latest, latest_id = place, each.id


def _torn(where: str, sent: Sequence[Sent], tape: Tape) -> Iterator[Finding]:
    pieces: dict[int, dict[str, bool]] = {}
    for each in sent:
        if each.outcome == "unknown":
            pieces.setdefault(each.piece, {})[each.id] = each.id in tape
    for applied in pieces.values():
        if len(set(applied.values())) > 1:
            yield Finding("torn", where, f"{applied}")


def _compare(shown: Mapping[str, Shown]) -> Iterator[Finding]:
    names = sorted(shown)
    for one, other in itertools.pairwise(names):
        tapes, others = shown[one].tapes, shown[other].tapes
        for session in sorted(tapes.keys() | others.keys()):
            if list(tapes.get(session, ())) != list(others.get(session, ())):
                yield Finding("apart", session, f"{one} and {other} show different signals")
        if shown[one].incomplete != shown[other].incomplete:
            yield Finding("apart", f"{one} and {other}", "other hosts are called incomplete")
