"""The README's pictures, of a frozen moment of the demo; ADSUM_PICTURES=1 keeps them in docs/img."""

from __future__ import annotations

import os
from base64 import b64encode
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser

from scripts.screenshots import IMAGES, MOMENT, SHOTS, Shot, star, take
from tests.demo_fleets import Audience, FrozenHub

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

#: Of a picture of an empty page, at most.
EMPTY_BYTES = 25_000
#: Pixels at round corners that a browser draws now so, now so.
NOISE = 100
DIFFERING = """async (pictures) => {
  const [one, other] = await Promise.all(pictures.map(async (base64) => {
    const image = new Image();
    image.src = `data:image/png;base64,${base64}`;
    await image.decode();
    const drawn = new OffscreenCanvas(image.width, image.height).getContext("2d");
    drawn.drawImage(image, 0, 0);
    return new Uint32Array(drawn.getImageData(0, 0, image.width, image.height).data.buffer);
  }));
  return one.reduce((sum, pixel, at) => sum + (pixel !== other[at]), 0);
}"""


async def differing(browser: Browser, *pictures: bytes) -> int:
    page = await browser.new_page()
    try:
        found: int = await page.evaluate(DIFFERING, [b64encode(each).decode() for each in pictures])
    finally:
        await page.close()
    return found


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def frozen() -> AsyncIterator[FrozenHub]:
    async with FrozenHub(Audience().at(MOMENT)) as hub:
        yield hub


@pytest.mark.parametrize("shot", SHOTS, ids=lambda shot: shot.name)
async def test_a_picture_is_the_same_each_time(
    browser: Browser, frozen: FrozenHub, shot: Shot, tmp_path: Path
) -> None:
    picture, again = [await take(browser, frozen, shot) for _ in range(2)]
    (tmp_path / f"{shot.name}.png").write_bytes(picture)
    (tmp_path / f"{shot.name}-again.png").write_bytes(again)

    assert picture.startswith(b"\x89PNG")
    assert len(picture) > EMPTY_BYTES
    assert await differing(browser, picture, again) <= NOISE
    if os.environ.get("ADSUM_PICTURES") == "1":
        (IMAGES / f"{shot.name}.png").write_bytes(picture)


async def test_the_moment_has_something_to_show(frozen: FrozenHub) -> None:
    views = frozen.audience.roster.views
    shown = views[star(frozen.audience.roster)]

    assert shown.requests
