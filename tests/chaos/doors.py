"""How the load comes in: one keep-alive HTTP connection, or the unix socket; each with its outcome."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.chaos.ledger import Outcome

#: How long a sender waits for its answer; after that nobody knows.
PATIENCE_S = 2.0


#: Told of an answer that a well-formed hook must never get.
Odd = Callable[[str], None]


class HookDoor:
    """One sender's connection to a receiver."""

    def __init__(self, port: int, token: str, odd: Odd) -> None:
        self._port = port
        self._odd = odd
        self._head = (
            f"POST /api/live/hook HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n"
            f"content-type: application/json\r\nauthorization: Bearer {token}\r\ncontent-length: "
        )
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def post(self, body: bytes) -> tuple[Outcome, int]:
        """Its number is 0 if there is none."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                if self._streams is None:
                    self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        except (OSError, TimeoutError):
            self.close()
            return "refused", 0  # nothing was sent
        reader, writer = self._streams
        try:
            async with asyncio.timeout(PATIENCE_S):
                writer.write(f"{self._head}{len(body)}\r\n\r\n".encode() + body)
                head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                said = await reader.readexactly(int(_field(head, "content-length") or 0))
        except (OSError, EOFError, TimeoutError):
            self.close()
            return "unknown", 0
        status = int(head.split()[1])
        if status == 200 and not said:
            return "ok", int(_field(head, "x-adsum-seq"))
        if status == 503:
            return "refused", 0
        self._odd(f"{status} {said!r} to {body[:80]!r}")
        return "unknown", 0

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].transport.abort()
            self._streams = None


def _field(head: str, name: str) -> str:
    found = head.partition(f"\r\n{name}:")[2]
    return found.partition("\r\n")[0].strip()


async def say(path: Path, message: Mapping[str, object], odd: Odd) -> tuple[Outcome, int]:
    """One message over the unix socket, on a connection of its own, as a shim does it."""
    writer: asyncio.StreamWriter | None = None
    try:
        async with asyncio.timeout(PATIENCE_S):
            reader, writer = await asyncio.open_unix_connection(str(path))
    except (OSError, TimeoutError):
        return "refused", 0
    try:
        async with asyncio.timeout(PATIENCE_S):
            writer.write(json.dumps(message).encode() + b"\n")
            answer = json.loads(await reader.readuntil(b"\n"))
    except (OSError, EOFError, TimeoutError):
        return "unknown", 0
    finally:
        with contextlib.suppress(OSError):
            writer.transport.abort()
    if answer["ok"]:
        return "ok", int(answer["seq"])
    if answer["retry"]:
        return "refused", 0
    odd(f"{answer} to {message}")
    return "unknown", 0
