"""The receiver: what it takes, what it refuses and with which words."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Sequence
from typing import Any

import httpx
import msgspec
import pytest

import adsum_collector.listening.receiver as receiver_module
from adsum_collector.errors import SpoolUnavailable
from adsum_collector.intake import HookDoor
from adsum_collector.listening.receiver import PATH, Receiver
from adsum_shared.signals import Alive, AnySignal

TOKEN = "0123456789abcdef" * 4
BEARER = {"authorization": f"Bearer {TOKEN}"}
JSON = {"content-type": "application/json"}
GOOD = b'{"session_id":"s"}'


class _Status(msgspec.Struct):
    waiting: int


class FakeIntake:
    def __init__(self) -> None:
        self.taken: list[AnySignal] = []
        self.full = False

    async def accept(self, signals: Sequence[AnySignal], message_id: str | None = None) -> int:
        if self.full:
            raise SpoolUnavailable("the disk is full")
        self.taken += signals
        return len(self.taken)

    def facts(self) -> tuple[bool, dict[str, Any]]:
        return not self.full, {"taken": len(self.taken)}

    async def spool_status(self) -> _Status:
        if self.full:
            raise SpoolUnavailable("the disk is full")
        return _Status(len(self.taken))


def adapt(body: bytes, seen: int) -> list[AnySignal]:
    hook: dict[str, Any] = msgspec.json.decode(body, type=dict[str, Any])
    match hook:
        case {"session_id": str(session_id)}:
            return [Alive(session_id=session_id, at=seen, seen=seen)]
    raise ValueError("`session_id` is missing or no string")


@pytest.fixture
def intake() -> FakeIntake:
    return FakeIntake()


@pytest.fixture
def peer(monkeypatch: pytest.MonkeyPatch) -> dict[str, int | None]:
    """The user at the other end of a connection."""
    peer = {"uid": os.getuid()}
    monkeypatch.setattr(receiver_module, "tcp_peer_uid", lambda _client, _server: peer["uid"])
    return peer  # type: ignore[return-value] # None may be put in


@pytest.fixture
def receiver(intake: FakeIntake, peer: dict[str, int | None]) -> Receiver:
    return Receiver(
        {"test": HookDoor(adapt, intake)},  # type: ignore[arg-type] # a fake
        port=47892,
        token=TOKEN,
        status=intake,
    )


@pytest.fixture
def client(receiver: Receiver) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(receiver)  # type: ignore[arg-type] # narrower than ASGI
    return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:47892")


async def test_a_hook_is_answered_with_its_number_and_nothing_else(
    client: httpx.AsyncClient, intake: FakeIntake
) -> None:
    reply = await client.post(PATH, content=GOOD, headers=JSON | BEARER)

    assert (reply.status_code, reply.content) == (200, b"")
    assert reply.headers["x-adsum-seq"] == "1"
    assert len(intake.taken) == 1


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "127.0.0.1:47892"}, 200),
        ({"host": "localhost:47892"}, 200),
        ({"host": "[::1]:47892"}, 200),
        ({"host": "LOCALHOST:47892"}, 200),
        ({"host": "localhost:47893"}, 403),
        ({"host": "localhost"}, 403),
        ({"host": "localhost.evil.example:47892"}, 403),
        ({"host": "evil.example:47892"}, 403),
        ({"host": ""}, 403),
        ({"origin": "http://127.0.0.1:47892"}, 403),
        ({"origin": "null"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-origin"}, 403),
        ({"content-type": "text/plain"}, 415),
        ({"content-type": "application/x-www-form-urlencoded"}, 415),
        ({"content-type": ""}, 415),
        ({"content-type": "application/json; charset=utf-8"}, 200),
        ({"authorization": "Bearer wrong"}, 401),
        ({"authorization": TOKEN}, 401),
        ({"authorization": b"Bearer \xe9"}, 401),
        ({"authorization": ""}, 401),
    ],
    ids=str,
)
async def test_who_may_send(
    client: httpx.AsyncClient, intake: FakeIntake, headers: dict[str, Any], status: int
) -> None:
    reply = await client.post(PATH, content=GOOD, headers=JSON | BEARER | headers)

    assert reply.status_code == status, reply.text
    assert len(intake.taken) == (status == 200)
    if status != 200:
        assert reply.json()["error"]
        assert reply.json()["next"]


@pytest.mark.parametrize(("uid", "status"), [(os.getuid(), 200), (65534, 401), (None, 401)])
async def test_without_a_token_only_the_same_user_may_send(
    client: httpx.AsyncClient, peer: dict[str, int | None], uid: int | None, status: int
) -> None:
    peer["uid"] = uid

    assert (await client.post(PATH, content=GOOD, headers=JSON)).status_code == status


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "OPTIONS", "PATCH"])
async def test_only_post_is_taken(client: httpx.AsyncClient, method: str) -> None:
    reply = await client.request(method, PATH, headers=JSON | BEARER)

    assert reply.status_code == 405
    assert "access-control-allow-origin" not in reply.headers


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'"x"',
        b"{}",
        b'{"session_id": 7}',
        b'{"session_id": "\xff\xfe"}',
        b'{"session_id": "s"} trailing',
        b'{"session_id": NaN}',
        b"[" * 100_000,
        b'{"a":' * 5_000,
    ],
    ids=lambda body: repr(body[:24]),
)
async def test_what_is_no_hook_is_a_400_that_says_so(
    client: httpx.AsyncClient, intake: FakeIntake, receiver: Receiver, body: bytes
) -> None:
    reply = await client.post(PATH, content=body, headers=JSON | BEARER)

    assert reply.status_code == 400
    assert reply.json()["error"].startswith("not a hook's JSON")
    assert intake.taken == []
    assert receiver.refused[400] == 1


def padded(size: int) -> bytes:
    return GOOD[:-1] + b',"x":"' + b"x" * (size - len(GOOD) - 7) + b'"}'


@pytest.mark.parametrize(
    ("size", "headers", "status"),
    [
        (1 << 20, {}, 200),
        ((1 << 20) + 1, {}, 413),
        ((1 << 20) + 1, BEARER, 200),
        (16 << 20, BEARER, 200),
        ((16 << 20) + 1, BEARER, 413),
    ],
)
@pytest.mark.parametrize("chunked", [False, True], ids=["with a length", "chunked"])
async def test_how_much_may_be_sent(
    client: httpx.AsyncClient, size: int, headers: dict[str, str], status: int, chunked: bool
) -> None:
    async def chunks() -> Any:
        body = padded(size)
        for at in range(0, size, 1 << 19):
            yield body[at : at + (1 << 19)]

    content = chunks() if chunked else padded(size)
    reply = await client.post(PATH, content=content, headers=JSON | headers)

    assert reply.status_code == status


async def test_when_the_spool_cannot_promise_the_sender_is_told_to_come_again(
    client: httpx.AsyncClient, intake: FakeIntake
) -> None:
    intake.full = True

    reply = await client.post(PATH, content=GOOD, headers=JSON | BEARER)

    assert reply.status_code == 503
    assert reply.headers["retry-after"] == "1"
    assert "disk is full" in reply.json()["error"]
    assert (await client.get("/readyz")).status_code == 503


async def test_other_users_without_the_token_learn_only_whether_it_is_ready(
    client: httpx.AsyncClient, intake: FakeIntake, peer: dict[str, int | None]
) -> None:
    peer["uid"] = os.getuid() + 1
    ready, spool = await client.get("/readyz"), await client.get("/spool")
    wrong = await client.get("/readyz", headers={"authorization": "Bearer wrong"})
    with_token = await client.get("/readyz", headers=BEARER)

    assert (ready.status_code, ready.json()) == (200, {"ready": True})
    assert wrong.json() == {"ready": True}
    assert with_token.json() == {"taken": 0}
    assert spool.status_code == 401
    assert "adsum hooks install" in spool.json()["next"]
    assert (await client.get("/spool", headers=BEARER)).json() == {"waiting": 0}
    intake.full = True
    assert (await client.get("/readyz")).status_code == 503


async def test_how_the_spool_fares_is_told_its_own_user_without_a_token(
    client: httpx.AsyncClient, intake: FakeIntake
) -> None:
    reply = await client.get("/spool")
    assert (reply.status_code, reply.json()) == (200, {"waiting": 0})
    assert (await client.get("/spool", headers={"origin": "http://x"})).status_code == 403

    intake.full = True
    reply = await client.get("/spool")
    assert reply.status_code == 503
    assert "the spool cannot be read: the disk is full" in reply.json()["error"]


async def test_a_body_that_does_not_come_is_given_up(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receiver_module, "READ_TIMEOUT_S", 0.05)
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        await asyncio.sleep(60)
        return {}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await receiver(scope_with(BEARER), receive, send)

    assert sent[0]["status"] == 408


async def test_a_sender_that_hangs_up_is_not_taken_for_a_hook(
    receiver: Receiver, intake: FakeIntake
) -> None:
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await receiver(scope_with(BEARER), receive, send)

    assert sent == []
    assert intake.taken == []


def scope_with(headers: dict[str, str]) -> dict[str, Any]:
    given = {"host": "127.0.0.1:47892", **JSON, **headers}
    return {
        "type": "http",
        "path": PATH,
        "method": "POST",
        "headers": [(name.encode(), value.encode()) for name, value in given.items()],
    }


async def test_health_is_told_to_local_programs_only(client: httpx.AsyncClient) -> None:
    live = await client.get("/livez")
    ready = await client.get("/readyz")

    assert (live.status_code, live.text, live.headers["x-adsum"]) == (200, "ok", "collector")
    assert ready.json() == {"taken": 0}
    assert (await client.get("/livez", headers={"host": "evil.example"})).status_code == 403
    assert (await client.get("/livez", headers={"origin": "http://x"})).status_code == 403
    assert (await client.post("/livez")).status_code == 405
    assert (await client.get("/api/live")).status_code == 404


async def test_a_refusal_says_that_a_collector_refuses(client: httpx.AsyncClient) -> None:
    """Its words have a hub's form: a command that takes it for a hub must know."""
    for refused in (await client.get("/api/v1/sessions"), await client.post("/livez")):
        assert refused.status_code >= 400
        assert refused.headers["x-adsum"] == "collector"


async def test_a_large_body_is_understood_while_others_are_answered(
    intake: FakeIntake, peer: dict[str, int | None]
) -> None:
    others_answered = threading.Event()

    def slow(body: bytes, seen: int) -> list[AnySignal]:
        if len(body) > 100_000:
            assert others_answered.wait(5), "the loop was held"
        return adapt(body, seen)

    receiver = Receiver(
        {"test": HookDoor(slow, intake)},  # type: ignore[arg-type] # a fake
        port=47892,
        token=TOKEN,
        status=intake,
    )
    transport = httpx.ASGITransport(receiver)  # type: ignore[arg-type] # narrower than ASGI
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:47892") as web:
        large = b'{"session_id":"large","x":"' + b"x" * 200_000 + b'"}'
        held = asyncio.create_task(web.post(PATH, content=large, headers=JSON | BEARER))
        await asyncio.sleep(0)
        assert (await web.post(PATH, content=GOOD, headers=JSON | BEARER)).status_code == 200
        others_answered.set()
        assert (await held).status_code == 200

    assert [signal.session_id for signal in intake.taken] == ["s", "large"]
