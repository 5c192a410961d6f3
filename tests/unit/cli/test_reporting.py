"""Whether anybody takes what hooks post, and which version of Claude Code reports here."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from adsum.hooks_commands import reporting, reporting_here, unanswered
from adsum_shared.state import Group, SessionView
from tests.brokers import free_port
from tests.hubs import session, stand_in_hub


def of(name: str, version: str | None, **more: object) -> SessionView:
    return msgspec.structs.replace(session(name), version=version, **more)


OVER = msgspec.structs.replace(session("over", Group.DELIVERED, "session_ended"), version="9.0.0")


def test_the_newest_of_those_that_live_and_are_heard_is_named() -> None:
    views = [of("a", "2.1.99"), of("b", "2.1.330"), of("c", None), OVER]
    assert reporting([*views, of("d", "3.0.0", reachability="offline")]) == "2.1.330"
    assert reporting([OVER, of("c", None)]) is None


def test_without_a_hub_or_an_identity_nobody_reports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ADSUM_HUB_PORT", str(free_port()))
    assert reporting_here(tmp_path) is None
    (tmp_path / "host.json").write_text('{"host_id": "laptop-id"}')
    assert reporting_here(tmp_path) is None


def test_the_hub_that_runs_here_is_asked(tmp_path: Path) -> None:
    with stand_in_hub() as hub:
        hub.sessions = [of("a", "2.1.330")]
        (tmp_path / "host.json").write_text('{"host_id": "laptop-id"}')
        (tmp_path / "hub.json").write_text(json.dumps({"url": hub.url, "pid": 1}))
        assert reporting_here(tmp_path) == "2.1.330"


def test_a_port_where_nobody_answers_is_told_with_what_is_shown_and_the_next_step() -> None:
    port = free_port()
    said = unanswered(port, 19, 15) or ""
    assert said.startswith(f"Nobody answers at port {port} (")
    assert "all 19 hooks tell in vain" in said
    assert "red line" in said
    assert "red line" not in (unanswered(port, 19, 0) or "")
    assert "`adsum up`" in said


def test_a_port_that_answers_is_no_matter() -> None:
    with stand_in_hub() as hub:
        assert unanswered(hub.port, 19, 15) is None
