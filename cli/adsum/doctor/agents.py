"""Checks agents: the hooks in their settings, and their own view of their sessions against ours."""

import dataclasses
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from adsum.client import fetch_sessions
from adsum.doctor.checks import Finding, from_text
from adsum.hooks import Setup, absent
from adsum.hooks_commands import unanswered
from adsum.outcome import CommandError
from adsum.text.words import age, hook_problem
from adsum_collector.agents import known_agents
from adsum_collector.agents.base import Agent
from adsum_collector.agents.installer import (
    AgentsError,
    Plugin,
    Report,
    SettingsError,
    SettingsFiles,
    Theirs,
)
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
    heard: bool = False,
) -> list[Finding]:
    """idle: neither collector nor hub runs, so whoever starts them is asked about hooks anyway.

    alone: a hub runs, and no collector ever has, so hooks need not be wanted.
    heard: the collector has heard hooks since the file was changed, wherever these stand.
    """
    try:
        reports = [setup.installer.inspect(path) for path in files.hooked]
        ours = [report for report in reports if report.counts]
        plugin = setup.installer.plugin(files)
        if ours:
            hooks = _installed(setup, ours[0], quiet=idle or alone)
        elif plugin and (fault := plugin.fault(setup.version)):
            hooks = Finding("hooks", "warn", *fault)
        elif plugin:
            what = f"No hooks of Adsum are in {setup.path}: the plugin {plugin.id} reports instead."
            hooks = Finding("hooks", "ok", what)
        else:
            hooks = _none(setup, idle=idle, alone=alone, heard=heard)
        enabled = Finding("hooks-enabled", "ok", "No settings switch hooks off.")
        if hindrance := setup.installer.hindrance(files, setup.url):
            enabled = Finding("hooks-enabled", "fail", *hindrance)
        return [hooks, _doubled(setup, ours, plugin), enabled]
    except SettingsError as error:
        return [from_text("hooks", "fail", str(error))]


def _none(setup: Setup, *, idle: bool, alone: bool, heard: bool) -> Finding:
    what = f"No hooks of Adsum are in {setup.path}"
    if heard:
        what = f"{what}, though some are heard, as of a project's settings, or sent by hand: "
        return Finding("hooks", "warn", f"{what}other sessions are seen in part.", setup.command)
    if setup.parked.exists():
        what = "Hooks are out of the settings while Adsum is stopped."
        return Finding("hooks", "warn", what, "`adsum up` puts them back.")
    if idle:
        return Finding("hooks", "skip", f"{what} yet; `adsum up` offers to add them.")
    if alone:
        return Finding("hooks", "skip", f"{what}, nor has a collector run to take them.")
    what = f"{what}, so sessions are seen late and in part.{_mended(setup)}"
    return Finding("hooks", "fail", what, setup.command)


def _installed(setup: Setup, report: Report, *, quiet: bool) -> Finding:
    """quiet: no collector runs, so nobody answers."""
    # Switched off and doubled have checks of their own.
    once = dict.fromkeys(report.counts, 1)
    plain = dataclasses.replace(report, counts=once)
    gone = [f"they run {file}, which is not there" for file in absent(report.command or ())]
    if faults := [*setup.faults(plain, all_files=False), *gone]:
        what = f"The hooks in {report.path} are not right: {'; '.join(faults)}.{_mended(setup)}"
        astray = gone or not _arrives(setup, report)
        fix = f"{setup.command}{_scope(setup, report)}"
        return Finding("hooks", "fail" if astray else "warn", what, fix)
    count = len(report.counts)
    if quiet and (silence := unanswered(setup.port, count, len(report.posted))):
        return from_text("hooks", "warn", silence)
    what, found = f"{count} hooks stand in {report.path}", setup.found[0]
    known = ".".join(map(str, setup.version))
    title = setup.agent.title
    whose = f"{title} {known}" if found else f"{known}, as {title} was not found"
    return Finding("hooks", "ok", f"{what}, all that are for {whose}; {setup.sends(report)}.")


def _mended(setup: Setup) -> str:
    return " A collector that runs puts right what it installed, within a minute." * setup.mends


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
        and not report.untrusted
    )


def _doubled(setup: Setup, ours: list[Report], plugin: Plugin | None) -> Finding:
    what, fix = "No hook stands twice.", None
    if len(ours) > 1:
        what = (
            f"Hooks of Adsum stand in {' and in '.join(str(report.path) for report in ours)}; "
            f"{setup.agent.title} runs equal ones once, and others twice."
        )
        fix = "adsum hooks remove --scope project"
    for report in ours:
        if report.doubled:
            what = f"{report.path} has the same hook more than once: {', '.join(report.doubled)}."
            fix = setup.command
            break
    if plugin and ours:
        what = (
            f"Hooks of Adsum stand in {ours[0].path}, and the plugin {plugin.id} brings the same: "
            "each event is reported twice, and counted once."
        )
        fix = f"adsum hooks remove{_scope(setup, ours[0])}"
    return Finding("hooks-doubled", "warn" if fix else "ok", what, fix)


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
    resumes = {agent.resume for view in views if hook_problem(view) and (agent := _agent_of(view))}
    how = " or ".join(f"`{resume} ID`" for resume in sorted(resumes) if resume)
    fix = f"Take the cause away, then end the session and resume it{how and f': {how}'}."
    return Finding("sessions", "warn", what, fix, unwell)


