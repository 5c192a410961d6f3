"""Joining that comes to nothing at the hub: the token is as it was."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from fakeredis import FakeAsyncRedis

from adsum_hub.auth.credentials import digest_of, id_of
from adsum_hub.join.joining import JoinAccess, Joining
from adsum_hub.join.machines import JoinedMachine, MachineStore
from adsum_hub.join.rights import Addresses, NoRightsError
from adsum_hub.join.tokens import JoinAsked, JoinTokenStore, StoredJoinToken, make_machine_secret
from adsum_hub.redis_access import Bulkhead, RedisAccess
from adsum_hub.rest.api import BadRequestError
from adsum_shared.redis_errors import ExhaustedError
from tests.seals import seal

HOST = "11111111-1111-4111-8111-111111111111"
DIGEST = digest_of("one")


class Refused:
    """Of rights: none can be given."""

    async def grant(self, *_: str) -> None:
        raise NoRightsError("it takes +acl")


@pytest.mark.parametrize("reusable", [False, True])
async def test_a_token_by_which_no_machine_came_in_has_as_many_uses_as_before(
    reusable: bool,
) -> None:
    held = StoredJoinToken(id_of(DIGEST), 0, 9, reusable, "", 3 if reusable else 0)
    async with FakeAsyncRedis() as redis:
        parts: dict[str, Any] = dict.fromkeys(Joining.__dataclass_fields__)
        tokens: Any = JoinTokenStore(redis, seal())
        rights: Any = Refused()
        unlimited: Any = None
        parts["strangers"] = JoinAccess(
            tokens, MachineStore(redis, seal()), rights, unlimited, unlimited
        )
        parts["clock"] = lambda: 1
        parts["addresses"] = Addresses("redis://r", None, None)
        joining = Joining(**parts)
        await tokens.issue(DIGEST, held, 1)

        with pytest.raises(BadRequestError, match="a login of its own"):
            await joining._let_in(JoinAsked("t", HOST, "oak"), DIGEST, "oak", "10.0.0.1")

        assert await tokens.look(DIGEST, 1) == held


class Known:
    """A watch that has the machine on its roll."""

    def __init__(self, machine: JoinedMachine) -> None:
        self.machine = machine

    def knows(self, host_id: str, digest: str) -> bool:
        return self.machine.host_id == host_id and self.machine.has(digest)

    async def find(self, *_: object) -> JoinedMachine:
        return self.machine


async def test_a_known_machine_waits_behind_no_stranger() -> None:
    secret = make_machine_secret(HOST)
    machine = JoinedMachine(HOST, "oak", digest_of(secret), 1, "ingest", "t")
    crowded = Bulkhead(1, of_one=1, wait_s=0.01)
    parts: dict[str, Any] = dict.fromkeys(Joining.__dataclass_fields__)
    nobody: Any = None
    parts["access"] = RedisAccess(nobody, nobody, nobody, unknown=crowded)
    parts["watch"] = Known(machine)

    found = None
    async with crowded.turn("somebody"):
        with contextlib.suppress(ExhaustedError):
            found = await Joining(**parts).machine_of(secret, "10.0.0.1")

    assert found == machine
