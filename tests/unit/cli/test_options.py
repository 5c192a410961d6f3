"""What a shell offers: the hub's sessions at once, the last known while it is slow, never an error."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from adsum.app import app
from adsum.options import FRESH_S, PATIENCE_S, known
from tests.brokers import free_port
from tests.hubs import StandIn, host, session, stand_in_hub


@pytest.fixture
def hub() -> Iterator[StandIn]:
    with stand_in_hub() as hub:
        hub.sessions = [session("0a1b", title="Fix it\x1b[2J"), session("77", host="desk")]
        yield hub


@pytest.fixture
def silent() -> Iterator[str]:
    """Takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", free_port())) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def until_known(kind: str, hub: StandIn, tmp_path: Path) -> list[tuple[str, str]]:
    """A busy machine may take longer than anybody waits for a shell."""
    deadline = time.monotonic() + 15
    cache = tmp_path / "c" / f"{kind}.json"
    while not (offered := known(kind, hub.url, tmp_path, cache, time.time())):
        assert time.monotonic() < deadline
    return offered


def test_sessions_and_machines_are_offered_with_their_titles(hub: StandIn, tmp_path: Path) -> None:
    hub.hosts = [host(label="laptop"), host(label="desk")]
    offered = until_known("sessions", hub, tmp_path)
    assert offered == [("0a1b", "acting: Fix it [2J"), ("77", "acting: Fix the build")]
    assert until_known("hosts", hub, tmp_path) == [("laptop", ""), ("desk", "")]
    kept = tmp_path / "c" / "sessions.json"
    assert kept.stat().st_mode & 0o777 == 0o600
    assert sorted(os.listdir(kept.parent)) == ["hosts.json", "sessions.json"]  # noqa: PTH208 - names alone


def test_a_machine_without_a_session_is_offered_where_machines_are_changed(
    hub: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the shell's own way to ask."""
    hub.hosts, hub.sessions = [host(label="pine"), host(label="desk")], []
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("_ADSUM_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_CWORD", "5")
    words = f"adsum hosts --hub {hub.url} forget pi"
    deadline = time.monotonic() + 15
    while "pine" not in (said := CliRunner().invoke(app, env={"COMP_WORDS": words}).output):
        assert time.monotonic() < deadline, said
    assert "desk" not in said


def test_a_second_tab_asks_nobody(hub: StandIn, tmp_path: Path) -> None:
    offered = until_known("sessions", hub, tmp_path)
    asked = len(hub.asked)
    assert until_known("sessions", hub, tmp_path) == offered
    assert len(hub.asked) == asked


def test_a_slow_hub_is_not_waited_for(silent: str, tmp_path: Path) -> None:
    cache = tmp_path / "kept.json"
    cache.write_text(f'{{"hub": "{silent}", "at": 0, "words": [["ab", "t"]]}}')
    begun = time.monotonic()
    assert known("sessions", silent, tmp_path, cache, FRESH_S * 2) == [("ab", "t")]
    assert time.monotonic() - begun < PATIENCE_S * 10


def test_nothing_is_offered_of_another_hub_or_without_one(tmp_path: Path) -> None:
    cache, absent = tmp_path / "kept.json", f"http://127.0.0.1:{free_port()}"
    cache.write_text('{"hub": "http://elsewhere", "at": 0, "words": [["ab", "t"]]}')
    assert known("sessions", absent, tmp_path, cache, 1.0) == []
    assert known("sessions", "nonsense", tmp_path, cache, 1.0) == []
    cache.write_text("[")
    assert known("sessions", absent, tmp_path, cache, 1.0) == []
