"""The gate before the hub's paths: redirects, refusals in words, CSRF, and what is logged of them."""

from __future__ import annotations

import logging
from typing import Any

import httpx
import pytest
from starlette.responses import PlainTextResponse

from adsum_hub.auth.credentials import Role, csrf_of, make_cookie, make_token
from adsum_hub.auth.gate import (
    AWAY,
    FRESH_MS,
    MOST_NEXT,
    STRANGER,
    AccessDeniedError,
    Authenticator,
    CredentialReader,
    Gate,
    Grant,
    Lookup,
    Presented,
)
from adsum_hub.redis_access import Bulkhead
from adsum_hub.request_guard import Refusals, RequestGuard, known_hosts
from adsum_hub.rest.api import AWAY_STEP
from adsum_shared.redact import without_secrets

COOKIE, TOKEN = make_cookie(), make_token()


class FakeAuthenticator(Authenticator):
    """Knows one cookie and one token, of `role`."""

    def __init__(self) -> None:
        nowhere = Lookup({}, Bulkhead(1, of_one=1, wait_s=1.0))
        super().__init__(nowhere, nowhere, "", lambda: self.at)
        self.at = 1_000_000
        self.role: Role = "viewer"
        self.hosts: tuple[str, ...] = ()
        self.away = False

    async def authenticate(
        self,
        shown: Presented | None,
        *,
        address: str = "",
        only_looks: bool = False,
        fresh_ms: int = FRESH_MS,
    ) -> Grant:
        self.asked, self.fresh_ms = (address, only_looks), fresh_ms
        if self.away:
            raise AccessDeniedError(503, AWAY, AWAY_STEP)
        if shown == Presented("sign-in", COOKIE):
            return Grant("Ann", self.role, "sign-in", csrf_of(COOKIE))
        if shown == Presented("token", TOKEN):
            return Grant("ci", self.role, "token", hosts=self.hosts)
        raise AccessDeniedError(
            401, "You are not signed in.", "Sign in.", noteworthy=shown is not None
        )


async def test_what_admins_do_rests_on_no_cached_credential(
    client: httpx.AsyncClient, authenticator: FakeAuthenticator
) -> None:
    authenticator.role = "admin"
    for method, path, fresh_ms in (
        ("POST", "/api/v1/tokens", 0),
        ("GET", "/api/v1/tokens", 0),
        ("DELETE", "/api/v1/hosts/h", 0),
        ("GET", "/api/v1/sessions", FRESH_MS),
        ("POST", "/api/v1/sessions/h:s/commands", FRESH_MS),
    ):
        assert (await client.request(method, path, headers=BEARER)).status_code == 200
        assert authenticator.fresh_ms == fresh_ms


@pytest.fixture
def authenticator() -> FakeAuthenticator:
    return FakeAuthenticator()


@pytest.fixture
async def client(authenticator: FakeAuthenticator) -> Any:
    gate = Gate(PlainTextResponse("in"), authenticator, CredentialReader("https://hub.example.net"))
    hosts = known_hosts(4000, (), "https://hub.example.net")
    transport = httpx.ASGITransport(RequestGuard(gate, hosts, Refusals(lambda: authenticator.at)))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:4000") as client:
        yield client


SIGNED_IN = {"cookie": f"adsum-4000={COOKIE}"}
BEARER = {"authorization": f"Bearer {TOKEN}"}


@pytest.mark.parametrize("headers", [SIGNED_IN, BEARER])
async def test_whoever_is_signed_in_is_let_through(client: Any, headers: dict[str, str]) -> None:
    assert (await client.get("/api/v1/sessions", headers=headers)).text == "in"


@pytest.mark.parametrize(
    ("path", "to"),
    [
        ("/", "/login"),
        ("/list", "/login?next=/list"),
        ("/list?q=a+b&host=c%20d", "/login?next=/list%3Fq%3Da%2Bb%26host%3Dc%2520d"),
        ("/sessions/h:%C3%BC", "/login?next=/sessions/h%3A%C3%BC"),
        ("//evil.example/x", "/login?next=//evil.example/x"),
        ("/" + "x" * MOST_NEXT, "/login"),
    ],
)
async def test_a_page_leads_to_where_one_signs_in(client: Any, path: str, to: str) -> None:
    for method in ("GET", "HEAD"):
        answer = await client.request(method, f"http://127.0.0.1:4000{path}")
        assert (answer.status_code, answer.headers["location"]) == (302, to)


async def test_the_api_says_in_words_that_nobody_is_signed_in(client: Any) -> None:
    answer = await client.get("/api/v1/sessions")

    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert answer.json() == {"error": "You are not signed in.", "next": "Sign in."}


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/login", "/static/x.js", "/api/v1/login"])
async def test_what_is_open_asks_nobody(
    client: Any, authenticator: FakeAuthenticator, path: str
) -> None:
    authenticator.away = True
    assert (await client.get(path, headers={"authorization": "Bearer x"})).text == "in"


