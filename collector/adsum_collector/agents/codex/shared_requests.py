"""Has people elsewhere decide what the sessions of a background server ask, where its owner agreed.

To hear a request one must be subscribed to its thread, and a thread is kept loaded by whoever is. So
that is done while control is on and the thread asks, and taken back as soon as either is over.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from adsum_collector.agents.base import Asked, HeardRequest, Surroundings
from adsum_collector.agents.codex.control_socket import (
    ControlSocket,
    ControlSocketError,
    ServerMessage,
    ServerRefusedError,
)
from adsum_collector.agents.codex.known_threads import KnownThreads
from adsum_collector.agents.codex.requests import (
    PATCH,
    ServerRequest,
    Whose,
    asked_of,
    is_refusal,
    opened_by,
    request_in,
)
from adsum_collector.errors import SpoolUnavailable
from adsum_shared import WallClock
from adsum_shared.signals import RequestClosed

RESOLVED: Final = "serverRequest/resolved"
#: For the hook that tells of a patch, which may be heard after the server's request.
PATCH_S: Final = 1.0
PATCH_LOOKS: Final = 20
#: For what comes of a key that crossed with an answer: lines and hooks tell it sooner.
SETTLE_S: Final = 0.5
SETTLE_LOOKS: Final = 20
MOST_OPEN: Final = 64


class _Resumed(msgspec.Struct):
    cwd: str


class _Resolved(msgspec.Struct, rename="camel"):
    thread_id: str
    request_id: int | str


class _Open:
    """A request that is held, and the way its answer takes. given_at: ms, 0 if none was given."""

    def __init__(
        self, server: ControlSocket, request: ServerRequest, number: int | str, now: WallClock
    ) -> None:
        self._server, self.request, self.number, self._now = server, request, number, now
        self.own_id = f"{request.thread}/{number}"
        self.over = asyncio.Event()
        self.asked: Asked | None = None
        self.holding: asyncio.Task[None] | None = None
        self.given: dict[str, Any] = {}
        self.given_at = 0
        self.is_settling = False

    async def read(self, _most: int) -> bytes:
        await self.over.wait()
        return b""

    def write(self, body: bytes) -> None:
        self.given = msgspec.json.decode(body)

    async def drain(self) -> None:
        self.given_at = self._now()
        try:
            await self._server.answer(self.number, self.given)
        except ControlSocketError as error:
            raise OSError(str(error)) from error


class SharedRequests:
    """Of one connection. moved: what was asked in another way than expected -> how often."""

    def __init__(
        self,
        server: ControlSocket,
        threads: KnownThreads,
        around: Surroundings,
        moved: Counter[str],
    ) -> None:
        self._server, self._threads, self._around = server, threads, around
        self._moved = moved
        #: thread -> where it works; "" if the server would not let us listen
        self._heard: dict[str, str] = {}
        self._open: dict[int | str, _Open] = {}

    async def follow(self, asking: Sequence[str]) -> None:
        """asking: the threads that wait for a human now. Raises ControlSocketError."""
        desk = self._around.desk
        wanted = dict.fromkeys(asking if desk is not None and desk.is_on() else ())
        for thread in [each for each in self._heard if each not in wanted]:
            del self._heard[thread]
            for each in [each for each in self._open.values() if each.request.thread == thread]:
                if not each.is_settling:
                    self._end(each)
            with contextlib.suppress(ServerRefusedError):  # it has unloaded the thread itself
                await self._server.call("thread/unsubscribe", {"threadId": thread})
        for thread in [each for each in wanted if each not in self._heard]:
            self._heard[thread] = ""
            try:
                named = {"threadId": thread, "excludeTurns": True}
                raw = await self._server.call("thread/resume", named)
                self._heard[thread] = msgspec.json.decode(raw, type=_Resumed).cwd
            except ServerRefusedError:
                self._moved["thread/resume refused"] += 1
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                self._moved["thread/resume"] += 1

    async def hear(self, message: ServerMessage) -> None:
        """Raises SpoolUnavailable."""
        if message.method != RESOLVED and message.id is None:
            return
        try:
            if message.method == RESOLVED:
                told = msgspec.json.decode(message.params, type=_Resolved)
                await self._resolve(told, message.emitted)
            elif (found := request_in(message.method, message.params)) is not None:
                self._hold(found, message.id or 0)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            self._moved[message.method] += 1

    async def close(self) -> None:
        """Whoever stops listening has not decided."""
        tasks = [each.holding for each in self._open.values() if each.holding is not None]
        for each in list(self._open.values()):
            self._end(each)
        if tasks:
            await asyncio.wait(tasks)

    def _end(self, held: _Open) -> None:
        held.over.set()
        if self._open.get(held.number) is held:
            del self._open[held.number]

    def _hold(self, request: ServerRequest, number: int | str) -> None:
        """A pending request is asked again of whoever comes; one that is held is held once."""
        known, cwd = self._threads.get(request.thread), self._heard.get(request.thread)
        if known is None or not cwd or number in self._open or len(self._open) >= MOST_OPEN:
            return
        child = request.thread if known.kind == "child" else None
        held = self._open[number] = _Open(self._server, request, number, self._around.now)
        held.holding = asyncio.create_task(self._decide(held, Whose(known.session, child, cwd)))

    async def _decide(self, held: _Open, whose: Whose) -> None:
        desk, request = self._around.desk, held.request
        try:
            patch = await self._patch(request.call) if request.method == PATCH else None
            held.asked = asked_of(request, whose, patch)
            opened = opened_by(request, held.asked, held.own_id, self._around.now())
            if desk is not None and not held.over.is_set():
                await desk.hold("codex", HeardRequest(held.asked, opened, held))
        except SpoolUnavailable:
            self._moved["not held"] += 1  # nobody was told of it; the terminal decides
        finally:
            if not held.given_at:  # else the server is to say whose answer it took
                self._end(held)

    async def _patch(self, call: str) -> str | None:
        for _ in range(PATCH_LOOKS):
            if call in self._threads.patches:
                break
            await asyncio.sleep(PATCH_S / PATCH_LOOKS)
        return self._threads.patches.get(call)

    async def _resolve(self, told: _Resolved, emitted: int) -> None:
        """The server took an answer: ours, if it was given by then; else somebody else's."""
        held, now = self._open.get(told.request_id), self._around.now()
        if held is None or held.request.thread != told.thread_id:
            return
        at = min(emitted or now, now)
        if held.given_at and held.holding is not None and (not emitted or emitted >= held.given_at):
            held.is_settling = True
            held.holding = asyncio.create_task(self._settle(held, held.holding, at))
        else:
            if held.given_at and held.holding is not None:
                await asyncio.wait([held.holding])  # that it was sent is told first
            await self._closed(held, at, None)

    async def _settle(self, held: _Open, holding: asyncio.Task[None], at: int) -> None:
        """Tells that ours was taken, unless the opposite is seen to happen.

        The server says that a request is over a few milliseconds after it was, and not by whom. So a
        key that crosses with our answer is known by what comes of it.
        """
        await asyncio.wait([holding])
        refused, call = is_refusal(held.given), held.request.call
        outcome: str | None = "decline" if refused else "accept"
        for _ in range(SETTLE_LOOKS):
            stopped = self._threads.stopped.get(held.request.thread, 0) >= held.given_at
            if call in self._threads.ran if refused else stopped:
                outcome = None
                break
            await asyncio.sleep(SETTLE_S / SETTLE_LOOKS)
        try:
            await self._closed(held, at, outcome)
        except SpoolUnavailable:
            self._moved["not told"] += 1

    async def _closed(self, held: _Open, at: int, outcome: str | None) -> None:
        if held.asked is not None:
            closed = RequestClosed(
                session_id=held.asked.session_id,
                at=at,
                seen=max(at, self._around.now()),
                source="registry",
                agent_id=held.asked.agent_id,
                request_id=held.own_id,
                outcome=outcome,
            )
            await self._around.accept([closed])
        self._end(held)
