"""What nobody in their senses sends to a hub that asks who they are: a clear answer, and it lives on."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from adsum_hub.auth.credentials import make_code
from tests.brokers import Broker, running_broker
from tests.hub_processes import HubProcess
from tests.signing_in import asking, cookie_name, link, make_token, sign_in

pytestmark = pytest.mark.redis


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with running_broker(tmp_path_factory.mktemp("broker")) as broker:
        yield broker


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory, broker: Broker) -> Iterator[HubProcess]:
    """One for all that is thrown at it: it has to live on."""
    hub = HubProcess(tmp_path_factory.mktemp("hub") / "one", broker.url, sign_in="on")
    try:
        yield hub.start()
        assert "Traceback" not in hub.log.read_text()
        assert hub.is_ready()
    finally:
        hub.kill()


def raw(hub: HubProcess, *lines: bytes) -> bytes:
    """The beginning of what it answers."""
    head = b"GET /api/v1/me HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nConnection: close\r\n" % hub.port
    answer = b""
    with socket.create_connection(("127.0.0.1", hub.port), timeout=10) as connection:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            connection.sendall(head + b"".join(line + b"\r\n" for line in lines) + b"\r\n")
        with contextlib.suppress(ConnectionResetError):
            while part := connection.recv(65_536):
                answer += part
    return answer


def test_absurd_cookies_and_tokens_are_refused_in_words(hub: HubProcess) -> None:
    name = cookie_name(hub).encode()
    sent = {
        b"Cookie: " + name + b"=" + b"x" * 1_000_000: b" 431 ",
        b"Cookie: " + b"a=b; " * 5_000: b" 401 ",
        b"Cookie: " + name + b"=\xff\xfe\xc3\xbc" + b"y" * 39: b" 401 ",
        b"Cookie: " + name + b"=\0" + b"y" * 42: b" 400 ",
        b"Authorization: Bearer \xf0\x9f\x92\xa9": b" 401 ",
        b"Authorization: Bearer " + b"z" * 30_000: b" 401 ",
        b"Authorization: Bearer": b" 401 ",
        b"Authorization: ": b" 401 ",
        b"Authorization: Negotiate abc": b" 401 ",
    }
    found = {line[:40]: raw(hub, line)[:13] for line in sent}

    assert {key: answer[8:] for key, answer in found.items()} == {
        line[:40]: status for line, status in sent.items()
    }


def test_a_thousand_cookies_do_not_hide_ours(hub: HubProcess) -> None:
    cookie = f"{'a=b; ' * 1_000}{cookie_name(hub)}={sign_in(hub)}"
    assert b" 200 " in raw(hub, b"Cookie: " + cookie.encode())[:13]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"{}", 400),
        (b"[]", 400),
        (b"null", 400),
        (b'{"code": 7}', 400),
        (b'{"code": null}', 400),
        (b'{"code": ""}', 400),
        (b'{"code": "short"}', 400),
        (b'{"code": "' + b"x" * 33 + b'"}', 400),
        ('{"code": "' + "ü" * 32 + '"}', 400),
        (b'{"code": "\\u0000' + b"x" * 31 + b'"}', 400),
        (b'{"code": "\xff"}', 400),
        (b"{" * 5_000, 400),
        (b"[" * 8_000, 400),
        (b'{"code": "' + b"x" * 10_000 + b'"}', 413),
        (b'{"code": "' + b"c" * 32 + b'", "role": "admin"}', 401),
    ],
    ids=range(16),
)
def test_a_login_that_is_none_is_refused_in_words(hub: HubProcess, body: Any, status: int) -> None:
    with asking(hub) as client:
        headers = {"content-type": "application/json"}
        answer = client.post("/api/v1/login", content=body, headers=headers)

    assert answer.status_code == status
    assert answer.json()["error"]
    assert answer.json()["next"]
    assert "set-cookie" not in answer.headers


def test_a_login_that_is_no_json_or_no_post_or_from_elsewhere_uses_nothing_up(
    hub: HubProcess,
) -> None:
    code = link(hub)
    with asking(hub) as client:
        form = client.post("/api/v1/login", data={"code": code})
        text = client.post("/api/v1/login", content=f'{{"code": "{code}"}}')
        got = client.get("/api/v1/login", params={"code": code})
        page = client.get("/login", params={"code": code})
        elsewhere = client.post(
            "/api/v1/login", json={"code": code}, headers={"origin": "http://evil.example"}
        )
        assert [each.status_code for each in (form, text, got, page, elsewhere)] == [
            *(415, 415, 405, 200, 403)
        ]
        assert "POST" in got.json()["error"]
        assert client.post("/api/v1/login", json={"code": f" {code}\n"}).status_code == 200


def test_with_a_cookie_of_ours_a_page_from_elsewhere_changes_nothing(hub: HubProcess) -> None:
    with asking(hub, cookie=sign_in(hub)) as client:
        csrf = client.get("/api/v1/me").json()["csrf"]
        ask = {"json": {"role": "admin"}}
        for headers in ({}, {"x-csrf-token": "x"}, {"x-csrf-token": csrf, "origin": "null"}):
            assert client.post("/api/v1/login-links", headers=headers, **ask).status_code == 403
        proven = {"x-csrf-token": csrf, "origin": hub.url}
        assert client.post("/api/v1/login-links", headers=proven, **ask).status_code == 200


@pytest.mark.parametrize("named", ["x", "%00", "..", "a" * 5_000, "*", "ü"])
def test_an_id_of_nothing_revokes_nothing(hub: HubProcess, named: str) -> None:
    kept = make_token(hub, "admin")[1]
    with asking(hub, token=kept) as client:
        for kind in ("tokens", "sign-ins"):
            assert client.delete(f"/api/v1/{kind}/{named}").status_code in (404, 405)
        assert client.get("/api/v1/me").status_code == 200


def test_where_nobody_signs_in_everybody_is_an_admin_and_logins_say_so(
    tmp_path: Path, broker: Broker
) -> None:
    hub = HubProcess(tmp_path / "open", broker.url)
    try:
        hub.start()
        with asking(hub) as client:
            me = client.get("/api/v1/me").json()
            login = client.post("/api/v1/login", json={"code": make_code()})
            tokens = client.get("/api/v1/tokens")
        assert not (hub.state_dir / "hub.token").exists()
    finally:
        hub.kill()

    assert me == {"name": "", "role": "admin", "csrf": "", "sign_in": False, "decides": False}
    assert login.status_code == tokens.status_code == 409
    assert "ADSUM_SIGN_IN=off" in login.json()["error"]
