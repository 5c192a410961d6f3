"""One machine as the hub knows it: its facts, the verdicts on them, and what is wrong."""

from collections.abc import Iterable
from heapq import nsmallest

from msgspec.structs import replace

from adsum_hub import host_troubles
from adsum_hub.clock import AHEAD_MS, HostClock, reachability
from adsum_hub.facts import Budget, Facts, Gauges
from adsum_hub.fold.fold import fold
from adsum_hub.host_troubles import Troubles
from adsum_hub.inbox import Admission, Runs, advance, dated_back, order
from adsum_hub.past import Dismissal, stands, stripped, surplus
from adsum_hub.snapshots import HostRecord, Saved, Snapshot
from adsum_hub.verdict.judge import Verdict, judge
from adsum_hub.verdict.reading import LIMITS, Limits
from adsum_hub.views import Shown, Spent, ViewedHost, in_hub_time, limits_that_hold, session_view
from adsum_shared.envelope import Batch, Beat, Unread
from adsum_shared.signals import DEFAULT_AGENT, AnySignal
from adsum_shared.state import GapView, Group, HostView, Reachability, SessionView

#: How long a delivered session stays in the list after its last sign of life.
KEEP_DELIVERED_MS = 7 * 24 * 3_600_000
#: One part in so many of the list is made free beyond what is wanted.
SPARE = 20
#: After none could be made, none is looked for.
FULL_MS = 1_000
#: Sessions there was no place for that are remembered, to say of those that come in later that
#: their beginning is missing.
MOST_LEFT_OUT = 10_000

#: Of the latest ones, told one by one.
MOST_GAPS = 8
MOST_LABEL = 100
#: Gaps of one reason that follow each other so closely are one thing that happened.
ONE_EVENT_MS = 60_000


