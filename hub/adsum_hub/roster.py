"""The roster runs the fold of every host, keeps what its sessions spend, and collects what has changed since it was sent."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

import msgspec

from adsum_hub import host_troubles
from adsum_hub.domains.show import Domains
from adsum_hub.facts import Budget, Facts
from adsum_hub.fold.activity import entries
from adsum_hub.host import MOST_LABEL, Host
from adsum_hub.inbox import Admission, admit
from adsum_hub.observed import Measures, Recent
from adsum_hub.past import Dismissal, past_verdict, stands
from adsum_hub.snapshots import Snapshot
from adsum_hub.usage.budgets import Overspent, Worker
from adsum_hub.usage.spending import Key, NoPrices, Prices, Spending, summed
from adsum_hub.verdict.reading import LIMITS, Limits
from adsum_hub.views import (
    Spent,
    only_ticks,
    plan_view,
    same_host,
    session_view,
    summarise,
    view_id,
)
from adsum_shared.envelope import Batch, Beat, DecodeError, Gap, Unread
from adsum_shared.state import OVER, ActivityEntry, HostView, SessionView, Summary

#: Budgets and the day's sum are looked at no more often: while a history is read, all of it moves.
LOOK_MS = 1_000
#: Also where nothing was spent meanwhile: by then sessions may have ceased to spend.
AGAIN_MS = 60_000
#: In the year 9999, and not so late in it that it is the year 10,000 anywhere.
LAST_MS = 253_400_000_000_000


def local_day(ms: int) -> str:
    """The ISO date where this process runs. Total: another machine's clock may say anything."""
    within = min(max(ms, 0), LAST_MS)
    return datetime.fromtimestamp(within / 1000, UTC).astimezone().date().isoformat()


def _steady(found: Budget, held: Budget | None) -> Budget:
    """What was spent is told again when it has grown by a hundredth of the limit.

    Else all who share a budget would be told of anew each second.
    """
    if held is None or msgspec.structs.replace(held, spent=found.spent) != found:
        return found
    grown = abs((found.spent or 0.0) - (held.spent or 0.0))
    return held if grown < (found.limit or 0.0) / 100 else found


def workers(hosts: Iterable[Host], now: int) -> Iterator[Worker]:
    """The sessions that may still spend."""
    for host in hosts:
        for key, verdict in host.verdicts.items():
            if verdict.state.state not in OVER:
                yield Worker((host.id, key), host.label, host.facts[key], host.clock.host_now(now))


class Accounts:
    """now: the hub's clock, ms."""

    def __init__(
        self,
        spending: Spending | None = None,
        overspent: Overspent | None = None,
        limits: Limits = LIMITS,
    ) -> None:
        self.limits = limits
        self.spending = spending or Spending(NoPrices(), local_day)
        self.overspent = overspent or Overspent((), self.spending)
        self._looked_at = 0
        self._seen: tuple[int, str, int] | None = None
        self._today: tuple[int, float | None, int] | None = None

    def view(self, host: Host, session_id: str) -> SessionView:
        return host.show(session_id, self._spent(host, host.facts[session_id]))

    def _spent(self, host: Host, facts: Facts) -> Spent:
        lines = self.spending.own((host.id, facts.session_id))
        return Spent(
            summed(lines) if lines else None, self.spending.context(facts), plan_view(facts.gauges)
        )

    def past_view(self, host: Host, facts: Facts) -> SessionView:
        session_id, spent = facts.session_id, self._spent(host, facts)
        incomplete = host.is_incomplete(session_id)
        verdict = past_verdict(facts, host.archived(facts))
        return session_view(
            host.place(), session_id, facts, verdict, incomplete=incomplete, spent=spent
        )

    def today(self, now: int) -> tuple[float | None, int]:
        """Dollars and tokens of all hosts: spent is spent, whoever is out of reach by now."""
        held = self._today
        if held is None or now - held[0] >= LOOK_MS:
            day = self.spending.day(self.spending.day_of(now))
            held = self._today = now, day.total, day.tokens
        return held[1], held[2]

    def look(self, hosts: Iterable[Host], now: int, *, at_once: bool = False) -> list[Key]:
        """The sessions of which it is new that they are over a budget, or no longer."""
        if not self.overspent.budgets or (now < self._looked_at + LOOK_MS and not at_once):
            return []
        self._looked_at = now
        today = self.spending.day_of(now)
        # An answer lifts the state by itself, whatever is found here.
        seen = self.spending.revision, today, now // AGAIN_MS
        if self._seen == seen:
            return []
        self._seen = seen
        hosts = list(hosts)
        found = self.overspent.look(workers(hosts, now), today)
        changed: list[Key] = []
        for host in hosts:
            over = {
                key: _steady(each, host.over.get(key))
                for (host_id, key), each in found.items()
                if host_id == host.id
            }
            either = over.keys() | host.over.keys()
            changed += [(host.id, key) for key in either if over.get(key) != host.over.get(key)]
            host.over = over
        return changed


