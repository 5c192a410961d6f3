"""`adsum statusline` shows what stands in Claude Code's one slot for a status line."""

from __future__ import annotations

import contextlib
import sys
import time
from pathlib import Path
from typing import Any

from adsum.client import SilentError, readiness
from adsum.outcome import CommandError
from adsum.text.saying import put_json, say
from adsum.text.words import age, cause_sentence
from adsum_collector.agents.claude_code.install import SettingsError, inspect_hooks
from adsum_collector.agents.claude_code.settings_text import Mode, StatusLine

SCHEMA = 1

_STANDING = {
    "none": "none, and Adsum leaves it so: even an empty one would take a row of the screen",
    "other": "one that Claude Code does not run as a command; Adsum leaves it alone",
    "own": "your own, as you wrote it; `adsum hooks install --statusline` has it tell Adsum as well",
    "wrapped": "your own; it tells Adsum as well and looks the same",
    "filled": "Adsum's, which shows nothing",
    "altered": (
        "Adsum's wrapper in a shape that Adsum did not write; set `statusLine` right by hand"
    ),
}


def standing(line: StatusLine) -> str:
    return f"Status line: {_STANDING[line.kind]}."


def faults_of(line: StatusLine, socket: Path) -> list[str]:
    """What keeps it from reporting to the collector at `socket`, or from being shown at all."""
    if line.socket is None:
        return []
    found = [
        f"the status line is run by {file}, which is gone"
        for file in line.programs
        if not Path(file).exists()
    ]
    if line.socket != str(socket):
        found.append(f"the status line reports to {line.socket}, but the collector's is {socket}")
    return found


def mode_as_it_is(path: Path) -> Mode:
    """What makes an install leave the slot as it is now. Raises SettingsError."""
    kind = inspect_hooks(path).statusline.kind
    return "fill" if kind == "filled" else "leave" if kind == "own" else "wrap"


def usual_mode(path: Path, parked: Path) -> Mode:
    """What an install does unless told: what was noted at parking, or wrap what the user has.

    Where hooks of ours stand beside a status line of the user's own, it was left on purpose.
    """
    with contextlib.suppress(FileNotFoundError):
        noted = parked.read_text()
        return "fill" if noted == "fill" else "leave" if noted == "leave" else "wrap"
    mode = mode_as_it_is(path)
    return "wrap" if mode == "leave" and not inspect_hooks(path).counts else mode


def show_statusline(path: Path, url: str, *, as_json: bool = False) -> None:
    """url: the collector's."""
    try:
        line = inspect_hooks(path).statusline
    except SettingsError as error:
        raise CommandError(str(error)) from error
    if as_json:
        put_json(as_data(line, path, url))
        return
    _out(f"file         {path}")
    _out(f"status line  {_STANDING[line.kind]}")
    if line.command is not None:
        _out(f"command      {line.command}")
    if line.socket is not None:
        _out(f"reports to   {line.socket}")
    _out(f"collector    {_heard(url)}")


def as_data(line: StatusLine, path: Path, url: str) -> dict[str, Any]:
    """heard_at: ms, 0 for never; None: no collector that knows of status lines answers."""
    try:
        told = _witness(readiness(url))
        answers = True
    except SilentError:
        told, answers = None, False
    return {
        "schema": SCHEMA,
        "file": str(path),
        "kind": line.kind,
        "command": line.command,
        "reports_to": line.socket,
        "collector": url,
        "answers": answers,
        "heard_at": told and told.get("heard_at", 0),
        "failures": told and told.get("counts", {}),
    }


def _witness(facts: dict[str, Any]) -> dict[str, Any] | None:
    """Of a collector's facts, what it has of status lines."""
    witnesses = facts.get("witnesses")
    for each in witnesses if isinstance(witnesses, list) else []:
        if isinstance(each, dict) and each.get("name") == "statusline":
            return each
    return None


def _heard(url: str) -> str:
    try:
        told = _witness(readiness(url))
    except SilentError as error:
        return f"none answers at {url} ({error}); `adsum up` starts one"
    if told is None:
        return "one answers, of a version that knows no status lines"
    heard_at = told.get("heard_at", 0)
    counts = told.get("counts", {})
    heard = "one answers; no status line has reported to it yet"
    if heard_at:
        heard = f"one answers; a status line reported {age(int(time.time() * 1000) - heard_at)} ago"
    failed = ", ".join(cause_sentence(cause, times) for cause, times in counts.items())
    return f"{heard}\nfailures     {failed or 'none'}"


def _out(text: str) -> None:
    say(text, sys.stdout)
