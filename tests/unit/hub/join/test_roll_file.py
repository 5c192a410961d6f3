"""The roll of machines beside Redis: put back where Redis has lost it, and not otherwise."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fakeredis import FakeAsyncRedis

from adsum_hub.join.machines import (
    OLDEST_S,
    ROLL_FILE,
    JoinedMachine,
    MachineStore,
    Roll,
    RollFile,
    RollWatch,
)
from adsum_shared import streams
from adsum_shared.connect import UNAVAILABLE
from tests.seals import seal

OAK = JoinedMachine("oak", "oak", "d1", 1, "ingest", "t")
ELM = JoinedMachine("elm", "elm", "d2", 2, "acl", "t", state="revoked")


class Hosts(dict[str, Any]):
    barred: Any = frozenset()


@pytest.fixture
async def redis() -> AsyncIterator[Any]:
    client = FakeAsyncRedis()
    yield client
    await client.aclose()


def watch_on(redis: Any, folder: Path) -> RollWatch:
    roster: Any = SimpleNamespace(hosts=Hosts())
    rights: Any = None
    return RollWatch(
        roster,
        MachineStore(redis, seal()),
        rights,
        lambda: 0,
        SimpleNamespace(notify=lambda: None),
        RollFile(folder),
    )  # type: ignore[arg-type] # as far as it is asked


async def test_what_redis_has_lost_a_hub_that_runs_puts_back(redis: Any, tmp_path: Path) -> None:
    machines, watch = MachineStore(redis, seal()), watch_on(redis, tmp_path)
    await machines.enter(OAK, "Build farm")
    await machines.enter(ELM, "")
    await redis.sadd(streams.FORGOTTEN, "ash")
    before = await watch.look()

    await redis.flushall()

    assert await watch.find("oak", MachineStore(redis, seal())) == OAK
    assert await watch.look() == before
    assert before.forgotten == {"ash"}
    assert before.labels == {"oak": "Build farm"}


async def test_a_hub_that_starts_anew_knows_it_from_its_disk(redis: Any, tmp_path: Path) -> None:
    await MachineStore(redis, seal()).enter(OAK, "")
    await watch_on(redis, tmp_path).look()
    await redis.flushall()

    assert await watch_on(redis, tmp_path).find("oak", MachineStore(redis, seal())) == OAK
    assert stat.S_IMODE((tmp_path / ROLL_FILE).stat().st_mode) == 0o600


async def test_what_was_known_long_ago_is_not_put_back(redis: Any, tmp_path: Path) -> None:
    """Who was shut out since would be let in again."""
    await MachineStore(redis, seal()).enter(OAK, "")
    await watch_on(redis, tmp_path).look()
    await redis.flushall()
    then = time.time() - OLDEST_S - 5
    os.utime(tmp_path / ROLL_FILE, (then, then))

    assert await watch_on(redis, tmp_path).find("oak", MachineStore(redis, seal())) is None


async def test_the_last_machine_to_leave_is_not_taken_for_a_loss(
    redis: Any, tmp_path: Path
) -> None:
    machines, watch = MachineStore(redis, seal()), watch_on(redis, tmp_path)
    await machines.enter(OAK, "")
    await watch.look()

    await machines.forget("oak")

    assert await watch.find("oak", MachineStore(redis, seal())) is None
    assert (await watch.look()).machines == {}


async def test_who_joined_after_the_loss_stays_as_it_is(redis: Any, tmp_path: Path) -> None:
    machines, watch = MachineStore(redis, seal()), watch_on(redis, tmp_path)
    await machines.enter(OAK, "")
    await redis.sadd(streams.FORGOTTEN, "ash")
    await watch.look()
    await redis.flushall()
    ash = JoinedMachine("ash", "ash", "d3", 3, "ingest", "t")
    newer = JoinedMachine("oak", "oak", "d4", 4, "ingest", "t")
    for each in (ash, newer):
        await redis.hset(streams.MACHINES, each.host_id, b"{}")
        await machines.put(each)

    roll = await watch.look()

    assert roll.machines == {"ash": ash, "oak": newer}
    assert roll.forgotten == frozenset()


def test_a_disk_that_takes_nothing_keeps_nobody_from_looking(tmp_path: Path) -> None:
    kept = RollFile(tmp_path / "not there")

    kept.keep(Roll({"oak": OAK}, {}, frozenset(), "m"), 0.0)

    assert kept.roll is not None
    assert kept.roll.machines == {"oak": OAK}


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"machines":7}'])
def test_a_file_that_cannot_be_read_counts_for_nothing(tmp_path: Path, content: bytes) -> None:
    (tmp_path / ROLL_FILE).write_bytes(content)

    assert RollFile(tmp_path).roll is None


class NoRedis:
    """Something that takes commands and answers each with a number."""

    def __getattr__(self, command: str) -> Any:
        return lambda *_: None

    def pipeline(self, **_: Any) -> Any:
        return self

    async def __aenter__(self) -> Any:
        return self

    async def __aexit__(self, *_: object) -> None: ...

    async def execute(self) -> list[int]:
        return [7, 7, 7]


async def test_a_roll_that_makes_no_sense_is_an_outage_and_no_fault() -> None:
    with pytest.raises(UNAVAILABLE, match="makes no sense"):
        await MachineStore(NoRedis(), seal()).roll()  # type: ignore[arg-type]
