"""Serves the WebSocket: one frame in says where the client stands, then the broadcast goes out."""

import asyncio
import contextlib
import logging
import struct
import zlib
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, NamedTuple

import msgspec
from fastapi import APIRouter, WebSocket
from starlette.websockets import WebSocketDisconnect
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.extensions.permessage_deflate import ServerPerMessageDeflateFactory

from adsum_hub.live.broadcast import Broadcast
from adsum_hub.request_guard import log_refusal

log = logging.getLogger(__name__)
#: The server's own of sockets: it would say of each that it was accepted, as often as anybody comes,
#: and also of one that is accepted only to tell it why it is turned away.
_quiet = logging.getLogger("uvicorn.error.sockets")
_quiet.setLevel(logging.WARNING)

FIRST_FRAME_S = 10.0
#: In this time a client takes at least so much of what waits for it, or it is let go. (Rejected: all
#: of it. Over a slow line a large roster's snapshot then never arrived.)
SEND_S = 10.0
LEAST_BYTES = 100_000
#: Below this a socket takes the next message at once, whatever its size.
NEXT_TO_NOTHING = 16 * 1024
LOOK_S = 0.02
#: What may wait for all clients together, where a message is LARGE: after a restart they all come
#: back for a snapshot in one moment.
MOST_UNSENT = 64_000_000
LARGE = 100_000
CLOSE_S = 1.0
#: Of grace after the end, for what was sent before it.
LINGER_S = 2.0
SLOW = 3008
BAD_FRAME = 4400
#: A hub that restores a large list lets clients wait, but not for so long that they think it dead.
HOLD_S = 20.0
RESTORING = 1013
UNREADABLE = "What it sent over a WebSocket cannot be read"

#: Not worth deflating.
SMALL = 1_000
#: Deflated in a thread: some ten milliseconds.
HUGE = 1_000_000
#: Frames that are kept: clients differ in what they have missed, in how many parts of a snapshot they
#: have taken, and in whether they inflate.
KEPT = 24


class Frames:
    """Messages as WebSocket frames, made once for all who take them.

    Deflated, as over a slow line no large list arrives else.
    """

    def __init__(self) -> None:
        self._made: dict[tuple[int, bool], tuple[bytes, asyncio.Future[bytes]]] = {}

    async def of(self, message: bytes, *, inflates: bool) -> bytes:
        deflate = inflates and len(message) >= SMALL
        held = self._made.get((id(message), deflate))
        if held is None or held[0] is not message:
            if len(self._made) >= KEPT:
                del self._made[next(iter(self._made))]
            held = message, self._make(message, deflate=deflate)
            self._made[id(message), deflate] = held
        return held[1].result() if held[1].done() else await asyncio.shield(held[1])

    @staticmethod
    def _make(message: bytes, *, deflate: bool) -> asyncio.Future[bytes]:
        if deflate and len(message) > HUGE:
            return asyncio.ensure_future(asyncio.to_thread(deflated, message))
        made: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        made.set_result(deflated(message) if deflate else framed(message))
        return made


def framed(body: bytes, first: int = 0x81) -> bytes:
    """A text frame that is a whole message."""
    size = len(body)
    if size < 126:
        return bytes((first, size)) + body
    wide = size >= 1 << 16
    return struct.pack("!BBQ" if wide else "!BBH", first, 127 if wide else 126, size) + body


def deflated(message: bytes) -> bytes:
    """By RFC 7692, resting on no message before it, so the same for everybody."""
    deflate = zlib.compressobj(1, wbits=-zlib.MAX_WBITS)
    body = deflate.compress(message) + deflate.flush(zlib.Z_SYNC_FLUSH)
    return framed(body[:-4], 0xC1)


class Resume(msgspec.Struct):
    """What a client has: the epoch and offset of its last message, or nothing.

    parts: it takes a snapshot in several messages.
    """

    epoch: str | None = None
    offset: int | None = None
    parts: bool = False


_resume = msgspec.json.Decoder(Resume)
#: Among a socket's extensions: its Outlet.
OUTLET = "adsum.outlet"
#: In a scope, if whoever connects had to sign in: returns when that is over, the code and the reason
#: to close with.
LAPSE = "adsum.lapse"
Lapse = Callable[[], Coroutine[None, None, tuple[int, str]]]


class Outlet(NamedTuple):
    """size: how many bytes the client has not taken yet. send: sends a frame. See `Frames`."""

    size: Callable[[], int]
    send: Callable[[bytes], None]
    inflates: bool


