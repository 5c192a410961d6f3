"""Checks the agent: the hooks in its settings, and its own view of its sessions against ours.

Of that view, `claude agents --json`, measured on 2.1.330 with sessions in tmux:

- `--all` only adds background sessions that are over, so it is not asked for. Those have id and
  state too (documented, not seen). Headless runs are listed as `interactive`.
- status: `idle`, `busy` (also while only a background shell runs), `waiting` with waitingFor
  `permission prompt` (a plan's approval too), `input needed` (a question) or `dialog open` (a model
  picker). A session just started may have none.
- It asks the daemon of background sessions if one runs, and starts none. It looks a name up on the
  network, unless nonessential traffic is off, as it is here.
- It writes nothing, but for one case: its very first start, or the first after an update, brings
  `.claude.json` up to date as any start of the CLI does. So it is not run where it never ran.
- It counts a killed process as alive until its parent has collected it; we do not.
"""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from adsum.doctor.checks import Finding, from_text
from adsum.hooks import (
    Plugin,
    SettingsFiles,
    Setup,
    absent,
    active_plugin,
    installed_command,
    settings_files,
    settings_in,
)
from adsum.hooks_commands import unanswered
from adsum.outcome import CommandError
from adsum.sessions import fetch_sessions
from adsum.text.words import age, hook_problem
from adsum_collector.agents.claude_code.install import Report, SettingsError, inspect_hooks
from adsum_collector.agents.claude_code.settings_text import ALLOWED_URLS, HOOK_PATH, permits
from adsum_collector.processes import look_up
from adsum_collector.state_dir import held_token
from adsum_shared.redact import clean
from adsum_shared.state import Group, HostView, SessionView


def check_hooks(
    setup: Setup,
    files: SettingsFiles,
    *,
    idle: bool = False,
    alone: bool = False,
    reporting: str | None = None,
) -> list[Finding]:
    """idle: neither collector nor hub runs, so whoever starts them is asked about hooks anyway.

    alone: a hub runs, and no collector ever has, so hooks need not be wanted.
    reporting: the version that sessions here are known to have, where the program is not found.
    """
    try:
        reports = [inspect_hooks(path) for path in files.hooked]
        ours = [report for report in reports if report.counts]
        plugin = active_plugin(files.deciding, files.user)
        if ours:
            hooks = _installed(setup, ours[0], reporting, quiet=idle or alone)
        elif plugin and (fault := plugin.fault(setup)):
            hooks = Finding("hooks", "warn", *fault)
        elif plugin:
            what = f"No hooks of Adsum are in {setup.path}: the plugin {plugin.id} reports instead."
            hooks = Finding("hooks", "ok", what)
        else:
            hooks = _none(setup, idle=idle, alone=alone)
        return [hooks, _doubled(setup, ours, plugin), _enabled(setup, files)]
    except SettingsError as error:
        return [from_text("hooks", "fail", str(error))]


def _none(setup: Setup, *, idle: bool, alone: bool) -> Finding:
    what = f"No hooks of Adsum are in {setup.path}"
    if setup.parked.exists():
        what = "Hooks are out of the settings while Adsum is stopped."
        return Finding("hooks", "warn", what, "`adsum up` puts them back.")
    if idle:
        return Finding("hooks", "skip", f"{what} yet; `adsum up` offers to add them.")
    if alone:
        return Finding("hooks", "skip", f"{what}, nor has a collector run to take them.")
    what = f"{what}, so sessions are seen late and in part."
    return Finding("hooks", "fail", what, "adsum hooks install")


