"""The receiver takes hooks over loopback HTTP, and answers once they are on disk.

One bare ASGI callable: a framework in front of it would cost the agent more than the work itself.
"""

from __future__ import annotations

import asyncio
import hmac
import os
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from types import FrameType
from typing import Any, Protocol

import msgspec
import uvicorn

from adsum_collector.errors import SpoolUnavailable
from adsum_collector.intake import HookDoor, understand
from adsum_collector.listening.sockets import tcp_peer_uid
from adsum_shared.bounded_http import bounded_http
from adsum_shared.signals import AnySignal

PATH = "/api/live/hook"
#: Whoever has the token may send large bodies: a hook carries the tool's whole output, and a 413
#: shows in the user's terminal. What is kept of it is small.
MOST_BYTES_TRUSTED = 16 << 20
MOST_BYTES = 1 << 20
READ_TIMEOUT_S = 5.0
#: By it a collector's answer is told from that of any other program, as a hub.
MARK = (b"x-adsum", b"collector")
#: Bodies read at once, and large ones among them: together the bound on memory. Others wait.
MOST_AT_ONCE = 64
MOST_LARGE_AT_ONCE = 4

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


class Refused(Exception):  # noqa: N818 - an answer, not a fault of ours
    def __init__(self, status: int, error: str, next_step: str) -> None:
        super().__init__(error)
        self.status = status
        self.body = msgspec.json.encode({"error": error, "next": next_step})


class Gone(Exception):  # noqa: N818 - the client went away; nobody is left to answer
    pass


class CollectorStatus(Protocol):
    def facts(self) -> tuple[bool, dict[str, Any]]:
        """Whether all is well, and what `/readyz` shows."""
        ...

    async def spool_status(self) -> msgspec.Struct:
        """What `/spool` shows. Raises SpoolUnavailable."""
        ...


class Receiver:
    """doors: by the agent's name; whoever names none is the first's. port: as clients see it."""

    def __init__(
        self, doors: Mapping[str, HookDoor], *, port: int, token: str, status: CollectorStatus
    ) -> None:
        self._doors = {PATH: next(iter(doors.values()))}
        self._doors |= {f"{PATH}/{agent}": door for agent, door in doors.items()}
        self._hosts = frozenset(
            f"{name}:{port}".encode() for name in ("127.0.0.1", "localhost", "[::1]")
        )
        self._authorization = b"Bearer " + token.encode()
        self._status = status
        self._slots = asyncio.Semaphore(MOST_AT_ONCE)
        self._large_slots = asyncio.Semaphore(MOST_LARGE_AT_ONCE)
        self.accepted = 0
        self.heard_at = 0
        self.refused: Counter[int] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            if door := self._doors.get(scope["path"]):
                seq, signals = await self._take(door, scope, receive)
                self.accepted += 1
                self.heard_at = _now_ms()
                await _answer(send, 200, headers=[(b"x-adsum-seq", b"%d" % seq)])
                door.heard(signals)
            else:
                await self._answer_probe(scope, send)
        except Refused as refused:
            self.refused[refused.status] += 1
            retry = [(b"retry-after", b"1")] if refused.status == 503 else []
            await _answer(send, refused.status, refused.body, [MARK, *retry])
        except Gone:
            self.refused[499] += 1

    async def _take(
        self, door: HookDoor, scope: Scope, receive: Receive
    ) -> tuple[int, Sequence[AnySignal]]:
        headers = dict(scope["headers"])
        _require_local(headers, self._hosts)
        _require_json_post(scope["method"], headers)
        most = MOST_BYTES_TRUSTED if self._is_trusted(scope, headers) else MOST_BYTES
        async with self._slots:
            body = await self._read(receive, _length(headers), most)
            try:
                signals = await understand(door.hook, body, _now_ms())
            except (ValueError, msgspec.DecodeError, RecursionError) as error:
                raise Refused(
                    400, f"not a hook's JSON: {error}", "Send the JSON that the agent's hook gave."
                ) from error
        try:
            return await door.intake.accept(signals), signals
        except SpoolUnavailable as error:
            raise Refused(503, f"not accepted: {error}", "Send it again later.") from error

    def _is_trusted(self, scope: Scope, headers: dict[bytes, bytes]) -> bool:
        """True with the token, False for the same user without one. Raises Refused."""
        given = headers.get(b"authorization")
        if given is not None:
            if hmac.compare_digest(given, self._authorization):
                return True
            raise Refused(401, "wrong token", "Run `adsum hooks install` to renew the hooks.")
        client, server = scope.get("client"), scope.get("server")
        if client and server and tcp_peer_uid(tuple(client), tuple(server)) == os.getuid():
            return False
        raise Refused(
            401,
            "no token, and not from this collector's user",
            "Send `Authorization: Bearer <token>`; `adsum hooks install` sets hooks up with it.",
        )

    async def _read(self, receive: Receive, length: int | None, most: int) -> bytes:
        if length is not None and length > most:
            raise _too_large(most)
        if most <= MOST_BYTES or (length is not None and length <= MOST_BYTES):
            return await _read_body(receive, most)
        async with self._large_slots:
            return await _read_body(receive, most)

    async def _answer_probe(self, scope: Scope, send: Send) -> None:
        headers = dict(scope["headers"])
        _require_local(headers, self._hosts)
        if scope["path"] not in {"/livez", "/readyz", "/spool"}:
            raise Refused(404, f"nothing at {scope['path']}", f"Hooks go to POST {PATH}.")
        if scope["method"] not in {"GET", "HEAD"}:
            raise Refused(405, f"{scope['method']} is not for {scope['path']}", "Use GET.")
        marks = [MARK]
        if scope["path"] == "/livez":
            await _answer(send, 200, b"ok", [*marks, (b"content-type", b"text/plain")])
            return
        marks.append((b"content-type", b"application/json"))
        if scope["path"] == "/spool":
            self._is_trusted(scope, headers)
            await _answer(send, 200, await self._spool_status(), marks)
            return
        ready, facts = self._status.facts()
        try:
            self._is_trusted(scope, headers)
        except Refused:  # a probe of another user's needs no more
            facts = {"ready": ready}
        await _answer(send, 200 if ready else 503, msgspec.json.encode(facts), marks)

    async def _spool_status(self) -> bytes:
        try:
            return msgspec.json.encode(await self._status.spool_status())
        except SpoolUnavailable as error:
            raise Refused(503, f"the spool cannot be read: {error}", "Ask again later.") from error


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _require_local(headers: dict[bytes, bytes], hosts: Iterable[bytes]) -> None:
    """A page in a browser can reach loopback, by name rebinding too; what it sends names it."""
    if headers.get(b"host", b"").lower() not in hosts:
        raise Refused(403, "wrong Host header", "Address this machine as 127.0.0.1.")
    if b"origin" in headers or headers.get(b"sec-fetch-site", b"none") not in {b"none", b""}:
        raise Refused(403, "requests from web pages are refused", "Send it from a program.")


