"""Whether anybody takes what hooks post here, and which versions of Claude Code report."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from adsum.client import SilentError, hub_url, readiness
from adsum.doctor.checks import host_id_of
from adsum.outcome import CommandError
from adsum.sessions import fetch_sessions
from adsum_shared.redact import clean
from adsum_shared.state import SessionView

_OVER = ("session_ended", "suspended", "archived")


def unanswered(port: int, hooks: int, posted: int) -> str | None:
    """What comes of it, and the next step; None while a collector answers. posted: of the hooks."""
    try:
        readiness(f"http://127.0.0.1:{port}")
    except SilentError as error:
        red = " and Claude Code prints a red line for every one that is posted" if posted else ""
        return (
            f"Nobody answers at port {port} ({error}), so all {hooks} hooks tell in vain{red}. "
            "Start Adsum with `adsum up`, or take the hooks out with `adsum hooks remove`."
        )
    return None


def reporting_here(state_dir: Path) -> str | None:
    """As `reporting`, of this machine as the hub that runs here has it."""
    host = host_id_of(state_dir)
    return reporting_of(hub_url(None, state_dir), host) if host else None


def reporting_of(url: str, host: str) -> str | None:
    """host: its id."""
    try:
        answer = fetch_sessions(url, {"host": host})
    except CommandError:
        return None
    return reporting(msgspec.convert(answer["sessions"], list[SessionView]))


def reporting(views: Iterable[SessionView]) -> str | None:
    """The newest version among the sessions that live and are heard, None if none is."""
    versions = [
        clean(view.version)
        for view in views
        if view.version and view.reachability != "offline" and view.state.state not in _OVER
    ]
    return max(versions, key=_numbers, default=None)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdecimal())
