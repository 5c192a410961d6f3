"""`adsum up` offers to install hooks: it asks on a terminal, and names the command elsewhere.

Claude Code prints a red line for every hook that nobody answers. So hooks are in its settings only
while the collector of `adsum up` runs; running sessions notice the change within two seconds.
"""

from __future__ import annotations

import contextlib
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from adsum.doctor.hooks import settings_files
from adsum.hooks import Setup, note_closed
from adsum.plugin_hooks import Plugin, active_plugin
from adsum.statusline import mode_as_it_is
from adsum.text.saying import ask, say
from adsum_collector.agents.claude_code.install import SettingsError, read_settings
from adsum_collector.agents.claude_code.program import ClaudeNotFoundError
from adsum_collector.agents.claude_code.settings_text import HOOK_PATH, SHIM_NAME
from adsum_collector.state_dir import renew_token
from adsum_shared.private_files import write_private


def command() -> str:
    """How hooks are installed by hand, as it can be typed here."""
    found = shutil.which("adsum")
    program = "adsum" if found else str(Path(sys.executable).with_name("adsum"))
    return f"{program} hooks install"


def asks(question: str) -> bool:
    """Yes, no, or nothing at all, which is yes; anything else is asked again. Ended input is no."""
    while True:
        ask(question)
        line = sys.stdin.readline()
        answer = line.strip().lower()
        if answer in ("", "y", "yes") and line:
            return True
        if answer in ("n", "no") or not line:
            return False


@dataclass(slots=True)
class Offer:
    """enabled: not --no-hooks. agreed: --yes, or the answer given."""

    setup: Setup
    enabled: bool = True
    agreed: bool = False

    def ask(self) -> None:
        """Before anything starts, so that Ctrl-C here stops nothing half-way."""
        if not self.enabled or self.agreed or self._installed() or self._by_plugin():
            return
        if self.setup.parked.exists():
            self.agreed = True
        if self.agreed or not sys.stdin.isatty():
            return
        say(
            f"Claude Code reports to Adsum through hooks in {self.setup.path}.\n"
            "Your own hooks stay, so does your status line, through which it reports too.\n"
            "A backup is kept, `adsum hooks remove` restores the file."
        )
        self.agreed = asks("Install them now? [Y/n] ")

    def settle(self) -> str:
        """Installs when agreed, once the collector listens; the line to print about hooks."""
        if not self.enabled:
            return f"left alone; `{command()}` adds them"
        if self._installed():
            return f"installed in {self.setup.path}"
        if not self.agreed and (plugin := self._by_plugin()):
            return f"the plugin {plugin.id} reports"
        if not self.agreed:
            return f"not installed, or not up to date: run `{command()}`"
        try:
            change = self.setup.install(dry_run=False)
            self.setup.parked.unlink(missing_ok=True)
        except (SettingsError, ClaudeNotFoundError, OSError) as error:
            return f"not installed. {error}"
        note_closed(change)
        where = f"installed in {self.setup.path};"
        return f"{where}\n             sessions that run report within two seconds"

    def park(self) -> str:
        """Takes the hooks out until the next `adsum up`; the line to print, or nothing to say."""
        try:
            if not self.enabled or not self.setup.reports_here():
                return ""
            # First: hooks that are out without this note would stay out.
            self.setup.parked.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_private(self.setup.parked, mode_as_it_is(self.setup.path).encode())
            self.setup.remove(dry_run=False)
        except (SettingsError, OSError) as error:
            with contextlib.suppress(OSError):
                self.setup.parked.unlink(missing_ok=True)
            if not self._may_hold_ours():
                return ""
            return (
                f"The hooks could not be taken out of {self.setup.path}: {error}\n"
                "Claude Code will say that nobody answers; `adsum hooks remove` tries again."
            )
        return f"Hooks taken out of {self.setup.path}; the next `adsum up` puts them back."

    def leave_port(self) -> str:
        """A stranger listens on the collector's port: what hooks show it opens nothing any more."""
        renew_token(self.setup.state_dir)
        told = f"The user {self.setup.stranger} listens on port {self.setup.port}."
        return f"{told} The hooks' token is renewed. {self.park()}"

    def _may_hold_ours(self) -> bool:
        """Of settings that cannot be understood: unless it can be seen that no hook of ours is there."""
        try:
            raw = read_settings(self.setup.path) or b""
        except SettingsError:
            return True
        return any(ours.encode() in raw for ours in (HOOK_PATH, SHIM_NAME))

    def _by_plugin(self) -> Plugin | None:
        """The plugin that reports well enough without hooks in the settings."""
        try:
            files = settings_files(Path.home(), Path.cwd())
            plugin = active_plugin(files.deciding, files.user)
            return plugin if plugin and not plugin.fault(self.setup) else None
        except (SettingsError, ClaudeNotFoundError):
            return None

    def _installed(self) -> bool:
        try:
            return self.setup.is_complete()
        except (SettingsError, ClaudeNotFoundError):
            return False