def _installed(setup: Setup, report: Report, reporting: str | None, *, quiet: bool) -> Finding:
    """quiet: no collector runs, so nobody answers."""
    # Switched off and doubled have checks of their own.
    once = dict.fromkeys(report.counts, 1)
    plain = dataclasses.replace(report, disabled=False, blocked=False, counts=once)
    command = installed_command(report.path)
    gone = [f"they run {file}, which is not there" for file in (absent(command) if command else [])]
    if faults := [*setup.faults(plain), *gone]:
        what = f"The hooks in {report.path} are not right: {'; '.join(faults)}."
        astray = gone or not _arrives(setup, report)
        fix = f"adsum hooks install{_scope(setup, report)}"
        return Finding("hooks", "fail" if astray else "warn", what, fix)
    count = len(report.counts)
    if quiet and (silence := unanswered(setup.port, count, len(report.posted))):
        return from_text("hooks", "warn", silence)
    what, found = f"{count} hooks stand in {report.path}", setup.found[0]
    if found is None and reporting is not None:
        what = f"{what}, and sessions of Claude Code {reporting} report."
        return Finding("hooks", "ok", what)
    known = ".".join(map(str, setup.version))
    whose = f"Claude Code {known}" if found else f"{known}, as Claude Code was not found"
    return Finding("hooks", "ok", f"{what}, all that are for {whose}; {setup.sends(report)}.")


def _scope(setup: Setup, report: Report) -> str:
    return "" if report.path == setup.path else " --scope project"


def _arrives(setup: Setup, report: Report) -> bool:
    """Whether what is posted reaches this collector and is let in, complete or not."""
    if report.posted and setup.stranger:
        return False
    return (
        report.ports <= {setup.port}
        and report.tokens <= {f"Bearer {held_token(setup.state_dir)}"}
        and report.sockets <= {str(setup.socket)}
    )


def _doubled(setup: Setup, ours: list[Report], plugin: Plugin | None) -> Finding:
    what, fix = "No hook stands twice.", None
    if len(ours) > 1:
        what = (
            f"Hooks of Adsum stand in {' and in '.join(str(report.path) for report in ours)}; "
            "Claude Code runs equal ones once, and others twice."
        )
        fix = "adsum hooks remove --scope project"
    for report in ours:
        if report.doubled:
            what = f"{report.path} has the same hook more than once: {', '.join(report.doubled)}."
            fix = "adsum hooks install"
            break
    if plugin and ours:
        what = (
            f"Hooks of Adsum stand in {ours[0].path}, and the plugin {plugin.id} brings the same: "
            "each event is reported twice, and counted once."
        )
        fix = f"adsum hooks remove{_scope(setup, ours[0])}"
    return Finding("hooks-doubled", "warn" if fix else "ok", what, fix)


def _enabled(setup: Setup, files: SettingsFiles) -> Finding:
    settings = {path: settings_in(path) for path in (*files.hooked, *files.managed)}
    for path, held in settings.items():
        if held.get("disableAllHooks") is True:
            what = f'{path} says "disableAllHooks": true, so Claude Code runs none.'
            return Finding("hooks-enabled", "fail", what, f"Take it out of {path}.")
    for path in files.managed:
        if settings[path].get("allowManagedHooksOnly") is True:
            what = f"{path} allows the administrator's hooks only."
            fix = "Ask whoever keeps that file. Until then the transcript and the registry tell."
            return Finding("hooks-enabled", "fail", what, fix)
    lists = {path: held[ALLOWED_URLS] for path, held in settings.items() if ALLOWED_URLS in held}
    allowed = [url for urls in lists.values() if isinstance(urls, list) for url in urls]
    # Not setup.target: it would mint a token, and looking on must leave nothing behind.
    url = f"http://127.0.0.1:{setup.port}{HOOK_PATH}"
    if lists and not permits(allowed, url):
        what = f'"{ALLOWED_URLS}" in {", ".join(map(str, lists))} does not permit {url}.'
        return Finding("hooks-enabled", "fail", what, "Add that address to the list.")
    return Finding("hooks-enabled", "ok", "No settings switch hooks off.")


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
    unwell = tuple(_session_line(view, home) for view in views if hook_problem(view))
    if not unwell:
        return Finding("sessions", "ok", "No session's hooks are missing or come twice.")
    what = f"Of {len(unwell)} of {len(views)} sessions the hooks are missing, or come twice."
    fix = "Take the cause away, then end the session and resume it: `claude --resume ID`."
    return Finding("sessions", "warn", what, fix, unwell)


