"""The loop that looks: real files and real processes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

import adsum_collector.watch as liveness_module
import adsum_collector.watch as watch_module
from adsum_collector.agents.base import Adapt
from adsum_collector.errors import SpoolUnavailable
from adsum_collector.intake import Intake
from adsum_collector.processes import AgentProcess, ProcessTable, WatchedSessions, look_up, watched
from adsum_collector.spool.spool import Spool
from adsum_collector.spool.spool_file import SpoolLimits
from adsum_collector.watch import Entry, Known, Registry, Watch
from adsum_shared import WallClock
from adsum_shared.signals import (
    Alive,
    AnySignal,
    MetaChanged,
    ProcessGone,
    ProcessSeen,
    SessionEnded,
    StatusReported,
)
from tests.collectors import adapt_registry
from tests.support import wait_until


class SpyIntake(Intake):
    full = False

    def __init__(self, spool: Spool) -> None:
        super().__init__(spool, lambda signal: signal)
        self.taken: list[AnySignal] = []

    async def accept(self, signals: Sequence[AnySignal], message_id: str | None = None) -> int:
        if self.full:
            raise SpoolUnavailable("full")
        number = await super().accept(signals, message_id)
        self.taken += signals
        return number

    def of(self, kind: type[AnySignal]) -> list[Any]:
        return [signal for signal in self.taken if isinstance(signal, kind)]


def wall_ms() -> int:
    return time.time_ns() // 1_000_000


class Rig:
    def __init__(self, spool: Spool, directory: Path, now: WallClock = wall_ms) -> None:
        self.spool = spool
        self.directory = directory
        self.intake = SpyIntake(spool)
        self._now = now
        self.watch = self.watching(adapt_registry)
        self._running: asyncio.Task[None] | None = None

    def watching(self, adapt: Adapt) -> Watch:
        return Watch(
            self.intake,
            registries={self.directory: Registry(adapt, self.intake)},
            watched=WatchedSessions(self.spool),
            table=ProcessTable(watched(self.spool.state).values()),
            now=self._now,
        )

    def start(self) -> None:
        self._running = asyncio.create_task(self.watch.run())

    async def stop(self) -> None:
        if self._running is not None:
            self._running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._running

    def write(self, pid: int, session_id: str = "s1", **fields: Any) -> Path:
        self.directory.mkdir(parents=True, exist_ok=True)
        started = look_up(pid) or int(time.time() * 1000)
        entry = {"pid": pid, "sessionId": session_id, "startedAt": started + 150} | fields
        path = self.directory / f"{pid}.json"
        draft = self.directory / "draft"
        draft.write_text(json.dumps(entry))
        draft.replace(path)
        return path


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    spool = await Spool.open(tmp_path / "spool", SpoolLimits(min_free_bytes=0))
    rig = Rig(spool, tmp_path / "claude" / "sessions")
    yield rig
    await rig.stop()
    await spool.close()


@pytest.fixture
def agent() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "600"]) as process:
        yield process
        process.kill()


async def test_a_file_is_told_once_and_again_when_it_changes(
    rig: Rig, agent: subprocess.Popen[bytes]
) -> None:
    rig.write(agent.pid, status="busy", statusUpdatedAt=1)
    rig.start()
    await wait_until(lambda: rig.intake.of(StatusReported))
    (seen,) = rig.intake.of(ProcessSeen)
    assert seen.started == look_up(agent.pid)

    rig.write(agent.pid, status="waiting", statusUpdatedAt=2)
    await wait_until(lambda: len(rig.intake.of(StatusReported)) == 2)

    assert [s.status for s in rig.intake.of(StatusReported)] == ["busy", "waiting"]
    assert len(rig.intake.of(ProcessSeen)) == 1


async def test_a_file_that_waits_for_a_host_is_read_until_one_is_known(
    rig: Rig, agent: subprocess.Popen[bytes]
) -> None:
    hosts = ["", "a.example"]

    def adapt(raw: bytes, seen: int) -> list[AnySignal]:
        (told,) = adapt_registry(raw, seen)
        return [msgspec.structs.replace(told, host=hosts.pop(0))]  # type: ignore[type-var] # of a signal

    rig.watch = rig.watching(adapt)
    rig.write(agent.pid, status="waiting", statusUpdatedAt=1)
    for _ in range(3):
        await rig.watch.look()

    assert [it.host for it in rig.intake.of(StatusReported)] == ["", "a.example"]


async def test_a_killed_agent_is_missed_at_once(
    rig: Rig, agent: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    if hasattr(os, "pidfd_open"):
        monkeypatch.setattr(watch_module, "LOOK_INTERVAL_S", 60.0)
    rig.write(agent.pid, status="busy")
    rig.start()
    await wait_until(lambda: watched(rig.spool.state))

    agent.kill()
    agent.wait()
    (gone,) = await wait_until(lambda: rig.intake.of(ProcessGone))

    assert (gone.session_id, gone.pid) == ("s1", agent.pid)
    assert watched(rig.spool.state) == {}
    assert rig.intake.of(SessionEnded) == []


async def test_an_agent_killed_while_we_were_down_is_missed_at_the_next_start(
    rig: Rig, agent: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    rig.write(agent.pid, status="busy")
    await rig.watch.look()
    await rig.watch.look()
    agent.kill()
    agent.wait()

    again = Rig(rig.spool, rig.directory)
    await again.watch.look()

    assert [gone.pid for gone in again.intake.of(ProcessGone)] == [agent.pid]
    assert again.intake.of(StatusReported) == []


async def test_a_zombie_is_as_good_as_dead(rig: Rig, agent: subprocess.Popen[bytes]) -> None:
    rig.write(agent.pid)
    await rig.watch.look()
    agent.kill()
    await wait_until(lambda: look_up(agent.pid) is None)

    await rig.watch.look()

    assert len(rig.intake.of(ProcessGone)) == 1


async def test_a_file_that_vanishes_for_a_moment_ends_nothing(
    rig: Rig, agent: subprocess.Popen[bytes]
) -> None:
    path = rig.write(agent.pid, status="idle")
    await rig.watch.look()
    path.unlink()
    assert await rig.watch.look() < 0.2
    rig.write(agent.pid, status="idle")
    await rig.watch.look()

    assert rig.intake.of(SessionEnded) == []


async def test_a_file_that_stays_away_ends_the_session(
    rig: Rig, agent: subprocess.Popen[bytes]
) -> None:
    path = rig.write(agent.pid, status="idle")
    rig.start()
    await wait_until(lambda: rig.intake.of(StatusReported))
    path.unlink()

    await wait_until(lambda: rig.intake.of(SessionEnded))

    rig.write(agent.pid, status="idle")
    await wait_until(lambda: len(rig.intake.of(ProcessSeen)) == 2)


async def test_of_two_terminals_on_a_session_the_one_that_stays_is_told_anew(
    rig: Rig, agent: subprocess.Popen[bytes]
) -> None:
    with subprocess.Popen(["sleep", "600"]) as second:
        rig.write(agent.pid, status="idle", statusUpdatedAt=1)
        path = rig.write(second.pid, status="busy", statusUpdatedAt=2)
        rig.start()
        await wait_until(lambda: len(rig.intake.of(StatusReported)) == 2)

        path.unlink()
        await wait_until(lambda: any(seen.again for seen in rig.intake.of(ProcessSeen)))
        # Taken in, it is written a moment later.
        await wait_until(lambda: watched(rig.spool.state)["s1"].pid == agent.pid)
        second.kill()

    assert rig.intake.of(SessionEnded) == []
    assert rig.intake.of(StatusReported)[-1].status == "idle"


async def test_another_session_of_the_same_process(
    rig: Rig, agent: subprocess.Popen[bytes]
) -> None:
    rig.write(agent.pid, "s1", status="busy", statusUpdatedAt=5)
    await rig.watch.look()
    rig.write(agent.pid, "s2", status="busy", statusUpdatedAt=5)
    await rig.watch.look()

    assert [ended.session_id for ended in rig.intake.of(SessionEnded)] == ["s1"]
    assert [(s.session_id, s.status) for s in rig.intake.of(StatusReported)] == [
        ("s1", "busy"),
        ("s2", None),
    ]
    assert set(watched(rig.spool.state)) == {"s2"}


async def test_what_is_no_entry_is_counted_and_passed_over(rig: Rig) -> None:
    rig.directory.mkdir(parents=True)
    (rig.directory / "1.json").write_text("")
    (rig.directory / "2.json").write_bytes(b"\xff{")
    (rig.directory / "3.json").write_text('{"half')
    rig.write(2**22 + 1, status="busy")  # no such process
    os.mkfifo(rig.directory / "4.json.key")
    (rig.directory / "5.key").write_text("secret")
    (rig.directory / "name.json").write_text("{}")

    await rig.watch.look()

    assert rig.intake.taken == []
    assert rig.watch.counts == {"unreadable": 3, "no such process": 1}


async def test_a_file_that_cannot_be_read_is_counted_for_as_long_as_that_lasts(
    rig: Rig, agent: subprocess.Popen[bytes], caplog: pytest.LogCaptureFixture
) -> None:
    path = rig.directory / f"{agent.pid}.json"
    path.mkdir(parents=True)
    for _ in range(3):
        await rig.watch.look()
    assert rig.watch.counts == {"unreadable": 1}

    path.rmdir()
    rig.write(agent.pid, status="busy")
    await rig.watch.look()
    assert [told.status for told in rig.intake.of(StatusReported)] == ["busy"]

    shutil.rmtree(rig.directory)
    await rig.watch.look()  # as before any session
    rig.directory.write_text("")
    for _ in range(3):
        await rig.watch.look()
    assert rig.watch.counts == {"unreadable": 2}
    assert [str(rig.directory) in each.getMessage() for each in caplog.records] == [True, True]


async def test_a_leftover_file_whose_number_another_process_bears_is_no_session(
    rig: Rig, agent: subprocess.Popen[bytes]
) -> None:
    rig.write(agent.pid, status="busy", startedAt=(look_up(agent.pid) or 0) - 3_600_000)

    await rig.watch.look()

    assert rig.intake.taken == []


async def test_what_the_spool_did_not_take_is_told_later(
    rig: Rig, agent: subprocess.Popen[bytes]
) -> None:
    rig.write(agent.pid, status="busy")
    rig.intake.full = True
    await rig.watch.look()
    rig.intake.full = False
    await rig.watch.look()

    assert len(rig.intake.of(StatusReported)) == 1


async def test_a_directory_that_appears_later_is_found(
    rig: Rig, agent: subprocess.Popen[bytes]
) -> None:
    rig.start()
    rig.write(agent.pid, status="busy")

    await wait_until(lambda: rig.intake.of(StatusReported))


async def test_an_agent_that_computes_is_alive_and_one_that_sleeps_is_silent(
    rig: Rig, agent: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(liveness_module, "CPU_INTERVAL_MS", 50)
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy:
        rig.write(agent.pid, "asleep")
        rig.write(busy.pid, "at work")
        try:
            await rig.watch.look()

            async def told() -> list[Any]:
                await rig.watch.look()
                return rig.intake.of(Alive)

            (alive, *_) = await wait_until(told)
        finally:
            busy.kill()

    assert (alive.source, alive.event) == ("process", "cpu")
    assert {signal.session_id for signal in rig.intake.of(Alive)} == {"at work"}


async def test_an_unreadable_file_that_is_gone_is_forgotten(rig: Rig) -> None:
    rig.directory.mkdir(parents=True)
    file = rig.directory / "1.json"
    file.write_text("{")
    await rig.watch.look()
    assert file in rig.watch._stamps

    file.unlink()
    await rig.watch.look()

    assert rig.watch._stamps == {}


async def test_the_version_is_that_of_the_agent_that_started_last(rig: Rig) -> None:
    def known(started: int, version: str | None) -> Known:
        meta = MetaChanged(session_id="s", at=1, seen=1, version=version)
        return Known(Entry("s", AgentProcess(1, started), (meta,)))

    assert rig.watch.agent_version is None
    rig.watch._known = {
        Path("1.json"): known(5, "2.1.330"),
        Path("2.json"): known(9, "2.1.331"),
        Path("3.json"): known(10, None),
    }

    assert rig.watch.agent_version == "2.1.331"
