"""A browser's part: follows one hub's WebSocket through the hub's restarts and its own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException

from tests.chaos.oracle import Finding, Kind
from tests.chaos.views import View, tape_of

#: A hub that was behind may take over what another has stored and read on from there; for longer,
#: nothing that was shown is missing.
BACK_WITHIN_S = 1.0


class Watcher:
    """sessions, hosts: as a client has them. seen: id -> when it was first shown (monotonic s)."""

    def __init__(self, name: str, url: str) -> None:
        self.name = name
        self.url = url
        self.sessions: dict[str, View] = {}
        self.hosts: dict[str, View] = {}
        self.seen: dict[str, float] = {}
        self.findings: list[Finding] = []
        self.connections = 0
        #: (view, id) -> since when it is missing, though it was shown
        self._missing: dict[tuple[str, str], float] = {}
        self._at: tuple[str | None, int | None] = (None, None)
        self._lie: tuple[str, int] | None = None
        self._socket: ClientConnection | None = None

    async def follow(self) -> None:
        while True:
            with contextlib.suppress(OSError, TimeoutError, WebSocketException):
                await self._connection()
            self._socket = None
            await asyncio.sleep(0.1)

    async def _connection(self) -> None:
        address = f"{self.url.replace('http', 'ws', 1)}/ws"
        async with connect(address, open_timeout=2, ping_interval=None, max_size=None) as opened:
            self._socket = opened
            self.connections += 1
            epoch, offset = self._lie or self._at
            if epoch != self._at[0]:
                self._at = (None, None)  # whoever names another run is owed nothing of this one
            self._lie = None
            await opened.send(json.dumps({"epoch": epoch, "offset": offset}))
            async for raw in opened:
                self.take(json.loads(raw))

    def drop(self, lie: tuple[str, int] | None = None) -> None:
        """As a laptop that is closed: the client comes back with what it has, or says it has."""
        self._lie = lie
        if self._socket is not None:
            self._socket.transport.abort()

    @property
    def future(self) -> tuple[str, int]:
        """An offset that its hub has never given."""
        epoch, offset = self._at
        return epoch or "", (offset or 0) + 1000

    def take(self, message: View) -> None:
        epoch, offset = self._at
        same = message["epoch"] == epoch
        if same and offset is not None and message["offset"] < offset:
            self._find("apart", f"offset {message['offset']} after {offset}")
        if message["type"] == "deltas" and not same:
            self._find("apart", "deltas of an epoch of which there was no snapshot")
        self._at = (message["epoch"], message["offset"])
        if message["type"] == "tick":
            return
        before = dict(self.sessions) if same else {}
        if message["type"] == "snapshot":
            self.sessions, self.hosts = {}, {}
        for view_id in message.get("gone", ()):
            self.sessions.pop(view_id, None)
        for view_id in message.get("gone_hosts", ()):
            self.hosts.pop(view_id, None)
        self.sessions |= {view["id"]: view for view in message["sessions"]}
        self.hosts |= {view["id"]: view for view in message["hosts"]}
        now = time.monotonic()
        for view in message["sessions"]:
            for name in tape_of(view):
                self.seen.setdefault(name, now)
        if not same:
            self._missing.clear()
        self._compare(before, now)

    def _compare(self, before: dict[str, View], now: float) -> None:
        """Within one run of a hub, what was shown once stays."""
        for view_id, view in before.items():
            if self.sessions.get(view_id) is not view:
                shown = set(tape_of(self.sessions.get(view_id, {})))
                for name in set(tape_of(view)) - shown:
                    self._missing.setdefault((view_id, name), now)
        for key in [key for key in self._missing if key[1] in self._shown(key[0])]:
            since = self._missing.pop(key)
            if now - since > BACK_WITHIN_S:
                self._find("regressed", f"{key[1]} of {key[0]} for {now - since:.1f} s")

    def _shown(self, view_id: str) -> list[str]:
        return tape_of(self.sessions.get(view_id, {}))

    def _find(self, kind: Kind, what: str) -> None:
        self.findings.append(Finding(kind, self.name, what))