class Connection(WebSocketsSansIOProtocol):
    """uvicorn's own, but it tells how much the client has still to take, and it ends."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        # uvicorn's own setting deflates a message anew for each client, seven times as dear as none.
        deflate = ServerPerMessageDeflateFactory(
            server_no_context_takeover=True, client_no_context_takeover=True
        )
        self.conn.available_extensions = [deflate]
        self.logger = self.conn.logger = _quiet

    async def run_asgi(self) -> None:
        size, inflates = self.transport.get_write_buffer_size, bool(self.conn.extensions)
        extensions: dict[str, Any] = self.scope["extensions"]
        extensions[OUTLET] = Outlet(size, self.send_frame, inflates)
        await super().run_asgi()
        # Closing waits until all that was written has been taken. A client that no longer reads,
        # and yet lives or seems to, would keep its socket and a whole snapshot here for ever.
        self.loop.call_later(LINGER_S, self.transport.abort)

    def send_frame(self, frame: bytes) -> None:
        """Only for who has looked at the buffer's size: it does not wait until there is room."""
        if self.close_sent or self.transport.is_closing():
            raise WebSocketDisconnect(1006)
        self.transport.write(frame)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.parser_exc is not None:  # no frame of a WebSocket, or too long a one
            self._log_unreadable()

    def send_receive_event_to_app(self) -> None:
        """As uvicorn's own, which writes a traceback where a text is none.

        What comes after our close it passes over; to close once more would be an error.
        """
        if self.curr_msg_data_type == "text" and not self.close_sent:
            try:
                b"".join(self.frames).decode()
            except UnicodeDecodeError:
                self.conn.send_close(1007)
                self.handle_parser_exception()
                self._log_unreadable()
                return
        super().send_receive_event_to_app()

    def _log_unreadable(self) -> None:
        scope: Any = self.scope
        log_refusal(scope, f"{UNREADABLE}: {self.conn.close_sent}.", UNREADABLE)


class UnsentLimit:
    """Limits the large messages on their way. One that is larger than all of it goes alone."""

    def __init__(self) -> None:
        self.frames = Frames()
        self._taken = 0
        self._freed = asyncio.Event()

    @contextlib.asynccontextmanager
    async def of(self, size: int) -> AsyncIterator[None]:
        while self._taken and self._taken + size > MOST_UNSENT:
            self._freed.clear()
            await self._freed.wait()
        self._taken += size
        try:
            yield
        finally:
            self._taken -= size
            self._freed.set()


def live_router(broadcast: Broadcast) -> APIRouter:
    router, room = APIRouter(), UnsentLimit()

    @router.websocket("/ws")
    async def live(socket: WebSocket) -> None:
        await socket.accept()
        try:
            first = await asyncio.wait_for(socket.receive_text(), FIRST_FRAME_S)
            resume = _resume.decode(first)
        except (msgspec.DecodeError, RecursionError, KeyError, TimeoutError) as error:
            await _refuse(socket, error)
            return
        except WebSocketDisconnect:
            return
        await _serve(socket, broadcast, resume, room)

    return router


async def _refuse(socket: WebSocket, error: Exception) -> None:
    cause = str(error)
    if isinstance(error, KeyError):
        cause = "it is a binary frame"
    elif isinstance(error, TimeoutError):
        cause = f"none came within {FIRST_FRAME_S:.0f} s"
    log_refusal(
        socket.scope, f"The first frame of a WebSocket was not understood: {cause}.", "frame"
    )
    reason = f'send {{"epoch": …, "offset": …}} first: {cause}'
    await socket.close(BAD_FRAME, reason.encode()[:120].decode(errors="ignore"))


async def _serve(
    socket: WebSocket, broadcast: Broadcast, resume: Resume, room: UnsentLimit
) -> None:
    listener = asyncio.create_task(_listen(socket))
    sender = asyncio.create_task(_send(socket, broadcast, resume, room))
    lapse: Lapse = socket.scope.get(LAPSE, _never)
    lapsing = asyncio.create_task(lapse())
    try:
        await asyncio.wait({listener, sender, lapsing}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (listener, sender, lapsing):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, WebSocketDisconnect, RuntimeError):
                # RuntimeError: the socket was closed under a send; there is nobody to tell.
                await task
    if not lapsing.cancelled():
        with contextlib.suppress(TimeoutError, WebSocketDisconnect, RuntimeError):
            await asyncio.wait_for(socket.close(*lapsing.result()), CLOSE_S)


async def _never() -> tuple[int, str]:
    await asyncio.Event().wait()
    raise asyncio.CancelledError


async def _send(socket: WebSocket, broadcast: Broadcast, resume: Resume, room: UnsentLimit) -> None:
    subscription = broadcast.subscribe(resume.epoch, resume.offset, in_parts=resume.parts)
    outlet: Outlet = socket.scope["extensions"][OUTLET]
    async with contextlib.aclosing(subscription) as messages:
        try:
            async with asyncio.timeout(HOLD_S):
                message = await anext(messages)
        except TimeoutError:
            await socket.close(RESTORING, "the list is being restored: connect again")
            return
        while True:
            if len(message) < LARGE:
                taken = await _is_taken(outlet, message, room.frames)
            else:
                async with room.of(len(message)):
                    taken = await _is_taken(outlet, message, room.frames)
            if not taken:
                log.info("a client that takes next to nothing is let go")
                break
            message = await anext(messages)
    # The close frame would wait behind the message that could not be sent: try, then drop it.
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(socket.close(SLOW, "slow: connect again"), CLOSE_S)


async def _is_taken(outlet: Outlet, message: bytes, frames: Frames) -> bool:
    """Returns when next to nothing of it waits here any more, or the client is stuck: False."""
    unsent = outlet.size
    outlet.send(await frames.of(message, inflates=outlet.inflates))
    before = unsent()
    if before <= NEXT_TO_NOTHING:
        return True
    loop = asyncio.get_running_loop()
    since = loop.time()
    while (left := unsent()) > NEXT_TO_NOTHING:
        await asyncio.sleep(LOOK_S)
        if loop.time() - since > SEND_S:
            if before - left < LEAST_BYTES:
                return False
            before, since = left, loop.time()
    return True


async def _listen(socket: WebSocket) -> None:
    """Later frames mean nothing yet; reading them is how we learn that the client has left."""
    while (await socket.receive())["type"] != "websocket.disconnect":
        pass
