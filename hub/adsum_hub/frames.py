"""Messages as WebSocket frames, deflated once for all who take them."""

from __future__ import annotations

import asyncio
import struct
import zlib

#: Not worth deflating.
SMALL = 1_000
#: Deflated in a thread: some ten milliseconds.
HUGE = 1_000_000
#: Deflated messages that are kept: clients differ in what they have missed, and in how many parts of
#: a snapshot they have taken.
KEPT = 12

#: Head and body.
Frame = tuple[bytes, bytes]


class Frames:
    """Deflated, as over a slow line no large list arrives else."""

    def __init__(self) -> None:
        self._deflated: dict[int, tuple[bytes, asyncio.Future[Frame]]] = {}

    async def of(self, message: bytes, *, inflates: bool) -> Frame:
        if not inflates or len(message) < SMALL:
            return framed(message)
        held = self._deflated.get(id(message))
        if held is None or held[0] is not message:
            if len(self._deflated) >= KEPT:
                del self._deflated[next(iter(self._deflated))]
            held = self._deflated[id(message)] = message, self._deflate(message)
        return held[1].result() if held[1].done() else await asyncio.shield(held[1])

    @staticmethod
    def _deflate(message: bytes) -> asyncio.Future[Frame]:
        if len(message) > HUGE:
            return asyncio.ensure_future(asyncio.to_thread(deflated, message))
        made: asyncio.Future[Frame] = asyncio.get_running_loop().create_future()
        made.set_result(deflated(message))
        return made


def framed(body: bytes, first: int = 0x81) -> Frame:
    """A text frame that is a whole message."""
    size = len(body)
    if size < 126:
        return bytes((first, size)), body
    wide = size >= 1 << 16
    return struct.pack("!BBQ" if wide else "!BBH", first, 127 if wide else 126, size), body


def deflated(message: bytes) -> Frame:
    """By RFC 7692, resting on no message before it, so the same for everybody."""
    deflate = zlib.compressobj(1, wbits=-zlib.MAX_WBITS)
    body = deflate.compress(message) + deflate.flush(zlib.Z_SYNC_FLUSH)
    return framed(body[:-4], 0xC1)
