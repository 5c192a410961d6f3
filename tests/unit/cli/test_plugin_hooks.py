"""The plugin beside, or instead of, hooks in the settings: what doctor, status and up make of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from adsum.doctor.agents import check_hooks
from adsum.doctor.checks import Finding
from adsum.hooks import Setup
from adsum.hooks_commands import run_status
from adsum.up import Offer
from adsum_collector.agents.claude_code.agent import settings_files

ROOT = Path(__file__).resolve().parents[3]
HOOKS = json.loads((ROOT / "plugin" / "hooks" / "hooks.json").read_text())
PORT = 47892


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    program = tmp_path / "bin" / "claude"
    program.parent.mkdir()
    say_version(tmp_path, "2.1.330")
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    (tmp_path / "project" / ".git").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path


@pytest.fixture
def setup(home: Path) -> Setup:
    return Setup(home / ".claude" / "settings.json", home / "state", PORT)


def say_version(home: Path, version: str) -> None:
    program = home / "bin" / "claude"
    program.write_text(f"#!/bin/sh\necho '{version} (Claude Code)'\n")
    program.chmod(0o755)


def switch(path: Path, **plugins: bool) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    held = json.loads(path.read_text()) if path.exists() else {}
    enabled = {f"{name}@market": on for name, on in plugins.items()}
    path.write_text(json.dumps({**held, "enabledPlugins": enabled}))


def install_plugin(home: Path, hooks: dict[str, Any] = HOOKS) -> None:
    """As Claude Code 2.1.330 leaves it."""
    copy = home / ".claude" / "plugins" / "cache" / "market" / "adsum" / "0.1.0"
    (copy / "hooks").mkdir(parents=True)
    (copy / "hooks" / "hooks.json").write_text(json.dumps(hooks))
    told = {"version": 2, "plugins": {"adsum@market": [{"installPath": str(copy)}]}}
    (home / ".claude" / "plugins" / "installed_plugins.json").write_text(json.dumps(told))
    switch(home / ".claude" / "settings.json", adsum=True)


def found(setup: Setup, home: Path) -> dict[str, Finding]:
    files = settings_files(home / ".claude", home / "project", home / "policy")
    return {each.id: each for each in check_hooks(setup, files)}


def test_the_plugin_alone_is_well(setup: Setup, home: Path) -> None:
    install_plugin(home)

    told = found(setup, home)

    assert {name: each.result for name, each in told.items()} == dict.fromkeys(told, "ok")
    assert "the plugin adsum@market reports instead" in told["hooks"].what


def test_the_plugin_beside_hooks_in_the_settings_is_doubled(
    setup: Setup, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    install_plugin(home)
    setup.install(dry_run=False)

    doubled = found(setup, home)["hooks-doubled"]

    assert (doubled.result, doubled.fix) == ("warn", "adsum hooks remove")
    run_status(setup)
    assert "the plugin adsum@market brings the same hooks" in capsys.readouterr().err


def test_the_plugin_beside_hooks_of_the_project_names_that_scope(setup: Setup, home: Path) -> None:
    install_plugin(home)
    local = home / "project" / ".claude" / "settings.local.json"
    Setup(local, setup.state_dir, PORT).install(dry_run=False)

    assert found(setup, home)["hooks-doubled"].fix == "adsum hooks remove --scope project"


@pytest.mark.parametrize("name", ["other", "adsum_like"])
def test_a_plugin_of_another_name_is_none_of_ours(setup: Setup, home: Path, name: str) -> None:
    switch(setup.path, **{name: True})

    assert found(setup, home)["hooks"].result == "fail"


def test_a_project_can_switch_the_plugin_off(setup: Setup, home: Path) -> None:
    install_plugin(home)
    switch(home / "project" / ".claude" / "settings.json", adsum=False)

    assert found(setup, home)["hooks"].result == "fail"


@pytest.mark.parametrize("broken", ["", "[]", '{"plugins": {"adsum@market": []}}'])
def test_a_plugin_whose_files_cannot_be_found_is_a_warning(
    setup: Setup, home: Path, broken: str
) -> None:
    install_plugin(home)
    (home / ".claude" / "plugins" / "installed_plugins.json").write_text(broken)

    hooks = found(setup, home)["hooks"]

    assert (hooks.result, hooks.fix) == ("warn", "claude plugin install adsum@market")


def test_a_plugin_of_before_that_posts_is_a_warning(setup: Setup, home: Path) -> None:
    post = {"type": "http", "url": f"http://127.0.0.1:{PORT}/api/live/hook"}
    install_plugin(home, {"hooks": {event: [{"hooks": [post]}] for event in HOOKS["hooks"]}})

    hooks = found(setup, home)["hooks"]

    assert (hooks.result, hooks.fix) == ("warn", "claude plugin update adsum@market")
    assert "a port that others can take" in hooks.what


def test_an_older_plugin_is_a_warning(setup: Setup, home: Path) -> None:
    kept = {event: groups for event, groups in HOOKS["hooks"].items() if event != "SessionEnd"}
    install_plugin(home, {"hooks": kept})

    hooks = found(setup, home)["hooks"]

    assert (hooks.result, hooks.fix) == ("warn", "claude plugin update adsum@market")
    assert "it lacks: SessionEnd" in hooks.what


def test_a_claude_code_too_old_for_the_plugin_is_a_warning(setup: Setup, home: Path) -> None:
    install_plugin(home)
    say_version(home, "2.1.112")

    assert "is for Claude Code 2.1.269 and newer" in found(setup, home)["hooks"].what


def test_up_offers_no_hooks_where_the_plugin_reports(setup: Setup, home: Path) -> None:
    install_plugin(home)
    before = setup.path.read_bytes()
    offer = Offer(setup)

    offer.ask()

    assert offer.settle() == "the plugin adsum@market reports"
    assert setup.path.read_bytes() == before
