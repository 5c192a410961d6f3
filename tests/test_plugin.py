"""plugin/ holds what `adsum hooks install` writes, and no more than a file for all may hold."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from adsum_collector.agents.claude_code.settings_text import entry_for, events_for, is_ours
from adsum_collector.agents.codex import agent as codex
from adsum_collector.agents.installer import Target

ROOT = Path(__file__).parent.parent
HOOKS: dict[str, Any] = json.loads((ROOT / "plugin" / "hooks" / "hooks.json").read_text())["hooks"]
TARGET = Target(47892, "t", "python3", Path("/x/adsum_collector/shim.py"), Path("/s"))


def test_the_files_are_as_the_sources_have_them() -> None:
    command = [sys.executable, "scripts/plugin.py", "--check"]

    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert run.returncode == 0, run.stdout + run.stderr


def test_the_plugin_hooks_what_an_install_hooks_and_nothing_else() -> None:
    """The token and the paths of one machine are all that differs."""
    installed = {
        event: [entry_for(event, TARGET, (2, 1, 330))] for event in events_for((2, 1, 330))
    }
    for groups in installed.values():
        for hook in groups[0]["hooks"]:
            hook["args"][2:4] = ["${CLAUDE_PLUGIN_ROOT}/adsum_collector/shim.py", "-"]

    assert installed == HOOKS


def test_the_plugin_hooks_in_codex_what_an_install_hooks_there() -> None:
    """Codex would run Claude Code's without their arguments, if it had no manifest of its own."""
    manifest = json.loads((ROOT / "plugin" / ".codex-plugin" / "plugin.json").read_text())
    held = json.loads((ROOT / "plugin" / manifest["hooks"]).read_text())["hooks"]

    assert list(held) == codex.events_for((0, 169))
    shim = "${CLAUDE_PLUGIN_ROOT}/adsum_collector/shim.py"
    target = replace(TARGET, shim=Path(shim), socket=Path("-"))
    assert held == {event: [codex.group_for(event, target, (0, 169))] for event in held}


def test_every_hook_of_the_plugin_is_known_for_ours() -> None:
    assert all(is_ours(hook) for groups in HOOKS.values() for g in groups for hook in g["hooks"])


def test_the_plugin_carries_no_secret() -> None:
    assert "Bearer" not in json.dumps(HOOKS)


def test_the_shim_is_the_collectors_own() -> None:
    own = (ROOT / "collector" / "adsum_collector" / "shim.py").read_bytes()

    assert (ROOT / "plugin" / "adsum_collector" / "shim.py").read_bytes() == own


def test_the_marketplace_names_the_plugin_that_is_there() -> None:
    market = json.loads((ROOT / ".claude-plugin" / "marketplace.json").read_text())
    (entry,) = market["plugins"]
    manifest = json.loads((ROOT / entry["source"] / ".claude-plugin" / "plugin.json").read_text())

    assert manifest["name"] == entry["name"] == "adsum"
    assert "network" not in manifest
