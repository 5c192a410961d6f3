"""The roll kept current: whose login in Redis goes, and what goes with a host that is forgotten."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from adsum_hub.join.machines import (
    MEND_S,
    JoinedMachine,
    MachineStore,
    Roll,
    RollFile,
    RollWatch,
    expel,
)
from adsum_hub.join.rights import NoRightsError
from tests.seals import seal
from tests.story import working


class Rights:
    def __init__(self) -> None:
        self.asked: list[tuple[set[str], set[str]]] = []
        self.refusal: NoRightsError | None = None

    async def mend(self, members: Any, barred: Any, _entitled: Any) -> None:
        self.asked.append(({host_id for host_id, _ in members}, set(barred)))
        if self.refusal:
            raise self.refusal


class Roles(MachineStore):
    def __init__(self) -> None:
        super().__init__(None, seal())  # type: ignore[arg-type] # not asked

    async def sweep(self, forgotten: list[str]) -> None: ...

    async def enlist(self, host_ids: list[str]) -> None: ...


def machine(host_id: str, **more: Any) -> JoinedMachine:
    return JoinedMachine(host_id, host_id, "d", 1, **{"way": "acl", "token": "t", **more})


def watch(rights: Rights, folder: Path) -> RollWatch:
    roster: Any = SimpleNamespace(hosts={})
    kept = RollFile(folder)
    return RollWatch(roster, Roles(), rights, lambda: 0, SimpleNamespace(notify=lambda: None), kept)  # type: ignore[arg-type] # as far as it is asked


async def test_a_login_that_was_made_before_a_machine_went_another_way_is_swept(
    tmp_path: Path,
) -> None:
    """Redis, or one of its replicas, did not answer when it was to go."""
    rights = Rights()
    roll = Roll(
        {
            "oak": machine("oak"),
            "elm": machine("elm", way="ingest"),
            "ash": machine("ash", state="revoked"),
        },
        {},
        frozenset({"yew"}),
    )

    await watch(rights, tmp_path)._tend(roll)

    assert rights.asked == [({"oak"}, {"elm", "ash", "yew"})]


async def test_where_no_machine_has_a_login_a_redis_that_forbids_to_look_is_not_pestered(
    tmp_path: Path,
) -> None:
    rights = Rights()
    rights.refusal = NoRightsError("it takes +acl")
    watching = watch(rights, tmp_path)
    roll = Roll({"elm": machine("elm", way="ingest")}, {}, frozenset())

    await watching._tend(roll)
    first = watching._mend_due
    rights.asked.clear()
    watching._mend_due = 0.0
    rights.refusal = None
    await watching._tend(roll)

    assert first > watching._mend_due + MEND_S


def test_of_a_host_that_is_forgotten_no_session_is_counted_on() -> None:
    facts = working().told()
    told: list[Any] = []
    spending = SimpleNamespace(update=lambda key, facts: told.append((key, facts)))
    hosts = {"oak": SimpleNamespace(facts={"S": facts})}

    class Hosts(dict[str, Any]):
        def let_go(self, host_id: str) -> None:
            del self[host_id]

    roster: Any = SimpleNamespace(
        hosts=Hosts(hosts),
        reload=lambda *_: None,
        accounts=SimpleNamespace(spending=spending),
    )

    assert expel(roster, "oak", 0)

    assert told == [(("oak", "S"), None)]
    assert "oak" not in roster.hosts


@pytest.mark.parametrize(
    ("way", "state", "digest"),
    [("acl", "in", "d"), ("acl", "reset", ""), ("ingest", "in", ""), ("shared", "in", "")],
)
async def test_who_goes_another_way_is_to_have_no_login(way: Any, state: Any, digest: str) -> None:
    from fakeredis import FakeAsyncRedis

    async with FakeAsyncRedis() as redis:
        machines = MachineStore(redis, seal())
        await machines.put(machine("oak", way=way, state=state))

        assert await machines.entitled("oak") == digest
        assert await machines.entitled("elm") is None