#: Sessions resolved and told in one go. A host with 100,000 of them that is restored, or falls
#: silent, costs ten seconds: everybody else has a turn in between.
SLICE = 200
#: What a session uses is shown at most once in so long, if nothing else of it has changed.
USAGE_MS = 1_000
#: Hosts of which nothing is heard are looked at no more often: it took longer than any signal.
HOSTS_MS = 100


class Alarms:
    """One for each session; a later one takes its place.

    Nearly every signal moves a session's alarm to later. So its place in the heap stays as it is,
    and only what comes up is looked at again.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[int, Key]] = []
        #: the one entry in the heap that counts, and when the alarm is truly due: no sooner
        self._entry: dict[Key, int] = {}
        self._due: dict[Key, int] = {}

    def __len__(self) -> int:
        return len(self._heap)

    def set(self, key: Key, due: int | None, now: int) -> None:
        if due is None:
            self._due.pop(key, None)
            return
        # Never in the past: what is due by then and changes nothing would spin.
        due = self._due[key] = max(due, now + 1)
        entry = self._entry.get(key)
        if entry is None or due < entry:
            self._push(key, due)

    def _push(self, key: Key, at: int) -> None:
        self._entry[key] = at
        heapq.heappush(self._heap, (at, key))

    def ring(self, now: int) -> list[Key]:
        """Those whose time has come; each rings once."""
        rung: list[Key] = []
        while (at := self.next()) is not None and at <= now:
            _, key = heapq.heappop(self._heap)
            del self._entry[key], self._due[key]
            rung.append(key)
        return rung

    def next(self) -> int | None:
        """When the next one rings."""
        while self._heap:
            at, key = self._heap[0]
            due = self._due.get(key)
            if self._entry.get(key) == at and due == at:
                return at
            heapq.heappop(self._heap)
            if self._entry.get(key) == at:
                del self._entry[key]
                if due is not None:
                    self._push(key, due)
        return None


class Changes(msgspec.Struct, frozen=True):
    """What has changed since it was last told. more: there is more to tell; ask again soon."""

    sessions: tuple[SessionView, ...] = ()
    gone: tuple[str, ...] = ()
    hosts: tuple[HostView, ...] = ()
    gone_hosts: tuple[str, ...] = ()
    more: bool = False

    def __bool__(self) -> bool:
        return bool(self.sessions or self.gone or self.hosts or self.gone_hosts)


class FollowedHosts(dict[str, Host]):
    """The hosts that a hub follows, by id, and those that it does not follow any more.

    barred: forgotten; whoever writes under such an id is not followed.

    A host that was let go is still found by whoever was at work for it in that moment, and waits for
    Redis. What is done to it then nobody sees.
    """

    def __init__(self) -> None:
        super().__init__()
        self.barred: frozenset[str] = frozenset()
        self._gone: dict[str, Host] = {}

    def knows(self, host_id: str) -> bool:
        """Whether discovery has nothing to do for it."""
        return host_id in self or host_id in self.barred

    def let_go(self, host_id: str) -> None:
        self._gone[host_id] = self.pop(host_id)

    def __missing__(self, host_id: str) -> Host:
        return self._gone[host_id]


class Roster:
    """Not thread-safe; lives on the hub's event loop. `now` is always the hub's clock in ms."""

    def __init__(self, accounts: Accounts | None = None, domains: Domains | None = None) -> None:
        self.accounts = accounts or Accounts()
        self.domains = domains or Domains()
        self.hosts = FollowedHosts()
        self.views: dict[str, SessionView] = {}
        self.host_views: dict[str, HostView] = {}
        #: counts every visible change; part of the ETag
        self.revision = 0
        self.counts: Counter[str] = Counter()
        self.measures = Measures()
        self.recent = Recent()
        #: by host, also of those that are not followed yet, and session
        self.dismissals: dict[str, dict[str, Dismissal]] = {}
        self._alarms = Alarms()
        #: to resolve, and to tell anew although the state is the same; the latest are taken first
        self._unresolved: dict[Key, None] = {}
        self._stale: dict[Key, None] = {}
        #: until when a change of a session's usage alone waits, and those that do
        self._usage_from: dict[Key, int] = {}
        self._usage_held = Alarms()
        #: of which something has come since their views were made, and when all were made anew
        self._heard: set[str] = set()
        self._looked_at = 0
        self._ticked_at = 0

    def add(self, host_id: str, snapshot: Snapshot, now: int) -> Host:
        host = self.hosts[host_id] = Host(host_id, snapshot, now, self.accounts.limits)
        host.dismissals = self.dismissals.setdefault(host_id, {})
        host.reach(now)
        self._heard.add(host_id)
        self._unresolved |= {(host_id, key): None for key in host.facts}
        return host

    def reload(self, host_id: str, snapshot: Snapshot, now: int) -> None:
        """Take over what another hub has persisted further than we have read."""
        touched = self.hosts[host_id].adopt(snapshot, now)
        self._heard.add(host_id)
        self._unresolved |= {(host_id, key): None for key in touched}

    def dismiss(self, host_id: str, session_id: str, told: Dismissal) -> bool:
        """Whether that is news: of two decisions the later one holds."""
        held = self.dismissals.setdefault(host_id, {})
        if session_id in held and held[session_id].at >= told.at:
            return False
        held[session_id] = told
        self._unresolved[host_id, session_id] = None
        return True

    def lapsed_dismissals(self) -> list[Key]:
        """Those after which something has happened, and those of hosts that were forgotten."""
        found = [
            (host_id, key)
            for host_id in self.dismissals.keys() & self.hosts.barred
            for key in self.dismissals.pop(host_id)
        ]
        for host in self.hosts.values():
            for key, told in list(host.dismissals.items()):
                facts = host.facts.get(key)
                if facts is not None and (facts.past or not stands(told, facts)):
                    del host.dismissals[key]
                    found.append((host.id, key))
        return found

    def apply(self, host_id: str, batch: Batch, now: int) -> int:
        """Fold a batch. Returns the first number missing before it, 0 if it could be applied."""
        host = self.hosts[host_id]
        self._heard.add(host_id)
        admission = admit(host.applied, batch, host.runs)
        if admission.missing:
            self.counts["holes"] += 1
            return admission.missing
        if admission.stranger:
            self._reject(host, now)
            return 0
        self._make_room(host, admission, now)
        before = host.clock.offset_ms, host.gaps, host.set_aside
        changed = host.apply(batch, admission, now)
        self._count(host, admission, batch, before[2])
        self.measures.applied(host_id, admission.signals, host.clock.latest_ms, now)
        if host.gaps is not before[1]:
            self.measures.missed(host_id, host.gaps[-1].reason)
        for key in changed:
            self._unresolved.pop((host_id, key), None)  # put last, where the latest are
            self._unresolved[host_id, key] = None
        if (host.clock.offset_ms, host.gaps) != before[:2]:
            self._stale |= {(host_id, key): None for key in host.verdicts}
        return 0

    def _count(self, host: Host, admission: Admission, batch: Batch, set_aside: int) -> None:
        counts = self.counts
        counts["signals"] += len(admission.signals)
        counts["set_aside"] += host.set_aside - set_aside
        skipped = admission.applied is not None and batch.gap is not None
        counts["gaps"] += admission.emptied + skipped

    def _reject(self, host: Host, now: int) -> None:
        """An older run's batch: nothing of it is applied, nor is anything asked for on its word."""
        host.strangers += 1
        host.troubles.note("copy", host_troubles.strangers(host.strangers), now)
        host.set_aside += 1
        self.counts["strangers"] += 1
        self.counts["set_aside"] += 1

    def set_aside(self, host_id: str, entry_id: str, error: DecodeError, now: int) -> bool:
        """An entry that cannot be read. Whether that is news."""
        host = self.hosts[host_id]
        self._heard.add(host_id)
        host.set_aside += 1
        self.counts["undecodable"] += 1
        self.counts["set_aside"] += 1
        if error.version is not None:
            return host.troubles.note("version", host_troubles.foreign_version(error.version), now)
        host.bad_entries += 1
        text = host_troubles.bad_entry(host.bad_entries, entry_id, error.cause)
        return host.troubles.note("entry", text, now)

    def skip(self, host_id: str, batch: Batch, now: int) -> None:
        """Give up on the numbers before this batch: no replay brings them."""
        host = self.hosts[host_id]
        first = host.applied.get(batch.spool_id, 0) + 1
        gap = Gap("undecodable")
        never = msgspec.structs.replace(
            batch, first=first, last=batch.first - 1, signals=(), gap=gap, nonce_before=""
        )
        self.apply(host_id, never, now)

    def hear(self, host_id: str, beat: Beat, age_ms: int, now: int) -> None:
        host = self.hosts[host_id]
        self._heard.add(host_id)
        offset, label, is_first = host.clock.offset_ms, host.label, host.beat is None
        host.hear(beat, age_ms, now)
        if is_first or label != (host.given or beat.label):
            self.name(host)
        reached_anew = host.reach(now)
        if reached_anew or (offset, label) != (host.clock.offset_ms, host.label):
            self.revive(host)

    def name(self, host: Host) -> None:
        """Give a host its label. If another host bears that already, the start of its id follows."""
        label = host.given or (host.beat.label if host.beat else host.label)
        if not 0 < len(label) <= MOST_LABEL or not label.isprintable():
            label = host.id[:8]
        host.label = f"{label}~{host.id[:8]}" if self.bears(label, host.id) else label

    def bears(self, label: str, beside: str) -> bool:
        """Whether a host other than `beside`, an id, is called so."""
        label = label.casefold()
        hosts = self.hosts.values()
        return any(each.label.casefold() == label and each.id != beside for each in hosts)

    def tick(self, now: int) -> None:
        """Whatever changes with time alone: deadlines that have come, hosts that fell silent."""
        if not 0 <= now - self._ticked_at < HOSTS_MS:
            self._ticked_at = now
            for host in self.hosts.values():
                host.troubles.expire(now)
                if host.reach(now):
                    self._heard.add(host.id)
                    self.revive(host)
        self._unresolved |= dict.fromkeys(self._alarms.ring(now))
        self._stale |= dict.fromkeys(self._usage_held.ring(now))
        if len(self._unresolved) < SLICE:  # else sums are halves, after a start for instance
            self._unresolved |= dict.fromkeys(self.accounts.look(self.hosts.values(), now))

    def settle(self, now: int) -> bool:
        """All else is resolved. Whether there is more: what only the sums of it can tell."""
        found = self.accounts.look(self.hosts.values(), now, at_once=True)
        self._unresolved |= dict.fromkeys(found)
        return bool(found)

    def expire(self, now: int) -> None:
        for host in self.hosts.values():
            dropped = host.dropped
            self._put_away(host, host.expire(now))
            self.counts["history_dropped"] += host.dropped - dropped

    def _make_room(self, host: Host, admission: Admission, now: int) -> None:
        """Before more sessions come than are listed of one machine."""
        told = {each.session_id for each in admission.signals if not isinstance(each, Unread)}
        listed = host.facts.keys() - host.past.keys()
        over = len(listed) + len(told - listed) - host.rules.most_sessions
        if over > 0:
            self._put_away(host, host.make_room(over, now))

    def _put_away(self, host: Host, keys: Iterable[str]) -> None:
        for key in keys:
            self.accounts.spending.update((host.id, key), host.facts.get(key))
            self._stale[host.id, key] = None

    def reprice(self, prices: Prices) -> None:
        """Other prices hold, so all dollars may be others."""
        self.accounts.spending.reprice(prices)
        for host in self.hosts.values():
            self._stale |= {(host.id, key): None for key in host.verdicts}

    def revive(self, host: Host) -> None:
        """Its clock stands or runs again: every timer and every view of it is to be redone."""
        self._unresolved |= {(host.id, key): None for key in host.verdicts}
        self._stale |= {(host.id, key): None for key in host.verdicts}

    def next_deadline(self) -> int | None:
        """The hub time at which `tick` has something to do, if nothing arrives before."""
        due = (self._alarms.next(), self._usage_held.next())
        return min((at for at in due if at is not None), default=None)

    def take_changes(self, now: int) -> Changes:
        """Resolve what has changed, once per arrival, and tell it. Empty if nobody could notice."""
        for _ in range(min(SLICE, len(self._unresolved))):
            key, _ = self._unresolved.popitem()
            host = self.hosts.get(key[0])
            if host is not None:
                self._alarms.set(key, host.judge(key[1], now), now)
                self.accounts.spending.update(key, host.facts.get(key[1]))
            self._stale.pop(key, None)
            self._stale[key] = None
        sessions, gone = self._session_changes(now)
        hosts, gone_hosts = self._host_changes(now)
        changes = Changes(sessions, gone, hosts, gone_hosts, bool(self._unresolved or self._stale))
        self.revision += bool(changes)
        return changes

    def _session_changes(self, now: int) -> tuple[tuple[SessionView, ...], tuple[str, ...]]:
        changed: list[SessionView] = []
        gone: list[str] = []
        for _ in range(min(SLICE, len(self._stale))):
            (host_id, key), _ = self._stale.popitem()
            view_key = view_id(host_id, key)
            host = self.hosts.get(host_id)
            if host is None or key not in host.verdicts:
                if self.views.pop(view_key, None) is not None:
                    gone.append(view_key)
                    self.domains.forget(view_key)
                    self._usage_from.pop((host_id, key), None)
                    self._usage_held.set((host_id, key), None, now)
                continue
            view, before = self.accounts.view(host, key), self.views.get(view_key)
            view = self.domains.shown(view, before, host.facts[key])
            if before == view:
                continue
            due = self._usage_from.get((host_id, key), 0)
            if now < due and before is not None and only_ticks(before, view):
                self._usage_held.set((host_id, key), due, now)
                continue
            self._usage_from[host_id, key] = now + USAGE_MS
            self._usage_held.set((host_id, key), None, now)
            self.views[view_key] = view
            changed.append(view)
        return tuple(changed), tuple(gone)

    def _host_changes(self, now: int) -> tuple[tuple[HostView, ...], tuple[str, ...]]:
        """What is another now, and who is gone."""
        looked_at = [each for each in self._heard if each in self.hosts]
        self._heard.clear()
        if not 0 <= now - self._looked_at < HOSTS_MS:
            self._looked_at, looked_at = now, list(self.hosts)
        changed: list[HostView] = []
        for host_id in looked_at:
            view, before = self.hosts[host_id].view(now), self.host_views.get(host_id)
            if before is None or not same_host(before, view):
                changed.append(view)
            self.host_views[host_id] = view
        gone = tuple(self.host_views.keys() - self.hosts.keys())
        for host_id in gone:
            del self.host_views[host_id]
        return tuple(changed), gone

    def find(self, key: str) -> tuple[Host, Facts] | None:
        """By its view's id: of a session that is listed, or of history."""
        host_id, _, session_id = key.partition(":")
        host = self.hosts.get(host_id)
        if host is None or not (key in self.views or session_id in host.past):
            return None
        facts = host.facts.get(session_id)
        return None if facts is None else (host, facts)

    def activity(self, key: str) -> list[ActivityEntry] | None:
        """What it did last, newest last; None if there is no such session."""
        found = self.find(key)
        return None if found is None else entries(found[1], found[0].clock.offset_ms)

    def summary(self, now: int = 0) -> Summary:
        return summarise(self.views.values(), *self.accounts.today(now))

    def all_hosts(self, now: int = 0) -> Iterable[HostView]:
        return (host.view(now) for host in self.hosts.values())
