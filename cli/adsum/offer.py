"""What `adsum up` does about hooks: asks on a terminal, names the command elsewhere.

Claude Code prints a red line for every hook that nobody answers. So hooks are in its settings only
while the collector of `adsum up` runs; running sessions notice the change within two seconds.
"""

from __future__ import annotations

import contextlib
import sys
from dataclasses import dataclass

from adsum.hooks import Setup
from adsum_collector.claude_version import ClaudeNotFoundError
from adsum_collector.settings_file import SettingsError

COMMAND = "adsum hooks install"


@dataclass(slots=True)
class Offer:
    """enabled: not --no-hooks. agreed: --yes, or the answer given."""

    setup: Setup
    enabled: bool = True
    agreed: bool = False

    def ask(self) -> None:
        """Before anything starts, so that Ctrl-C here stops nothing half-way."""
        if not self.enabled or self.agreed or self._installed():
            return
        if self.setup.parked.exists():
            self.agreed = True
        if self.agreed or not sys.stdin.isatty():
            return
        print(  # noqa: T201 - the command line speaks here
            f"Claude Code reports to Adsum through hooks in {self.setup.path}.\n"
            "Your own hooks stay, a backup is kept, `adsum hooks remove` restores the file.",
            file=sys.stderr,
        )
        print("Install them now? [Y/n] ", end="", file=sys.stderr, flush=True)  # noqa: T201
        self.agreed = sys.stdin.readline().strip().lower() in ("", "y", "yes")

    def settle(self) -> str:
        """Installs when agreed, once the collector listens; the line to print about hooks."""
        if not self.enabled:
            return f"left alone; `{COMMAND}` adds them"
        if self._installed():
            return f"installed in {self.setup.path}"
        if not self.agreed:
            return f"not installed, or not up to date: run `{COMMAND}`"
        try:
            self.setup.install(dry_run=False)
            self.setup.parked.unlink(missing_ok=True)
        except (SettingsError, ClaudeNotFoundError, OSError) as error:
            return f"not installed. {error}"
        return f"installed in {self.setup.path}; sessions that run report within two seconds"

    def park(self) -> str:
        """Takes the hooks out until the next `adsum up`; the line to print, or nothing to say."""
        try:
            if not self.enabled or not self.setup.reports_here():
                return ""
            # First: hooks that are out without this note would stay out.
            self.setup.parked.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.setup.parked.touch(mode=0o600)
            self.setup.remove(dry_run=False)
        except (SettingsError, OSError) as error:
            with contextlib.suppress(OSError):
                self.setup.parked.unlink(missing_ok=True)
            return (
                f"The hooks could not be taken out of {self.setup.path}: {error}\n"
                "Claude Code will say that nobody answers; `adsum hooks remove` tries again."
            )
        return f"Hooks taken out of {self.setup.path}; the next `adsum up` puts them back."

    def _installed(self) -> bool:
        try:
            return self.setup.is_complete()
        except (SettingsError, ClaudeNotFoundError):
            return False
