"""`adsum hub` and `adsum collector` alone: what stops them is one sentence, never a traceback."""

from __future__ import annotations

import contextlib
import os
import socket
import socketserver
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests import forked
from tests.brokers import free_port
from tests.support import wait_until

pytestmark = [pytest.mark.timeout(60), pytest.mark.slow]

Env = dict[str, str]
Ended = subprocess.CompletedProcess[str]
NOWHERE = "redis://127.0.0.1:1"


class OldRedis(socketserver.StreamRequestHandler):
    """A Redis 6.0 as far as it is asked: INFO tells its version, a hash is empty, everything else is OK."""

    def handle(self) -> None:
        with contextlib.suppress(ConnectionError):
            while head := self.rfile.readline():
                words = [self._word() for _ in range(int(head[1:]))]
                info = b"redis_version:6.0.16\r\n"
                known = {b"INFO": b"$%d\r\n%s\r\n" % (len(info), info), b"PING": b"+PONG\r\n"}
                known[b"HGETALL"] = b"*0\r\n"
                self.wfile.write(known.get(words[0], b"+OK\r\n"))

    def _word(self) -> bytes:
        return self.rfile.read(int(self.rfile.readline()[1:]) + 2)[:-2]


@pytest.fixture
def old_redis() -> Iterator[str]:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), OldRedis) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"redis://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.fixture
def env(tmp_path: Path) -> Env:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("ADSUM_", "CLAUDE"))}
    return kept | {
        "HOME": str(tmp_path),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "ADSUM_STATE_DIR": str(tmp_path / "state"),
        "ADSUM_HUB_PORT": str(free_port()),
        "ADSUM_COLLECTOR_PORT": str(free_port()),
    }


@pytest.fixture
def refused(env: Env) -> Callable[..., Ended]:
    """Runs a command that must end by itself, and say why in a sentence."""

    def refused(command: str, **more: str) -> Ended:
        ended = forked.run(command, env=env | more, timeout=30)
        assert "Traceback" not in ended.stderr
        assert "adsum: " in ended.stderr
        return ended

    return refused


@pytest.mark.parametrize("command", ["up", "hub", "collector"])
@pytest.mark.parametrize(
    "url", ["redis://:s3cr/etpw@h", "redis://:12/etpw@h", "redis://h?s3cr=etpw", "http://s3cr@etpw"]
)
def test_a_wrong_redis_url_is_explained_without_any_of_it(
    command: str, url: str, refused: Callable[..., Ended]
) -> None:
    ended = refused(command, ADSUM_REDIS_URL=url)
    assert ended.returncode == 2
    assert "ADSUM_REDIS_URL (or --redis-url) is no Redis URL" in ended.stderr
    assert "%2F" in ended.stderr
    assert "s3cr" not in ended.stderr
    assert "etpw" not in ended.stderr


@pytest.mark.parametrize("command", ["up", "hub"])
def test_an_old_redis_ends_it_with_what_is_needed(
    command: str, old_redis: str, refused: Callable[..., Ended]
) -> None:
    ended = refused(command, ADSUM_REDIS_URL=old_redis)
    assert ended.returncode == 1
    assert "Redis 6.0 is too old: Adsum needs Redis 6.2" in ended.stderr


async def test_an_old_redis_is_named_by_a_collector_that_goes_on_taking_hooks(
    env: Env, old_redis: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    with log.open("w") as said:
        collector = subprocess.Popen(
            [sys.executable, "-m", "adsum", "collector"],
            env=env | {"ADSUM_REDIS_URL": old_redis},
            stderr=said,
        )
    try:
        await wait_until(lambda: "Redis 6.0 is too old" in log.read_text(), timeout=15)
        port = int(env["ADSUM_COLLECTOR_PORT"])
        with socket.create_connection(("127.0.0.1", port)):
            assert collector.poll() is None
    finally:
        collector.terminate()
        assert collector.wait(15) == 0
    assert "Traceback" not in log.read_text()


def test_a_hub_whose_port_is_taken_names_it(refused: Callable[..., Ended]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        ended = refused("hub", ADSUM_REDIS_URL=NOWHERE, ADSUM_HUB_PORT=port)
    assert ended.returncode == 1
    assert f"127.0.0.1:{port}" in ended.stderr
    assert "ADSUM_HUB_PORT" in ended.stderr


def test_a_hub_told_to_listen_for_everybody_refuses(refused: Callable[..., Ended]) -> None:
    ended = refused("hub", ADSUM_REDIS_URL=NOWHERE, ADSUM_HUB_HOST="0.0.0.0")  # noqa: S104 - refused
    assert ended.returncode == 1
    assert "ADSUM_HUB_ALLOW_PUBLIC" in ended.stderr


@pytest.mark.parametrize("more", [{"ADSUM_REDIS_URL": NOWHERE}, {}], ids=["url", "no url"])
def test_a_hub_whose_state_directory_cannot_be_used_says_so(
    more: Env, tmp_path: Path, refused: Callable[..., Ended]
) -> None:
    (tmp_path / "file").write_text("")
    ended = refused("hub", ADSUM_STATE_DIR=str(tmp_path / "file" / "state"), **more)
    assert ended.returncode == 1
    assert ("ADSUM_STATE_DIR" if more else "ADSUM_REDIS_URL") in ended.stderr
