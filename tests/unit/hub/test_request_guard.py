"""Exact Host and Origin, headers of a sane length, and what the log says of whom is turned away."""

from __future__ import annotations

import logging
from collections.abc import Callable

import httpx
import pytest
from starlette.responses import PlainTextResponse

from adsum_hub.request_guard import SAID_MS, Refusals, RequestGuard, known_hosts

PUBLIC = "https://hub.example.net"


def doors(public: str | None = None, clock: Callable[[], int] = lambda: 0) -> RequestGuard:
    hosts = known_hosts(4000, ["hub.example:443"], public)
    return RequestGuard(PlainTextResponse("in"), hosts, Refusals(clock))


async def ask(
    headers: dict[str, str], of: RequestGuard | None = None, scheme: str = "http"
) -> httpx.Response:
    transport = httpx.ASGITransport(of or doors(), client=("10.0.0.9", 1))
    base = f"{scheme}://127.0.0.1:4000"
    async with httpx.AsyncClient(transport=transport, base_url=base) as client:
        return await client.get("/list", headers=headers)


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


async def test_only_a_name_that_is_https_alone_asks_browsers_for_nothing_else():
    name = "strict-transport-security"

    assert (await ask({"host": "hub.example.net"}, doors(PUBLIC))).headers[name]
    for host in ("127.0.0.1:4000", "localhost:4000", "hub.example:443"):
        assert name not in (await ask({"host": host}, doors(PUBLIC), "https")).headers
    plain = doors("http://10.0.0.5:4000")
    assert name not in (await ask({"host": "10.0.0.5:4000"}, plain)).headers


# --- an Origin is of the Host that is asked, under the scheme that is its own


@pytest.mark.parametrize(
    "origin",
    [
        "http://hub.example.net",  # anybody on the way can make one
        "http://127.0.0.1:4000",
        "https://127.0.0.1:4000",
        "http://localhost:4000",
        "https://hub.example:443",
        "https://hub.example.net:443",
        "https://hub.example.net.evil.example",
        "https://HUB.example.net",
        "hub.example.net",
        "",
    ],
)
async def test_under_its_public_name_only_its_own_page_may_ask(origin: str):
    response = await ask({"host": "hub.example.net", "origin": origin}, doors(PUBLIC))

    assert response.status_code == 403
    assert "Pages of" in response.json()["error"]


async def test_under_its_public_name_its_own_page_may_ask_whether_or_not_the_proxy_tells_of_tls():
    for scheme in ("http", "https"):
        own = {"host": "hub.example.net", "origin": PUBLIC}
        assert (await ask(own, doors(PUBLIC), scheme)).text == "in"


async def test_a_public_name_without_tls_has_pages_without_it():
    of = doors("http://10.0.0.5:4000")
    for scheme, status in (("http", 200), ("https", 403)):
        asked = {"host": "10.0.0.5:4000", "origin": f"{scheme}://10.0.0.5:4000"}
        assert (await ask(asked, of)).status_code == status


async def test_on_its_own_machine_one_name_is_no_page_of_another_and_the_public_one_of_neither():
    names = ("127.0.0.1:4000", "localhost:4000", "[::1]:4000")
    for host in names:
        for other in (*names, "hub.example.net"):
            asked = {"host": host, "origin": f"http://{other}"}
            response = await ask(asked, doors(PUBLIC))
            assert (response.status_code == 200) == (host == other)


async def test_a_further_name_is_asked_under_either_scheme_until_the_proxy_tells_of_tls():
    """Such as nginx with a server of its own: whether it ends TLS, it may not tell."""
    for scheme, origin, status in (
        ("http", "http", 200),
        ("http", "https", 200),
        ("https", "https", 200),
        ("https", "http", 403),
    ):
        asked = {"host": "hub.example:443", "origin": f"{origin}://hub.example:443"}
        assert (await ask(asked, scheme=scheme)).status_code == status


@pytest.mark.parametrize(
    ("origin", "status"),
    [("https://hub.example", 200), ("http://hub.example", 403), ("https://hub.example:80", 403)],
)
async def test_a_proxy_may_name_the_port_that_browsers_leave_out(origin: str, status: int):
    response = await ask({"host": "hub.example:443", "origin": origin})

    assert response.status_code == status


# --- what the log says


async def test_a_foreign_host_and_a_foreign_origin_are_one_line_a_minute_each_however_they_vary(
    caplog: pytest.LogCaptureFixture,
):
    caplog.set_level(logging.INFO)
    now = 1_000
    of = doors(clock=lambda: now)
    for name in ("evil.example", "worse.example"):
        await ask({"host": name}, of)
        await ask({"origin": f"http://{name}"}, of)
    assert [record.getMessage() for record in caplog.records if "refused" in record.msg] == [
        "refused 10.0.0.9 at '/list', because: This hub does not answer to the name 'evil.example'.",
        "refused 10.0.0.9 at '/list', because: Pages of 'http://evil.example' may not use this hub.",
    ]
    caplog.clear()
    now += SAID_MS
    await ask({"origin": "http://worst.example"}, of)

    assert "http://worst.example" in caplog.text


async def test_who_is_let_in_is_no_line(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO)
    await ask({"origin": "http://127.0.0.1:4000"})

    assert "refused" not in caplog.text
