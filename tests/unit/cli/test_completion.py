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
from adsum.completion import FRESH_S, PATIENCE_S, known
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


def until_known(hub: StandIn, tmp_path: Path) -> dict[str, object]:
    """A busy machine may take longer than anybody waits for a shell."""
    deadline = time.monotonic() + 15
    while not (told := known(hub.url, tmp_path, tmp_path / "c" / "kept.json", time.time())):
        assert time.monotonic() < deadline
    return told


def test_sessions_and_machines_are_offered_with_their_titles(hub: StandIn, tmp_path: Path) -> None:
    told = until_known(hub, tmp_path)
    assert told["sessions"] == [("0a1b", "acting: Fix it [2J"), ("77", "acting: Fix the build")]
    assert told["hosts"] == ["desk", "laptop"]
    kept = tmp_path / "c" / "kept.json"
    assert kept.stat().st_mode & 0o777 == 0o600
    assert os.listdir(kept.parent) == ["kept.json"]  # noqa: PTH208 - names alone


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
    until_known(hub, tmp_path)
    asked = len(hub.asked)
    assert until_known(hub, tmp_path)["hosts"] == ["desk", "laptop"]
    assert len(hub.asked) == asked


def test_a_slow_hub_is_not_waited_for(silent: str, tmp_path: Path) -> None:
    cache = tmp_path / "kept.json"
    cache.write_text(f'{{"hub": "{silent}", "at": 0, "sessions": [["ab", "t"]], "hosts": []}}')
    begun = time.monotonic()
    assert known(silent, tmp_path, cache, FRESH_S * 2)["sessions"] == [["ab", "t"]]
    assert time.monotonic() - begun < PATIENCE_S * 10


def test_nothing_is_offered_of_another_hub_or_without_one(tmp_path: Path) -> None:
    cache = tmp_path / "kept.json"
    cache.write_text('{"hub": "http://elsewhere", "at": 0, "sessions": [["ab", "t"]]}')
    assert known(f"http://127.0.0.1:{free_port()}", tmp_path, cache, 1.0) == {}
    assert known("nonsense", tmp_path, cache, 1.0) == {}
    cache.write_text("[")
    assert known(f"http://127.0.0.1:{free_port()}", tmp_path, cache, 1.0) == {}
