"""The roster held against the agent's own view of its sessions, twice before anything is told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from adsum.agents import fetch_sessions
from adsum.doctor.claude_agents import FIRST_WITH_JSON, OVER, AgentsError, Difference, ask, compare
from adsum.doctor.finding import Finding
from adsum.hooks import Setup
from adsum.outcome import CommandError
from adsum_collector.processes import look_up
from adsum_shared.state import HostView, SessionView

#: Their word comes up to half a second late, and so may ours.
AGAIN_S = 1.5

#: What both say: how many sessions are in either view, and where the views differ.
View = tuple[int, list[Difference]]


def check_agents(
    setup: Setup,
    folders: tuple[Path, ...],
    hub: tuple[str, HostView | None],
    pause: Callable[[float], None],
    reporting: str | None = None,
) -> Finding:
    """hub: its address, and this machine as it has it. reporting: as in check_hooks."""
    url, host = hub
    version, program = setup.found
    if program is None or version is None:
        why = "Claude Code was not found" if program is None else f"{program} does not answer"
        if reporting is not None:
            why = f"the program of Claude Code {reporting}, which reports, is in no usual place"
            fix = "To compare, name it: adsum doctor --claude PATH"
            return Finding("agents", "skip", f"Not compared with the agent's own view: {why}.", fix)
        return Finding("agents", "skip", f"Not compared with the agent's own view: {why}.")
    if version < FIRST_WITH_JSON:
        first, has = (".".join(map(str, each)) for each in (FIRST_WITH_JSON, version))
        what = f"Claude Code {has} does not tell of its sessions; {first} and newer do."
        return Finding("agents", "skip", what)
    if host is None or host.reachability != "live":
        what = (
            "Not compared with the agent's own view: the hub told nothing of a live machine here."
        )
        return Finding("agents", "skip", what)

    def look() -> View:
        return look_at(program, folders, url, host.id)

    try:
        return told(*twice(look, pause))
    except AgentsError as error:
        what = f"`{program} agents --json` gives no list of sessions: {error}."
        return Finding("agents", "warn", what, "Run it yourself to see what it says.")
    except CommandError as error:
        return Finding("agents", "skip", f"The hub went away while sessions were compared: {error}")


def twice(look: Callable[[], View], pause: Callable[[float], None]) -> View:
    """What differs in the same way both times."""
    count, first = look()
    if not first:
        return count, []
    pause(AGAIN_S)
    before = {(each.session_id, each.ours, each.theirs) for each in first}
    count, second = look()
    return count, [each for each in second if (each.session_id, each.ours, each.theirs) in before]


def look_at(program: Path, folders: tuple[Path, ...], url: str, host_id: str) -> View:
    theirs = ask(program, folders, Path.home())
    answer = fetch_sessions(url, {"host": host_id})
    ours = msgspec.convert(answer["sessions"], list[SessionView])
    differences = compare(theirs, ours, lambda pid: look_up(pid) is not None, answer["now"])
    living = {view.session_id for view in ours if view.state.state not in OVER}
    return len(living | {their.session_id or str(their.pid) for their in theirs}), differences


def told(count: int, differences: list[Difference]) -> Finding:
    sessions = "1 session" if count == 1 else f"{count} sessions"
    if not differences:
        agreed = f"Claude Code says the same of {sessions} on this machine."
        none = "Neither Claude Code nor Adsum has a living session on this machine."
        return Finding("agents", "ok", agreed if count else none)
    what = f"Claude Code says otherwise of {len(differences)} of {sessions} on this machine."
    fix = "Look at that terminal, then at `adsum show ID`: one of the two is wrong."
    lines = tuple(each.line for each in differences)
    grave = any(each.grave for each in differences)
    return Finding("agents", "fail" if grave else "warn", what, fix, lines)