def _session_line(view: SessionView, home: Path) -> str:
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
            if settings_in(path).get("disableAllHooks") is True:
                return path
        except SettingsError:
            continue  # the check of hooks tells of a file that nobody can read
    return None


#: Older versions know no `--json` here, and would start something else.
FIRST_WITH_JSON = (2, 1, 145)
TIMEOUT_S = 10.0
#: Their word comes up to half a second late, and so may ours.
AGAIN_S = 1.5
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
#: A turn is over. Its child may work on: the agent says `idle` while a subagent does.
RESTS = frozenset({"idle", "awaiting_input", "error", "task_complete", "waiting_for_agent"})
#: The states that ask something, and the kinds of request that each may have.
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

    @property
    def key(self) -> tuple[str, str, str]:
        return self.session_id, self.ours, self.theirs


def ask(program: Path, folders: Iterable[Path], home: Path) -> list[Theirs]:
    """The living sessions of each of the agent's configuration folders. Raises AgentsError."""
    found: list[Theirs] = []
    for folder in folders:
        default = folder == home / ".claude"
        if not ((home if default else folder) / ".claude.json").exists():
            continue  # never started with this folder, and so without sessions
        env = {**os.environ, **dict.fromkeys(QUIET, "1"), "CLAUDE_CONFIG_DIR": str(folder)}
        if default:  # named it would be another place: its `.claude.json` lies outside
            del env["CLAUDE_CONFIG_DIR"]
        found += decode(_run(program, env))
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
    return [their for entry in listed if isinstance(entry, dict) for their in _living(entry)]


def _living(entry: dict[str, Any]) -> Iterator[Theirs]:
    texts = {name: each for name, each in entry.items() if isinstance(each, str) and each}
    state, session_id, pid = texts.get("state"), texts.get("sessionId"), entry.get("pid")
    pid = pid if type(pid) is int else None
    status = texts.get("status") or STATUS_OF.get(state or "", state)
    over = status is None and state is not None
    # Without either it was dispatched and has not yet begun: nobody can have seen it.
    if not over and (session_id or pid):
        yield Theirs(session_id, pid, status, texts.get("waitingFor"), texts.get("name"))


def compare(
    theirs: Sequence[Theirs],
    ours: Sequence[SessionView],
    lives: Callable[[int], bool],
    now: int,
) -> list[Difference]:
    """ours: this machine's sessions. lives: whether a process does. now: the hub's clock, ms."""
    current = [view for view in ours if view.state.state not in OVER]
    by_id = {view.session_id: view for view in ours}
    by_pid = {view.pid: view for view in current if view.pid}
    found: list[Difference] = []
    named: set[str] = set()
    for their in theirs:
        if their.pid is not None and not lives(their.pid):
            continue
        view = by_id.get(their.session_id or "") or by_pid.get(their.pid or 0)
        if view is None:
            key = their.session_id or str(their.pid)
            whose = f" (process {their.pid})" if their.pid else ""
            line = f"not in Adsum's list; Claude Code says {their}{whose}."
            found.append(_difference(key, their.name, "", str(their), line))
            continue
        named.add(view.session_id)
        found += _differs(their, view, now)
    for view in current:
        if view.session_id not in named:
            dead = view.pid is not None and not lives(view.pid)
            why = f", and its process {view.pid} is gone" if dead else ""
            line = f"Adsum says {_said(view, now)}; Claude Code does not list it{why}."
            ours_is = view.state.state
            found.append(_difference(view.session_id, view.title, ours_is, "", line, grave=dead))
    return found


def _differs(their: Theirs, view: SessionView, now: int) -> Iterator[Difference]:
    said, other = _said(view, now), their.session_id not in (None, view.session_id)
    if other:
        said = f"process {their.pid} is {view.session_id[:8]}, {said}"
    if other or not agrees(their, view):
        line = f"Adsum says {said}; Claude Code says {their}."
        key, title = their.session_id or view.session_id, view.title or their.name
        yield _difference(key, title, view.state.state, str(their), line)


