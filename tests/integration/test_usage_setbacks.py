"""The ledger's disk and file, two writers at once, kills: nothing is lost, nobody else is harmed."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import msgspec
import psutil
import pytest
import redis.asyncio

from adsum_collector.usage import witness as usage_witness
from adsum_collector.usage.ledger import NAME, Ledger
from adsum_collector.usage.reading import Errand, Order, UsageReading
from adsum_collector.usage.witness import COMMAND
from adsum_shared import streams
from adsum_shared.envelope import decode_beat
from adsum_shared.signals import UsageTotalled
from bench.corpus import History
from tests.collectors import CollectorProcess, batches
from tests.ledgers import AGENT, CLAUDE, UsageRig, begin, open_usage, said
from tests.spools import SmallDisk
from tests.support import wait_until

pytestmark = [pytest.mark.timeout(60), pytest.mark.slow]


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[UsageRig]:
    async with open_usage(tmp_path) as rig:
        rig.write(rig.main("s"), begin(), said("a", 10))
        yield rig


# ---- the ledger's file ------------------------------------------------------------------------


async def test_a_broken_ledger_is_set_aside_and_begun_anew(rig: UsageRig) -> None:
    path = rig.state / NAME
    path.write_bytes(b"SQLite format 3\0" + b"no" * 5000)
    rig.start()

    await rig.settled()

    assert rig.outputs() == {"s": 10}
    told = rig.witness.witness()
    assert told.state == "ok"
    assert "could not be read" in (told.note or "")
    assert "added up anew" in (told.note or "")
    assert (rig.state / f"{NAME}.aside").read_bytes().endswith(b"no")


async def test_another_versions_ledger_is_set_aside(rig: UsageRig) -> None:
    Ledger.open(rig.state, lambda _model: None).close()
    with closing(sqlite3.connect(rig.state / NAME)) as db:
        db.execute("PRAGMA user_version = 99")
    rig.start()

    await rig.settled()

    assert rig.outputs() == {"s": 10}
    assert "another version (schema 99, not 1)" in (rig.witness.witness().note or "")


async def test_a_strangers_database_in_its_place_is_set_aside(rig: UsageRig) -> None:
    with closing(sqlite3.connect(rig.state / NAME)) as db:
        db.execute("CREATE TABLE mine (a)")
    rig.start()

    await rig.settled()

    assert rig.outputs() == {"s": 10}
    assert "not written by Adsum" in (rig.witness.witness().note or "")
    with closing(sqlite3.connect(rig.state / f"{NAME}.aside")) as db:
        assert db.execute("SELECT count(*) FROM mine").fetchone() == (0,)


@pytest.mark.parametrize("statement", ["DROP TABLE totals", "UPDATE files SET place = x'c1'"])
async def test_a_ledger_that_breaks_while_in_use_is_begun_anew(
    rig: UsageRig, statement: str
) -> None:
    rig.alive.add("s")
    rig.start()
    await rig.settled()
    with closing(sqlite3.connect(rig.state / NAME)) as db:
        db.execute(statement)
        db.commit()
    rig.append(rig.main("s"), said("b", 5))
    rig.walk()

    await wait_until(lambda: rig.outputs() == {"s": 15}, 15)

    await wait_until(lambda: rig.witness.witness().state == "ok")
    assert "begun" in (note := rig.witness.witness().note or "") or "anew" in note


async def test_a_ledger_that_breaks_under_the_process_is_begun_anew(
    rig: UsageRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.start()
    await rig.settled()
    with closing(sqlite3.connect(rig.state / NAME)) as db:
        db.execute("DROP TABLE messages")
    monkeypatch.setattr(usage_witness, "LITTLE_FILES", 0)
    rig.append(rig.main("s"), said("b", 5))
    rig.walk()

    await wait_until(lambda: rig.outputs() == {"s": 15}, 15)

    assert "anew" in (rig.witness.witness().note or "")


async def test_without_a_place_for_its_ledger_it_says_so_and_goes_on_once_there_is(
    rig: UsageRig,
) -> None:
    rig.state.rmdir()
    rig.state.write_bytes(b"")
    rig.start()
    await wait_until(lambda: rig.witness.witness().state == "trouble")
    assert rig.running is not None
    assert not rig.running.done()
    assert "cannot be written to" in (rig.witness.witness().note or "")

    rig.state.unlink()
    rig.state.mkdir()

    await wait_until(lambda: rig.outputs() == {"s": 10}, 10)
    await wait_until(lambda: rig.witness.witness().state == "ok")


async def test_on_a_full_disk_totals_wait(rig: UsageRig, tmp_path: Path) -> None:
    disk = SmallDisk(tmp_path / "disk", "1m")
    try:
        rig.state.rmdir()
        rig.state.symlink_to(disk.directory)
        History(rig.projects.parent, 40_000_000, seed=3).write()
        filler = disk.directory / "filler"
        filler.write_bytes(b"\0" * (700 << 10))
        rig.start()
        await wait_until(lambda: rig.witness.witness().state == "trouble", 40)
        note = rig.witness.witness().note or ""
        assert "is full" in note, note

        filler.unlink()

        await wait_until(lambda: rig.witness.witness().state == "ok" and rig.outputs(), 20)
    finally:
        await rig.stop()
        disk.close()


# ---- the intake -------------------------------------------------------------------------------


async def test_what_the_spool_refuses_is_told_later(rig: UsageRig) -> None:
    rig.intake.full = True
    rig.start()
    await wait_until(lambda: rig.witness.faults["not accepted"])
    rig.intake.full = False

    rig.write(rig.main("t"), begin(), said("b", 20))
    rig.walk()

    await wait_until(lambda: rig.outputs() == {"s": 10, "t": 20})


async def test_what_was_accepted_and_not_marked_is_told_again_as_it_is(rig: UsageRig) -> None:
    """As after a kill between the two."""
    rig.start()
    await rig.settled()
    (first,) = rig.of(UsageTotalled)
    await rig.stop()
    with closing(sqlite3.connect(rig.state / NAME)) as db:
        db.execute("UPDATE totals SET told = 0")
        db.commit()

    await rig.restart()
    await rig.settled()

    (again,) = rig.of(UsageTotalled)
    assert again == msgspec.structs.replace(first, seen=again.seen)


# ---- processes --------------------------------------------------------------------------------


WEIGHED = [
    *(sys.executable, "-I", "-c"),
    "from adsum_collector.usage.reading import main; main(); print(open('/proc/self/status').read())",
]


def worker(order: Order, command: Sequence[str] = COMMAND) -> subprocess.Popen[bytes]:
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdin is not None
    child.stdin.write(msgspec.json.encode(order) + b"\n")
    child.stdin.flush()
    return child


def finished(child: subprocess.Popen[bytes]) -> list[bytes]:
    """What it said; we have listened to the end."""
    assert child.stdout is not None
    with child:
        return child.stdout.read().splitlines()


def errands(projects: Path) -> list[Errand]:
    found = []
    for path in sorted(projects.rglob("*.jsonl")):
        whose = AGENT.file_of(path.relative_to(projects).as_posix())
        if whose is not None:
            found.append(Errand(os.fsencode(path), whose))
    return found


def outputs(directory: Path) -> dict[str, int]:
    sums: dict[str, int] = {}
    with closing(Ledger.open(directory, lambda _model: None)) as ledger:
        for total in ledger:
            if total.output:
                session = total.group.session_id
                sums[session] = sums.get(session, 0) + total.output
    return sums


def test_two_writers_at_once_count_every_message_once(tmp_path: Path) -> None:
    truth = History(tmp_path, 30_000_000, seed=9).write()
    every = errands(tmp_path / "projects")
    child = worker(Order("claude_code", str(tmp_path), every))
    with closing(Ledger.open(tmp_path, lambda _model: None)) as ledger:
        reading = UsageReading(ledger, CLAUDE, lambda: time.time_ns() // 1_000_000)
        for errand in reversed(every):
            list(reading.read([errand]))

    assert json.loads(finished(child)[-1]) == {"over": True}
    assert outputs(tmp_path) == dict(truth.sessions)


@pytest.mark.parametrize("after", [0.15, 0.25, 0.4, 0.6])
def test_a_worker_that_is_killed_anywhere_leaves_a_ledger_to_go_on_from(
    tmp_path: Path, after: float
) -> None:
    truth = History(tmp_path, 40_000_000, seed=10).write()
    every = errands(tmp_path / "projects")
    child = worker(Order("claude_code", str(tmp_path), every))
    time.sleep(after)  # somewhere in its work: at its start, amid a transaction, near its end
    child.kill()
    finished(child)

    child = worker(Order("claude_code", str(tmp_path), every))

    assert json.loads(finished(child)[-1]) == {"over": True}
    assert outputs(tmp_path) == dict(truth.sessions)


def test_a_worker_ends_when_nobody_listens(tmp_path: Path) -> None:
    History(tmp_path, 40_000_000, seed=10).write()
    every = errands(tmp_path / "projects")
    child = worker(Order("claude_code", str(tmp_path), every * 200))
    assert child.stdin is not None
    child.stdin.close()
    reports = finished(child)

    assert child.returncode == 1
    assert len(reports) == 1
    assert b"over" not in reports[0]


def test_a_worker_is_gentle(tmp_path: Path) -> None:
    History(tmp_path, 10_000_000, seed=10).write()
    child = worker(Order("claude_code", str(tmp_path), errands(tmp_path / "projects") * 50))
    try:
        its = psutil.Process(child.pid)
        deadline = time.monotonic() + 5
        while its.nice() != 19:
            assert time.monotonic() < deadline
    finally:
        child.kill()
        finished(child)


def test_a_worker_needs_little_memory_even_for_a_huge_line(tmp_path: Path) -> None:
    History(tmp_path, 60_000_000, seed=12).write()
    huge = tmp_path / "projects" / "p" / "huge.jsonl"
    huge.parent.mkdir(parents=True, exist_ok=True)
    with huge.open("wb") as file:
        file.write(begin() + said("a", 10))
        file.write(b'{"type":"user","content":"' + b"x" * (100 << 20) + b'"}\n')
        file.write(said("b", 5))
    # its own mark, for the kernel's also counts what this process weighs
    child = worker(Order("claude_code", str(tmp_path), errands(tmp_path / "projects")), WEIGHED)
    told = finished(child)

    assert any(b'"huge line":1' in line for line in told)
    assert outputs(tmp_path)["huge"] == 15
    (weight,) = [int(line.split()[1]) for line in told if line.startswith(b"VmHWM")]
    assert weight < 100 << 10


# ---- a whole collector ------------------------------------------------------------------------


@pytest.fixture
def collector(tmp_path: Path, redis_url: str) -> Iterator[CollectorProcess]:
    collector = CollectorProcess(tmp_path / "state", redis_url)
    yield collector
    collector.kill()


@pytest.fixture
async def client(redis_url: str) -> AsyncIterator[redis.asyncio.Redis]:
    client = redis.asyncio.Redis.from_url(redis_url)
    yield client
    await client.aclose()


async def told_of(client: redis.asyncio.Redis, host_id: str) -> dict[str, int]:
    last: dict[tuple[str, str, str, str, bool, bool], UsageTotalled] = {}
    for batch in await batches(client, host_id):
        for each in batch.signals:
            if isinstance(each, UsageTotalled):
                key = (each.session_id, each.day, each.model, each.geo, each.fast, each.long)
                last[key] = each
    sums: dict[str, int] = {}
    for each in last.values():
        if each.output_tokens:
            sums[each.session_id] = sums.get(each.session_id, 0) + each.output_tokens
    return sums


@pytest.mark.core
async def test_a_collector_killed_again_and_again_tells_the_truth_in_the_end(
    collector: CollectorProcess, client: redis.asyncio.Redis, tmp_path: Path
) -> None:
    claude = tmp_path / "state-claude"
    # lines of the test's own agent have no notes, so its history has nothing to say
    truth = History(claude, 40_000_000, seed=13).write()
    for pause in (0.3, 0.6, 0.9, 1.2):
        collector.start()
        await asyncio.sleep(pause)  # somewhere between the ledger and the spool
        collector.kill()
    collector.start()

    async def is_true() -> bool:
        return await told_of(client, collector.host_id) == dict(truth.sessions)

    await wait_until(is_true, 30)
    beat = decode_beat(await client.get(streams.beat(collector.host_id)) or b"")
    assert beat is not None
    assert [each.state for each in beat.witnesses if each.name == "usage"] != ["trouble"]


async def count_of(client: redis.asyncio.Redis, host_id: str) -> int:
    found = await batches(client, host_id)
    return sum(isinstance(each, UsageTotalled) for batch in found for each in batch.signals)


async def test_a_restart_tells_nothing_again_and_a_lost_stream_everything(
    collector: CollectorProcess, client: redis.asyncio.Redis, tmp_path: Path
) -> None:
    claude = tmp_path / "state-claude"
    truth = History(claude, 2_000_000, seed=14).write()
    collector.start()

    async def is_true() -> bool:
        return await told_of(client, collector.host_id) == dict(truth.sessions)

    await wait_until(is_true, 15)
    told = await count_of(client, collector.host_id)
    collector.stop()
    more = claude / "projects" / "p" / "more.jsonl"
    more.parent.mkdir(parents=True)
    more.write_bytes(begin() + said("z", 7))
    truth.sessions["more"] = 7
    collector.start()
    await wait_until(is_true, 15)
    assert await count_of(client, collector.host_id) == told + 1
    collector.stop()

    await client.flushall()
    collector.start()

    await wait_until(is_true, 15)


async def test_a_file_of_absurd_size_is_not_read_for_its_usage(rig: UsageRig) -> None:
    rig.write(rig.main("whole"), begin(), said("one"))
    rig.write(rig.main("hole"), begin(), said("two"))
    os.truncate(rig.main("hole"), 1 << 40)
    rig.start()

    await rig.settled()

    assert set(rig.outputs()) == {"s", "whole"}
    assert not rig.witness.faults
