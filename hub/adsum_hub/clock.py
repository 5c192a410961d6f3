"""Estimates another machine's clock, and whether that machine can be reached. Pure."""

from collections import deque
from collections.abc import Callable

from adsum_shared.state import Reachability
from adsum_shared.streams import BEAT_TTL_MS

#: Milliseconds since the epoch on the hub; never steps back within one run.
Clock = Callable[[], int]

LIVE_MS = BEAT_TTL_MS
#: Seven heartbeats. Whoever cuts a machine off sees it called offline within 15 s; a collector that
#: lost its broker for a moment is back in two to four, so nothing but a dead link lasts so long.
LATE_MS = 14_000
#: An estimate moves only when it is off by more than a glance can see: else every batch would
#: shift every time on the page by a millisecond or two.
SLACK_MS = 250
#: Heartbeats an estimate rests on. Of more, one from before a clock was set back would count on for
#: as long, and its sessions would look silent for the hour that it was set back.
LATEST = 5
#: A stamp farther off than this from what the clock there should show is no time at all. Nothing
#: lies in a stream for a year.
ABSURD_MS = 366 * 24 * 3_600_000
#: A signal dated so much later than it can have been sent counts as of when it was sent. Else one
#: dated a thousand years ahead would be the latest for so long, whatever comes after it.
AHEAD_MS = 3_600_000


def reachability(silent_ms: int, *, stopping: bool = False) -> Reachability:
    """silent_ms: since the last heartbeat. stopping: it said goodbye, so nothing is late."""
    if stopping or silent_ms > LATE_MS:
        return "offline"
    return "live" if silent_ms <= LIVE_MS else "late"


class HostClock:
    """A host's wall clock, seen through stamps that arrive an unknown moment after they were made.

    The largest difference of recent stamps is the best: delay only ever makes it smaller.
    """

    def __init__(self, offset_ms: int = 0, last_seen: int = 0) -> None:
        self.offset_ms, self.last_seen = offset_ms, last_seen
        self._differences: deque[int] = deque(maxlen=LATEST)

    @property
    def latest_ms(self) -> int:
        """The best estimate, as it moves: for what is measured in milliseconds and not shown."""
        return max(self._differences, default=self.offset_ms)

    def observe(self, stamp: int, now: int) -> None:
        """The host made this stamp at about `now` of the hub's clock."""
        self._differences.append(stamp - now)
        self.last_seen = max(self.last_seen, now)
        best = max(self._differences)
        if abs(best - self.offset_ms) > SLACK_MS or len(self._differences) == 1:
            self.offset_ms = best

    def received(self, stamp: int, now: int) -> int | None:
        """Something sent at `stamp` has come; how long ago that was.

        It may have lain in the stream for hours, so it proves life then and not now, and says
        nothing about the clock. None for a stamp that cannot be: it proves nothing.
        """
        if abs(self.to_hub(stamp) - now) > ABSURD_MS:
            return None
        sent = self.sent_at(stamp, now)
        self.last_seen = max(self.last_seen, sent)
        return now - sent

    def sent_at(self, stamp: int, now: int) -> int:
        """When it was sent, by the hub's clock; now, if the stamp cannot be."""
        sent = self.to_hub(stamp)
        return min(now, sent) if abs(sent - now) <= ABSURD_MS else now

    def latest_stamp(self, sent_at: int, now: int, *, heard: bool) -> int:
        """What was sent at `sent_at` by its own word tells of nothing later, by the host's clock.

        heard: its heartbeat has told what that clock shows; else it may be a year ahead.
        """
        return min(sent_at, now + self.offset_ms + (0 if heard else ABSURD_MS))

    def host_now(self, now: int) -> int:
        """Frozen while nothing is heard: no timer of an unreachable host runs out."""
        return min(now, self.last_seen + LIVE_MS) + self.offset_ms

    def to_hub(self, host_ms: int) -> int:
        return host_ms - self.offset_ms
