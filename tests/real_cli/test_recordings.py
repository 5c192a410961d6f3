"""Sessions of the real CLI recorded by `bench.accuracy --recordings`, labelled by what tmux shows."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from bench.accuracy import WAYS, read, run
from bench.recordings import record
from tests.real_cli.conftest import OpenSession
from tests.real_cli.fleet import Fleet
from tests.real_cli.session import ASKS

pytestmark = [pytest.mark.real_cli, pytest.mark.timeout(60)]


def test_a_recorded_session_is_a_trace_and_what_was_shown_is_scored_by_its_screen(
    fleet: Fleet, open_session: OpenSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = open_session(mode="manual")
    terminal, home = session.terminal, fleet.machines[0].home
    monkeypatch.setenv("TMUX", f"{home.path / terminal._socket},0,0")
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(home.path / ".claude"))
    recording = threading.Thread(target=record, args=(tmp_path / "mine", 0.3, fleet.hub_url))

    recording.start()
    terminal.type("do play:permslow")
    terminal.press_until_gone("1", ASKS)
    recording.join()
    (found,) = [each for each in read(tmp_path / "mine") if session.id.startswith(each[0].name[:8])]
    total = run([found], WAYS["all"])

    assert {"spinner", "permission dialog", "input box"} <= {each.why for each in found[0].labels}
    assert (total.settled, total.misses) == (total.segments, [])
    assert total.segments >= 3
    assert "permslow" not in "".join(each.read_text() for each in (tmp_path / "mine").rglob("*.*"))
