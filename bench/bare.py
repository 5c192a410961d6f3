"""The bare pipe: what any design with these three hops must pay, and nothing else.

`collector`: an ASGI POST that awaits one XADD. `hub`: a blocking XREAD whose entries go to every
WebSocket as they are. No spool, no fold, no state. Run as `python -m bench.bare ROLE PORT REDIS`.
"""

from __future__ import annotations

import asyncio
import sys

import uvicorn
from redis.asyncio import Redis
from starlette.applications import Starlette
from starlette.routing import WebSocketRoute
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket

STREAM = "bare:in"


def collector(url: str | None):
    redis = Redis.from_url(url, protocol=2) if url else None

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        del scope
        body = b""
        more = True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        if redis is not None:
            await redis.xadd(STREAM, {"b": body}, maxlen=10_000)
        start = {"type": "http.response.start", "status": 200}
        await send(start | {"headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})

    return app


def hub(url: str):
    sockets: set[WebSocket] = set()

    async def follow() -> None:
        redis = Redis.from_url(url, protocol=2, socket_timeout=60)
        cursor = "$"
        while True:
            for _, entries in await redis.xread({STREAM: cursor}, block=5_000, count=500):
                for entry_id, fields in entries:
                    cursor = entry_id
                    for socket in tuple(sockets):
                        await socket.send_bytes(fields[b"b"])

    tasks: list[asyncio.Task[None]] = []

    async def live(socket: WebSocket) -> None:
        if not tasks:
            tasks.append(asyncio.create_task(follow()))
        await socket.accept()
        sockets.add(socket)
        while (await socket.receive())["type"] != "websocket.disconnect":
            pass
        sockets.discard(socket)

    return Starlette(routes=[WebSocketRoute("/ws", live)])


if __name__ == "__main__":
    role, port, redis_url = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    app = hub(redis_url) if role == "hub" else collector(None if role == "empty" else redis_url)
    uvicorn.run(
        app,
        host="127.0.0.1",
        port=port,
        log_level="error",
        access_log=False,
        lifespan="off",
        ws="websockets-sansio",
        ws_per_message_deflate=False,
    )
