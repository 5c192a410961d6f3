"""Checks single sessions: whose hooks do not come, and why."""

from __future__ import annotations

from pathlib import Path

import msgspec

from adsum import shim_hook
from adsum.doctor.finding import Finding
from adsum.doctor.hooks import settings_files
from adsum.outcome import CommandError
from adsum.sessions import fetch_sessions
from adsum.text.words import hook_problem
from adsum_collector.agents.claude_code.install import SettingsError
from adsum_shared.redact import clean
from adsum_shared.state import HostView, SessionView


def check_sessions(url: str, host: HostView | None, home: Path) -> Finding:
    """url: the hub's. host: this machine as the hub has it."""
    if host is None or host.reachability != "live":
        what = "Sessions were not looked at: the hub told nothing of a live machine here."
        return Finding("sessions", "skip", what)
    try:
        answer = fetch_sessions(url, {"host": host.id})
    except CommandError as error:
        return Finding("sessions", "skip", f"The hub went away meanwhile: {error}")
    views = msgspec.convert(answer["sessions"], list[SessionView])
    unwell = [view for view in views if hook_problem(view)]
    if not unwell:
        return Finding("sessions", "ok", "No session's hooks are missing or come twice.")
    what = f"Of {len(unwell)} of {len(views)} sessions the hooks are missing, or come twice."
    fix = "Take the cause away, then end the session and resume it: `claude --resume ID`."
    return Finding("sessions", "warn", what, fix, tuple(_line(view, home) for view in unwell))


def _line(view: SessionView, home: Path) -> str:
    name = f"{view.session_id[:8]} {clean(view.title)}".strip()
    if hook_problem(view) == "doubled":
        return f"{name}: hooks come twice; they are installed in two places"
    off = _switched_off(home, Path(view.cwd)) if view.cwd else None
    cause = f"{off} switches them off" if off else "they may be switched off for it alone"
    return f"{name}: hooks do not come; {cause}"


def _switched_off(home: Path, cwd: Path) -> Path | None:
    """The settings that apply where the session runs and switch hooks off."""
    for path in settings_files(home, cwd).hooked:
        try:
            if shim_hook.settings_in(path).get("disableAllHooks") is True:
                return path
        except SettingsError:
            continue  # the check of hooks tells of a file that nobody can read
    return None
