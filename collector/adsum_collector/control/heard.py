"""What is remembered of a session's process that no registry tells: what it scheduled, what began."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from adsum_shared.signals import ALL_CHILDREN, BackgroundTask, ChildKind

#: Sessions of which is remembered what was heard, and what is remembered of one.
MOST_HEARD: Final = 5_000
MOST_SCHEDULED: Final = 256
#: So long after its time a wake-up has been, or never will be.
WAKES_MS: Final = 60_000
#: Of these it says `shell` or `busy`.
_TOLD_BY_REGISTRY: Final = frozenset({"agent", "shell"})


@dataclass(slots=True)
class Remembered:
    """What was heard of a session's process. begun: when something began in it last, ms.

    scheduled: child -> its kind, and when it wakes the session, ms; None: nobody said.
    """

    begun: int = 0
    pid: int = 0
    scheduled: dict[str, tuple[ChildKind, int | None]] = field(default_factory=dict)

    def schedule(self, child_id: str, kind: ChildKind, until: int | None = None) -> None:
        if kind in _TOLD_BY_REGISTRY:
            return
        if child_id in self.scheduled or len(self.scheduled) < MOST_SCHEDULED:
            self.scheduled[child_id] = (kind, until)

    def finish(self, child_id: str, kind: ChildKind) -> None:
        if child_id == ALL_CHILDREN:
            self.scheduled = {k: v for k, v in self.scheduled.items() if v[0] != kind}
        else:
            self.scheduled.pop(child_id, None)

    def is_to_wake(self, now: int) -> bool:
        """Something is scheduled whose time has not passed."""
        hours = (until for _, until in self.scheduled.values())
        return any(until is None or now < until + WAKES_MS for until in hours)

    def list_all(self, told: Sequence[BackgroundTask]) -> None:
        """All that is scheduled but for wake-ups, which no list names."""
        self.scheduled = {k: v for k, v in self.scheduled.items() if v[1] is not None}
        for each in told:
            if each.status in ("running", "pending"):
                self.schedule(each.id, each.kind)
