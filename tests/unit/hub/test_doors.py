"""Exact Host and Origin, and nothing listening where others can reach it."""

from __future__ import annotations

import httpx
import pytest
from starlette.responses import PlainTextResponse

from adsum_hub.doors import Doors, PublicAddressError, known_hosts, require_loopback


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


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.5", "::", "example.net"])  # noqa: S104
def test_an_address_others_reach_is_refused_with_the_next_step(host: str):
    with pytest.raises(PublicAddressError, match="ADSUM_HUB_ALLOW_PUBLIC"):
        require_loopback(host, allowed=False)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.7", "::1", "localhost"])
def test_loopback_needs_no_permission(host: str):
    require_loopback(host, allowed=False)
