"""Messages as WebSocket frames: made once, deflated once, and what a client's own parser makes of them."""

from __future__ import annotations

import asyncio

import pytest
from websockets.extensions.permessage_deflate import PerMessageDeflate
from websockets.frames import Frame, Opcode
from websockets.streams import StreamReader

from adsum_hub.live.live import LARGE, SMALL, Frames, deflated, framed


def parsed(frame: bytes, *, inflates: bool = False) -> Frame:
    """As a client reads it."""
    reader = StreamReader()
    reader.feed_data(frame)
    extensions = [PerMessageDeflate(True, True, 15, 15)] if inflates else []
    steps = Frame.parse(reader.read_exact, mask=False, extensions=extensions)
    try:
        while True:
            next(steps)
    except StopIteration as end:
        found: Frame = end.value
        return found


@pytest.mark.parametrize("size", [0, 125, 126, 65_535, 65_536, 200_000])
def test_a_frame_of_any_size_is_one_whole_text_message(size):
    found = parsed(framed(b"x" * size))

    assert (found.opcode, found.fin, bytes(found.data)) == (Opcode.TEXT, True, b"x" * size)


@pytest.mark.parametrize("size", [1, 5_000, 300_000])
def test_a_deflated_message_rests_on_none_before_it(size):
    message = b'{"label": "Running"}' * size

    for _ in range(2):  # the second client has inflated nothing yet
        assert bytes(parsed(deflated(message), inflates=True).data) == message


async def test_a_message_is_deflated_once_for_all_who_take_that():
    frames, message = Frames(), b"y" * 10 * LARGE * 2

    found = await asyncio.gather(*(frames.of(message, inflates=True) for _ in range(5)))

    assert all(each is found[0] for each in found)
    assert bytes(parsed(found[0], inflates=True).data) == message


async def test_who_leaves_while_a_large_list_is_deflated_takes_it_from_nobody():
    frames, message = Frames(), b"z" * 10 * LARGE * 20
    leaves = asyncio.create_task(frames.of(message, inflates=True))
    stays = asyncio.create_task(frames.of(message, inflates=True))
    await asyncio.sleep(0)
    leaves.cancel()

    assert bytes(parsed(await stays, inflates=True).data) == message


async def test_what_a_client_cannot_inflate_and_what_is_small_is_left_as_it_is():
    frames, large, small = Frames(), b"x" * SMALL, b"x" * (SMALL - 1)

    assert await frames.of(large, inflates=False) == framed(large)
    assert await frames.of(small, inflates=True) == framed(small)
