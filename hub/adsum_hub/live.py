"""The WebSocket: one frame in that says where the client stands, then the broadcast."""

from __future__ import annotations

import asyncio
import contextlib
import logging

import msgspec
from fastapi import APIRouter, WebSocket
from starlette.websockets import WebSocketDisconnect

from adsum_hub.broadcast import Broadcast

log = logging.getLogger(__name__)

FIRST_FRAME_S = 10.0
SEND_S = 10.0
CLOSE_S = 1.0
SLOW = 3008
BAD_FRAME = 4400


class Resume(msgspec.Struct):
    """What a client has: the epoch and offset of its last message, or nothing."""

    epoch: str | None = None
    offset: int | None = None


_resume = msgspec.json.Decoder(Resume)


def live_router(broadcast: Broadcast) -> APIRouter:
    router = APIRouter()

    @router.websocket("/ws")
    async def live(socket: WebSocket) -> None:
        await socket.accept()
        try:
            first = await asyncio.wait_for(socket.receive_text(), FIRST_FRAME_S)
            resume = _resume.decode(first)
        except (msgspec.DecodeError, KeyError, TimeoutError) as error:
            # KeyError: a binary frame.
            reason = f'send {{"epoch": …, "offset": …}} first: {error}'
            await socket.close(BAD_FRAME, reason[:120])
            return
        except WebSocketDisconnect:
            return
        await _serve(socket, broadcast, resume)

    return router


async def _serve(socket: WebSocket, broadcast: Broadcast, resume: Resume) -> None:
    listener = asyncio.create_task(_listen(socket))
    sender = asyncio.create_task(_send(socket, broadcast, resume))
    try:
        await asyncio.wait({listener, sender}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (listener, sender):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, WebSocketDisconnect, RuntimeError):
                # RuntimeError: the socket was closed under a send; there is nobody to tell.
                await task


async def _send(socket: WebSocket, broadcast: Broadcast, resume: Resume) -> None:
    async with contextlib.aclosing(broadcast.subscribe(resume.epoch, resume.offset)) as messages:
        async for message in messages:
            try:
                await asyncio.wait_for(socket.send_text(message.decode()), SEND_S)
            except TimeoutError:
                log.info("a client took longer than %.0f s for a message: let go", SEND_S)
                break
    # The close frame would wait behind the message that could not be sent: try, then drop it.
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(socket.close(SLOW, "slow: connect again"), CLOSE_S)


async def _listen(socket: WebSocket) -> None:
    """Later frames mean nothing yet; reading them is how we learn that the client has left."""
    while (await socket.receive())["type"] != "websocket.disconnect":
        pass
