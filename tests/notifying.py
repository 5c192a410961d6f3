"""A notifier on a real Redis, with a roster and a clock that a test moves by hand."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
from fastapi import Request

from adsum_hub.notify.notifications import SETTLE_MS, Notifications
from adsum_hub.notify.push import PushSubscription
from adsum_hub.roster import Changes
from adsum_hub.settings import HubSettings
from adsum_shared.connect import open_redis
from adsum_shared.signals import DEFAULT_AGENT
from adsum_shared.state import URGENCY, Group, HostView, SessionView
from tests.hubs import NOW, session
from tests.post_boxes import Browser

Start = Callable[..., Any]


class Machine:
    def __init__(self) -> None:
        self.verdicts: dict[str, Any] = {}

    def titled(self, agent: str) -> str:
        return "" if agent == DEFAULT_AGENT else agent


class FakeRoster:
    """What the notifier reads of a roster, set by hand."""

    def __init__(self) -> None:
        self.views: dict[str, SessionView] = {}
        self.host_views: dict[str, HostView] = {}
        self.hosts: dict[str, Machine] = {}


class Fleet:
    """What several hubs agree on: the sessions, the machines, and what time it is."""

    def __init__(self) -> None:
        self.now = NOW
        self.rosters: list[tuple[FakeRoster, Notifications]] = []
        self.views: dict[str, SessionView] = {}
        self.machines: dict[str, HostView] = {}

    def clock(self) -> int:
        return self.now

    def need(self, name: str = "s", state: str = "needs_permission", **more: Any) -> None:
        more = {"label": "Needs permission: Bash rm -rf /secret", "since": self.now, **more}
        view = session(name, Group.NEEDS_YOU, state, **more)
        self.tell(msgspec.structs.replace(view, urgency=URGENCY[state]))

    def work(self, name: str = "s") -> None:
        self.tell(session(name, since=self.now))

    def deliver(self, name: str = "s") -> None:
        self.tell(session(name, Group.DELIVERED, "task_complete", since=self.now))

    def tell(self, *views: SessionView) -> None:
        self.views |= {view.id: view for view in views}
        for roster, notifications in self.rosters:
            _show(roster, views)
            notifications.notifier.heard(Changes(sessions=views))

    def host(self, view: HostView) -> None:
        self.machines[view.id] = view
        for roster, notifications in self.rosters:
            roster.host_views[view.id] = view
            notifications.notifier.heard(Changes(hosts=(view,)))


def _show(roster: FakeRoster, views: Any) -> None:
    for view in views:
        roster.views[view.id] = view
        # 4 s is how far this machine's clock is ahead
        state = msgspec.structs.replace(view.state, since=view.state.since + 4_000)
        roster.hosts.setdefault(view.host_id, Machine()).verdicts[view.session_id] = (
            SimpleNamespace(state=state)
        )


class NotifyingHub:
    """One hub's notifications. `run` looks as often as it takes until nothing more is to be done."""

    def __init__(self, fleet: Fleet, redis_url: str, state_dir: Path, **told: Any) -> None:
        self.fleet = fleet
        self.redis = open_redis(redis_url)
        self.roster = FakeRoster()
        self.broadcast = SimpleNamespace(restoring=False, trouble=None)
        given = {"sign_in": False, **told}
        settings = HubSettings(state_dir=state_dir, push_allow_private=True, **given)
        self.notifications = Notifications(
            settings,
            self.roster,
            self.redis,
            fleet.clock,
            self.broadcast,  # type: ignore[arg-type] # a fake
        )
        self.notifier = self.notifications.notifier
        fleet.rosters.append((self.roster, self.notifications))
        _show(self.roster, fleet.views.values())
        self.roster.host_views |= fleet.machines
        self.notifications.notifier.heard(
            Changes(
                sessions=tuple(fleet.views.values()),
                hosts=tuple(fleet.machines.values()),
            )
        )

    async def start(self) -> NotifyingHub:
        await self.run()
        self.fleet.now += SETTLE_MS
        await self.run()
        return self

    async def run(self, after_s: float = 0.0) -> None:
        self.fleet.now += int(after_s * 1000)
        async with asyncio.TaskGroup() as group:
            await self.notifier.look(group)
        await self.notifications.push.follow_up_once()

    async def subscribe(self, browser: Browser) -> None:
        asked = msgspec.convert(browser.subscription, PushSubscription)
        await self.notifications.subscribe(Request({"type": "http"}), asked)

    async def die(self) -> None:
        """As kill -9 would: it says nothing more."""
        self.fleet.rosters = [each for each in self.fleet.rosters if each[0] is not self.roster]
        await self.redis.aclose()


@contextlib.asynccontextmanager
async def starting(fleet: Fleet, redis_url: str, folder: Path) -> AsyncIterator[Start]:
    """start(*browsers, name=, **settings): a hub that has found its feet, with these subscribed."""
    hubs: list[NotifyingHub] = []

    async def start(*browsers: Browser, name: str = "hub", **told: Any) -> NotifyingHub:
        hub = NotifyingHub(fleet, redis_url, folder / name, **told)
        hubs.append(hub)
        await hub.start()
        for browser in browsers:
            await hub.subscribe(browser)
        return hub

    try:
        yield start
    finally:
        for hub in hubs:
            await hub.redis.aclose()
