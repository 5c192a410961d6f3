"""The notifier sends what calls for people, once its time has come and if it still stands."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from adsum_hub.clock import Clock
from adsum_hub.live.broadcast import Broadcast
from adsum_hub.notify.channels import Outcome, Sender
from adsum_hub.notify.messages import TEST, message_of
from adsum_hub.notify.rules import (
    STALE_MS,
    Case,
    Channel,
    Config,
    Pending,
    Rule,
    Throttle,
    case_of_host,
    case_of_session,
    decide,
)
from adsum_hub.roster import Changes, Roster
from adsum_shared import streams
from adsum_shared.connect import UNAVAILABLE, Redis, wanted

if TYPE_CHECKING:
    pass

Claim = Literal["won", "told", "held"]
_TOLD = b"told"
_CHUNK = 500


class SentMarks:
    """Which cases were sent, in Redis: two hubs do not both send one, and a restart repeats none.

    A claim lapses by itself: a hub that dies over a message leaves it to the others.

    If it dies between a message and its mark, that message is told twice. Rejected: to mark before
    sending, which would swallow it instead.
    """

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._me = secrets.token_hex(8).encode()

    async def begin(self, rules: Iterable[str], now: int) -> dict[str, int]:
        """Rule id -> since when there is such a rule; `now` for one that is not known yet."""
        begun: dict[str, int] = {}
        for rule in rules:
            key, ttl = streams.notify_rule(rule), streams.NOTIFY_KEEP_MS
            if not await self._redis.set(key, now, nx=True, px=ttl):
                await self._redis.pexpire(key, ttl)
            stored = await self._redis.get(key)
            begun[rule] = int(stored) if stored is not None and stored.isdigit() else now
        return begun

    async def claim(self, marks: Sequence[str]) -> list[Claim]:
        """held: another hub is at it; if it dies, the claim is free after NOTIFY_CLAIM_MS."""

        def claim(pipeline: Any, key: str) -> None:
            pipeline.set(key, self._me, nx=True, px=streams.NOTIFY_CLAIM_MS)
            pipeline.get(key)

        replies = await self._pipelined(marks, claim)
        return [self._claimed(value) for value in replies[1::2]]

    def _claimed(self, value: bytes | None) -> Claim:
        # Our own: also where the reply to the first try was lost.
        if value == self._me:
            return "won"
        return "told" if value == _TOLD else "held"

    async def mark_sent(self, marks: Sequence[str]) -> None:
        await self._pipelined(
            marks, lambda pipeline, key: pipeline.set(key, _TOLD, px=streams.NOTIFY_KEEP_MS)
        )

    async def free(self, marks: Sequence[str]) -> None:
        """Gives claims back, and removes marks of what may be sent again."""
        # In a cluster no one DEL takes them all.
        await self._pipelined(marks, lambda pipeline, key: pipeline.delete(key))

    async def _pipelined(
        self, marks: Sequence[str], add: Callable[[Any, str], object]
    ) -> list[bytes | None]:
        replies: list[bytes | None] = []
        for start in range(0, len(marks), _CHUNK):
            pipeline = self._redis.pipeline(transaction=False)
            for mark in marks[start : start + _CHUNK]:
                add(pipeline, streams.notify_mark(mark))
            replies += await pipeline.execute()
        return replies


#: Looked at in one go; everybody else has a turn in between.
SLICE = 200
MOST_COVERED = 10_000


class CaseWatch:
    """Turns the roster's changes into open cases.

    covered: cases that an earlier message covers; they are only marked. back: machines that are back.
    """

    def __init__(self, roster: Roster, rules: Sequence[Rule], clock: Clock) -> None:
        self.pending = Pending()
        self.covered: deque[tuple[str, Case]] = deque(maxlen=MOST_COVERED)
        self.back: set[str] = set()
        self.woken = asyncio.Event()
        self._roster = roster
        self._rules = rules
        self._host_rules = [rule.id for rule in rules if rule.on == "host_offline"]
        self._clock = clock
        #: ids only: a session that changes a thousand times is looked at once
        self._sessions: dict[str, None] = {}
        self._hosts: dict[str, None] = {}
        self._offline: dict[str, int] = {}
        self._live: set[str] = set()

    def heard(self, changes: Changes) -> None:
        """Called while the page is being told, so it only notes what to look at."""
        self._sessions |= {view.id: None for view in changes.sessions}
        self._sessions |= dict.fromkeys(changes.gone)
        self._hosts |= {view.id: None for view in changes.hosts}
        self._hosts |= dict.fromkeys(changes.gone_hosts)
        self.woken.set()

    async def absorb(self, begun: Mapping[str, int]) -> None:
        """begun: rule id -> since when there is such a rule."""
        while self._hosts or self._sessions:
            now = self._clock()
            for _ in range(min(SLICE, len(self._hosts))):
                key, _ = self._hosts.popitem()
                self._enter(key, self._host_case(key, begun, now), begun, now)
            for _ in range(min(SLICE, len(self._sessions))):
                key, _ = self._sessions.popitem()
                self._enter(key, self._session_case(key), begun, now)
            await asyncio.sleep(0)

    def _enter(self, key: str, case: Case | None, begun: Mapping[str, int], now: int) -> None:
        if case is None:
            self.pending.leave(key)
            return
        known = self.pending.standing.get(key)
        # It has delivered, and now it needs somebody: what was told of the one says nothing here.
        told = known.told if known is not None and known.case.on == case.on else {}
        before = known.case if known is not None else None
        decision = decide(self._rules, before, case, now, told=told, begun=begun)
        self.pending.enter(case, decision)
        self.covered.extend((channel, case) for channel in decision.covered)

    def _session_case(self, key: str) -> Case | None:
        view = self._roster.views.get(key)
        host = self._roster.hosts.get(view.host_id) if view is not None else None
        if view is None or host is None:
            return None
        verdict = host.verdicts.get(view.session_id)
        if verdict is None or verdict.state.state != view.state.state:
            return case_of_session(view, view.state.since)  # what the hub itself says of it
        return case_of_session(view, verdict.state.since)

    def _host_case(self, key: str, begun: Mapping[str, int], now: int) -> Case | None:
        view = self._roster.host_views.get(key)
        if not self._host_rules:
            return None
        if view is None or view.reachability != "offline":
            self._offline.pop(key, None)
            if view is not None and key not in self._live:
                self._live.add(key)
                self.back.add(key)
            return None
        self._live.discard(key)
        if view.last_seen < min(begun.get(rule, now) for rule in self._host_rules):
            return None  # it was so before anybody asked to be told
        return case_of_host(view, max(view.last_seen, self._offline.setdefault(key, now)))


#: No message is so urgent that every change would have to be looked at for itself.
REST_S = 0.2
LOOK_S = 1.0
#: After what was stored is in the list, what lies in the streams comes: some of it is over by then.
SETTLE_MS = 3_000
#: Another hub tells of it. Should it die over that, we know so much later.
HELD_MS = 5_000
AGAIN_MS = 2_000
RENEW_MS = 3_600_000
SLICE = 500
NO_REDIS = Outcome("Redis does not answer.")


class Notifier:
    """Sends each channel what is due on it. broadcast: says whether the list is true.

    What is pending is never stored: it is what stands in the roster and bears no mark. So it
    outlives a hub, and is no larger than what stands, however long a channel is silent.
    """

    def __init__(
        self,
        roster: Roster,
        config: Config,
        senders: Mapping[str, Sender],
        redis: Redis,
        clock: Clock,
        broadcast: Broadcast,
    ) -> None:
        self.config = config
        self.senders = senders
        self.throttles = {channel.name: Throttle() for channel in config.channels}
        self._watching = CaseWatch(roster, config.rules, clock)
        self.pending = self._watching.pending
        self._marks = SentMarks(redis)
        self._clock = clock
        self._broadcast = broadcast
        self._ready_at: int | None = None
        #: a rule that is new holds from here on: also for what is asked while this hub finds its feet
        self._started = clock()
        self._begun: dict[str, int] = {}
        self._renew_at = 0
        self._busy: set[str] = set()

    def heard(self, changes: Changes) -> None:
        self._watching.heard(changes)

    async def run(self) -> None:
        woken = self._watching.woken
        async with asyncio.TaskGroup() as group:
            while wanted():
                pause = await self.look(group)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(woken.wait(), pause)
                woken.clear()
                await asyncio.sleep(REST_S)

    async def look(self, group: asyncio.TaskGroup) -> float:
        """Returns the seconds until there is something to do, if nothing is heard before."""
        if not self._is_ready(self._clock()):
            return LOOK_S
        try:
            await self._remember(self._clock())
        except UNAVAILABLE:
            return LOOK_S
        await self._watching.absorb(self._begun)
        now, pause = self._clock(), LOOK_S
        for channel in self.config.channels:
            due = self.pending.next(channel.name)
            if channel.name in self._busy or due is None:
                continue
            at = max(due, self.throttles[channel.name].free_at(now))
            if at > now:
                pause = min(pause, (at - now) / 1000)
            else:
                self._busy.add(channel.name)
                group.create_task(self._send_due(channel), name=f"notify {channel.name}")
        return pause

    def _is_ready(self, now: int) -> bool:
        trouble = self._broadcast.trouble
        if self._broadcast.restoring or (trouble is not None and trouble.blind):
            self._ready_at = None
        elif self._ready_at is None:
            self._ready_at = now + SETTLE_MS
        return self._ready_at is not None and now >= self._ready_at

    async def _remember(self, now: int) -> None:
        """Since when there are these rules, and the marks that are to be set or taken off."""
        if now >= self._renew_at:
            since = now if self._begun else self._started
            begun = await self._marks.begin({rule.id for rule in self.config.rules}, since)
            # After a loss of all of Redis this hub still knows what it has told since.
            self._begun = {rule: min(at, self._begun.get(rule, at)) for rule, at in begun.items()}
            self._renew_at = now + RENEW_MS
        covered, back = list(self._watching.covered), set(self._watching.back)
        if not covered and not back:
            return
        names = {name: await each.name() for name, each in self.senders.items()}
        await self._marks.mark_sent(
            [case.mark(called) for name, case in covered if (called := names[name])]
        )
        # When they are gone again, that is another matter.
        gone = [Case("host_offline", key, "offline", 0, 0, "", "") for key in back]
        await self._marks.free(
            [case.mark(called) for case in gone for called in names.values() if called]
        )
        self._watching.back -= back
        for _ in covered:
            self._watching.covered.popleft()

    async def _send_due(self, channel: Channel) -> None:
        """Sends one message of all that is due. While one is on its way, or none gets through, more wait."""
        now = self._clock()
        due = [
            each for each in self.pending.take(channel.name, now) if now - each.since <= STALE_MS
        ]
        try:
            called, claimed = await self._claim(channel, await self._not_quiet(channel, due))
            if called is not None and claimed:
                try:
                    outcome = await self.senders[channel.name].send(
                        message_of(claimed, channel.content, self.pending.needing)
                    )
                except UNAVAILABLE:
                    outcome = NO_REDIS
                await self._settle(channel, called, claimed, outcome)
        finally:
            self.senders[channel.name].health.log_change(channel.name)
            self._busy.discard(channel.name)
            self._watching.woken.set()

    async def _not_quiet(self, channel: Channel, due: Sequence[Case]) -> list[Case]:
        """What had to wait until now may have come into quiet hours."""
        loud = []
        for number, case in enumerate(due):
            now = self._clock()
            at = min(
                (
                    rule.after_quiet(now)
                    for rule in self.config.rules
                    if channel.name in rule.channels and rule.matches(case)
                ),
                default=now,
            )
            if at > now:
                self.pending.put(case, channel.name, at)
            else:
                loud.append(case)
            if number % SLICE == SLICE - 1:
                await asyncio.sleep(0)
        return loud

    async def _claim(self, channel: Channel, due: Sequence[Case]) -> tuple[str | None, list[Case]]:
        """What this hub is to tell. Where nobody listens there is nothing to remember either."""
        if not due:
            return None, []
        try:
            called = await self.senders[channel.name].name()
            if called is None:
                return None, []
            claims = await self._marks.claim([case.mark(called) for case in due])
        except UNAVAILABLE:
            self._put_back(channel, due, self._clock() + AGAIN_MS)
            return None, []
        won: list[Case] = []
        for case, claim in zip(due, claims, strict=True):
            if claim == "won":
                won.append(case)
            elif claim == "told":
                self.pending.mark_sent(case, channel.name, self._clock())
            else:
                self.pending.put(case, channel.name, self._clock() + HELD_MS)
        return called, [case for case in won if self.pending.stands(case)]

    async def _settle(
        self, channel: Channel, called: str, claimed: Sequence[Case], outcome: Outcome
    ) -> None:
        marks, throttle = [case.mark(called) for case in claimed], self.throttles[channel.name]
        if outcome.error is not None:
            self._put_back(channel, claimed, throttle.failed(self._clock(), outcome.again_s))
            with contextlib.suppress(*UNAVAILABLE):  # else they lapse
                await self._marks.free(marks)
            return
        throttle.spent(self._clock())
        for case in claimed:
            self.pending.mark_sent(case, channel.name, self._clock())
        try:
            await self._marks.mark_sent(marks)
        except UNAVAILABLE:
            self._watching.covered.extend((channel.name, case) for case in claimed)

    def _put_back(self, channel: Channel, cases: Sequence[Case], at: int) -> None:
        for case in cases:
            self.pending.put(case, channel.name, at)

    async def test(self, name: str) -> str | None:
        """What went wrong, None if nothing did. Raises what Redis raises."""
        sender = self.senders[name]
        error: str | None
        if await sender.name() is None:
            error = sender.health.error or "No browser has subscribed yet."
        else:
            error = (await sender.send(TEST)).error
        sender.health.log_change(name)
        return error
