"""One machine as the hub knows it: its facts, the states they resolve to, and what to save."""

from __future__ import annotations

import msgspec

from adsum_hub.clock import HostClock, reachability
from adsum_hub.facts import Facts
from adsum_hub.fold import fold
from adsum_hub.health import missing_from
from adsum_hub.resolve import next_deadline, resolve
from adsum_hub.sequence import Admission
from adsum_hub.snapshots import HostRecord, Snapshot, covers
from adsum_hub.views import Place
from adsum_shared.beat import Beat
from adsum_shared.envelope import Batch
from adsum_shared.state import AgentState, Group, HostView, HostWitness, Reachability

#: How long a delivered session stays in the list after its last sign of life.
KEEP_DELIVERED_MS = 7 * 24 * 3_600_000


class Host:
    """All times given to and kept by it are the hub's, except inside facts.

    read_at: when an entry of its stream was last read.

    states holds materialised sessions only. stored is the snapshot version last seen in Redis.
    """

    def __init__(self, host_id: str, snapshot: Snapshot) -> None:
        self.id = host_id
        self.beat: Beat | None = None
        self.lag_ms: int | None = None
        #: what the collector says is wrong with itself, and what we find wrong with its keys
        self.problem: str | None = None
        self.troubles: dict[str, str] = {}
        self.read_at = 0
        self.dirty: set[str] = set()
        self.gone: set[str] = set()
        self.states: dict[str, AgentState] = {}
        self.reachability: Reachability = "offline"
        self.adopt(snapshot)

    def adopt(self, snapshot: Snapshot) -> set[str]:
        """Take a stored snapshot as the truth. Returns the sessions it holds or has dropped."""
        before = set(self.states)
        self.stored = snapshot.version
        self.cursor = snapshot.cursor
        self.applied = dict(snapshot.applied)
        self.saved = dict(snapshot.applied)
        self.facts: dict[str, Facts] = dict(snapshot.sessions)
        self.label = snapshot.host.label or self.id[:8]
        self.incomplete = snapshot.host.incomplete
        self.clock = HostClock(snapshot.host.clock_offset_ms, snapshot.host.last_seen)
        self.dirty.clear()
        self.gone.clear()
        self.states = {key: state for key, state in self.states.items() if key in self.facts}
        return before | set(self.facts)

    def apply(self, batch: Batch, admission: Admission, now: int) -> set[str]:
        """Fold what was admitted. Returns the sessions whose facts changed; they are unresolved."""
        self.lag_ms = self.clock.received(batch.sent_at, now)
        if admission.applied is not None:
            self.applied[batch.spool_id] = admission.applied
        self.incomplete = self.incomplete or batch.gap is not None
        changed: set[str] = set()
        for signal in admission.signals:
            before = self.facts.get(signal.session_id)
            after = fold(before, signal)
            if after is not before:
                self.facts[signal.session_id] = after
                changed.add(signal.session_id)
        self.dirty |= changed
        self.gone -= changed
        return changed

    def resolve(self, session_id: str, now: int) -> None:
        facts = self.facts.get(session_id)
        if facts is None or not facts.materialised:
            self.states.pop(session_id, None)
        else:
            self.states[session_id] = resolve(facts, self.clock.host_now(now))

    def next_deadline(self, session_id: str, since: int) -> int | None:
        """When what was resolved at `since` changes by itself.

        None also for a host whose clock stands: its timers are set again when it comes back.
        """
        if session_id not in self.states or self.reachability != "live":
            return None
        facts, host_since = self.facts[session_id], self.clock.host_now(since)
        missing = missing_from(facts)
        times = [
            next_deadline(facts, host_since),
            missing if missing and missing > host_since else None,
        ]
        deadline = min((at for at in times if at is not None), default=None)
        return None if deadline is None else self.clock.to_hub(deadline)

    def hear(self, beat: Beat, age_ms: int, now: int) -> None:
        """A heartbeat written `age_ms` ago."""
        self.beat = beat
        self.label = beat.label
        self.problem = beat.problem
        self.clock.observe(beat.at, now - age_ms)

    def reach(self, now: int) -> bool:
        """Recompute reachability; whether it changed."""
        stopping = self.beat is not None and self.beat.stopping
        reached = reachability(now - self.clock.last_seen, stopping=stopping)
        changed = reached != self.reachability
        self.reachability = reached
        return changed

    def expire(self, now: int) -> set[str]:
        """Drop delivered sessions of which nothing has been heard for a week."""
        oldest = self.clock.host_now(now) - KEEP_DELIVERED_MS
        old = {
            key
            for key, facts in self.facts.items()
            if facts.updated_at < oldest
            and (key not in self.states or self.states[key].group is Group.DELIVERED)
        }
        for key in old:
            del self.facts[key]
            self.states.pop(key, None)
        self.gone |= old
        self.dirty -= old
        return old

    def record(self) -> HostRecord:
        return HostRecord(
            label=self.label,
            last_seen=self.clock.last_seen,
            clock_offset_ms=self.clock.offset_ms,
            incomplete=self.incomplete,
        )

    def header(self) -> Snapshot:
        return Snapshot(self.stored, self.cursor, dict(self.applied), self.record())

    def take_dirty(self) -> tuple[Snapshot, dict[str, Facts], set[str]]:
        """What the next snapshot writes. Give it back with `not_saved` if it is not written."""
        dirty = {key: self.facts[key] for key in self.dirty if key in self.facts}
        gone, self.gone = self.gone, set()
        self.dirty = set()
        return self.header(), dirty, gone

    def needs_saving(self) -> bool:
        # A hub that is behind the stored snapshot never writes: entries it has not read may be
        # trimmed already, so its older cursor would lose them for everyone.
        if not covers(self.applied, self.saved):
            return False
        return bool(self.dirty or self.gone) or self.applied != self.saved

    def saved_as(self, version: int, header: Snapshot) -> None:
        self.stored = version
        self.saved = header.applied

    def not_saved(self, dirty: set[str], gone: set[str]) -> None:
        self.dirty |= dirty
        self.gone |= gone

    def lost_race(self, version: int, applied: dict[str, int]) -> None:
        """Another hub has written the snapshot. Its fold is ours: only who is ahead matters."""
        rolled_back = not covers(applied, self.saved)
        self.stored = version
        self.saved = applied
        if rolled_back:
            # Redis has lost its tail: what we wrote since is gone there, so write it all again.
            self.dirty = set(self.facts)
        elif covers(applied, self.applied):
            self.dirty.clear()

    def place(self) -> Place:
        return Place(self.id, self.label, self.reachability, self.clock.offset_ms, self.incomplete)

    def view(self) -> HostView:
        applied = self.applied.get(self.beat.spool_id, 0) if self.beat else 0
        return HostView(
            id=self.id,
            label=self.label,
            reachability=self.reachability,
            last_seen=self.clock.last_seen,
            sessions=len(self.states),
            version=self.beat.version if self.beat else None,
            clock_offset_ms=self.clock.offset_ms,
            lag_ms=self.lag_ms,
            backlog=max(0, self.beat.seq - applied) if self.beat else 0,
            applied=applied,
            problem=self.problem or next(iter(self.troubles.values()), None),
            witnesses=tuple(self._in_hub_time(each) for each in self.beat.witnesses)
            if self.beat
            else (),
        )

    def _in_hub_time(self, witness: HostWitness) -> HostWitness:
        heard_at = self.clock.to_hub(witness.heard_at) if witness.heard_at else 0
        return msgspec.structs.replace(witness, heard_at=heard_at)


def same_host(a: HostView, b: HostView) -> bool:
    """Alike but for what ticks by itself: such a difference is not worth a message."""
    return _still(a) == _still(b)


def _still(view: HostView) -> HostView:
    witnesses = tuple(msgspec.structs.replace(each, heard_at=0) for each in view.witnesses)
    return msgspec.structs.replace(
        view, last_seen=0, lag_ms=None, applied=0, backlog=0, witnesses=witnesses
    )
