"""What is kept of all that came in, for whoever asks: how late news is, how long sessions wait, the last batches.

What costs per signal is a comparison and a dictionary's entry; all that can be read when somebody asks
is read then, by `metrics`. A stream is trimmed as soon as its facts are saved, and a spool is on another
machine, so a hub keeps what came last in memory: as it lay in the stream, since to decode it again costs
nothing until somebody asks. A hub that has started anew knows no earlier signals. Pure.
"""

from __future__ import annotations

import secrets
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from adsum_hub.verdict.rules import asks
from adsum_shared.envelope import Unread, decode_batch
from adsum_shared.privacy import private_as
from adsum_shared.redact import digest
from adsum_shared.signals import AnySignal, TurnEnded, UnknownSignal, encode_signal
from adsum_shared.state import URGENCY, Group, SessionView

LAG_S: tuple[float, ...] = (0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75)
LAG_S += (1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
WAIT_S = (5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1_800.0, 3_600.0, 14_400.0, 86_400.0)
#: Offsets that are remembered; a client that has missed more gets a snapshot, which is not counted.
MOST_MESSAGES = 4_096
#: Of states that need somebody. Those of a newer version share the last.
NEEDS = (*URGENCY, "other")
#: As in GapView; those of a newer version share the last.
REASONS = ("cap", "corrupt", "copy", "rollback", "retention", "lost", "undecodable", "other")


def need_of(state: str) -> str:
    return state if state in URGENCY else "other"


class Histogram:
    """bounds: seconds. prometheus_client's own takes a lock and ten times as long for each value."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, ms: int) -> None:
        """Clocks are estimates, so a little less than nothing is nothing."""
        seconds = max(0, ms) / 1000
        self.counts[bisect_left(self.bounds, seconds)] += 1
        self.sum += seconds


class _Measured(NamedTuple):
    """seen: when its oldest hook was taken, by the hub's clock, ms."""

    offset: int
    seen: int


class Measures:
    """to_hub: from a hook's being taken to its being folded. to_browser: to its being sent.

    to_human: by state, from when a session began to need somebody to when it did no more. gaps: by
    reason, batches that told of one. All since this hub started.
    """

    def __init__(self) -> None:
        self.to_hub = Histogram(LAG_S)
        self.to_browser = Histogram(LAG_S)
        self.to_human = {state: Histogram(WAIT_S) for state in NEEDS}
        self.gaps: Counter[str] = Counter()
        self.gaps_of_hosts: Counter[str] = Counter()
        #: view id -> state, since
        self._needing: dict[str, tuple[str, int]] = {}
        #: (host id, session id) -> when its oldest hook was taken that is not sent yet
        self._unsent: dict[tuple[str, str], int] = {}
        self._messages: deque[_Measured] = deque(maxlen=MOST_MESSAGES)
        #: what was asked for last, and its answer
        self._span = (0, 0)
        self._oldest: int | None = None

    def applied(
        self, host_id: str, signals: Sequence[AnySignal | Unread], offset_ms: int, now: int
    ) -> None:
        """offset_ms: that machine's clock minus the hub's."""
        for signal in signals:
            if isinstance(signal, (Unread, UnknownSignal)) or signal.source != "hook":
                continue
            seen = signal.seen - offset_ms
            self.to_hub.observe(now - seen)
            self._unsent.setdefault((host_id, signal.session_id), seen)

    def missed(self, host_id: str, reason: str) -> None:
        self.gaps[reason if reason in REASONS else "other"] += 1
        self.gaps_of_hosts[host_id] += 1

    def encoded(
        self, sessions: Sequence[SessionView], gone: Sequence[str], offset: int, now: int
    ) -> None:
        """offset: of the message with these changes."""
        unsent = self._unsent
        found = [unsent.pop((view.host_id, view.session_id), None) for view in sessions]
        seen = min((each for each in found if each is not None), default=None)
        if seen is not None:
            self._messages.append(_Measured(offset, seen))
        for view in sessions:
            self._watch(view, now)
        for key in gone:
            self._needing.pop(key, None)  # it went with its host or with time: nobody came

    def flushed(self) -> None:
        """What is left changed nothing that anybody could see; a later change is not its own."""
        self._unsent.clear()

    def sent(self, after: int, offset: int, now: int) -> None:
        """A client has been sent all after the offset `after`. One value: of the oldest hook."""
        if (after, offset) != self._span:  # most clients ask for the very same one
            self._span, self._oldest = (after, offset), self._oldest_in(after, offset)
        if self._oldest is not None:
            self.to_browser.observe(now - self._oldest)

    def _oldest_in(self, after: int, offset: int) -> int | None:
        oldest: int | None = None
        for message in reversed(self._messages):
            if message.offset <= after:
                break
            if message.offset <= offset:
                oldest = message.seen if oldest is None else min(oldest, message.seen)
        return oldest

    def _watch(self, view: SessionView, now: int) -> None:
        state, since = view.state.state, view.state.since
        needs = view.state.group is Group.NEEDS_YOU
        before = self._needing.get(view.id)
        if before is not None and not (needs and before == (state, since)):
            ended = since if since > before[1] else now
            if not needs or state != before[0] or since > before[1]:
                self.to_human[need_of(before[0])].observe(ended - before[1])
        if needs:
            self._needing[view.id] = (state, since)
        else:
            self._needing.pop(view.id, None)


#: Some 60,000 signals: of 50 busy sessions those of a quarter of an hour.
MOST_BYTES = 16 << 20
#: Of an entry beside its fields: one without signals takes room as well, and any number may come.
ENTRY_BYTES = 500


class KeptEntry(NamedTuple):
    """at: when this hub read it. fields: the entry's."""

    at: int
    host_id: str
    fields: Mapping[bytes, bytes]


class Recent:
    """since: from when on all that came is here; None until something has come."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most = most_bytes
        self._kept: deque[KeptEntry] = deque()
        self._bytes = 0

    @property
    def since(self) -> int | None:
        return self._kept[0].at if self._kept else None

    def keep(self, host_id: str, fields: Mapping[bytes, bytes], now: int) -> None:
        self._kept.append(KeptEntry(now, host_id, fields))
        self._bytes += _size(fields)
        while self._bytes > self._most:
            self._bytes -= _size(self._kept.popleft().fields)

    def batches(self, host_id: str, session_id: str) -> list[Mapping[bytes, bytes]]:
        """Those that may hold signals of the session, as they came."""
        named = msgspec.json.encode(session_id)
        return [
            each.fields
            for each in self._kept
            if each.host_id == host_id and named in each.fields.get(b"b", b"")
        ]


def _size(fields: Mapping[bytes, bytes]) -> int:
    return ENTRY_BYTES + sum(len(name) + len(value) for name, value in fields.items())


def report_of(
    batches: list[Mapping[bytes, bytes]], session_id: str, since: int
) -> list[dict[str, Any]]:
    """The session's signals, stripped of what people and agents wrote, each number once.

    since: by the host's clock. Of those before, the latest of each kind by each witness is there as
    well: a replay that begins in mid-turn would not know what it goes on from.
    """
    numbered: dict[tuple[str, int], AnySignal] = {}
    for fields in batches:
        batch = decode_batch(fields)
        for number, signal in enumerate(batch.signals, batch.first):
            # What this version does not know it cannot strip.
            if isinstance(signal, Unread | UnknownSignal) or signal.session_id != session_id:
                continue
            numbered[batch.spool_id, number] = signal
    before: dict[tuple[type, str], AnySignal] = {}
    within: list[AnySignal] = []
    for signal in sorted(numbered.values(), key=lambda each: each.seen):
        if signal.seen >= since:
            within.append(signal)
        else:
            kind = (type(signal), getattr(signal, "source", ""))
            before.pop(kind, None)
            before[kind] = signal
    salt = secrets.token_hex(16)
    return [_stripped(signal, salt) for signal in (*before.values(), *within)]


def _stripped(signal: AnySignal, salt: str) -> dict[str, Any]:
    found: AnySignal = private_as("metadata", salt)(signal)
    said = signal.last_message if isinstance(signal, TurnEnded) else None
    if isinstance(found, TurnEnded) and said is not None:
        # Whether it asks something decides between two states, and says nothing of what.
        found = msgspec.structs.replace(found, last_message="?" if asks(said) else ".")
    joined = getattr(found, "digest", None)
    if joined is not None:
        # A digest of a tool's input may be guessed; under a salt of its own it still joins.
        found = msgspec.structs.replace(found, digest=digest(joined, salt, size=16))
    return dict(msgspec.json.decode(encode_signal(found)))
