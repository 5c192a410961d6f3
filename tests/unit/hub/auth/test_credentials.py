"""What needs which role, what secrets look like, and what of a request counts as one."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.datastructures import Headers

from adsum_hub.auth import sign_in
from adsum_hub.auth.credentials import (
    csrf_of,
    digest_of,
    id_of,
    is_code,
    is_cookie,
    is_token,
    make_code,
    make_cookie,
    make_token,
    origin_of,
)
from adsum_hub.auth.gate import (
    AccessDeniedError,
    Presented,
    cookie_name,
    covers,
    needed_for,
    shown_in,
)
from adsum_hub.rest.api import BadRequestError


@pytest.mark.parametrize(
    ("method", "path", "needed"),
    [
        ("GET", "/livez", None),
        ("GET", "/readyz", None),
        ("GET", "/login", None),
        ("POST", "/api/v1/login", None),
        ("GET", "/static/app.js", None),
        ("GET", "/sw.js", None),
        ("GET", "/", "viewer"),
        ("HEAD", "/sessions/a", "viewer"),
        ("GET", "/ws", "viewer"),
        ("GET", "/openapi.json", "viewer"),
        ("GET", "/api/v1/sessions", "viewer"),
        ("GET", "/api/v1/login-linksx", "viewer"),
        ("GET", "/staticx", "viewer"),
        ("POST", "/api/v1/logout", "viewer"),
        ("POST", "/api/v1/notify/subscriptions", "viewer"),
        ("DELETE", "/api/v1/notify/subscriptions", "viewer"),
        ("POST", "/api/v1/notify/test", "operator"),
        ("POST", "/api/v1/sessions/h:s/dismiss", "operator"),
        ("DELETE", "/api/v1/sessions/h:s/dismiss", "admin"),
        ("POST", "/api/agents/s/heartbeat", "operator"),
        ("POST", "/api/specialists/review-agent/report-status", "operator"),
        ("POST", "/api/agents/s/suspend", "operator"),
        ("POST", "/api/agents/s/whatever", "admin"),
        ("GET", "/api/agents/s/activity", "viewer"),
        ("POST", "/api/v1/sessions", "admin"),
        ("GET", "/api/v1/tokens", "admin"),
        ("DELETE", "/api/v1/tokens/x", "admin"),
        ("GET", "/api/v1/sign-ins", "admin"),
        ("POST", "/api/v1/login-links", "admin"),
        ("PUT", "/api/v1/whatever-comes-later", "admin"),
        ("PUT", "/api/v1/logout", "admin"),
    ],
)
def test_what_a_request_needs(method: str, path: str, needed: str | None) -> None:
    assert needed_for(method, path) == needed


def test_each_role_may_what_the_ones_below_may() -> None:
    assert covers("admin", "viewer")
    assert covers("operator", "operator")
    assert not covers("viewer", "operator")
    assert not covers("operator", "admin")


def test_secrets_are_what_their_shapes_say_and_none_is_another() -> None:
    made = {is_code: make_code(), is_cookie: make_cookie(), is_token: make_token()}

    for looks_like, secret in made.items():
        assert looks_like(secret)
        assert not any(other(secret) for other in made if other is not looks_like)
        assert not looks_like(secret + "\n")
        assert not looks_like("ü" + secret[1:])


def test_what_is_kept_or_shown_of_a_secret_is_not_the_secret() -> None:
    secret = make_cookie()
    digest = digest_of(secret)

    assert len(digest) == 64
    assert digest.startswith(id_of(digest))
    assert len({digest, csrf_of(secret), secret}) == 3


@pytest.mark.parametrize(
    ("host", "secure", "name"),
    [
        ("127.0.0.1:47893", False, "adsum-47893"),
        ("[::1]:47893", False, "adsum-47893"),
        ("[::1]", False, "adsum"),
        ("hub.example.net", True, "__Host-adsum"),
        ("hub.example.net:8443", True, "__Host-adsum-8443"),
    ],
)
def test_each_port_has_a_cookie_of_its_own(host: str, secure: bool, name: str) -> None:
    assert cookie_name(host, secure=secure) == name


# Fixed: they stand in the names of tests.
COOKIE, TOKEN = "c" * 43, "adsum_" + "t" * 43


def shown(**headers: str) -> Presented | None:
    return shown_in(Headers(headers), "adsum")


def test_a_cookie_is_found_among_others() -> None:
    assert shown(cookie=f"a=b; adsum={COOKIE}; c=d") == Presented("sign-in", COOKIE)


@pytest.mark.parametrize(
    "cookie",
    [
        "",
        ";;;",
        "=",
        "adsum",
        "adsum=",
        f"adsum={COOKIE}x",
        f"adsum={COOKIE[1:]}",
        f"xadsum={COOKIE}",
        f"__Host-adsum={COOKIE}",
        "adsum=" + "x" * 1_000_000,
        "adsum=" + "\xff" * 43,
        "adsum=" + "\0" * 43,
        f"adsum={TOKEN}",
    ],
)
def test_an_absurd_cookie_is_none(cookie: str) -> None:
    assert shown(cookie=cookie) is None


def test_a_token_counts_before_a_cookie() -> None:
    both = shown(cookie=f"adsum={COOKIE}", authorization=f"bearer {TOKEN}")

    assert both == Presented("token", TOKEN)


@pytest.mark.parametrize("authorization", ["Basic dXNlcjpwYXNz", "Bearer a-proxy's.own.one"])
def test_what_a_proxy_shows_does_not_hide_the_cookie(authorization: str) -> None:
    found = shown(cookie=f"adsum={COOKIE}", authorization=authorization)

    assert found == Presented("sign-in", COOKIE)


@pytest.mark.parametrize(
    "bearer", ["", "x", TOKEN + "x", TOKEN[:-1], "adsum_" + "\xff" * 43, COOKIE]
)
def test_a_bearer_that_cannot_be_one_is_said_to_be_none(bearer: str) -> None:
    with pytest.raises(AccessDeniedError):
        shown(authorization=f"Bearer {bearer}")


def test_a_torn_token_is_not_overlooked_for_a_cookie() -> None:
    with pytest.raises(AccessDeniedError):
        shown(cookie=f"adsum={COOKIE}", authorization=f"Bearer {TOKEN[:-1]}")


@pytest.mark.parametrize(
    ("address", "origin"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
        ("2001:db8:1:2:ffff::", "2001:db8:1:2::"),
        ("fe80::1%eth0", "fe80::"),
        ("", "unknown"),
        ("a name", "unknown"),
    ],
)
def test_whoever_has_one_ipv6_address_has_a_network_of_them(address: str, origin: str) -> None:
    assert origin_of(address) == origin


ONE = "11111111-1111-4111-8111-111111111111"


@pytest.mark.parametrize(
    ("role", "hosts", "said"),
    [
        ("operator", (ONE,), None),
        ("operator", (), None),
        ("admin", (), None),
        ("admin", (ONE,), "for operators alone"),
        ("viewer", (ONE,), "for operators alone"),
        ("operator", ("lab",), "no machines"),
        ("operator", (f"{ONE}\n",), "no machines"),
        ("operator", (ONE,) * 101, "no machines"),
    ],
)
def test_machines_are_named_for_operators_and_by_their_ids(
    role: Any, hosts: tuple[str, ...], said: str | None
) -> None:
    if said is None:
        sign_in.require_reach(role, hosts)
        return
    with pytest.raises(BadRequestError, match=said):
        sign_in.require_reach(role, hosts)
