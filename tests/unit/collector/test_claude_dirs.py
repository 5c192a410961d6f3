"""What CLAUDE_CONFIG_DIR names: one directory, or several with commas."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from adsum.hooks import setups_for
from adsum_collector.agents import known_agents
from adsum_collector.agents.claude_code.agent import config_dirs
from adsum_collector.settings import CollectorSettings


def test_several_directories_are_read_and_not_one_of_all_their_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = tmp_path / "a", tmp_path / "b"
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", f"{one}, {other},")
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "none"))
    monkeypatch.setenv("PATH", str(tmp_path))  # no other agent is on this machine
    settings = CollectorSettings(state_dir=tmp_path)

    agent = known_agents()[0]

    assert settings.directories_of(agent) == (one, other)
    found = agent.transcript_dirs(settings.directories_of(agent), os.environ, tmp_path)
    assert found == (one / "projects", other / "projects")
    (setup,) = setups_for("user", tmp_path)
    assert setup.path == one / "settings.json"


def test_a_directory_whose_name_holds_commas_is_one(tmp_path: Path) -> None:
    odd = tmp_path / "a,b"
    odd.mkdir()

    assert config_dirs(str(odd), tmp_path) == (odd,)


@pytest.mark.parametrize("told", [None, ""])
def test_nothing_told_is_the_usual_one(told: str | None, tmp_path: Path) -> None:
    assert config_dirs(told, tmp_path) == (tmp_path / ".claude",)


def test_one_that_is_not_there_yet_is_one(tmp_path: Path) -> None:
    assert config_dirs(str(tmp_path / "new"), tmp_path) == (tmp_path / "new",)
    assert config_dirs(",", tmp_path) == (Path(","),)
