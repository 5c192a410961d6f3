"""What the doctor says of a machine that has joined, which may not read the hub's list."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from adsum.doctor.checks import (
    START_JOINED,
    Finding,
    check_collector,
    check_login,
    check_membership,
    one_remedy,
    rejoin,
)
from adsum.machine import Membership
from tests.brokers import free_port


@contextmanager
def hub(status: int, told: dict[str, Any]) -> Iterator[tuple[str, list[str | None]]]:
    """One that answers all alike; and what was shown to it."""
    shown: list[str | None] = []

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            shown.append(self.headers["authorization"])
            body = json.dumps(told).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None: ...

    with http.server.HTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", shown
        server.shutdown()
        thread.join()


def found(url: str, tmp_path: Path) -> tuple[Finding, Finding]:
    machine = Membership(url, "h1", "oak", "redis://127.0.0.1:1", "the-secret")
    return check_membership(machine, tmp_path / "log")


def test_by_its_own_credential_it_is_seen_live(tmp_path: Path) -> None:
    seen = {"host_id": "h1", "label": "oak", "applied": 7, "reachability": "live"}
    with hub(200, seen) as (url, shown):
        of_hub, host = found(url, tmp_path)
    assert shown == ["Bearer the-secret"]
    assert (of_hub.result, host.result) == ("ok", "ok")
    assert "ADSUM_TOKEN" in of_hub.what
    assert host.what == "The hub has this machine live as oak, up to number 7."


def test_a_machine_that_is_not_live_fails_and_names_the_log(tmp_path: Path) -> None:
    seen = {"host_id": "h1", "label": "oak", "applied": 7, "reachability": "late"}
    with hub(200, seen) as (url, _):
        of_hub, host = found(url, tmp_path)
    assert (of_hub.result, host.result) == ("ok", "fail")
    assert "as late" in host.what
    assert str(tmp_path / "log") in str(host.fix)


@pytest.mark.parametrize(
    ("status", "says", "next_"),
    [(401, "revoked, reset or forgotten", "adsum leave"), (503, "Redis is away.", "Try again.")],
)
def test_a_hub_that_refuses_is_told_with_the_next_step(
    tmp_path: Path, status: int, says: str, next_: str
) -> None:
    with hub(status, {"error": "Redis is away.", "next": "Try again."}) as (url, _):
        of_hub, host = found(url, tmp_path)
    assert (of_hub.result, host.result) == ("fail", "skip")
    assert says in of_hub.what
    assert next_ in str(of_hub.fix)


def test_what_fails_with_the_login_has_one_remedy_and_the_rest_its_own() -> None:
    machine = Membership("http://hub", "h1", "oak", "redis://127.0.0.1:1", "the-secret")
    out = Finding("hub", "fail", "The hub does not know it.", rejoin(machine))
    refused = Finding("collector", "fail", "Redis at r refused the password.", "Put the right one.")
    full = Finding("spool", "fail", "The disk is full.", "Free some space.")
    assert one_remedy([refused, full], machine) == [refused, full]
    told, kept, hub = one_remedy([refused, full, out], machine)
    assert (told.what, told.fix) == (refused.what, "See hub.")
    assert (kept, hub) == (full, out)
    assert "adsum join http://hub --token" in rejoin(machine)
    assert "adsum hosts reset oak" in rejoin(machine)


def test_a_hub_that_is_not_there_fails(tmp_path: Path) -> None:
    of_hub, host = found(f"http://127.0.0.1:{free_port()}", tmp_path)
    assert (of_hub.result, host.result) == ("fail", "skip")
    assert "cannot be reached from here" in of_hub.what


def test_a_redis_that_is_not_there_is_named_without_the_login() -> None:
    port = free_port()
    url = f"redis://adsum-h1:the-secret@127.0.0.1:{port}/0"
    finding = check_login(Membership("http://127.0.0.1:1", "h1", "oak", url, "the-secret"))
    assert finding.result == "fail"
    assert f"redis://127.0.0.1:{port}" in finding.what
    assert "the-secret" not in str(finding)


def test_a_collector_that_does_not_run_is_not_started_by_up(tmp_path: Path) -> None:
    finding = check_collector(tmp_path, START_JOINED)
    assert finding.result == "fail"
    assert "adsum service install" in str(finding.fix)
    assert "adsum up" not in str(finding.fix)
