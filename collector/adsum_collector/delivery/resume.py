"""Decides where to go on in a stream, from what the stream and the hubs still hold. Pure.

A disk is copied (a cloned machine) and set back (a restored backup), so a number alone does not say
which signal it stands for. A run is one life of a collector process. Its nonce stands in the entry
of every number it gave, also if a later run sends it: nonce and number together mean one signal,
whichever copy of the disk it comes from. Hubs keep how far they have applied each run of a spool,
and let only the run that appeared last go on. What they have of a spool is thus one span of numbers
after the other, each of one run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec

from adsum_shared import streams

#: Hubs keep 16 of a spool.
MOST_RUNS = 64
_PREFIX = "runs:"
_WANT = re.compile(r"(.*):([1-9]\d{0,15})", re.ASCII | re.DOTALL)


class EntryId(msgspec.Struct, frozen=True, order=True):
    """An entry's id: `<incarnation>-<last number of the batch>`."""

    incarnation: int
    seq: int

    @classmethod
    def parse(cls, raw: bytes | str) -> EntryId:
        text = raw.decode() if isinstance(raw, bytes) else raw
        incarnation, _, seq = text.partition("-")
        return cls(int(incarnation), int(seq or 0))

    def __str__(self) -> str:
        return f"{self.incarnation}-{self.seq}"

    @property
    def leaves_room(self) -> bool:
        """Whether an entry of ours can follow: else somebody has written nonsense there."""
        return self.incarnation < streams.MOST_ID and self.seq <= streams.MOST_ID


class Head(msgspec.Struct, frozen=True):
    """The last id ever given in a stream. spool_id, nonce: empty if its entry is gone, or none."""

    id: EntryId
    spool_id: str = ""
    nonce: str = ""


class HubProgress(msgspec.Struct, frozen=True):
    """What hubs have stored of one spool, all of one moment.

    cursor: they have spoken on every entry up to there. applied: the last number they have.
    runs: nonce → the last number they have from that run, in order of the runs' first appearance.
    """

    cursor: EntryId = EntryId(0, 0)
    applied: int = 0
    runs: Mapping[str, int] = {}


class ResumePoint(msgspec.Struct, frozen=True):
    """Publish what follows `after`, under `incarnation`."""

    after: int
    incarnation: int


def where_to_resume(
    *, incarnation: int, spool_id: str, sent: int, head: Head | None, applied: int
) -> ResumePoint:
    """head: None if there is no stream. For a spool that is ours alone: see `Runs.why_to_leave`.

    sent: what this run knows to be in the stream under `incarnation`; 0 after a start.

    The incarnation goes up whenever the stream is not where we left it. Readers' cursors may be
    beyond what it still holds, and only a higher id is sure to reach them; what comes twice, they
    drop by its number.
    """
    if head is None:
        return ResumePoint(applied, incarnation + 1)
    if head.id.incarnation != incarnation or head.spool_id != spool_id:
        return ResumePoint(applied, max(incarnation, head.id.incarnation) + 1)
    if head.id.seq < sent:
        return ResumePoint(head.id.seq, incarnation + 1)
    return ResumePoint(max(head.id.seq, applied), incarnation)


def wanted_after(want: bytes | None, spool_id: str, last_seq: int) -> int | None:
    """The number to replay after, if a hub's request names this spool and makes sense."""
    found = _WANT.fullmatch((want or b"").decode(errors="replace"))
    if found is None or found[1] != spool_id or int(found[2]) > last_seq:
        return None
    return int(found[2]) - 1


class CollectorRun(msgspec.Struct, frozen=True, array_like=True):
    """end: the last number the spool held when the run was over; None while it lasts."""

    nonce: str
    end: int | None = None


_runs = msgspec.json.Decoder(tuple[CollectorRun, ...])


class Runs:
    """Those of one spool, oldest first, as its state keeps them."""

    def __init__(self, runs: Sequence[CollectorRun] = ()) -> None:
        self._runs = tuple(runs)

    def __contains__(self, nonce: str) -> bool:
        return any(run.nonce == nonce for run in self._runs)

    def joined_by(self, nonce: str, last: int) -> tuple[CollectorRun, ...]:
        """With a run that begins. last: what the spool held before it accepted anything.

        Runs that gave no number are nobody's concern: a crash loop must not push out the others.
        """
        kept: list[CollectorRun] = []
        before = 0
        for old, end in self._ends(last).items():
            if end > before:
                kept.append(CollectorRun(old, end))
            before = max(before, end)
        return (*kept[1 - MOST_RUNS :], CollectorRun(nonce))

    def author(self, seq: int) -> tuple[str, int | None]:
        """The run that gave this number, and the last it gave; None if that is still open."""
        return next(
            ((run.nonce, run.end) for run in self._runs if run.end is None or run.end >= seq),
            ("", seq),
        )

    def why_to_leave(self, head: Head | None, stored: HubProgress, last: int) -> str | None:
        """`copy` or `rollback`: this spool's numbers are given elsewhere too. None: all are ours.

        head: an entry of this spool. last: what the spool holds. An unknown run has accepted
        signals on a copy of our disk; a known one that got further than we know did so before our
        disk was set back, or on the disk that ours is a copy of.
        """
        ends = self._ends(last)
        heard = dict(stored.runs)
        if head is not None:
            heard[head.nonce] = max(head.id.seq, heard.get(head.nonce, 0))
        foreign = [nonce for nonce, seq in heard.items() if seq > ends.get(nonce, -1)]
        if stored.applied > last or any(nonce in ends for nonce in foreign):
            return "rollback"
        return "copy" if foreign else None

    def delivered(self, stored: Mapping[str, int], last: int) -> tuple[tuple[int, int], ...]:
        """Which of our numbers hubs have, and have as we mean them.

        Not all up to one: between two spans of ours may lie one that a copy got in first.
        """
        ends = self._ends(last)
        spans: list[tuple[int, int]] = []
        before = 0
        for nonce, seq in stored.items():
            ours = min(seq, ends.get(nonce, 0))
            if ours > before:
                spans.append((before + 1, ours))
            before = max(before, seq)
        return tuple(spans)

    def _ends(self, last: int) -> dict[str, int]:
        return {run.nonce: last if run.end is None else run.end for run in self._runs}


def key_of(spool_id: str) -> str:
    """In the spool's state. What a new spool takes over from an old one is not about its runs."""
    return _PREFIX + spool_id


def read_runs(state: Mapping[str, bytes], spool_id: str) -> Runs:
    try:
        return Runs(_runs.decode(state.get(key_of(spool_id), b"[]")))
    except msgspec.DecodeError:
        return Runs()


def written(
    state: Mapping[str, bytes], spool_id: str, runs: Sequence[CollectorRun]
) -> dict[str, bytes | None]:
    """What to change in the state: this spool's runs, and no other's."""
    changes: dict[str, bytes | None] = {key: None for key in state if key.startswith(_PREFIX)}
    changes[key_of(spool_id)] = msgspec.json.encode(runs)
    return changes
