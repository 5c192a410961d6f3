"""The roster: the running fold of every host, its timers, and what has changed since last told."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable

import msgspec

from adsum_hub.activity import entries
from adsum_hub.host import Host, same_host
from adsum_hub.sequence import admit
from adsum_hub.snapshots import Snapshot
from adsum_hub.views import session_view, summarise, view_id
from adsum_shared.beat import Beat
from adsum_shared.envelope import Batch
from adsum_shared.state import ActivityEntry, HostView, SessionView, Summary


class Changes(msgspec.Struct, frozen=True):
    sessions: tuple[SessionView, ...] = ()
    gone: tuple[str, ...] = ()
    hosts: tuple[HostView, ...] = ()
    gone_hosts: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.sessions or self.gone or self.hosts or self.gone_hosts)


class Roster:
    """Not thread-safe; lives on the hub's event loop. `now` is always the hub's clock in ms."""

    def __init__(self) -> None:
        self.hosts: dict[str, Host] = {}
        self.views: dict[str, SessionView] = {}
        self.host_views: dict[str, HostView] = {}
        #: counts every visible change; part of the ETag
        self.revision = 0
        self.counts: Counter[str] = Counter()
        self._deadlines: list[tuple[int, str, str]] = []
        self._due: dict[tuple[str, str], int] = {}
        #: resolved, and when; its deadline is still to be found
        self._unscheduled: dict[tuple[str, str], int] = {}
        self._unresolved: set[tuple[str, str]] = set()
        self._stale: set[tuple[str, str]] = set()

    def add(self, host_id: str, snapshot: Snapshot, now: int) -> Host:
        host = self.hosts[host_id] = Host(host_id, snapshot)
        host.read_at = now
        host.reach(now)
        self._unresolved |= {(host_id, key) for key in host.facts}
        return host

    def reload(self, host_id: str, snapshot: Snapshot) -> None:
        """Take over what another hub has persisted further than we have read."""
        touched = self.hosts[host_id].adopt(snapshot)
        self._unresolved |= {(host_id, key) for key in touched}

    def apply(self, host_id: str, batch: Batch, now: int) -> int:
        """Fold a batch. Returns the first number missing before it, 0 if it could be applied."""
        host = self.hosts[host_id]
        admission = admit(host.applied, batch)
        if admission.missing:
            self.counts["gaps"] += 1
            return admission.missing
        offset = host.clock.offset_ms
        changed = host.apply(batch, admission, now)
        self.counts["signals"] += len(admission.signals)
        self._unresolved |= {(host_id, key) for key in changed}
        if host.clock.offset_ms != offset or batch.gap is not None:
            self._stale |= {(host_id, key) for key in host.states}
        return 0

    def skip(self, host_id: str, batch: Batch) -> None:
        """Give up on the numbers before this batch: nobody has them any more."""
        host = self.hosts[host_id]
        host.applied[batch.spool_id] = batch.first - 1
        host.incomplete = True
        self._stale |= {(host_id, key) for key in host.states}

    def hear(self, host_id: str, beat: Beat, age_ms: int, now: int) -> None:
        host = self.hosts[host_id]
        offset, label = host.clock.offset_ms, host.label
        host.hear(beat, age_ms, now)
        reached_anew = host.reach(now)
        if reached_anew or (offset, label) != (host.clock.offset_ms, host.label):
            self._revive(host)

    def tick(self, now: int) -> None:
        """Whatever changes with time alone: deadlines that have come, hosts that fell silent."""
        for host in self.hosts.values():
            if host.reach(now):
                self._revive(host)
        while self._deadlines and self._deadlines[0][0] <= now:
            at, host_id, key = heapq.heappop(self._deadlines)
            if self._due.get((host_id, key)) == at:
                del self._due[host_id, key]
                self._unresolved.add((host_id, key))

    def expire(self, now: int) -> None:
        for host in self.hosts.values():
            self._stale |= {(host.id, key) for key in host.expire(now)}

    def _revive(self, host: Host) -> None:
        """Its clock stands or runs again: every timer and every view of it is to be redone."""
        self._unresolved |= {(host.id, key) for key in host.facts}
        self._stale |= {(host.id, key) for key in host.states}

    def next_deadline(self, now: int) -> int | None:
        """The hub time at which `tick` has something to do, if nothing arrives before.

        Computed here and not in `take_changes`, since it costs more than the fold and the resolve
        together: it must not stand between a hook and the page.
        """
        for (host_id, key), since in self._unscheduled.items():
            host = self.hosts.get(host_id)
            due = host.next_deadline(key, since) if host else None
            if due is None:
                self._due.pop((host_id, key), None)
            elif self._due.get((host_id, key)) != due:
                # Never in the past: a deadline that resolve() does not act on would spin.
                at = max(due, now + 1)
                self._due[host_id, key] = at
                heapq.heappush(self._deadlines, (at, host_id, key))
        self._unscheduled = {}
        heap = self._deadlines
        while heap and self._due.get(heap[0][1:]) != heap[0][0]:
            heapq.heappop(heap)  # a later signal has moved it
        return heap[0][0] if heap else None

    def take_changes(self, now: int) -> Changes:
        """Resolve what has changed, once per arrival, and tell it. Empty if nobody could notice."""
        for host_id, key in self._unresolved:
            host = self.hosts.get(host_id)
            if host is not None:
                host.resolve(key, now)
                self._unscheduled[host_id, key] = now
        self._stale |= self._unresolved
        self._unresolved = set()
        sessions, gone = self._session_changes(now)
        hosts, gone_hosts = self._host_changes()
        changes = Changes(sessions, gone, hosts, gone_hosts)
        self.revision += bool(changes)
        return changes

    def _session_changes(self, now: int) -> tuple[tuple[SessionView, ...], tuple[str, ...]]:
        changed: list[SessionView] = []
        gone: list[str] = []
        for host_id, key in self._stale:
            view_key = view_id(host_id, key)
            host = self.hosts.get(host_id)
            state = host.states.get(key) if host else None
            if host is None or state is None:
                if self.views.pop(view_key, None) is not None:
                    gone.append(view_key)
                continue
            host_now = host.clock.host_now(now)
            view = session_view(host.place(), key, host.facts[key], state, host_now)
            if self.views.get(view_key) != view:
                self.views[view_key] = view
                changed.append(view)
        self._stale = set()
        return tuple(changed), tuple(gone)

    def _host_changes(self) -> tuple[tuple[HostView, ...], tuple[str, ...]]:
        changed: list[HostView] = []
        for host in self.hosts.values():
            view = host.view()
            before = self.host_views.get(host.id)
            if before is None or not same_host(before, view):
                changed.append(view)
            self.host_views[host.id] = view
        gone = tuple(self.host_views.keys() - self.hosts.keys())
        for host_id in gone:
            del self.host_views[host_id]
        return tuple(changed), gone

    def activity(self, key: str) -> list[ActivityEntry] | None:
        """What the session of this view's id did last, newest last; None if it is not listed."""
        view = self.views.get(key)
        host = self.hosts.get(view.host_id) if view is not None else None
        facts = host.facts.get(view.session_id) if view is not None and host is not None else None
        return None if facts is None or host is None else entries(facts, host.clock.offset_ms)

    def summary(self) -> Summary:
        return summarise(self.views.values())

    def all_hosts(self) -> Iterable[HostView]:
        return (host.view() for host in self.hosts.values())
