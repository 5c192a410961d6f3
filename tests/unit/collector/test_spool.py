"""The spool as its users see it: appends from many, one thread, nothing promised that is not kept."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import adsum_collector.spool.spool as spool_module
from adsum_collector.errors import SpoolUnavailable
from adsum_collector.spool.spool import Rows, Spool, SpoolGap
from adsum_collector.spool.spool_directory import SpoolDirectory
from adsum_collector.spool.spool_file import SpoolLimits

ROOMY = SpoolLimits(min_free_bytes=0)


@pytest.fixture
async def spool(tmp_path: Path) -> AsyncIterator[Spool]:
    spool = await Spool.open(tmp_path / "spool", ROOMY)
    yield spool
    await spool.close()


async def bodies(spool: Spool, after: int = 0) -> list[bytes]:
    found: list[bytes] = []
    while (rows := await spool.read(after + len(found), 100, 1 << 20)) is not None:
        assert isinstance(rows, Rows)
        found += rows.bodies
    return found


@pytest.mark.parametrize("slow", [False, True], ids=["on the loop", "in the thread"])
async def test_appends_from_many_get_every_number_once(
    spool: Spool, monkeypatch: pytest.MonkeyPatch, slow: bool
) -> None:
    monkeypatch.setattr(spool_module, "SLOW_COMMIT_S", -1.0 if slow else 60.0)

    async def append(name: int) -> list[int]:
        return [await spool.append([b"%d.%d" % (name, at)]) for at in range(20)]

    numbers = await asyncio.gather(*map(append, range(16)))

    assert sorted(n for each in numbers for n in each) == list(range(1, 321))
    stored = await bodies(spool)
    assert all(
        stored[seq - 1] == b"%d.%d" % (name, at)
        for name, each in enumerate(numbers)
        for at, seq in enumerate(each)
    )


async def test_a_read_stops_at_the_limit_of_bytes_but_gives_at_least_one(spool: Spool) -> None:
    await spool.append([b"x" * 100, b"y" * 100, b"z" * 100])

    assert await spool.read(0, 10, 250) == Rows(1, [b"x" * 100, b"y" * 100])
    assert await spool.read(0, 10, 1) == Rows(1, [b"x" * 100])


async def test_an_append_whose_sender_went_away_harms_no_other(spool: Spool) -> None:
    gone = asyncio.create_task(spool.append([b"gone"]))
    stays = asyncio.create_task(spool.append([b"stays"]))
    await asyncio.sleep(0)
    gone.cancel()

    assert await stays == 2


async def test_an_append_tells_the_publisher(spool: Spool) -> None:
    assert not spool.added.is_set()
    await spool.append([b"a"])
    assert spool.added.is_set()


async def test_too_many_waiting_appends_are_refused(
    spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spool_module, "MOST_PENDING", 3)

    done = await asyncio.gather(*(spool.append([b"a"]) for _ in range(5)), return_exceptions=True)

    assert sum(isinstance(each, SpoolUnavailable) for each in done) == 2
    assert spool.last_seq == 3


async def test_closing_waits_for_what_was_appended(tmp_path: Path) -> None:
    spool = await Spool.open(tmp_path / "spool", ROOMY)
    append = asyncio.create_task(spool.append([b"a"]))
    await asyncio.sleep(0)
    await spool.close()

    assert await append == 1


async def test_the_log_is_moved_into_the_file_now_and_then(spool: Spool, tmp_path: Path) -> None:
    log = tmp_path / "spool" / "spool-000001.db-wal"
    for _ in range(300):
        await spool.append([b"x" * 100_000])

    assert log.stat().st_size < 16 << 20


async def test_what_a_damaged_spool_held_is_not_told_under_the_new_ones_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [1000.0]
    spool = await Spool.open(tmp_path / "spool", ROOMY, lambda: clock[0])
    for at in range(5):
        await spool.append([b"old%d" % at])
    await spool.acknowledge(5)
    old, current = spool.spool_id, spool._files.current

    def fail(_appends: object) -> list[int]:
        raise sqlite3.OperationalError("disk I/O error")

    def full(*_: object) -> None:
        raise SpoolUnavailable("3 MB are free")

    monkeypatch.setattr(current, "insert", fail)
    with pytest.raises(SpoolUnavailable, match="I/O"):
        await spool.append([b"lost"])
    current.close()
    current.path.write_bytes(b"garbage" * 1000)
    current.path.with_name(f"{current.path.name}-wal").unlink(missing_ok=True)
    clock[0] += 5
    with monkeypatch.context() as little_space:
        little_space.setattr(SpoolDirectory, "_look_at_disk", full)
        with pytest.raises(SpoolUnavailable, match="3 MB"):
            await spool.append([b"lost"])  # found the damage and began anew before it failed
    clock[0] += 5
    for at in range(6):
        assert await spool.append([b"new%d" % at]) == at + 2

    assert spool.spool_id != old
    assert await spool.read(0, 100, 1 << 20) == SpoolGap(1, 1, "corrupt", 1_005_000)
    assert await bodies(spool, 1) == [b"new%d" % at for at in range(6)]
    await spool.close()


async def test_a_commit_that_settles_after_a_new_beginning_is_read_under_its_new_number(
    spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spool_module, "SLOW_COMMIT_S", -1.0)  # in the thread, in this order
    await spool.append([b"a"])
    await spool.acknowledge(1)

    append = asyncio.create_task(spool.append([b"b"]))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await spool.begin_anew("rollback", 3)
    await append

    assert await bodies(spool, 1) == [b"b"]
    assert await spool.append([b"c"]) == 3
    assert await bodies(spool, 1) == [b"b", b"c"]