def _agent_of(view: SessionView) -> Agent | None:
    return next((agent for agent in known_agents() if agent.name == view.agent), None)


def _session_line(view: SessionView, home: Path) -> str:
    name = f"{view.session_id[:8]} {clean(view.title)}".strip()
    if hook_problem(view) == "doubled":
        return f"{name}: hooks come twice; they are installed in two places"
    agent, off = _agent_of(view), None
    if agent and agent.installer and view.cwd:
        directory = agent.directories(os.environ, home)[0]
        off = agent.installer.switched_off(agent.installer.files(directory, Path(view.cwd)))
    cause = f"{off} switches them off" if off else "they may be switched off for it alone"
    return f"{name}: hooks do not come; {cause}"


#: Their word comes up to half a second late, and so may ours.
AGAIN_S = 1.5
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
    "sandbox request": frozenset({"permission"}),
    "worker request": frozenset({"permission"}),
    "goal proposal": frozenset({"plan"}),
}


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


def compare(
    theirs: Sequence[Theirs],
    ours: Sequence[SessionView],
    lives: Callable[[int], bool],
    now: int,
    title: str,
) -> list[Difference]:
    """ours: this machine's sessions. lives: whether a process does. now: the hub's clock, ms.

    title: the agent's.
    """
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
            line = f"not in Adsum's list; {title} says {their}{whose}."
            found.append(_difference(key, their.name, "", str(their), line))
            continue
        named.add(view.session_id)
        found += _differs(their, view, now, title)
    for view in current:
        if view.session_id not in named:
            dead = view.pid is not None and not lives(view.pid)
            why = f", and its process {view.pid} is gone" if dead else ""
            line = f"Adsum says {_said(view, now)}; {title} does not list it{why}."
            ours_is = view.state.state
            found.append(_difference(view.session_id, view.title, ours_is, "", line, grave=dead))
    return found


def _differs(their: Theirs, view: SessionView, now: int, agent: str) -> Iterator[Difference]:
    said, other = _said(view, now), their.session_id not in (None, view.session_id)
    if other:
        said = f"process {their.pid} is {view.session_id[:8]}, {said}"
    if other or not agrees(their, view):
        line = f"Adsum says {said}; {agent} says {their}."
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
) -> Finding:
    """url: the hub's. host: this machine as the hub has it."""
    version, program = setup.found
    apart, agent, lists = (
        "Not compared with the agent's own view:",
        setup.agent,
        setup.installer.lists,
    )
    if lists is None:
        return Finding("agents", "skip", f"{agent.title} does not tell of its sessions.")
    if program is None or version is None:
        why = f"{agent.title} was not found" if program is None else f"{program} does not answer"
        fix = "To compare, name it: adsum doctor --program PATH" if setup.known_version else ""
        return Finding("agents", "skip", f"{apart} {why}.", fix)
    if version < lists[1]:
        first, has = (".".join(map(str, each)) for each in (lists[1], version))
        what = f"{agent.title} {has} does not tell of its sessions; {first} and newer do."
        return Finding("agents", "skip", what)
    if host is None or host.reachability != "live":
        return Finding("agents", "skip", f"{apart} the hub told nothing of a live machine here.")

    def look() -> View:
        theirs = setup.installer.sessions(program, folders, Path.home())
        answer = fetch_sessions(url, {"host": host.id})
        views = msgspec.convert(answer["sessions"], list[SessionView])
        ours = [view for view in views if view.agent == agent.name]
        now, title = answer["now"], agent.title
        found = compare(theirs, ours, lambda pid: look_up(pid) is not None, now, title)
        living = {view.session_id for view in ours if view.state.state not in OVER}
        return len(living | {their.session_id or str(their.pid) for their in theirs}), found

    try:
        return told(*twice(look, time.sleep), title=agent.title)
    except AgentsError as error:
        what = f"`{program} {lists[0]}` gives no list of sessions: {error}."
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


def told(count: int, differences: list[Difference], *, title: str) -> Finding:
    sessions = "1 session" if count == 1 else f"{count} sessions"
    if not count:
        none = f"Neither {title} nor Adsum has a living session on this machine."
        return Finding("agents", "ok", none)
    if not differences:
        return Finding("agents", "ok", f"{title} says the same of {sessions} on this machine.")
    what = f"{title} says otherwise of {len(differences)} of {sessions} on this machine."
    fix = "Look at that terminal, then at `adsum show ID`: one of the two is wrong."
    grave = any(each.grave for each in differences)
    lines = tuple(each.line for each in differences)
    return Finding("agents", "fail" if grave else "warn", what, fix, lines)
