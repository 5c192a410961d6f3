"""MachineStore that are shut out: not let in again by what they had begun, nor by a login of before."""

from __future__ import annotations

from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest
from fakeredis import FakeAsyncRedis
from fastapi import APIRouter, FastAPI

from adsum_hub.auth.credentials import digest_of
from adsum_hub.join.joining import Joining as JoiningOfHub
from adsum_hub.join.leaving import Leaving
from adsum_hub.join.machines import JoinedMachine, MachineStore
from adsum_hub.join.tokens import JoinTokenStore
from adsum_hub.redis_access import Bulkhead
from adsum_hub.rest.api import BadRequestError, add_endpoints, explain
from tests.seals import seal


class Joining:
    """Lets the machine in until it is shut out."""

    def __init__(self) -> None:
        self.shut_out = False

    async def asking(self, _: Any) -> Any:
        if self.shut_out:
            raise BadRequestError(401, "Not valid any more.", "Join again.")
        return SimpleNamespace(host_id="oak")


class Machines:
    """Notes what it is asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __getattr__(self, name: str) -> Any:
        self.asked.append(name)
        raise AssertionError(name)


@pytest.mark.parametrize("verb", ["leave", "ingest"])
async def test_who_is_shut_out_while_its_request_comes_is_not_let_in(verb: str) -> None:
    joining, machines = Joining(), Machines()
    parts: Any = dict.fromkeys(Leaving.__dataclass_fields__)
    leaving = Leaving(**parts | {"joining": joining, "machines": machines})
    app = FastAPI()
    app.include_router(add_endpoints(APIRouter(prefix="/api/v1"), leaving))
    explain(app)
    sent: list[Any] = []

    async def receive() -> Any:
        joining.shut_out = True  # a machine that waits with its body, until it is revoked
        return {"type": "http.request", "body": b'{"undo": true}', "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    path = f"/api/v1/machine/{verb}"
    headers = [(b"content-type", b"application/json"), (b"authorization", b"Bearer ours")]
    scope = {"type": "http", "method": "POST", "path": path, "raw_path": path.encode()}
    await app({**scope, "headers": headers, "query_string": b""}, receive, send)

    assert (sent[0]["status"], machines.asked) == (401, [])


@pytest.fixture
async def redis() -> AsyncIterator[Any]:
    client = FakeAsyncRedis()
    yield client
    await client.aclose()


@pytest.mark.parametrize(
    ("state", "secret", "says"),
    [
        ("revoked", "right", "was revoked"),
        ("reset", "right", "not valid, or not any more"),
        ("revoked", "wrong", "not valid, or not any more"),
    ],
)
async def test_that_it_was_revoked_is_told_to_the_machine_alone(
    state: Any, secret: str, says: str
) -> None:
    host_id = "11111111-1111-4111-8111-111111111111"
    secrets = {each: f"adsum_machine_{host_id}_{each:x>43}" for each in ("right", "wrong")}
    machine = JoinedMachine(host_id, "oak", digest_of(secrets["right"]), 1, "acl", "t", state)
    counted: list[str] = []

    async def find(*_: Any) -> JoinedMachine:
        return machine

    def knows(*_: str) -> bool:
        return True

    async def count(address: str) -> None:
        counted.append(address)

    parts: dict[str, Any] = dict.fromkeys(JoiningOfHub.__dataclass_fields__)
    parts["watch"] = SimpleNamespace(find=find, knows=knows)
    parts["strangers"] = SimpleNamespace(shown=SimpleNamespace(count=count), machines=None)
    bulkhead = Bulkhead(1, of_one=1, wait_s=1.0)
    parts["access"] = SimpleNamespace(machines=bulkhead, unknown=bulkhead)
    with pytest.raises(BadRequestError, match=says):
        await JoiningOfHub(**parts).machine_of(secrets[secret], "10.0.0.1")
    assert counted == ["10.0.0.1"]


async def test_a_login_that_stayed_in_redis_goes_too(redis: Any) -> None:
    """Going through the hub was noted, and Redis did not answer when the login was to go."""
    gone: list[str] = []

    async def withdraw_if_any(host_id: str) -> None:
        gone.append(host_id)

    async def look() -> None: ...

    machines = MachineStore(redis, seal())
    await machines.enter(JoinedMachine("oak", "oak", "d", 1, "ingest", "t"), "")
    rights, watch = SimpleNamespace(withdraw_if_any=withdraw_if_any), SimpleNamespace(look=look)
    roster: Any = SimpleNamespace(hosts={})
    hosts = Leaving(roster, JoinTokenStore(redis, seal()), machines, rights, watch, lambda: 1, None)  # type: ignore[arg-type] # as far as they are asked

    await hosts.revoke_host("oak")

    found = await machines.find("oak")
    assert (gone, found is not None and found.state) == (["oak"], "revoked")