def _difference(
    key: str, title: str | None, ours: str, theirs: str, line: str, *, grave: bool = True
) -> Difference:
    name = f"{key[:8]} ({clean(title)})" if title else key[:8]
    return Difference(key, ours, theirs, f"{name}: {line}", grave)


def _said(view: SessionView, now: int) -> str:
    """Our state with the reason: by whom, and for how long."""
    return f"{view.state.state} ({view.state.source}, for {age(now - view.state.since)})"


def agrees(their: Theirs, view: SessionView) -> bool:
    """Whether our state is one that their status allows for."""
    state = view.state.state
    if state in NOT_THEIRS or state in OVER:
        return state in NOT_THEIRS
    match their.status:
        case "busy":
            return view.state.group is Group.AUTONOMOUS or state == "stuck"
        case "idle":
            return state in RESTS and not view.requests
        case "waiting" if state in KINDS_OF:
            kinds = {request.kind for request in view.requests} or KINDS_OF[state]
            wanted = WAITS_FOR.get(their.waiting_for or "")
            return wanted is None or not wanted.isdisjoint(kinds)
        case "waiting":
            # A picker, opened by the human who sits before it, keeps nobody waiting.
            return their.waiting_for == "dialog open" and state in RESTS
        case _:  # nothing, or a word of a newer version
            return True


#: What both say: how many sessions are in either view, and where the views differ.
View = tuple[int, list[Difference]]


def check_agents(
    setup: Setup,
    folders: tuple[Path, ...],
    url: str,
    host: HostView | None,
    reporting: str | None = None,
) -> Finding:
    """url: the hub's. host: this machine as the hub has it. reporting: as in check_hooks."""
    version, program = setup.found
    apart = "Not compared with the agent's own view:"
    if program is None or version is None:
        why = "Claude Code was not found" if program is None else f"{program} does not answer"
        if reporting is None:
            return Finding("agents", "skip", f"{apart} {why}.")
        what = (
            f"{apart} the program of Claude Code {reporting}, which reports, is in no usual place."
        )
        return Finding("agents", "skip", what, "To compare, name it: adsum doctor --claude PATH")
    if version < FIRST_WITH_JSON:
        first, has = (".".join(map(str, each)) for each in (FIRST_WITH_JSON, version))
        what = f"Claude Code {has} does not tell of its sessions; {first} and newer do."
        return Finding("agents", "skip", what)
    if host is None or host.reachability != "live":
        return Finding("agents", "skip", f"{apart} the hub told nothing of a live machine here.")

    def look() -> View:
        theirs = ask(program, folders, Path.home())
        answer = fetch_sessions(url, {"host": host.id})
        ours = msgspec.convert(answer["sessions"], list[SessionView])
        found = compare(theirs, ours, lambda pid: look_up(pid) is not None, answer["now"])
        living = {view.session_id for view in ours if view.state.state not in OVER}
        return len(living | {their.session_id or str(their.pid) for their in theirs}), found

    try:
        return told(*twice(look, time.sleep))
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
    before = {each.key for each in first}
    count, second = look()
    return count, [each for each in second if each.key in before]


def told(count: int, differences: list[Difference]) -> Finding:
    sessions = "1 session" if count == 1 else f"{count} sessions"
    if not count:
        none = "Neither Claude Code nor Adsum has a living session on this machine."
        return Finding("agents", "ok", none)
    if not differences:
        return Finding("agents", "ok", f"Claude Code says the same of {sessions} on this machine.")
    what = f"Claude Code says otherwise of {len(differences)} of {sessions} on this machine."
    fix = "Look at that terminal, then at `adsum show ID`: one of the two is wrong."
    grave = any(each.grave for each in differences)
    lines = tuple(each.line for each in differences)
    return Finding("agents", "fail" if grave else "warn", what, fix, lines)