def _require_json_post(method: str, headers: dict[bytes, bytes]) -> None:
    if method != "POST":
        raise Refused(405, f"{method} is not for {PATH}", "Use POST.")
    kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if kind != b"application/json":
        raise Refused(415, "not JSON", "Send `Content-Type: application/json`.")


def _length(headers: dict[bytes, bytes]) -> int | None:
    length = headers.get(b"content-length", b"")
    return int(length) if length.isdigit() else None


def _too_large(most: int) -> Refused:
    return Refused(413, f"more than {most >> 20} MB", "Send the token, or less.")


async def _read_body(receive: Receive, most: int) -> bytes:
    chunks: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(READ_TIMEOUT_S):
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    raise Gone
                chunks.append(message.get("body", b""))
                size += len(chunks[-1])
                if size > most:
                    raise _too_large(most)
                if not message.get("more_body", False):
                    return b"".join(chunks)
    except TimeoutError as error:
        raise Refused(408, f"no body within {READ_TIMEOUT_S:g} s", "Send it at once.") from error


async def _answer(
    send: Send, status: int, body: bytes = b"", headers: Iterable[tuple[bytes, bytes]] = ()
) -> None:
    if status >= 400:
        headers = [*headers, (b"content-type", b"application/json")]
    start = [(b"content-length", b"%d" % len(body)), *headers]
    await send({"type": "http.response.start", "status": status, "headers": start})
    await send({"type": "http.response.body", "body": body})


#: An agent keeps several idle ones, so their number alone must refuse nobody: any local user could
#: open that many. Requests under way are bounded by the receiver's slots and time-outs.
MOST_CONNECTIONS = 512
#: Descriptors for the spool, transcripts, the unix socket and the broker.
RESERVE = 256


def server_config(receiver: Any) -> uvicorn.Config:
    return uvicorn.Config(
        receiver,
        http=bounded_http(MOST_CONNECTIONS, RESERVE),
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        date_header=False,
        # Longer than the agent's own 5 s: it must be the one to close an idle connection, or a
        # hook sent in that moment fails in the user's terminal.
        timeout_keep_alive=75,
        timeout_graceful_shutdown=2,
    )


class Server(uvicorn.Server):
    """uvicorn's own loop wakes ten times a second: most of what an idle collector cost.

    It looks whether it is to stop, and renews the Date header, which we do not send.
    """

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._asked_to_stop = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def _ask_to_stop(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        self._loop.call_soon_threadsafe(self._asked_to_stop.set)

    handle_exit = _ask_to_stop  # what uvicorn calls when a signal comes

    async def main_loop(self) -> None:
        if not self.should_exit:
            await self._asked_to_stop.wait()
