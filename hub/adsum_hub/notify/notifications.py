"""REST v1 of notifications: status, a browser's subscription, a test."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

import msgspec
from fastapi import APIRouter, Request

from adsum_hub.clock import Clock
from adsum_hub.live.broadcast import Broadcast
from adsum_hub.notify.notifier import Notifications, Notifier
from adsum_hub.notify.push import PushKeyError, PushSubscription
from adsum_hub.notify.rules import Channel, Rule
from adsum_hub.rest.api import REFUSED, SCHEMA, endpoint
from adsum_hub.roster import Roster
from adsum_hub.settings import HubSettings
from adsum_shared.connect import open_redis


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


async def status_of(notifications: Notifications) -> Notify:
    """Raises what Redis raises."""
    public, problem = None, None
    try:
        public = (await notifications.key()).public
    except PushKeyError as error:
        problem = str(error)
    known = await notifications.subscriptions.all()
    own = sum(each.key == public for each in known)
    config = notifications.notifier.config
    return Notify(
        schema=SCHEMA,
        now=notifications.clock(),
        public_key=public,
        problem=problem,
        contact=notifications.settings.push_contact is not None,
        subscriptions=own,
        others=len(known) - own,
        channels=[_channel(notifications.notifier, each) for each in config.channels],
        rules=[_rule(each) for each in config.rules],
    )


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
        broadcast.listeners.append(notifications.heard)
        yield notifications
    finally:
        await redis.aclose()


def notify_router(notifications: Notifications) -> APIRouter:
    router = APIRouter(prefix="/api/v1/notify", tags=["v1"])
    away = {503: "Redis does not answer"}

    @endpoint(router, "GET ", "Who is told of what, and how that has fared", away)
    async def status() -> Notify:
        return await status_of(notifications)

    summary = "A browser asks for pushes: what its subscription.toJSON() says"

    @endpoint(router, "POST /subscriptions", summary, REFUSED)
    async def subscribe(request: Request, asked: PushSubscription) -> Subscribed:
        owner = notifications.owner_of(request.scope)
        return Subscribed(SCHEMA, await notifications.subscribe(asked, owner))

    @endpoint(router, "DELETE /subscriptions", "A browser wants no more of them", REFUSED)
    async def unsubscribe(named: PushEndpoint) -> Subscribed:
        await notifications.subscriptions.remove(named.endpoint)
        return Subscribed(SCHEMA, len(await notifications.subscriptions.all()))

    summary = "Tell one channel, or all, that messages arrive"

    @endpoint(router, "POST /test", summary, {**REFUSED, 429: "Too soon"})
    async def test(asked: NotifyTestAsked) -> NotifyTest:
        tried = await notifications.test(asked.channel)
        return NotifyTest(SCHEMA, [NotifyTried(name, error) for name, error in tried.items()])

    return router
