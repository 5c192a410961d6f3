"""All of it together: the notifier, the channels it speaks through, and what REST tells of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from adsum_hub.changes import Changes
from adsum_hub.clock import Clock
from adsum_hub.notify.config import read_config
from adsum_hub.notify.notifier import Notifier
from adsum_hub.notify.owners import OWNER, Owner, Owners
from adsum_hub.notify.push import Push
from adsum_hub.notify.rules import PUSH, Channel, Rule
from adsum_hub.notify.services import AppriseSpeaker
from adsum_hub.notify.speaking import FAILING, Speaker
from adsum_hub.notify.subscriptions import (
    APPLE,
    SubscriptionError,
    Subscriptions,
    subscription_of,
)
from adsum_hub.notify.vapid import PushKey, PushKeyError, load_key, require_contact
from adsum_hub.rest.notify_answers import Notify, NotifyChannel, NotifyRule, PushSubscription
from adsum_hub.roster import Roster
from adsum_hub.settings import HubSettings
from adsum_shared.connect import Redis

if TYPE_CHECKING:
    from starlette.types import Scope


class Told(NamedTuple):
    """What the settings say. notify, channel: the entries of the TOML file, or JSON.

    sign_in: whether people have to.
    """

    state_dir: Path
    notify: Any = None
    channel: Any = None
    push_contact: str | None = None
    push_key_file: Path | None = None
    push_allow_private: bool = False
    sign_in: bool = False


def told_by(settings: HubSettings) -> Told:
    return Told(
        state_dir=settings.state_dir,
        notify=settings.notify,
        channel=settings.channel,
        push_contact=settings.push_contact,
        push_key_file=settings.push_key_file,
        push_allow_private=settings.push_allow_private,
        sign_in=settings.sign_in,
    )


class Notifications:
    """Raises NotifyConfigError or PushKeyError for settings that cannot be used.

    ready: whether the hub's list is true. Nothing is imported and no key made before it is needed.
    """

    def __init__(
        self, told: Told, roster: Roster, redis: Redis, clock: Clock, ready: Callable[[], bool]
    ) -> None:
        require_contact(told.push_contact)
        config = read_config(told.notify, told.channel)
        self.clock = clock
        self.subscriptions = Subscriptions(redis, Owners(redis) if told.sign_in else None)
        self._told = told
        self._key: PushKey | None = None
        self._making = asyncio.Lock()
        self._push = Push(self.subscriptions, self.key, clock, private=told.push_allow_private)
        self._services = [
            AppriseSpeaker(each, clock) for each in config.channels if each.name != PUSH
        ]
        services = {each.channel.name: each for each in self._services}
        speakers: dict[str, Speaker] = {PUSH: self._push, **services}
        self.notifier = Notifier(roster, config, speakers, redis, clock, ready)

    def heard(self, changes: Changes) -> None:
        self.notifier.heard(changes)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._push.follow_up())
            for service in self._services:
                group.create_task(service.check())
            group.create_task(self.notifier.run())

    async def key(self) -> PushKey:
        """Raises PushKeyError."""
        async with self._making:
            if self._key is None:
                told = self._told
                self._key = await asyncio.to_thread(
                    load_key, told.state_dir, told.push_key_file, told.push_contact
                )
            return self._key

    def owner_of(self, scope: Scope) -> Owner | None:
        """None where nobody has to sign in. Raises SubscriptionError."""
        if not self._told.sign_in:
            return None
        owner: Owner | None = scope.get(OWNER)
        if owner is None:
            raise SubscriptionError(
                "This machine's own token takes no pushes: a subscription ends with its sign-in.",
                "Sign in in the browser that is to be told; `adsum login` prints a link.",
            )
        return owner

    async def subscribe(self, asked: PushSubscription, owner: Owner | None = None) -> int:
        """How many there are now. Raises SubscriptionError, PushKeyError, and what Redis raises."""
        key = await self.key()
        subscription = subscription_of(
            asked, key.public, self.clock(), owner, private=self._told.push_allow_private
        )
        if subscription.service.endswith(APPLE) and not self._told.push_contact:
            raise SubscriptionError(
                "Apple's push service takes nothing from a hub without a contact.",
                "Set ADSUM_PUSH_CONTACT to mailto: and an address of yours, and restart the hub.",
            )
        await self.subscriptions.add(subscription)
        return len(await self.subscriptions.all())

    async def status(self, schema: int) -> Notify:
        """Raises what Redis raises."""
        public, problem = None, None
        try:
            public = (await self.key()).public
        except PushKeyError as error:
            problem = str(error)
        known = await self.subscriptions.all()
        own = sum(each.key == public for each in known)
        config = self.notifier.config
        return Notify(
            schema=schema,
            now=self.clock(),
            public_key=public,
            problem=problem,
            contact=self._told.push_contact is not None,
            subscriptions=own,
            others=len(known) - own,
            channels=[self._channel(each) for each in config.channels],
            rules=[_rule(each) for each in config.rules],
        )

    def troubles(self) -> list[str]:
        """Channels that keep failing, in sentences: whoever relies on them would never know."""
        speakers = self.notifier.speakers
        return [
            f"Channel `{name}` of the notifications keeps failing: {speaker.health.error}"
            for name, speaker in speakers.items()
            if speaker.health.in_row >= FAILING
        ]

    def _channel(self, channel: Channel) -> NotifyChannel:
        health = self.notifier.speakers[channel.name].health
        failing = health.failed_at is not None and (health.sent_at or 0) <= health.failed_at
        return NotifyChannel(
            name=channel.name,
            content=channel.content,
            waiting=self.notifier.pending.waiting(channel.name),
            sent=health.sent,
            failed=health.failed,
            dropped=health.dropped,
            sent_at=health.sent_at,
            failed_at=health.failed_at,
            error=health.error,
            problem=health.error if failing else None,
        )


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
