"""`adsum hooks verify` where something on the way is wrong: each step names the cause and the way out."""

from __future__ import annotations

import json
import socket
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest

from adsum import verify
from adsum_collector.state_dir import token_of
from tests.brokers import free_port
from tests.hubs import StandIn, host, stand_in_hub
from tests.integration.conftest import Run, claude


class Door(BaseHTTPRequestHandler):
    """A collector that knows its token, counts, and keeps what it was sent. by_shim: its count."""

    token = ""
    seq: str | None = "41"
    by_shim: list[int]
    heard: list[dict[str, Any]]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        right = self.headers["Authorization"] == f"Bearer {self.token}"
        self.heard.append(json.loads(body))
        answer = b"" if right else b'{"error": "wrong token", "next": "Run it again."}'
        self._answer(200 if right else 401, answer)

    def do_GET(self) -> None:
        count = self.by_shim.pop(0) if len(self.by_shim) > 1 else self.by_shim[0]
        self._answer(200, json.dumps({"ready": True, "shim": {"accepted": count}}).encode())

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        if self.seq:
            self.send_header("X-Adsum-Seq", self.seq)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        del args


@pytest.fixture(autouse=True)
def _agent(home: Path) -> None:
    claude(home, "2.1.330")


@pytest.fixture
def door(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Door]]:
    kept: dict[str, Any] = {"token": token_of(home / "state"), "heard": [], "by_shim": [0, 1]}
    door = type("ThisDoor", (Door,), kept)
    server = HTTPServer(("127.0.0.1", 0), door)
    monkeypatch.setenv("ADSUM_COLLECTOR_PORT", str(server.server_port))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield door
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def hub(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    (home / "state").mkdir(exist_ok=True)
    (home / "state" / "host.json").write_text('{"host_id": "laptop-id"}')
    with stand_in_hub() as hub:
        hub.hosts = [msgspec.structs.replace(host(), applied=41)]
        monkeypatch.setenv("ADSUM_HUB_URL", hub.url)
        yield hub


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify, "APPLIED_WITHIN_S", 0.2)


@pytest.mark.usefixtures("hub")
def test_each_way_is_timed(door: type[Door], run: Run) -> None:
    run("hooks", "install")
    code, out, err = run("hooks", "verify")
    assert (code, err) == (0, "")
    collector, hub, shim, hooks = out.splitlines()
    assert collector.startswith("collector  took the probe as number 41: ")
    assert hub.startswith("hub        applied it for laptop: ")
    assert shim.startswith("shim       handed one on")
    assert hooks.startswith("hooks      stand in ")
    assert all(" ms" in line for line in (collector, hub, shim))
    assert door.heard == [
        {"hook_event_name": "AdsumProbe", "session_id": "adsum-probe", "cwd": "/"}
    ]


@pytest.mark.usefixtures("hub", "door")
def test_as_json_only_the_times_are_printed(run: Run) -> None:
    run("hooks", "install")
    code, out, _ = run("hooks", "verify", "--json")
    told = json.loads(out)
    assert (code, told["schema"], told["seq"], told["faults"]) == (0, 1, 41, [])
    assert 0 < told["collector_ms"] < told["hub_ms"]
    assert told["shim_ms"] > 0


@pytest.mark.usefixtures("hub", "door")
def test_hooks_that_are_not_there_are_found(run: Run) -> None:
    code, out, err = run("hooks", "verify")
    assert code == 1
    assert "no hooks of Adsum are in it. Next: adsum hooks install" in err
    assert "shim" not in out


@pytest.mark.usefixtures("hub", "door")
def test_hooks_that_are_not_there_are_faults_in_json(run: Run) -> None:
    code, out, err = run("hooks", "verify", "--json")
    told = json.loads(out)
    assert (code, told["seq"], told["shim_ms"]) == (1, 41, None)
    assert told["faults"] == ["no hooks of Adsum are in it"]
    assert "Next: adsum hooks install" in err


