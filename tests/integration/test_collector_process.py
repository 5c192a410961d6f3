"""A real collector process: how it starts, refuses to start, and stops."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from adsum_collector.listening.receiver import MOST_CONNECTIONS
from adsum_collector.listening.sockets import passed_sockets
from tests.collectors import CollectorProcess
from tests.support import wait_until

pytestmark = pytest.mark.timeout(60)

NOWHERE = "redis://127.0.0.1:1"


@pytest.fixture
def collector(tmp_path: Path) -> Iterator[CollectorProcess]:
    collector = CollectorProcess(tmp_path / "state", NOWHERE)
    yield collector
    collector.kill()


def refusal(collector: CollectorProcess) -> str:
    """What a collector says that does not start."""
    collector.spawn()
    assert collector.process is not None
    assert collector.process.wait(timeout=20) == 1
    collector.process = None
    text = collector.log.read_text()
    assert "Traceback" not in text
    return text


def test_a_second_collector_names_the_first_and_the_way_out(
    collector: CollectorProcess, tmp_path: Path
) -> None:
    collector.start()
    second = CollectorProcess(tmp_path / "state", NOWHERE)
    second.log = tmp_path / "second.log"

    text = refusal(second)

    assert f"process {collector.pid}" in text
    assert "ADSUM_STATE_DIR" in text


def test_a_port_that_another_collector_has(collector: CollectorProcess, tmp_path: Path) -> None:
    collector.start()
    second = CollectorProcess(tmp_path / "other", NOWHERE)
    second.env["ADSUM_COLLECTOR_PORT"] = str(collector.port)

    text = refusal(second)

    assert f"Port {collector.port} is in use by another Adsum collector" in text
    assert "ADSUM_COLLECTOR_PORT" in text


def test_a_port_that_another_program_has(collector: CollectorProcess) -> None:
    with socket.socket() as foreign:
        foreign.bind(("127.0.0.1", collector.port))
        foreign.listen()

        text = refusal(collector)

    assert f"Port {collector.port}" in text
    assert "another program may have it" in text


@pytest.mark.parametrize("url", ["http://x:s3cret@h", "nonsense-s3cret", "redis://h:port-s3cret"])
def test_a_wrong_redis_url_is_explained_without_its_password(tmp_path: Path, url: str) -> None:
    text = refusal(CollectorProcess(tmp_path / "state", url))

    assert "is no Redis URL" in text
    assert "redis://host:6379" in text
    assert "s3cret" not in text


def test_a_damaged_identity_stops_the_start(collector: CollectorProcess) -> None:
    collector.state_dir.mkdir()
    (collector.state_dir / "host.json").write_text("{")

    assert "host.json holds no usable identity" in refusal(collector)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_it_in_order(collector: CollectorProcess, number: signal.Signals) -> None:
    collector.start()

    assert collector._end(number) == 0
    assert "signals wait in the spool" in collector.log.read_text()


def test_it_starts_again_where_a_kill_has_left_its_socket(collector: CollectorProcess) -> None:
    collector.start()
    collector.kill()
    collector.start()

    assert collector.stop() == 0


async def test_a_damaged_spool_does_not_stop_the_start(collector: CollectorProcess) -> None:
    await asyncio.to_thread(collector.start)
    async with httpx.AsyncClient() as web:
        await collector.post(web, "before")
        await asyncio.to_thread(collector.stop)
        (file,) = (collector.state_dir / "spool").glob("*.db")
        file.write_bytes(b"\0" * file.stat().st_size)
        await asyncio.to_thread(collector.start)

        assert await collector.post(web, "after") == 2  # number 1 is the gap


async def test_a_hook_without_token_counts_when_it_is_the_same_users(
    collector: CollectorProcess,
) -> None:
    collector.start()
    async with httpx.AsyncClient() as web:
        reply = await web.post(f"{collector.url}/api/live/hook", json={"session_id": "s"})

        assert (reply.status_code, reply.content) == (200, b"")


if os.getuid() == 0:  # only root can act as somebody else

    def test_a_hook_of_another_user_is_refused_over_real_connections(
        collector: CollectorProcess,
    ) -> None:
        collector.start()
        connection = http.client.HTTPConnection("127.0.0.1", collector.port)
        os.seteuid(65534)
        try:
            connection.connect()
        finally:
            os.seteuid(0)
        plain = {"content-type": "application/json"}
        connection.request("POST", "/api/live/hook", '{"session_id": "s"}', plain)

        assert connection.getresponse().status == 401
        connection.close()


async def test_large_and_broken_bodies_over_real_connections(collector: CollectorProcess) -> None:
    collector.start()
    url = f"{collector.url}/api/live/hook"
    async with httpx.AsyncClient() as web:
        large = json.dumps({"session_id": "s", "x": "x" * (2 << 20)})
        plain = {"content-type": "application/json"}
        replies = [
            await web.post(url, content=large, headers=plain),
            await web.post(url, content=large, headers=collector.headers()),
            await web.post(url, content=b'{"session_id": "\xff"}', headers=collector.headers()),
            await web.post(url, content=b"{", headers=collector.headers()),
        ]

    assert [reply.status_code for reply in replies] == [413, 200, 400, 400]
    assert collector.ready()["hooks"] == {"accepted": 1, "refused": {"413": 1, "400": 2}}


async def test_idle_connections_keep_no_hook_out_and_are_bounded(
    collector: CollectorProcess,
) -> None:
    collector.start()
    silent = [
        socket.create_connection(("127.0.0.1", collector.port))
        for _ in range(MOST_CONNECTIONS + 10)
    ]
    silent[-1].sendall(b"POST /api/live/hook HTTP/1.1\r\n")  # and half of a request is no request
    try:
        async with httpx.AsyncClient() as web:
            for number in range(1, 4):
                assert await collector.post(web, "gets through") == number
        held = psutil.Process(collector.pid).net_connections("tcp")
        established = [each for each in held if each.status == psutil.CONN_ESTABLISHED]
        assert len(established) <= MOST_CONNECTIONS
    finally:
        for each in silent:
            each.close()


async def test_hooks_that_come_while_it_restarts_wait_at_a_socket_that_stays_open(
    collector: CollectorProcess,
) -> None:
    """As under systemd: the listening socket belongs to the service manager."""
    kept = socket.socket()
    kept.bind(("127.0.0.1", collector.port))
    kept.listen(64)
    launcher = (
        "import os, sys; os.dup2(int(sys.argv[1]), 3); os.environ['LISTEN_FDS'] = '1';"
        "os.environ['LISTEN_PID'] = str(os.getpid());"
        "os.execv(sys.executable, [sys.executable, '-m', 'tests.collectors'])"
    )

    def start() -> None:
        collector.process = subprocess.Popen(
            [sys.executable, "-c", launcher, str(kept.fileno())],
            cwd=Path(__file__).parents[2],
            env=collector.env,
            pass_fds=[kept.fileno()],
        )

    async with httpx.AsyncClient(timeout=30) as web:
        start()
        await wait_until(collector._is_live, timeout=20)
        await collector.post(web, "before")
        assert await asyncio.to_thread(collector.stop) == 0
        between = asyncio.create_task(collector.post(web, "between"))
        await asyncio.sleep(0)
        await asyncio.to_thread(start)

        assert await between == 2
    kept.close()


def test_sockets_meant_for_another_process_are_left_alone() -> None:
    environ = {"LISTEN_PID": "1", "LISTEN_FDS": "1"}

    assert passed_sockets(environ) == []


async def test_a_session_killed_while_the_collector_was_down_is_missed(
    collector: CollectorProcess,
) -> None:
    claude_dir = Path(collector.env["ADSUM_CLAUDE_DIRS"]) / "sessions"
    claude_dir.mkdir(parents=True)
    with subprocess.Popen(["sleep", "600"]) as agent:
        started = int(psutil.Process(agent.pid).create_time() * 1000)
        entry = {"pid": agent.pid, "sessionId": "s1", "startedAt": started, "status": "busy"}
        (claude_dir / f"{agent.pid}.json").write_text(json.dumps(entry))
        await asyncio.to_thread(collector.start)
        await wait_until(lambda: collector.ready()["spool"]["last"] == 2)
        await asyncio.to_thread(collector.kill)
        agent.kill()

    await asyncio.to_thread(collector.start)

    await wait_until(lambda: collector.ready()["spool"]["last"] == 3)


def test_a_vital_part_that_dies_takes_the_process_with_it(tmp_path: Path) -> None:
    program = (
        "import asyncio, tests.collectors as c\n"
        "from adsum_collector.watch import Watch\n"
        "async def die(self): raise RuntimeError('the watch is broken')\n"
        "Watch.run = die\n"
        "c.main()\n"
    )
    collector = CollectorProcess(tmp_path / "state", NOWHERE)
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=Path(__file__).parents[2],
        env=collector.env,
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )

    assert done.returncode not in {0, -signal.SIGTERM}
    assert "the watch is broken" in done.stderr
