"""Messages as WebSocket frames, made once for all who take them."""

from __future__ import annotations

import asyncio
import struct
import zlib

#: Not worth deflating.
SMALL = 1_000
#: Deflated in a thread: some ten milliseconds.
HUGE = 1_000_000
#: Frames that are kept: clients differ in what they have missed, in how many parts of a snapshot they
#: have taken, and in whether they inflate.
KEPT = 24


class Frames:
    """Deflated, as over a slow line no large list arrives else."""

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
