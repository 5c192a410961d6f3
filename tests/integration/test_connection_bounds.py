"""A hub and a collector, each a real process, while somebody holds or abuses their connections."""

from __future__ import annotations

import contextlib
import json
import resource
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from tests.collectors import CollectorProcess
from tests.hub_processes import HubProcess

pytestmark = [pytest.mark.timeout(120), pytest.mark.slow]

#: Fewer than the connections that are opened, and than most systems give: 256 are kept back.
FILES = 300
HALF = 400


def few_files() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, FILES))


@pytest.fixture(params=["collector", "hub"])
def server(
    request: pytest.FixtureRequest, redis_url: str, tmp_path: Path
) -> Iterator[CollectorProcess | HubProcess]:
    kind = CollectorProcess if request.param == "collector" else HubProcess
    server = kind(tmp_path / "state", redis_url)
    try:
        yield server.start(preexec_fn=few_files)
    finally:
        server.kill()


def is_live(server: CollectorProcess | HubProcess) -> bool:
    return httpx.get(f"{server.url}/livez", timeout=20, trust_env=False).status_code == 200


@pytest.mark.core
def test_half_requests_beyond_its_files_keep_nobody_out_and_are_a_line_in_the_log(
    server: CollectorProcess | HubProcess,
) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(HALF):
            half = stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
            half.sendall(b"GET / HTTP/1.1\r\n")
        assert all(is_live(server) for _ in range(5))
        if isinstance(server, CollectorProcess):
            hook = httpx.post(
                f"{server.url}/api/live/hook",
                content=json.dumps({"session_id": "s", "note": "n"}),
                headers=server.headers(),
                timeout=20,
            )
            assert (hook.status_code, hook.content) == (200, b"")
        assert psutil.Process(server.pid).num_fds() < FILES
    said = [line for line in server.log.read_text().splitlines() if "connections are open" in line]
    assert len(said) == 1


@pytest.mark.core
def test_a_header_without_end_is_cut_off_at_once(server: CollectorProcess | HubProcess) -> None:
    sent = 0
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nX: ")
        with contextlib.suppress(ConnectionError):
            for _ in range(1600):
                sent += connection.send(b"x" * 65_536)
        assert is_live(server)

    assert sent < 50_000_000
