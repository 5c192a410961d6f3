"""Serves notifications: their status, a browser's subscription, a test; and keeps them running."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import msgspec
from fastapi import APIRouter, Request

from adsum_hub.clock import Clock
from adsum_hub.live.broadcast import Broadcast
from adsum_hub.notify.channels import FAILING, AppriseSender, Sender
from adsum_hub.notify.notifier import Notifier
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
from adsum_hub.notify.rules import PUSH, Channel, Rule, read_config
from adsum_hub.rest.api import REFUSED, SCHEMA, BadRequestError, add_endpoints, endpoint
from adsum_hub.roster import Roster
from adsum_hub.settings import HubSettings
from adsum_shared.connect import Redis, open_redis

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

    Raises NotifyConfigError or PushKeyError for settings that cannot be used.

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
        self._clock = clock
        self._settings = settings
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
    """Opens notifications with a connection to Redis of their own. Raises NotifyConfigError, PushKeyError."""
    redis = open_redis(redis_url)  # what the list is kept by waits for no notification
    try:
        notifications = Notifications(settings, roster, redis, clock, broadcast)
        broadcast.listeners.append(notifications.notifier.heard)
        yield notifications
    finally:
        await redis.aclose()
