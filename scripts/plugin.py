"""Writes what plugin/ holds of the collector's: its hooks, its shim, its version. --check: compares.

A plugin is copied whole into its agent's cache, alone, so that it cannot point at the package. One
folder is for Claude Code and for Codex, which reads the other's manifest where it has none of its own.
"""

# ruff: noqa: T201 - a script speaks by printing

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import adsum_collector
from adsum_collector.agents.claude_code.settings_text import entry_for, events_for
from adsum_collector.agents.codex import agent as codex_install
from adsum_collector.agents.codex.agent import group_for
from adsum_collector.agents.installer import SHIM_NAME, Target
from adsum_shared import __version__

ROOT = Path(__file__).resolve().parent.parent
PLUGIN = ROOT / "plugin"
PACKAGE = Path(adsum_collector.__file__).parent
#: Set by the agent to where it keeps the plugin.
HOME = Path("${CLAUDE_PLUGIN_ROOT}")
NEWEST = (9999,)
SAYS = "Reports this machine's {} sessions to Adsum's collector, on this machine."
#: All by the shim: the file is the same for all machines, those with other accounts among them.
TARGET = Target(0, token="", python="python3", shim=HOME / SHIM_NAME, socket=Path("-"))


def hooks(title: str, groups: dict[str, dict[str, Any]]) -> str:
    """Those of `adsum hooks install` for the newest version, as far as a file can know them."""
    held = {event: [group] for event, group in groups.items()}
    return _json({"description": SAYS.format(title), "hooks": held})


def manifest(path: Path) -> str:
    """What it says, with this version."""
    manifest = json.loads(path.read_text())
    return _json({**manifest, "version": __version__})


def written() -> dict[Path, str]:
    """Each file that is made from the sources, and what it should hold."""
    described = PLUGIN / ".claude-plugin" / "plugin.json"
    codexs = PLUGIN / ".codex-plugin" / "plugin.json"
    claude = {event: entry_for(event, TARGET, NEWEST) for event in events_for(NEWEST)}
    codex = {event: group_for(event, TARGET, NEWEST) for event in codex_install.events_for(NEWEST)}
    return {
        PLUGIN / "hooks" / "hooks.json": hooks("Claude Code", claude),
        PLUGIN / codex_install.PLUGIN_HOOKS: hooks("Codex", codex),
        codexs: manifest(codexs),
        PLUGIN / SHIM_NAME: (PACKAGE / Path(SHIM_NAME).name).read_text(),
        described: manifest(described),
    }


def _json(value: object) -> str:
    return json.dumps(value, indent=2) + "\n"


def main() -> int:
    if sys.argv[1:] not in ([], ["--check"]):
        print("usage: scripts/plugin.py [--check]", file=sys.stderr)
        return 2
    stale = {
        path: text
        for path, text in written().items()
        if not path.exists() or path.read_text() != text
    }
    names = ", ".join(str(path.relative_to(ROOT)) for path in stale)
    if sys.argv[1:] and stale:
        print(f"not as the sources have it: {names}. Run: python scripts/plugin.py")
        return 1
    for path, text in stale.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    print(f"written: {names}" if stale else "plugin/ is as the sources have it")
    return 0


if __name__ == "__main__":
    sys.exit(main())
