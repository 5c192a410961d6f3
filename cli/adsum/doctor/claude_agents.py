"""Compares the agent's own view of its sessions, `claude agents --json`, with ours.

Measured on 2.1.330 with sessions in tmux:

- It prints a JSON array and ends within 0.25 s; it needs no login and no terminal. `--all` only
  adds background sessions that are over, so it is not asked for.
- Each entry: pid, cwd, kind, startedAt, sessionId, name, status, waitingFor. Headless runs are
  listed as `interactive` too. Background sessions also have id and state (documented, not seen).
- status: `idle`, `busy` (also while only a background shell runs, which the registry calls
  `shell`), `waiting` with waitingFor `permission prompt` (a plan's approval too), `input needed`
  (a question) or `dialog open` (a model picker). A session just started may have none.
- It reads the registry's files and asks the daemon of background sessions if one runs; it starts
  none. It looks a name up on the network, unless nonessential traffic is off, as it is here.
- It writes nothing, but for one case: its very first start, or the first after an update, brings
  `.claude.json` up to date as any start of the CLI does. So it is not run where it never ran.
- It counts a killed process as alive until its parent has collected it; we do not.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from adsum.doctor.checks import Finding
from adsum.hooks import Setup
from adsum.outcome import CommandError
from adsum.sessions import fetch_sessions
from adsum.text.words import age
from adsum_collector.processes import look_up
from adsum_shared.redact import clean
from adsum_shared.state import Group, HostView, SessionView

#: Older versions know no `--json` here, and would start something else.
FIRST_WITH_JSON = (2, 1, 145)
TIMEOUT_S = 10.0
QUIET = (
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
    "DISABLE_AUTOUPDATER",
    "DISABLE_ERROR_REPORTING",
    "DISABLE_TELEMETRY",
)
#: A background session's `state` in the words of a living one's `status`; None: it is over.
STATUS_OF = {"working": "busy", "blocked": "waiting", "done": None, "failed": None, "stopped": None}

OVER = frozenset({"session_ended", "suspended", "archived"})
#: Decided by a human or by the hub: the agent does not know of it.
NOT_THEIRS = frozenset({"suspended", "archived", "budget_exceeded"})
ASKS = frozenset({"needs_permission", "awaiting_input", "awaiting_approval"})
#: A turn is over. Its child may work on: the agent says `idle` while a subagent does.
RESTS = frozenset({"idle", "awaiting_input", "error", "task_complete", "waiting_for_agent"})
KINDS_OF = {
    "needs_permission": frozenset({"permission"}),
    "awaiting_input": frozenset({"question", "dialog"}),
    "awaiting_approval": frozenset({"plan"}),
}
#: What it waits for -> our kinds of request. For other words any request will do.
WAITS_FOR = {
    "permission prompt": frozenset({"permission", "plan", "dialog"}),
    "input needed": frozenset({"question", "dialog"}),
}


class AgentsError(Exception):
    """The program gives no such list. The text is the reason."""


@dataclass(frozen=True, slots=True)
class Theirs:
    session_id: str | None
    pid: int | None
    status: str | None
    waiting_for: str | None = None
    name: str | None = None

    def __str__(self) -> str:
        return ", ".join(word for word in (self.status or "running", self.waiting_for) if word)


@dataclass(frozen=True, slots=True)
class Difference:
    """ours, theirs: what each says, by which the same difference is known again a moment later.

    grave: one of us must be wrong; else they may just not see what we see.
    """

    session_id: str
    ours: str
    theirs: str
    line: str
    grave: bool = True


def ask(program: Path, folders: Iterable[Path], home: Path) -> list[Theirs]:
    """The living sessions of each of the agent's configuration folders. Raises AgentsError."""
    found: list[Theirs] = []
    for folder in folders:
        default = folder == home / ".claude"
        if not ((home if default else folder) / ".claude.json").exists():
            continue  # never started with this folder, and so without sessions
        env = {**os.environ, **dict.fromkeys(QUIET, "1")}
        # Naming the default folder would be another place: its `.claude.json` lies outside.
        env.pop("CLAUDE_CONFIG_DIR", None)
        found += decode(
            _run(program, env if default else {**env, "CLAUDE_CONFIG_DIR": str(folder)})
        )
    return found