def test_a_collector_that_is_down_is_found(run: Run) -> None:
    run("hooks", "install")
    code, _, err = run("hooks", "verify")
    assert code == 3
    assert "No collector answers" in err
    assert "adsum up" in err


def test_a_wrong_token_is_found(door: type[Door], run: Run) -> None:
    run("hooks", "install")
    door.token = "changed"
    code, _, err = run("hooks", "verify")
    assert code == 1
    assert "HTTP 401, wrong token. Run it again." in err


def test_a_program_that_gives_no_number_is_no_collector(door: type[Door], run: Run) -> None:
    run("hooks", "install")
    door.seq = None
    code, _, err = run("hooks", "verify")
    assert code == 1
    assert "Does something else listen on that port?" in err


@pytest.mark.usefixtures("door")
def test_a_hub_that_does_not_know_this_machine_is_found(hub: StandIn, run: Run) -> None:
    run("hooks", "install")
    hub.hosts = [host("laptop", "offline")]
    assert "has this machine as offline" in run("hooks", "verify")[2]
    hub.hosts = []
    assert "never heard of this machine" in run("hooks", "verify")[2]


@pytest.mark.usefixtures("door", "brief")
def test_a_hub_that_does_not_apply_the_probe_is_found(hub: StandIn, run: Run) -> None:
    run("hooks", "install")
    hub.hosts = [msgspec.structs.replace(host(), applied=40)]
    code, out, err = run("hooks", "verify")
    assert code == 1
    assert out.startswith("collector ")
    assert "has not applied the probe within 0.2 s: it is at number 40, the probe is 41." in err


@pytest.mark.usefixtures("door")
def test_no_hub_is_found(run: Run) -> None:
    run("hooks", "install")
    code, out, err = run("hooks", "verify", "--hub", f"http://127.0.0.1:{free_port()}")
    assert code == 3
    assert "took the probe" in out
    assert "No hub answers" in err


@pytest.mark.usefixtures("hub")
def test_a_shim_whose_message_does_not_arrive_is_found(door: type[Door], run: Run) -> None:
    """It ends with 0 and prints nothing whatever happens, so only the count can tell."""
    run("hooks", "install")
    door.by_shim[:] = [7, 7]
    code, _, err = run("hooks", "verify")
    assert code == 1
    assert "this collector took nothing from it" in err
    assert "collector.sock" in err


@pytest.mark.usefixtures("hub", "door")
def test_a_shim_whose_python_is_gone_is_found(home: Path, run: Run) -> None:
    run("hooks", "install")
    settings = home / ".claude" / "settings.json"
    settings.write_text(settings.read_text().replace(sys.executable, "/gone/python"))
    code, _, err = run("hooks", "verify")
    assert code == 1
    assert "/gone/python fails: No such file or directory. Next: adsum hooks install" in err


@pytest.mark.usefixtures("hub", "door")
def test_by_the_shim_the_probe_goes_over_the_socket_and_no_token_to_the_port(
    home: Path, door: type[Door], run: Run
) -> None:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(home / "state" / "collector.sock"))
    listener.listen()
    heard: list[dict[str, Any]] = []

    def answer() -> None:
        for _ in range(2):  # the probe, and the shim's own
            connection, _ = listener.accept()
            with connection, connection.makefile("rb") as lines:
                heard.append(json.loads(lines.readline())["body"])
                connection.sendall(b'{"ok":true,"seq":41}\n')

    thread = threading.Thread(target=answer)
    thread.start()
    run("hooks", "install", "--transport", "shim")
    code, out, err = run("hooks", "verify")
    thread.join()
    listener.close()
    assert (code, err) == (0, "")
    assert out.startswith("collector  took the probe as number 41: ")
    assert [each["hook_event_name"] for each in heard] == ["AdsumProbe"] * 2
    assert door.heard == []
