"""The command of hooks that are not posted, and how to run it as Claude Code would."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from adsum_collector.agents.claude_code.install import SettingsError, decode_settings, read_settings
from adsum_collector.agents.claude_code.json_text import JsonTextError
from adsum_collector.agents.claude_code.settings_text import (
    ShapeError,
    command_words,
    hooks_in,
    is_ours,
    parse_settings,
)

TIMEOUT_S = 10.0
#: No system gives a process this id. Named as the agent's, it keeps the collector from taking a
#: living process for the probe's session, which would put that session on the board.
NOBODY = 2**31 - 1


def settings_in(path: Path) -> dict[str, object]:
    """Empty if there is no such file. Raises SettingsError for what Claude Code would not read."""
    _, text = decode_settings(read_settings(path), path)
    try:
        return parse_settings(text)
    except JsonTextError as error:
        raise SettingsError(f"{path}, {error}. Correct the file.") from error
    except ShapeError as error:
        raise SettingsError(
            f"{path} is not a settings file of Claude Code: {error}. Correct the file."
        ) from error


def installed_command(path: Path) -> list[str] | None:
    """Its words, None if none is installed there. Raises SettingsError."""
    for _, hook in hooks_in(settings_in(path)):
        if not is_ours(hook) or hook.get("type") != "command":
            continue
        return command_words(hook)
    return None


def absent(command: list[str]) -> list[str]:
    """The files it names that are not there: its interpreter, and the shim itself."""
    files = [command[0], *(word for word in command if word.endswith("shim.py"))]
    return [file for file in files if not os.access(file, os.R_OK)]


def run(command: list[str], body: bytes) -> str | None:
    """None once it has ended well, else what went wrong, in words."""
    try:
        done = subprocess.run(  # noqa: S603 - our own shim, as it is installed
            command,
            input=body,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=TIMEOUT_S,
            env={**os.environ, "CLAUDE_PID": str(NOBODY)},
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"it had not ended after {TIMEOUT_S:g} s"
    except OSError as error:
        return error.strerror or str(error)
    if not done.returncode:
        return None
    said = done.stderr.decode(errors="replace").strip().splitlines()
    return said[-1] if said else f"it ended with {done.returncode}"
