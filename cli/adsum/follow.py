"""A hub's roster followed over its WebSocket, across lost connections."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import msgspec
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException

from adsum.client import headers_for, refused, tls_to, unreachable
from adsum.select import Filter, order
from adsum.text.words import trouble_in
from adsum_shared.state import HostView, HubTrouble, SessionView

PAUSES_S = (0.2, 0.5, 1.0, 2.0, 5.0)
#: The hub speaks at least every 5 s; silence beyond this is a dead connection, or a frozen hub.
SILENCE_S = 11.0
#: The hub closes with this whom it does not let in, or not any more.
NOT_IN = 4401
_CONNECTION = (OSError, WebSocketException, TimeoutError)


@dataclass(frozen=True, slots=True)
class Change:
    """Ids of sessions that are new or different, and of those that are no more."""

    changed: list[str]
    gone: list[str]


@dataclass(slots=True)
class Roster:
    """What the hub has told us, by id. sessions holds the JSON objects as they came.

    told_at: when it did last, by its clock, ms.
    """

    sessions: dict[str, dict[str, Any]] = field(default_factory=dict)
    hosts: dict[str, dict[str, Any]] = field(default_factory=dict)
    epoch: str | None = None
    offset: int | None = None
    ahead_ms: int = 0
    told_at: int = 0
    trouble: HubTrouble | None = None

    def apply(self, message: dict[str, Any], clock_ms: int) -> Change:
        before = self.sessions
        if message["type"] == "snapshot":
            self.sessions = {one["id"]: one for one in message["sessions"]}
            self.hosts = {one["id"]: one for one in message["hosts"]}
        elif message["type"] == "deltas":
            gone, gone_hosts = set(message["gone"]), set(message["gone_hosts"])
            changed = {one["id"]: one for one in message["sessions"]}
            kept = {key: one for key, one in before.items() if key not in gone}
            self.sessions = kept | changed
            self.hosts = {key: one for key, one in self.hosts.items() if key not in gone_hosts}
            self.hosts |= {one["id"]: one for one in message["hosts"]}
        if message["type"] != "deltas":
            self.trouble = trouble_in(message)
        self.epoch, self.offset = message["epoch"], message["offset"]
        self.told_at, self.ahead_ms = message["now"], message["now"] - clock_ms
        return Change(
            [key for key, one in self.sessions.items() if before.get(key) != one],
            [key for key in before if key not in self.sessions],
        )

    @property
    def now(self) -> int:
        """By the hub's clock, ms."""
        return _clock_ms() + self.ahead_ms

    def wanted(self, key: str, chosen: Filter) -> bool:
        return chosen.wants(msgspec.convert(self.sessions[key], SessionView))

    def views(self, chosen: Filter) -> list[SessionView]:
        views = msgspec.convert(list(self.sessions.values()), list[SessionView])
        return order(view for view in views if chosen.wants(view))

    def host_views(self) -> list[HostView]:
        return msgspec.convert(list(self.hosts.values()), list[HostView])


async def follow(url: str, roster: Roster) -> AsyncIterator[Change | None]:
    """Changes for ever, across lost connections; None each time the connection is lost.

    Raises CommandError when the hub cannot be reached the first time.
    """
    tries, met = 0, False
    while True:
        try:
            async for change in _one_connection(url, roster):
                tries, met = 0, True
                yield change
        except InvalidStatus as error:
            if error.response.status_code in (401, 403):
                raise refused(url) from error
            if not met:
                raise unreachable(url, error) from error
        except _CONNECTION as error:
            if isinstance(error, ConnectionClosed) and error.rcvd and error.rcvd.code == NOT_IN:
                raise refused(url, error.rcvd.reason) from error
            if not met:
                raise unreachable(url, error) from error
        yield None
        await asyncio.sleep(PAUSES_S[min(tries, len(PAUSES_S) - 1)])
        tries += 1


async def _one_connection(url: str, roster: Roster) -> AsyncIterator[Change]:
    """Until a message is found missing; then the next connection asks for everything."""
    address = f"ws{url.removeprefix('http')}/ws"
    shown, tls = headers_for(url), tls_to(url)
    # The library refuses ssl=None for wss, and anything else for ws.
    secure: dict[str, Any] = {"ssl": tls} if tls else {}
    async with connect(
        address, open_timeout=5, max_size=None, proxy=None, additional_headers=shown, **secure
    ) as socket:
        await socket.send(json.dumps({"epoch": roster.epoch, "offset": roster.offset}))
        while True:
            message = json.loads(await asyncio.wait_for(socket.recv(), SILENCE_S))
            if _missed(roster, message):
                roster.epoch = roster.offset = None
                return
            yield roster.apply(message, _clock_ms())


def _missed(roster: Roster, message: dict[str, Any]) -> bool:
    """True for changes that do not continue what we have: another run's, or with a hole before."""
    if message["type"] != "deltas" or roster.offset is None:
        return False
    return bool(message["epoch"] != roster.epoch or message["offset"] < roster.offset)


def _clock_ms() -> int:
    return int(time.time() * 1000)
