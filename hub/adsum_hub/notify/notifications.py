"""Sends what calls for people once its time has come, if it still stands; serves it by REST."""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence

import msgspec
from fastapi import APIRouter, Request

from adsum_hub.clock import Clock
from adsum_hub.live.broadcast import Broadcast
from adsum_hub.notify.channels import FAILING, TOLD, AppriseSender, Outcome, Sender, SentMarks
from adsum_hub.notify.messages import TEST, message_of
from adsum_hub.notify.push import (
    APPLE,
    OWNER,
    Push,
    PushKeyError,
    PushKeyFile,
    PushSubscription,
    SubscriptionOwner,
    Subscriptions,
    subscription_of,
)
from adsum_hub.notify.rules import (
    PUSH,
    REPORTED,
    STALE_MS,
    Case,
    Channel,
    Config,
    Pending,
    Rule,
    Throttle,
    case_of_host,
    case_of_report,
    case_of_session,
    decide,
    read_config,
)
from adsum_hub.rest.api import REFUSED, SCHEMA, BadRequestError, add_endpoints, endpoint
from adsum_hub.roster import Changes, Roster
from adsum_hub.settings import HubSettings
from adsum_shared.connect import UNAVAILABLE, Redis, open_redis, wanted

#: Cases looked at in one go; everybody else has a turn in between.
SLICE = 500
MOST_COVERED = 10_000
#: No message is so urgent that every change would have to be looked at for itself.
REST_S = 0.2
LOOK_S = 1.0
#: After what was stored is in the list, what lies in the streams comes: some of it is over by then.
SETTLE_MS = 3_000
#: Another hub tells of it. Should it die over that, we know so much later.
HELD_MS = 5_000
AGAIN_MS = 2_000
RENEW_MS = 3_600_000


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
        self.config, self.senders = config, senders
        self.pending = Pending()
        self._throttles = {channel.name: Throttle() for channel in config.channels}
        self._host_rules = [rule.id for rule in config.rules if rule.on == "host_offline"]
        self._roster = roster
        self._marks = SentMarks(redis)
        self._clock, self._broadcast = clock, broadcast
        self._woken = asyncio.Event()
        #: channels and cases that an earlier message covers; they are only marked
        self._covered: deque[tuple[str, Case]] = deque(maxlen=MOST_COVERED)
        #: what changed, by id only: a session that changes a thousand times is looked at once
        self._sessions: dict[str, None] = {}
        self._hosts: dict[str, None] = {}
        self._offline: dict[str, int] = {}
        self._live: set[str] = set()
        #: machines that are back
        self._back: set[str] = set()
        self._ready_at: int | None = None
        #: a rule that is new holds from here on: also for what is asked while this hub finds its feet
        self._started = clock()
        self._begun: dict[str, int] = {}
        self._renew_at = 0
        self._busy: set[str] = set()

    def heard(self, changes: Changes) -> None:
        """Called while the page is sent them, so it only notes what to look at."""
        self._sessions |= dict.fromkeys([*(view.id for view in changes.sessions), *changes.gone])
        self._hosts |= dict.fromkeys([*(view.id for view in changes.hosts), *changes.gone_hosts])
        self._woken.set()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            while wanted():
                pause = await self.look(group)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._woken.wait(), pause)
                self._woken.clear()
                await asyncio.sleep(REST_S)

    async def look(self, group: asyncio.TaskGroup) -> float:
        """Returns the seconds until there is something to do, if nothing is heard before."""
        if not self._is_ready(self._clock()):
            return LOOK_S
        try:
            await self._remember(self._clock())
        except UNAVAILABLE:
            return LOOK_S
        await self._absorb()
        now, pause = self._clock(), LOOK_S
        for channel in self.config.channels:
            due = self.pending.next(channel.name)
            if channel.name in self._busy or due is None:
                continue
            at = max(due, self._throttles[channel.name].free_at(now))
            if at > now:
                pause = min(pause, (at - now) / 1000)
            else:
                self._busy.add(channel.name)
                group.create_task(self._send_due(channel), name=f"notify {channel.name}")
        return pause

    async def _absorb(self) -> None:
        """Turns the roster's changes into open cases."""
        while self._hosts or self._sessions:
            now = self._clock()
            for _ in range(min(SLICE, len(self._hosts))):
                key, _ = self._hosts.popitem()
                self._enter(key, self._host_case(key, now), now)
            for _ in range(min(SLICE, len(self._sessions))):
                key, _ = self._sessions.popitem()
                self._enter(key, self._session_case(key), now)
                self._enter(key + REPORTED, self._report_case(key), now)
            await asyncio.sleep(0)

    def _enter(self, key: str, case: Case | None, now: int) -> None:
        if case is None:
            self.pending.leave(key)
            return
        known = self.pending.standing.get(key)
        # It has delivered, and now it needs somebody: what was told of the one says nothing here.
        told = known.told if known is not None and known.case.on == case.on else {}
        before = known.case if known is not None else None
        decision = decide(self.config.rules, before, case, now, told=told, begun=self._begun)
        self.pending.enter(case, decision)
        self._covered.extend((channel, case) for channel in decision.covered)

    def _report_case(self, key: str) -> Case | None:
        view = self._roster.views.get(key)
        if view is None or view.report is None:
            return None
        host = self._roster.hosts.get(view.host_id)
        called = host.titled(view.agent) if host else ""
        at = view.report.at + (host.clock.offset_ms if host else 0)
        return case_of_report(view, at, called)

    def _session_case(self, key: str) -> Case | None:
        view = self._roster.views.get(key)
        host = self._roster.hosts.get(view.host_id) if view is not None else None
        if view is None or host is None:
            return None
        verdict, called = host.verdicts.get(view.session_id), host.titled(view.agent)
        if verdict is None or verdict.state.state != view.state.state:
            # what the hub itself says of it
            return case_of_session(view, view.state.since, called)
        return case_of_session(view, verdict.state.since, called)

    def _host_case(self, key: str, now: int) -> Case | None:
        view = self._roster.host_views.get(key)
        if not self._host_rules:
            return None
        if view is None or view.reachability != "offline":
            self._offline.pop(key, None)
            if view is not None and key not in self._live:
                self._live.add(key)
                self._back.add(key)
            return None
        self._live.discard(key)
        if view.last_seen < min(self._begun.get(rule, now) for rule in self._host_rules):
            return None  # it was so before anybody asked to be told
        return case_of_host(view, max(view.last_seen, self._offline.setdefault(key, now)))

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
        covered, back = list(self._covered), set(self._back)
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
        self._back -= back
        for _ in covered:
            self._covered.popleft()

    async def _send_due(self, channel: Channel) -> None:
        """Sends one message of all that is due. While one is on its way, or none gets through, more wait."""
        sender = self.senders[channel.name]
        try:
            due = await self._take_due(channel)
            try:
                # Where nobody listens there is nothing to remember either.
                called = await sender.name() if due else None
                claims = await self._marks.claim([each.mark(called) for each in due if called])
            except UNAVAILABLE:
                self._put_back(channel, due, self._clock() + AGAIN_MS)
                return
            if called is not None and (won := self._won(channel, due, claims)):
                await self._send(channel, called, won)
        finally:
            sender.health.log_change(channel.name)
            self._busy.discard(channel.name)
            self._woken.set()

    async def _take_due(self, channel: Channel) -> list[Case]:
        """What had to wait until now may be too old, or have come into quiet hours."""
        loud, now = [], self._clock()
        rules = [rule for rule in self.config.rules if channel.name in rule.channels]
        for number, case in enumerate(self.pending.take(channel.name, now), 1):
            if now - case.since > STALE_MS:
                continue
            at = min((rule.after_quiet(now) for rule in rules if rule.matches(case)), default=now)
            if at > now:
                self.pending.put(case, channel.name, at)
            else:
                loud.append(case)
            if number % SLICE == 0:
                await asyncio.sleep(0)
        return loud

    def _won(
        self, channel: Channel, due: Sequence[Case], claims: Sequence[bytes | None]
    ) -> list[Case]:
        """What this hub is to send, of all that still stands."""
        won: list[Case] = []
        for case, claim in zip(due, claims, strict=True):
            # Our own: also where the reply to the first try was lost.
            if claim == self._marks.me:
                won.append(case)
            elif claim == TOLD:
                self.pending.mark_sent(case, channel.name, self._clock())
            else:
                self.pending.put(case, channel.name, self._clock() + HELD_MS)
        return [case for case in won if self.pending.stands(case)]

    async def _send(self, channel: Channel, called: str, cases: Sequence[Case]) -> None:
        marks, throttle = [case.mark(called) for case in cases], self._throttles[channel.name]
        message = message_of(cases, channel.content, self.pending.needing)
        try:
            outcome = await self.senders[channel.name].send(
                message, lambda: any(map(self.pending.stands, cases))
            )
        except UNAVAILABLE:
            outcome = Outcome("Redis does not answer.")
        if outcome.error is not None:
            self._put_back(channel, cases, throttle.failed(self._clock(), outcome.again_s))
            with contextlib.suppress(*UNAVAILABLE):  # else they lapse
                await self._marks.free(marks)
            return
        throttle.spent(self._clock())
        for case in cases:
            self.pending.mark_sent(case, channel.name, self._clock())
        try:
            await self._marks.mark_sent(marks)
        except UNAVAILABLE:
            self._covered.extend((channel.name, case) for case in cases)

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