class Host:
    """All times given to and kept by it are the hub's, except inside facts.

    read_at: when an entry of its stream was last read. set_aside: entries and signals left out
    since this hub started, and sessions whose saved facts were.

    verdicts holds materialised sessions only, past those of history. shown: of these the views as
    they were made last.
    """

    def __init__(self, host_id: str, held: Snapshot, now: int = 0, rules: Limits = LIMITS) -> None:
        self.id, self.rules = host_id, rules
        self.beat: Beat | None = None
        self.lag_ms: int | None = None
        #: what the collector says is wrong with itself, and what we find wrong with its keys
        self.problem: str | None = None
        self.troubles = Troubles()
        self.set_aside = 0
        self.bad_entries = self.bad_signals = self.strangers = self.ahead = 0
        self.read_at = now
        self.verdicts: dict[str, Verdict] = {}
        self.shown: dict[str, Shown] = {}
        #: sessions of history and when each ended, and how many are kept no longer
        self.past: dict[str, int] = {}
        self.dropped = 0
        #: sessions for which there was no place in the list, how many signals of such ones came,
        #: and until when no place was to be made
        self.left_out: set[str] = set()
        self.turned_away = 0
        self.full_until = 0
        #: sessions over a budget
        self.over: dict[str, Budget] = {}
        #: what people decided about sessions; see Dismissal
        self.dismissals: dict[str, Dismissal] = {}
        #: By agent, what its sessions told last of its account's limits.
        self.gauges: dict[str, Gauges] = {}
        self.reachability: Reachability = "offline"
        self.saved = Saved()
        #: what people call it, before what it calls itself
        self.given: str | None = None
        self.adopt(held, now)

    def adopt(self, snapshot: Snapshot, now: int) -> set[str]:
        """Take a stored snapshot as the truth. Returns the sessions it holds or has dropped."""
        before = self.verdicts.keys() | self.past.keys()
        unreadable = set(snapshot.unreadable) - self.saved.unreadable
        self.saved.adopt(snapshot)
        self.cursor = snapshot.cursor
        self.applied = dict(snapshot.applied)
        self.runs: Runs = dict(snapshot.runs)
        self.facts: dict[str, Facts] = dict(snapshot.sessions)
        self.label = self.given or snapshot.host.label or self.id[:8]
        self.gaps = snapshot.host.gaps
        self.clock = HostClock(snapshot.host.clock_offset_ms, snapshot.host.last_seen)
        for key in self.verdicts.keys() - self.facts.keys():
            self._unlist(key)
        self.past = {key: at for key, at in self.past.items() if key in self.facts}
        self._note_stored(snapshot, now)
        if unreadable:
            self.set_aside += len(unreadable)
            text = host_troubles.unreadable_sessions(len(unreadable), min(unreadable))
            self.troubles.note("sessions", text, now)
        return before | set(self.facts)

    def _note_stored(self, stored: Snapshot, now: int) -> None:
        if stored.newer:
            self.troubles["schema"] = host_troubles.newer_schema(stored.newer)
        else:
            self.troubles.pop("schema", None)
        if stored.problem is not None:
            text = host_troubles.unreadable_header(stored.problem)
            self.troubles.note("snapshot", text, now)

    def read_to(self, entry_id: str) -> None:
        """Of its stream. What another hub has stored may have moved us further on already."""
        self.cursor = max(self.cursor, entry_id, key=order)

    def rewind(self) -> None:
        """Its stream begins anew below where we stand."""
        self.cursor = "0-0"

    def apply(self, batch: Batch, admission: Admission, now: int) -> set[str]:
        """Fold what was admitted. Returns the sessions whose facts changed; they are unresolved."""
        lag_ms = self.clock.received(batch.sent_at, now)
        self.lag_ms = self.lag_ms if lag_ms is None else lag_ms
        if admission.applied is None:
            return set()
        before = self.applied.get(batch.spool_id, 0)
        advance(self.applied, self.runs, batch)
        if admission.emptied:
            # What is in the new spool has been seen since: sessions that begin in it are whole.
            seen = (each.seen for each in batch.signals if not isinstance(each, Unread))
            self._miss("lost", 0, min(seen, default=batch.sent_at))
        if batch.gap is not None:
            # Number 1 alone says that a spool began anew; what that cost, nobody knows.
            is_mark = batch.first == batch.last == 1
            numbers = 0 if is_mark else batch.last - max(before, batch.first - 1)
            # Not when it was sent: hubs that hear of it again, and later, say the same.
            lost_at = min(batch.gap.at or batch.sent_at, batch.sent_at)
            self._miss(batch.gap.reason, numbers, lost_at)
        changed: set[str] = set()
        turned_away, before_ahead = self.turned_away, self.ahead
        latest = self.clock.latest_stamp(batch.sent_at, now, heard=self.beat is not None)
        for told in admission.signals:
            signal = told
            if not isinstance(told, Unread) and max(told.at, told.seen) > latest + AHEAD_MS:
                signal = dated_back(told, latest)
                self.ahead += 1
            unused = self._fold(signal, changed)
            if unused is not None:
                self.bad_signals += 1
                self.set_aside += 1
                self._miss("undecodable", 1, batch.sent_at)
                text = host_troubles.bad_signal(self.bad_signals, unused.cause)
                self.troubles.note("signal", text, now)
        self.saved.change(changed)
        if self.ahead > before_ahead:
            self.troubles.note("clock", host_troubles.dated_ahead(self.ahead), now)
        if self.turned_away > turned_away:  # as long as they go on, so that it stays said
            most = self.rules.most_sessions
            self.troubles.note("many", host_troubles.too_many_sessions(most), now)
        return changed

    def _fold(self, signal: AnySignal | Unread, changed: set[str]) -> Unread | None:
        """The signal itself, if it could not be used."""
        if isinstance(signal, Unread):
            return signal
        session_id = signal.session_id
        before = self.facts.get(session_id)
        try:
            after = fold(before, signal)
        except Exception as error:  # noqa: BLE001 - fold takes whatever decodes; should a signal
            # show otherwise, every hub would end at it, again at each start, and no host be seen
            return Unread(f"{type(error).__name__} in {type(signal).__name__}: {error}"[:200])
        # A session of history takes a place as well once it is at work again: else a machine could
        # list any number by way of its history.
        if (before is None or before.past) and self.is_full and not after.past:
            self.turned_away += 1
            if len(self.left_out) < MOST_LEFT_OUT:
                self.left_out.add(session_id)
            return None
        if after is not before:
            self.facts[session_id] = after
            changed.add(session_id)
            if after.past:  # known before it is resolved, as a long history is read in one go
                self.past[session_id] = after.ended_at
            else:
                self.past.pop(session_id, None)
        return None

    @property
    def listed(self) -> int:
        """Sessions that are no history, phantoms among them."""
        return len(self.facts) - len(self.past)

    @property
    def is_full(self) -> bool:
        return self.listed >= self.rules.most_sessions

    def _miss(self, reason: str, numbers: int, before: int) -> None:
        """Numbers will not come. before: the host's time by which that had happened.

        Sessions that began later are whole, however long the news of it lay in the stream.
        """
        self.gaps = with_gap(self.gaps, GapView(before, reason, numbers))

    def judge(self, session_id: str, now: int) -> int | None:
        """When that changes by itself, by the hub's clock.

        None also for a host whose clock stands: its timers are set again when it comes back.
        """
        facts = self.facts.get(session_id)
        archived = facts is not None and self.archived(facts) is not None
        if facts is not None and (facts.past or archived):
            self.past[session_id] = facts.ended_at
        else:
            self.past.pop(session_id, None)
        if facts is None or archived or not facts.materialised:
            self._unlist(session_id)
            return None
        told, held = facts.gauges.limits, self.gauges.get(facts.agent)
        if told is not None and (held is None or held.limits is None or told[0] > held.limits[0]):
            self.gauges[facts.agent] = facts.gauges
        verdict = judge(
            self._decided(facts),
            self.clock.host_now(now),
            self.rules,
            self.verdicts.get(session_id),
        )
        self.verdicts[session_id] = verdict
        if verdict.until is None or self.reachability != "live":
            return None
        return self.clock.to_hub(verdict.until)

    def _unlist(self, session_id: str) -> None:
        self.verdicts.pop(session_id, None)
        self.shown.pop(session_id, None)

    def show(self, session_id: str, spent: Spent) -> SessionView:
        """A listed session, as it is by its latest verdict."""
        facts, verdict, place = self.facts[session_id], self.verdicts[session_id], self.place()
        incomplete = self.is_incomplete(session_id)
        last = self.shown.get(session_id)
        view = session_view(
            place, session_id, facts, verdict, last, incomplete=incomplete, spent=spent
        )
        self.shown[session_id] = Shown(place, facts, verdict, view)
        return view

    def _decided(self, facts: Facts) -> Facts:
        """With what this hub, as any other, finds of its budget, and what people decided about it."""
        over, told = self.over.get(facts.session_id), self.dismissals.get(facts.session_id)
        if over is not None:
            facts = replace(facts, budget=over)
        if told is not None and told.kind == "dismissed" and stands(told, facts):
            at = max(told.at, facts.moved)
            facts = replace(facts, dismissed=at, read=max(at, facts.read))
        return facts

    def archived(self, facts: Facts) -> Dismissal | None:
        """By whose decision it is in the history although it may live."""
        told = self.dismissals.get(facts.session_id)
        return told if told and told.kind == "archived" and stands(told, facts) else None

    def expire(self, now: int) -> set[str]:
        """What was delivered long ago, and is not suspended, becomes history, and of history what is too much is dropped.

        Returns the sessions that are not listed any longer. What never came to be a session is
        dropped as well, a week after its last sign; what it has spent stays spent.
        """
        host_now = self.clock.host_now(now)
        oldest = host_now - KEEP_DELIVERED_MS
        listed = self.facts.keys() - self.past.keys()
        old = [key for key in listed if self.facts[key].updated_at < oldest]
        return self._put_away((key for key in old if not self._is_suspended(key)), host_now)

    def make_room(self, wanted: int, now: int) -> set[str]:
        """As `expire`, where as many sessions as are listed: of its oldest, so many more.

        Some more than wanted, and for a second none if there were none: to look for them costs
        what a thousand signals do, and whoever makes sessions without end is to pay for it himself.
        """
        if now < self.full_until:
            return set()
        listed = (key for key in self.facts.keys() - self.past.keys() if self._is_over(key))
        wanted += self.rules.most_sessions // SPARE
        oldest = nsmallest(wanted, listed, key=lambda key: (self.facts[key].updated_at, key))
        gone = self._put_away(oldest, self.clock.host_now(now))
        if not gone:
            self.full_until = now + FULL_MS
        return gone

    def _is_suspended(self, session_id: str) -> bool:
        """Such a one waits to be taken up again for as long as there is room, or until it is archived."""
        verdict = self.verdicts.get(session_id)
        return verdict is not None and verdict.state.state == "suspended"

    def _is_over(self, session_id: str) -> bool:
        """Delivered; or nothing that was ever listed."""
        verdict = self.verdicts.get(session_id)
        if verdict is None:
            return not self.facts[session_id].materialised
        return verdict.state.group is Group.DELIVERED

    def _put_away(self, keys: Iterable[str], host_now: int) -> set[str]:
        over: set[str] = set()
        phantoms: set[str] = set()
        for key in keys:
            verdict, facts = self.verdicts.get(key), self.facts[key]
            state = None if verdict is None else verdict.state
            phantom = state is None and not facts.past and not facts.materialised
            delivered = state is not None and state.group is Group.DELIVERED
            if delivered or (phantom and (facts.usage or facts.costs)):
                self.facts[key] = stripped(facts, state)
                self._unlist(key)
                self.past[key] = self.facts[key].ended_at
                over.add(key)
            elif phantom:
                phantoms.add(key)
        surplus_now = surplus(self.past, host_now)
        self.dropped += len(surplus_now)
        gone = phantoms | surplus_now
        for key in gone:
            del self.facts[key]
            self.past.pop(key, None)
        self.saved.change(over - gone)
        self.saved.drop(gone)
        return over | gone

    def hear(self, beat: Beat, age_ms: int, now: int) -> None:
        """A heartbeat written `age_ms` ago."""
        self.beat = beat
        self.problem = beat.problem
        self.clock.observe(beat.at, now - age_ms)

    def reach(self, now: int) -> bool:
        """Recompute reachability; whether it changed."""
        stopping = self.beat is not None and self.beat.stopping
        reached = reachability(now - self.clock.last_seen, stopping=stopping)
        changed = reached != self.reachability
        self.reachability = reached
        return changed

    def header(self) -> Snapshot:
        record = HostRecord(
            label=self.label,
            last_seen=self.clock.last_seen,
            clock_offset_ms=self.clock.offset_ms,
            gaps=self.gaps,
        )
        applied, runs = dict(self.applied), dict(self.runs)
        return Snapshot(self.saved.version, self.cursor, applied, record, runs=runs)

    def take_dirty(self) -> tuple[Snapshot, dict[str, Facts], set[str]]:
        """What the next snapshot writes: all of one moment."""
        dirty, gone = self.saved.take()
        return self.header(), {key: self.facts[key] for key in dirty if key in self.facts}, gone

    def overtaken(self, stored: Snapshot, now: int) -> None:
        """The stored snapshot is not the one we know: another hub's, or one that was set back."""
        self.saved.overtaken(stored, self.applied, self.facts)
        self._note_stored(stored, now)

    def is_incomplete(self, session_id: str) -> bool:
        if session_id in self.saved.unreadable or session_id in self.saved.aside:
            return True  # what it did before could not be restored
        if session_id in self.left_out:
            return True  # nor was it followed from its beginning
        return is_concerned(self.facts[session_id], self.gaps)

    def place(self) -> ViewedHost:
        known = self.beat.agents if self.beat else ()
        unhooked = frozenset(each.name for each in known if each.limits)
        return ViewedHost(self.id, self.label, self.reachability, self.clock.offset_ms, unhooked)

    def titled(self, agent: str) -> str:
        """What people call an agent; "" for the default one, which needs no name."""
        return "" if agent == DEFAULT_AGENT else self.title_of(agent)

    def title_of(self, agent: str) -> str:
        known = self.beat.agents if self.beat else ()
        return next((each.title for each in known if each.name == agent), agent)

    def view(self, now: int = 0) -> HostView:
        """now: the hub's clock, for limits that have been reset since."""
        applied = self.applied.get(self.beat.spool_id, 0) if self.beat else 0
        return HostView(
            id=self.id,
            label=self.label,
            reachability=self.reachability,
            last_seen=self.clock.last_seen,
            sessions=len(self.verdicts),
            version=self.beat.version if self.beat else None,
            clock_offset_ms=self.clock.offset_ms,
            lag_ms=self.lag_ms,
            backlog=max(0, self.beat.seq - applied) if self.beat else 0,
            applied=applied,
            problem=self.troubles.sentences(self.problem),
            witnesses=in_hub_time(self.beat.witnesses, self.clock.offset_ms) if self.beat else (),
            gaps=tuple(replace(gap, at=self.clock.to_hub(gap.at)) for gap in self.gaps),
            set_aside=self.set_aside,
            limits=tuple(
                limit
                for agent, gauges in sorted(self.gauges.items())
                if gauges.limits is not None
                for limit in limits_that_hold(gauges.limits[1], now, self.titled(agent))
            ),
            # Nobody knows how far a machine has got that is not heard.
            scan=self.beat.scan if self.beat and self.reachability == "live" else None,
            via=self.beat.via if self.beat else None,
            agents=self.beat.agents if self.beat else (),
            control=self.beat.control if self.beat else "off",
        )


# What of one machine will never come. Here a gap's `at` is the host's time; clients are told the hub's.


def with_gap(gaps: tuple[GapView, ...], gap: GapView) -> tuple[GapView, ...]:
    if gaps and gaps[-1].reason == gap.reason and abs(gap.at - gaps[-1].at) <= ONE_EVENT_MS:
        before = gaps[-1]
        # 0 means that nobody knows how many, and stays that.
        numbers = before.numbers + gap.numbers if before.numbers and gap.numbers else 0
        gap = GapView(max(before.at, gap.at), gap.reason, numbers)
        gaps = gaps[:-1]
    return (*gaps, gap)[-MOST_GAPS:]


def is_concerned(facts: Facts, gaps: tuple[GapView, ...]) -> bool:
    """Whether something of this session may be missing: it was there before the newest gap.

    Both by the host's clock: hubs estimate its offset each for itself, and would not agree. A
    session counts from when its collector first knew of it, since what is older it has read up,
    whole, from the transcript.
    """
    began = facts.known or facts.born
    return bool(gaps) and began < max(gap.at for gap in gaps)
