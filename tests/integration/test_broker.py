"""The embedded broker against real servers: private, durable, and never silently empty."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import stat
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psutil
import pytest
import redis

from adsum.broker import (
    SOCKET_PATH_MOST,
    BrokerPart,
    BrokerPlace,
    Engine,
    answers,
    ask_engine,
    dismiss_orphan,
    is_ready,
    prepare,
)
from adsum.outcome import CommandError
from adsum.supervise import Part, Supervisor
from tests.brokers import require_binary
from tests.support import wait_until

pytestmark = pytest.mark.redis


@pytest.fixture
def engine() -> Engine:
    found = ask_engine(Path(require_binary()))
    assert found is not None
    return found


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "a state"


@pytest.fixture
def said() -> list[str]:
    return []


async def never() -> None:
    raise AssertionError("it has started")


class Running:
    """Parts launched by a test; all are ended with it."""

    def __init__(self) -> None:
        self._processes: list[asyncio.subprocess.Process] = []

    async def launch(self, part: Part) -> asyncio.subprocess.Process:
        process = await part.launch()
        self._processes.append(process)
        await wait_until(part.ready)
        return process

    async def end(self) -> None:
        for process in self._processes:
            if process.returncode is None:
                process.kill()
                await process.wait()


@pytest.fixture
async def running() -> AsyncIterator[Running]:
    running = Running()
    yield running
    await running.end()


def part_for(state: Path, engine: Engine, said: list[str]) -> Part:
    return BrokerPart(engine, prepare(state), 64, said.append)


async def stop(process: asyncio.subprocess.Process, number: int = signal.SIGTERM) -> None:
    process.send_signal(number)
    await process.wait()


def client(state: Path) -> redis.Redis:
    return redis.Redis.from_url(BrokerPlace(state).url)


async def test_it_listens_on_a_private_socket_only_and_refuses_to_forget(
    state: Path, engine: Engine, said: list[str], running: Running
) -> None:
    await running.launch(part_for(state, engine, said))
    place = BrokerPlace(state)
    assert stat.S_IMODE(place.socket.stat().st_mode) == 0o700
    assert stat.S_IMODE(place.folder.stat().st_mode) == 0o700
    with client(state) as redis_client:
        settings = redis_client.config_get()
    assert settings["port"] == "0"
    assert settings["appendonly"] == "yes"
    assert settings["appendfsync"] == "everysec"
    assert settings["save"] == ""
    assert settings["maxmemory-policy"] == "noeviction"
    assert int(settings["maxmemory"]) == 64 * 1024 * 1024
    assert said == []


async def test_what_it_was_told_outlives_a_kill(
    state: Path, engine: Engine, said: list[str], running: Running
) -> None:
    process = await running.launch(part_for(state, engine, said))
    with client(state) as redis_client:
        redis_client.xadd("s", {"a": "1"}, id="1-1")
    await stop(process)
    process = await running.launch(part_for(state, engine, said))
    with client(state) as redis_client:
        redis_client.xadd("s", {"a": "2"}, id="1-2")
        await wait_until(lambda: redis_client.info("persistence")["aof_pending_bio_fsync"] == 0)
    await stop(process, signal.SIGKILL)
    # The stale socket of the killed one is in the way, and is taken out of it.
    assert BrokerPlace(state).socket.exists()
    await running.launch(part_for(state, engine, said))
    with client(state) as redis_client:
        assert redis_client.xlen("s") == 2
    assert said == []


async def test_an_orphan_of_a_killed_parent_is_dismissed(
    state: Path, engine: Engine, said: list[str], running: Running
) -> None:
    orphan = await running.launch(part_for(state, engine, said))
    second = await running.launch(part_for(state, engine, said))
    assert await asyncio.wait_for(orphan.wait(), 5) == 0
    assert second.returncode is None


async def test_a_broker_that_does_not_let_go_of_the_socket_is_named(
    state: Path, engine: Engine, said: list[str], running: Running
) -> None:
    hung = await running.launch(part_for(state, engine, said))
    hung.send_signal(signal.SIGSTOP)
    with pytest.raises(CommandError, match=r"does not stop.*broker\.pid"):
        await dismiss_orphan(BrokerPlace(state), patience_s=0.1)


@pytest.mark.parametrize(
    "stamp", ['{"engine": "valkey", "version": [99, 0, 0]}', "{broken", None], ids=str
)
async def test_files_another_engine_wrote_are_moved_aside_and_said(
    stamp: str | None, state: Path, engine: Engine, said: list[str], running: Running
) -> None:
    await stop(await running.launch(part_for(state, engine, said)))
    place = BrokerPlace(state)
    place.stamp.unlink() if stamp is None else place.stamp.write_text(stamp)
    await running.launch(part_for(state, engine, said))
    [notice] = said
    [aside] = [path for path in place.folder.iterdir() if path.name.startswith("data-")]
    assert str(aside) in notice
    assert "collectors replay" in notice
    assert json.loads(place.stamp.read_text())["engine"] == engine.name
    with client(state) as redis_client:
        assert redis_client.dbsize() == 0


async def test_damaged_files_are_moved_aside_and_it_starts_all_the_same(
    state: Path, engine: Engine, said: list[str], running: Running
) -> None:
    process = await running.launch(part_for(state, engine, said))
    with client(state) as redis_client:
        for number in range(50):
            redis_client.xadd("s", {"a": "x" * 100}, id=f"1-{number + 1}")
    await stop(process)
    [log] = [
        *BrokerPlace(state).data_dir.rglob("*.incr.aof"),
        *BrokerPlace(state).data_dir.glob("*.aof"),
    ]
    content = log.read_bytes()
    log.write_bytes(content[:500] + b"garbage\r\n" + content[600:])
    supervisor = Supervisor([[part_for(state, engine, said)]], said.append)

    async def started() -> None:
        supervisor.stop()

    await supervisor.run(started)
    [notice] = said
    assert "damaged" in notice


async def test_a_broker_that_never_answers_is_given_up_and_ended(
    state: Path, tmp_path: Path, said: list[str]
) -> None:
    silent = tmp_path / "silent-server"
    silent.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 60\n")
    silent.chmod(0o755)
    part = part_for(state, Engine(silent, "redis", (7, 2, 0)), said)
    part.patience_s = 0.5
    supervisor = Supervisor([[part]], said.append)
    with pytest.raises(CommandError, match=r"broker does not answer within.*broker\.log"):
        await asyncio.wait_for(supervisor.run(never), 10)
    assert not psutil.pid_exists(int((tmp_path / "pid").read_text()))


async def test_asking_to_stop_ends_a_broker_that_never_answers(
    state: Path, tmp_path: Path, said: list[str]
) -> None:
    silent = tmp_path / "silent-server"
    silent.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 60\n")
    silent.chmod(0o755)
    part = part_for(state, Engine(silent, "redis", (7, 2, 0)), said)
    supervisor = Supervisor([[part]], said.append)
    task = asyncio.create_task(supervisor.run(never))
    await wait_until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
    supervisor.stop()
    await asyncio.wait_for(task, 5)
    assert not psutil.pid_exists(int((tmp_path / "pid").read_text()))


async def test_whoever_asks_a_broker_for_a_word_is_cancelled_at_any_moment(tmp_path: Path) -> None:
    """Else a stop that meets the refusal of a connection is lost, and waits for the broker's patience."""
    for steps in range(12):
        asking = asyncio.create_task(is_ready(tmp_path / "none.sock"))
        for _ in range(steps):
            await asyncio.sleep(0)
        if not asking.done():
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking


