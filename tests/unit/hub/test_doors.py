"""Exact Host and Origin, and headers of a sane length."""

from __future__ import annotations

import httpx
import pytest
from starlette.responses import PlainTextResponse

from adsum_hub.doors import Doors, known_hosts


async def ask(headers: dict[str, str]) -> httpx.Response:
    app = Doors(PlainTextResponse("in"), known_hosts(4000, ["hub.example:443"]))
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:4000") as client:
        return await client.get("/", headers=headers)


@pytest.mark.parametrize(
    "host", ["127.0.0.1:4000", "localhost:4000", "[::1]:4000", "hub.example:443"]
)
async def test_its_own_names_are_answered(host: str):
    assert (await ask({"host": host})).text == "in"


@pytest.mark.parametrize(
    "host", ["localhost.evil.example:4000", "127.0.0.1:4001", "evil.example", "127.0.0.1", ""]
)
async def test_another_name_is_refused_so_that_dns_cannot_be_rebound(host: str):
    response = await ask({"host": host})

    assert response.status_code == 403
    assert "does not answer to the name" in response.json()["error"]


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:4000.evil.example"]
)
async def test_a_page_from_elsewhere_is_refused(origin: str):
    response = await ask({"origin": origin})

    assert response.status_code == 403
    assert "Pages of" in response.json()["error"]


async def test_its_own_page_is_answered_under_a_strict_policy():
    response = await ask({"origin": "http://127.0.0.1:4000"})

    assert response.status_code == 200
    assert "default-src 'none'" in response.headers["content-security-policy"]
    assert "unsafe" not in response.headers["content-security-policy"]


@pytest.mark.parametrize("size", [60_000, 70_000, 1_000_000])
async def test_headers_without_end_are_not_looked_through(size: int):
    response = await ask({"cookie": "x" * size})

    assert response.status_code == (200 if size < 65_536 else 431)
    if size > 65_536:
        assert "64 kB" in response.json()["error"]