#: Between two tests: whoever holds the button down is no nuisance to others.
TEST_EVERY_MS = 5_000


class NotifyChannel(msgspec.Struct):
    """sent, failed, dropped: since this hub started. waiting: cases it is not told of yet.

    error: of the last try that failed; problem: the same while nothing was sent since.
    """

    name: str
    content: str
    waiting: int
    sent: int
    failed: int
    dropped: int
    sent_at: int | None
    failed_at: int | None
    error: str | None
    problem: str | None


class NotifyRule(msgspec.Struct):
    """state, host, project: patterns; none = any. quiet: such as `22:00-07:00 Europe/Berlin`."""

    on: str
    channels: list[str]
    after_s: int
    digest_s: int
    state: list[str]
    host: list[str]
    project: list[str]
    quiet: str | None


class Notify(msgspec.Struct):
    """public_key: what a browser subscribes with; None: `problem` says why there is none.

    subscriptions: made with this key; others: with another hub's, which is the one to tell them.
    contact: whether ADSUM_PUSH_CONTACT is given, without which Apple's service takes nothing.
    """

    schema: int
    now: int
    public_key: str | None
    problem: str | None
    contact: bool
    subscriptions: int
    others: int
    channels: list[NotifyChannel]
    rules: list[NotifyRule]


