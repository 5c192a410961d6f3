"""Claude Code on this machine: its directories, its program, and which version that is."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from adsum_collector.agents.claude_code.settings_text import Version
from adsum_shared.errors import AdsumError


def config_dirs(told: str | None, home: Path) -> tuple[Path, ...]:
    """One; or several with commas between, as ccusage has it, unless there is one of that very name.

    Claude Code itself knows of one at a time.
    """
    if not told:
        return (home / ".claude",)
    whole = Path(told).expanduser()
    parts = [part.strip() for part in told.split(",")]
    if len(parts) == 1 or whole.is_dir():
        return (whole,)
    return tuple(dict.fromkeys(Path(part).expanduser() for part in parts if part)) or (whole,)


_VERSION = re.compile(r"\b(\d+)\.(\d+)\.(\d+)\b")
#: Where installers put it, beside PATH: a service or a cron job has a short PATH.
_PLACES = (
    ".local/bin/claude",
    ".claude/local/claude",
    ".npm-global/bin/claude",
    ".bun/bin/claude",
    ".volta/bin/claude",
)
_SHARED_PLACES = (Path("/usr/local/bin/claude"), Path("/opt/homebrew/bin/claude"))


class ClaudeNotFoundError(AdsumError):
    """The program named by the user does not say that it is Claude Code."""


def find_claude(env: Mapping[str, str], home: Path) -> Path | None:
    on_path = shutil.which("claude", path=env.get("PATH", ""))
    if on_path:
        return Path(on_path)
    places = [home / place for place in _PLACES] + list(_SHARED_PLACES)
    return next((place for place in places if os.access(place, os.X_OK)), None)


def version_of(program: Path, timeout_s: float = 10.0) -> Version | None:
    """None when the program does not answer as Claude Code does."""
    try:
        answer = subprocess.run(  # noqa: S603 - the user's own program, no shell
            [program, "--version"],
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=timeout_s,
            env={**os.environ, "DISABLE_AUTOUPDATER": "1"},
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _VERSION.search(answer.stdout)
    if answer.returncode or not found:
        return None
    return tuple(int(number) for number in found.groups())


def installed_version(
    chosen: Path | None, env: Mapping[str, str], home: Path
) -> tuple[Version | None, Path | None]:
    """(version, program); (None, program or None) when it is not known.

    Raises ClaudeNotFoundError when the program was `chosen`: a wrong --claude is never guessed at.
    """
    program = chosen or find_claude(env, home)
    version = version_of(program) if program else None
    if chosen and version is None:
        raise ClaudeNotFoundError(
            f"{chosen} does not answer `--version` as Claude Code does. "
            "Give --claude the path of the `claude` program."
        )
    return version, program