def _run(program: Path, env: dict[str, str]) -> bytes:
    try:
        done = subprocess.run(  # noqa: S603 - the user's own program, no shell
            [program, "agents", "--json"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TIMEOUT_S,
            # Not where we are: it would read the settings of a project nobody has trusted.
            cwd="/",
            env=env,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise AgentsError(f"no answer within {TIMEOUT_S:g} s") from error
    except OSError as error:
        raise AgentsError(error.strerror or str(error)) from error
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise AgentsError(clean(said[0]) if said else f"it ended with {done.returncode}")
    return done.stdout


def decode(raw: bytes) -> list[Theirs]:
    """Living sessions only. A field of another type counts as missing. Raises AgentsError."""
    try:
        listed = json.loads(raw)
    except ValueError as error:
        raise AgentsError("what it printed is not JSON") from error
    if not isinstance(listed, list):
        raise AgentsError("what it printed is no list")
    found = [_entry(each) for each in listed if isinstance(each, dict)]
    return [each for each in found if each is not None]


def _entry(entry: dict[str, Any]) -> Theirs | None:
    status, state, pid = _text(entry, "status"), _text(entry, "state"), entry.get("pid")
    if status is None and state is not None:
        status = STATUS_OF.get(state, state)
        if status is None:
            return None
    session_id = _text(entry, "sessionId")
    pid = pid if isinstance(pid, int) and not isinstance(pid, bool) else None
    if session_id is None and pid is None:
        return None  # dispatched and not yet begun: nobody can have seen it
    return Theirs(session_id, pid, status, _text(entry, "waitingFor"), _text(entry, "name"))


def _text(entry: dict[str, Any], name: str) -> str | None:
    value = entry.get(name)
    return value if isinstance(value, str) and value else None


def compare(
    theirs: Sequence[Theirs],
    ours: Sequence[SessionView],
    lives: Callable[[int], bool],
    now: int,
) -> list[Difference]:
    """ours: this machine's sessions. lives: whether a process does. now: the hub's clock, ms."""
    by_id = {view.session_id: view for view in ours}
    by_pid = {view.pid: view for view in ours if view.pid and view.state.state not in OVER}
    found: list[Difference] = []
    named: set[str] = set()
    for their in theirs:
        if their.pid is not None and not lives(their.pid):
            continue
        view = by_id.get(their.session_id or "") or by_pid.get(their.pid or 0)
        if view is None:
            found.append(_unlisted(their))
            continue
        named.add(view.session_id)
        if their.session_id not in (None, view.session_id) or not agrees(their, view):
            found.append(_differs(their, view, now))
    found += [
        _only_ours(view, lives, now)
        for view in ours
        if view.state.state not in OVER and view.session_id not in named
    ]
    return found


def agrees(their: Theirs, view: SessionView) -> bool:
    """Whether our state is one that their status allows for."""
    state = view.state.state
    if state in NOT_THEIRS:
        return True
    if state in OVER:
        return False
    if their.status == "busy":
        return view.state.group is Group.AUTONOMOUS or state == "stuck"
    if their.status == "idle":
        return state in RESTS and not view.requests
    if their.status == "waiting":
        return _waits(their.waiting_for, view)
    return True  # nothing, or a word of a newer version


def _waits(waiting_for: str | None, view: SessionView) -> bool:
    state = view.state.state
    if state not in ASKS:
        # A picker, opened by the human who sits before it, keeps nobody waiting.
        return waiting_for == "dialog open" and state in RESTS
    kinds = {request.kind for request in view.requests} or KINDS_OF[state]
    wanted = WAITS_FOR.get(waiting_for or "")
    return wanted is None or not wanted.isdisjoint(kinds)


def _name(session_id: str | None, title: str | None) -> str:
    return f"{(session_id or '?')[:8]} ({clean(title)})" if title else (session_id or "?")[:8]


def _said(view: SessionView, now: int) -> str:
    """Our state with the reason: by whom, and for how long."""
    return f"{view.state.state} ({view.state.source}, for {age(now - view.state.since)})"


def _differs(their: Theirs, view: SessionView, now: int) -> Difference:
    name = _name(their.session_id or view.session_id, view.title or their.name)
    said = _said(view, now)
    if their.session_id not in (None, view.session_id):
        said = f"process {their.pid} is {view.session_id[:8]}, {said}"
    line = f"{name}: Adsum says {said}; Claude Code says {their}."
    return Difference(their.session_id or view.session_id, view.state.state, str(their), line)


def _unlisted(their: Theirs) -> Difference:
    key = their.session_id or str(their.pid)
    whose = f" (process {their.pid})" if their.pid else ""
    line = f"{_name(key, their.name)}: not in Adsum's list; Claude Code says {their}{whose}."
    return Difference(key, "", str(their), line)


def _only_ours(view: SessionView, lives: Callable[[int], bool], now: int) -> Difference:
    dead = view.pid is not None and not lives(view.pid)
    why = f", and its process {view.pid} is gone" if dead else ""
    line = (
        f"{_name(view.session_id, view.title)}: Adsum says {_said(view, now)}; "
        f"Claude Code does not list it{why}."
    )
    return Difference(view.session_id, view.state.state, "", line, grave=dead)


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