class Subscribed(msgspec.Struct):
    """subscriptions: how many there are now, of all keys."""

    schema: int
    subscriptions: int


class NotifyTried(msgspec.Struct):
    """error: None if it went well."""

    channel: str
    error: str | None


class NotifyTest(msgspec.Struct):
    schema: int
    tried: list[NotifyTried]


class PushEndpoint(msgspec.Struct):
    endpoint: str


class NotifyTestAsked(msgspec.Struct):
    """channel: None = all."""

    channel: str | None = None


class Notifications:
    """A hub's channels, its browsers that asked for pushes, and its notifier.

    Raises EntryError or PushKeyError for settings that cannot be used.

    broadcast: says whether the hub's list is true. Nothing is imported and no key made before it is
    needed.
    """

    def __init__(
        self,
        settings: HubSettings,
        roster: Roster,
        redis: Redis,
        clock: Clock,
        broadcast: Broadcast,
    ) -> None:
        self.key_file = PushKeyFile(
            settings.state_dir, settings.push_key_file, settings.push_contact
        )
        config = read_config(settings.notify, settings.channel)
        self.subscriptions = Subscriptions(redis, owned=settings.sign_in)
        self._clock, self._settings = clock, settings
        self._tested_at = 0
        private = settings.push_allow_private
        self.push = Push(self.subscriptions, self.key_file, clock, private=private)
        self.services = [
            AppriseSender(each, clock) for each in config.channels if each.name != PUSH
        ]
        services = {each.channel.name: each for each in self.services}
        senders: dict[str, Sender] = {PUSH: self.push, **services}
        self.notifier = Notifier(roster, config, senders, redis, clock, broadcast)

    def router(self) -> APIRouter:
        return add_endpoints(APIRouter(prefix="/api/v1/notify", tags=["v1"]), self)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self.push.follow_up())
            for service in self.services:
                group.create_task(service.check())
            group.create_task(self.notifier.run())

    @endpoint("GET ", "Who is told of what, and how that has fared", {503: "Redis does not answer"})
    async def status(self) -> Notify:
        public, problem = None, None
        try:
            public = (await self.key_file.key()).public
        except PushKeyError as error:
            problem = str(error)
        known = await self.subscriptions.all()
        own = sum(each.key == public for each in known)
        config = self.notifier.config
        return Notify(
            schema=SCHEMA,
            now=self._clock(),
            public_key=public,
            problem=problem,
            contact=self._settings.push_contact is not None,
            subscriptions=own,
            others=len(known) - own,
            channels=[_channel(self.notifier, each) for each in config.channels],
            rules=[_rule(each) for each in config.rules],
        )

    @endpoint(
        "POST /subscriptions",
        "A browser asks for pushes: what its subscription.toJSON() says",
        REFUSED,
    )
    async def subscribe(self, request: Request, asked: PushSubscription) -> Subscribed:
        owner: SubscriptionOwner | None = request.scope.get(OWNER)
        if owner is None and self._settings.sign_in:
            raise BadRequestError(
                409,
                "This machine's own token takes no pushes: a subscription ends with its sign-in.",
                "Sign in in the browser that is to be told; `adsum login` prints a link.",
            )
        try:
            key = await self.key_file.key()
        except PushKeyError as error:
            raise BadRequestError(503, str(error), "Restart the hub once it is there.") from error
        subscription = subscription_of(
            asked, key.public, self._clock(), owner, private=self._settings.push_allow_private
        )
        if subscription.service.endswith(APPLE) and not self._settings.push_contact:
            raise BadRequestError(
                409,
                "Apple's push service takes nothing from a hub without a contact.",
                "Set ADSUM_PUSH_CONTACT to mailto: and an address of yours, and restart the hub.",
            )
        await self.subscriptions.add(subscription)
        return await self._subscribed()

    @endpoint("DELETE /subscriptions", "A browser wants no more of them", REFUSED)
    async def unsubscribe(self, named: PushEndpoint) -> Subscribed:
        await self.subscriptions.remove(named.endpoint)
        return await self._subscribed()

    async def _subscribed(self) -> Subscribed:
        return Subscribed(SCHEMA, len(await self.subscriptions.all()))

    @endpoint(
        "POST /test", "Tell one channel, or all, that messages arrive", {**REFUSED, 429: "Too soon"}
    )
    async def test(self, asked: NotifyTestAsked) -> NotifyTest:
        known, channel = list(self.notifier.senders), asked.channel
        if channel is not None and channel not in known:
            cause = f"There is no channel {channel[:40]!r}."
            raise BadRequestError(400, cause, f"Name one of {', '.join(known)}.")
        now = self._clock()
        if now - self._tested_at < TEST_EVERY_MS:
            step = f"Wait {TEST_EVERY_MS // 1000} s between two tests."
            raise BadRequestError(429, "A test was sent just now.", step)
        self._tested_at = now
        tried = [
            NotifyTried(name, await self.notifier.test(name))
            for name in ([channel] if channel else known)
        ]
        return NotifyTest(SCHEMA, tried)

    def notes(self) -> list[str]:
        """Channels that keep failing, in sentences: whoever relies on them would never know."""
        senders = self.notifier.senders
        return [
            f"Channel `{name}` of the notifications keeps failing: {sender.health.error}"
            for name, sender in senders.items()
            if sender.health.in_row >= FAILING
        ]