def test_a_broker_has_time_to_read_all_it_may_hold(state: Path, engine: Engine) -> None:
    patience = [BrokerPart(engine, prepare(state), mb, print).patience_s for mb in (256, 4096)]
    assert patience == [46.0, 286.0]


@pytest.fixture
def short() -> Iterator[Path]:
    """Not below tmp_path, which may be too long for a socket by itself."""
    with tempfile.TemporaryDirectory() as directory:
        yield Path(directory)


async def test_a_path_too_long_for_a_socket_gets_a_short_private_folder(
    tmp_path: Path,
    engine: Engine,
    said: list[str],
    running: Running,
    short: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    state = tmp_path / ("long" * 30)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(short))
    place = prepare(state)
    assert len(os.fsencode(place.socket)) <= SOCKET_PATH_MOST
    assert stat.S_IMODE(place.socket.parent.stat().st_mode) == 0o700
    await running.launch(BrokerPart(engine, place, 64, said.append))
    assert await is_ready(BrokerPlace(state).socket)


def test_a_short_folder_that_others_can_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = tmp_path / ("long" * 30)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "r"))
    prepare(state).socket.parent.chmod(0o755)
    with pytest.raises(CommandError, match="not a private directory of yours"):
        prepare(state)


async def test_nobody_at_the_socket_is_no_answer(tmp_path: Path) -> None:
    assert await answers(tmp_path / "none.sock", b"PING\r\n") == b""