async def test_health_is_told_in_full_to_whoever_may_look(authenticator: FakeAuthenticator) -> None:
    async def told(scope: Any, receive: Any, send: Any) -> None:
        await PlainTextResponse("a little" if STRANGER in scope else "all")(scope, receive, send)

    transport = httpx.ASGITransport(Gate(told, authenticator, CredentialReader(None)))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:4000") as client:
        nobody = await client.get("/readyz")
        wrong = await client.get("/readyz", headers={"authorization": "Bearer x"})
        viewer = await client.get("/readyz", headers=BEARER)
        authenticator.away = True
        unknown = await client.get("/readyz", headers=BEARER)
    assert [each.text for each in (nobody, wrong, viewer, unknown)] == [
        "a little", "a little", "all", "a little",
    ]  # fmt: skip


async def test_a_role_that_is_not_enough_says_which_one_is(client: Any) -> None:
    for path, needed in (("/api/v1/notify/test", "operator"), ("/api/v1/tokens", "admin")):
        answer = await client.post(path, headers=BEARER)
        assert answer.status_code == 403
        assert f"the role {needed}" in answer.json()["error"]
        assert "signed in as viewer" in answer.json()["error"]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/v1/sessions/h1:s/commands", 200),
        ("/api/v1/sessions/h1/s/commands", 200),
        ("/api/v1/sessions/h1%3As/commands", 200),
        ("/api/v1/sessions/h2:s/commands", 403),
        ("/api/v1/sessions/h2/h1:s/commands", 403),
        ("/api/v1/sessions/h1x:s/commands", 403),
        ("/api/v1/sessions//h1:s/commands", 403),
        ("/api/v1/sessions/h2:s/dismiss", 403),
        ("/api/v1/notify/test", 403),
    ],
)
async def test_an_operator_of_some_machines_does_nothing_on_others(
    client: Any, authenticator: FakeAuthenticator, path: str, status: int
) -> None:
    authenticator.role, authenticator.hosts = "operator", ("h1",)

    answer = await client.post(path, headers=BEARER)
    assert answer.status_code == status
    if status == 403:
        assert "may do nothing on this machine" in answer.json()["error"]
    assert (await client.get("/api/v1/sessions/h2:s", headers=BEARER)).status_code == 200
    assert (await client.post("/api/v1/logout", headers=BEARER)).status_code == 200


@pytest.mark.parametrize("csrf", [None, "", "x", csrf_of("another's"), "ü" * 64])
async def test_with_a_cookie_what_changes_something_needs_its_proof(
    client: Any, csrf: str | None
) -> None:
    headers: Any = SIGNED_IN if csrf is None else {**SIGNED_IN, "x-csrf-token": csrf.encode()}
    answer = await client.post("/api/v1/logout", headers=headers)

    assert answer.status_code == 403
    assert "x-csrf-token" in answer.json()["error"]


async def test_with_its_proof_or_a_token_it_is_done(client: Any) -> None:
    proven = {**SIGNED_IN, "x-csrf-token": csrf_of(COOKIE)}
    for headers in (proven, BEARER):
        assert (await client.post("/api/v1/logout", headers=headers)).text == "in"


async def test_a_proxy_that_ends_tls_makes_the_cookie_a_secure_one(client: Any) -> None:
    host = {"host": "hub.example.net"}
    answer = await client.get("/", headers={**host, "cookie": f"__Host-adsum={COOKIE}"})
    assert answer.text == "in"
    answer = await client.get("/", headers={**host, "cookie": f"adsum={COOKIE}"})
    assert answer.status_code == 302


async def test_while_redis_is_away_a_page_and_the_api_say_so(
    client: Any, authenticator: FakeAuthenticator
) -> None:
    authenticator.away = True
    page, api = await client.get("/"), await client.get("/api/v1/me")

    assert page.status_code == api.status_code == 503
    assert page.headers["retry-after"] == api.headers["retry-after"]
    assert page.text.startswith(AWAY)
    assert api.json() == {"error": AWAY, "next": AWAY_STEP}


async def test_what_was_shown_and_is_wrong_is_logged_once_a_minute_without_it(
    client: Any, authenticator: FakeAuthenticator, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    other = make_token()
    for _ in range(3):
        await client.get("/api/v1/me", headers={"authorization": f"Bearer {other}"})
    authenticator.at += 60_000
    await client.get("/api/v1/me?token=" + other, headers={"authorization": f"Bearer {other}"})
    await client.get("/api/v1/me")

    lines = [record for record in caplog.records if record.name == "adsum_hub.request_guard"]
    assert len(lines) == 2
    assert all(other not in record.getMessage() for record in lines)


async def test_no_word_of_a_refusal_passes_for_a_secret_in_our_own_log(
    client: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    for headers in (BEARER, {"authorization": f"Bearer {make_token()}"}):
        await client.post("/api/v1/tokens", headers=headers)

    lines = [record.getMessage() for record in caplog.records if "refused" in record.msg]
    assert lines[0] == (
        "refused 127.0.0.1 at '/api/v1/tokens', because: This needs the role admin, and you are "
        "signed in as viewer."
    )
    assert len(lines) == 2
    assert [without_secrets(line, "salt") for line in lines] == lines