def _channel(notifier: Notifier, channel: Channel) -> NotifyChannel:
    health = notifier.senders[channel.name].health
    failing = health.failed_at is not None and (health.sent_at or 0) <= health.failed_at
    found = msgspec.structs.asdict(health) | {
        "name": channel.name,
        "content": channel.content,
        "waiting": notifier.pending.waiting(channel.name),
        "problem": health.error if failing else None,
    }
    return msgspec.convert(found, NotifyChannel)


def _rule(rule: Rule) -> NotifyRule:
    quiet = rule.quiet
    return NotifyRule(
        on=rule.on,
        channels=list(rule.channels),
        after_s=rule.after_ms // 1000,
        digest_s=rule.digest_ms // 1000,
        state=list(rule.states),
        host=list(rule.hosts),
        project=list(rule.projects),
        quiet=f"{quiet.from_:%H:%M}-{quiet.to:%H:%M} {quiet.zone.key}" if quiet else None,
    )


@contextlib.asynccontextmanager
async def open_notifications(
    settings: HubSettings, redis_url: str, roster: Roster, broadcast: Broadcast, clock: Clock
) -> AsyncIterator[Notifications]:
    """Opens notifications with a connection to Redis of their own. Raises EntryError, PushKeyError."""
    redis = open_redis(redis_url)  # what the list is kept by waits for no notification
    try:
        notifications = Notifications(settings, roster, redis, clock, broadcast)
        broadcast.listeners.append(notifications.notifier.heard)
        yield notifications
    finally:
        await redis.aclose()
