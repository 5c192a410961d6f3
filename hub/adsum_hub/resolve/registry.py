"""The CLI's registry as resolve() may use it: a mask and a last resort, never a competitor.

Newer evidence with an id, by hook or transcript, always beats it. It alone sees Esc, No, an
approval at the terminal, and dialogs that have no hook.
"""

from __future__ import annotations

from adsum_hub.facts import Facts
from adsum_hub.limits import Limits
from adsum_hub.parts import Request, Status, same_process


def valid(facts: Facts) -> Status | None:
    """Its word, while it stands by it and its process is the session's living one."""
    status, process = facts.status, facts.process
    if status is None or (facts.left is not None and facts.left.at >= facts.named):
        return None
    if process is None or status.pid is None:
        return status
    living = not process.gone and same_process(process, status.pid, status.started)
    return status if living else None


def masked(request: Request, status: Status | None, now: int, limits: Limits) -> bool:
    """Answered at the terminal, as far as anyone can see.

    No event tells of an approval until the tool has finished, ten minutes later for a build. But
    `waiting` held after the request opened, and no longer. Never from any `busy`: its report
    can be 350 ms late, so it may be older than the dialog. But one stamped well after the request
    is a return from a `waiting` too short to have been read (seen on a loaded machine: a dialog
    answered within half a second stood for as long as its tool ran).
    """
    if status is None or status.status == "waiting":
        return False
    if status.status == "busy" and status.at >= request.opened + limits.registry_missed:
        return now >= status.at + limits.registry_hold
    return status.released > request.opened and now >= status.released + limits.registry_hold


def closed_since(status: Status | None, opened: int, now: int, limits: Limits) -> int:
    """Since when the registry says that the turn opened at `opened` is over; 0 if it does not.

    `shell` is an end too: only a background shell is left. A prompt is hooked a moment before or
    after its `busy` is written, so an older `idle` must still stand half a second later.
    """
    if status is None or status.status not in ("idle", "shell"):
        return 0
    if status.at >= opened + limits.registry_ahead:
        return status.at
    held = max(status.at, opened) + limits.registry_hold
    return held if now >= held else 0


def busy_since(status: Status | None, last_main: int, now: int, limits: Limits) -> int:
    """Since when it says that a turn runs of which no hook and no transcript knows."""
    if status is None or status.status != "busy" or status.at <= last_main:
        return 0
    return status.at if now >= status.at + limits.registry_hold else 0


def nameless_since(
    status: Status | None, last_close: int, opened: int, now: int, limits: Limits
) -> int:
    """Since when it waits for a human although no witness has opened a request.

    It may go from one dialog to the next without ceasing to wait.
    """
    if status is None or status.status != "waiting":
        return 0
    held = max(status.waiting or status.at, last_close, opened) + limits.nameless
    return status.at if now >= held else 0
