"""Finds out whether our plugin is on in Claude Code: it reports without hooks of ours."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from adsum import shim_hook
from adsum.hooks import Setup
from adsum_collector.agents.claude_code.install import Report, SettingsError, inspect_hooks
from adsum_collector.agents.claude_code.settings_text import FIRST_WITH_STATUS

NAME = "adsum"


@dataclass(frozen=True, slots=True)
class Plugin:
    """id: such as `adsum@adsum`. hooks: as Claude Code keeps them, None where they are not found."""

    id: str
    hooks: Report | None

    @property
    def removal(self) -> str:
        return f"claude plugin uninstall {self.id}"

    def fault(self, setup: Setup) -> tuple[str, str] | None:
        """(what keeps it from reporting all, the next step)."""
        if setup.version < FIRST_WITH_STATUS:
            first = ".".join(map(str, FIRST_WITH_STATUS))
            what = f"The plugin {self.id} is for Claude Code {first} and newer."
            return what, f"Update Claude Code, or: {self.removal} && adsum hooks install"
        if self.hooks is None:
            what = f"The plugin {self.id} is switched on, but Claude Code holds no hooks of it."
            return what, f"claude plugin install {self.id}"
        if self.hooks.posted:
            what = f"The plugin {self.id} is an older one; its hooks go to a port that others can take."
            return what, f"claude plugin update {self.id}"
        if missing := self.hooks.missing(setup.version):
            what = f"The plugin {self.id} is an older one; it lacks: {', '.join(missing)}."
            return what, f"claude plugin update {self.id}"
        return None


def active_plugin(paths: Iterable[Path], user: Path) -> Plugin | None:
    """paths: settings files, those that decide first. user: that of the user.

    Raises SettingsError. A plugin that `--plugin-dir` gives a single run is written nowhere.
    """
    decided: dict[str, bool] = {}
    for path in paths:
        enabled = shim_hook.settings_in(path).get("enabledPlugins")
        for plugin, on in (enabled if isinstance(enabled, dict) else {}).items():
            decided.setdefault(str(plugin), on is True)
    for plugin, on in decided.items():
        if on and plugin.split("@")[0] == NAME:
            return Plugin(plugin, _hooks(plugin, user.parent / "plugins"))
    return None


def _hooks(plugin: str, folder: Path) -> Report | None:
    """Of the copy that was installed last. The format is Claude Code's own, so nothing is relied on."""
    try:
        told: Any = json.loads((folder / "installed_plugins.json").read_bytes())
        copy = Path(told["plugins"][plugin][-1]["installPath"])
        report = inspect_hooks(copy / "hooks" / "hooks.json")
    except (OSError, ValueError, LookupError, TypeError, SettingsError):
        return None
    return report if report.exists else None
