"""What `adsum up` says about hooks: asks on a terminal, names the command elsewhere."""

from __future__ import annotations

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
        if not self.enabled or self.agreed or self._installed() or not sys.stdin.isatty():
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
        except (SettingsError, ClaudeNotFoundError) as error:
            return f"not installed. {error}"
        return f"installed in {self.setup.path}; new sessions report at once"

    def _installed(self) -> bool:
        try:
            return self.setup.is_complete()
        except (SettingsError, ClaudeNotFoundError):
            return False
