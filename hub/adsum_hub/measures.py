"""Measures the hub itself: how late news is, and how long sessions wait for people. Pure.

What costs per signal is a comparison and a dictionary's entry; all that can be read when somebody asks
is read then, by `metrics`.
"""

from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Sequence
from typing import NamedTuple

from adsum_shared.envelope import Unread
from adsum_shared.signals import AnySignal, UnknownSignal
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
