"""Declares the commands that show what the hub knows, and lead to a session's page or terminal.

What a command needs is imported when it runs.
"""

# ruff: noqa: FBT002, PLR0913, PLR0917 - typer reads the options from the signatures

from pathlib import Path
from typing import Annotated, Any

import typer

from adsum.options import (
    AsJson,
    HostName,
    HubUrl,
    OnlyAgent,
    OnlyHost,
    OnlyProject,
    SessionId,
    SessionIds,
    StateDir,
    sessions,
)
from adsum_shared import MOST_DAYS

sessions_app = typer.Typer()
hosts_app = typer.Typer(invoke_without_command=True)
sessions_app.add_typer(hosts_app, name="hosts")
#: Help lists them after `hosts`.
reach_app = typer.Typer()

HomeDir = Annotated[Path | None, typer.Option("--state-dir", help="State directory.")]


@sessions_app.command()
def agents(
    hub: HubUrl = None,
    state_dir: StateDir = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Keep it current.")] = False,
    only_needs_you: Annotated[
        bool, typer.Option("--needs-you", help="Only who waits for you.")
    ] = False,
    host: OnlyHost = None,
    state: Annotated[str | None, typer.Option(help="Only this state, such as idle.")] = None,
    project: OnlyProject = None,
    group: Annotated[str | None, typer.Option(help="Only needs_you, working or delivered.")] = None,
    agent: OnlyAgent = None,
    as_json: AsJson = False,
    jsonl: Annotated[bool, typer.Option("--jsonl", help="One JSON object per session.")] = False,
    exit_status: Annotated[
        bool, typer.Option("--exit-status", help="Exit with 10 when someone needs you.")
    ] = False,
) -> None:
    """Every session, those who need you first.

    With its cost, tokens and context from 130 columns on: ≈ is from list prices, ≥ at least.

    Exit codes: 0 ok, 1 error, 2 usage, 3 hub unreachable, 4 not allowed, 5 some hosts are stale,
    10 someone needs you (with --exit-status).
    """
    from adsum.client import Filter, hub_url
    from adsum.listing import list_agents
    from adsum.outcome import require

    chosen = Filter(group, state, host, project, only_needs_you, agent)
    require(not (as_json and jsonl), "--json and --jsonl exclude each other.")
    require(not (watch and as_json), "To watch as JSON, use --jsonl.")
    require(not (watch and exit_status), "--exit-status answers once; leave out --watch.")
    url = hub_url(hub, state_dir)
    if watch:
        from adsum.watch import watch_agents

        watch_agents(url, chosen, jsonl=jsonl)
        return
    code = list_agents(url, chosen, as_json=as_json, jsonl=jsonl, exit_status=exit_status)
    raise typer.Exit(code)


@sessions_app.command()
def show(
    session: SessionId,
    hub: HubUrl = None,
    state_dir: StateDir = None,
    activity: Annotated[
        int | None, typer.Option(min=0, max=100, help="How many of its last doings.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """One session in full, and why its state is believed."""
    from adsum.listing import show_session

    show_session(session, hub, state_dir, activity, as_json=as_json)


def _add_put_aside(verb: str, words: str) -> None:
    @sessions_app.command(verb, help=words)
    def put_aside(
        named: SessionIds,
        hub: HubUrl = None,
        state_dir: StateDir = None,
        undo: Annotated[bool, typer.Option("--undo", help="Take it back.")] = False,
        as_json: AsJson = False,
    ) -> None:
        from adsum.listing import put_aside_all

        does = "restore" if undo else verb
        raise typer.Exit(put_aside_all(named, hub, state_dir, does, as_json=as_json))


_add_put_aside("dismiss", "It needs nobody, until something happens there.")
_add_put_aside(
    "archive", "Off the list, into the history.\n\nIt comes back when anything but its end happens."
)


@sessions_app.command()
def report(
    status: Annotated[
        str | None, typer.Argument(help="passed, blocked or failed.", show_default=False)
    ] = None,
    issue: Annotated[str | None, typer.Option(help="What it is about, such as PAN-80.")] = None,
    notes: Annotated[str | None, typer.Option(help="In words.")] = None,
    name: Annotated[str | None, typer.Option("--as", help="Who reports, as review-agent.")] = None,
    session: Annotated[
        str | None, typer.Option(help="Another session of this machine than this one.")
    ] = None,
    token: Annotated[
        bool, typer.Option("--token", help="Print one by which this session reports at a hub.")
    ] = False,
    state_dir: StateDir = None,
    as_json: AsJson = False,
) -> None:
    """For agents, in a session: say how its work stands."""
    import os

    from adsum.outcome import require
    from adsum.reports import report_work, session_in
    from adsum_shared.commands import SelfReport

    require(token != (status is not None), "Give a status, or --token: one of the two.")
    asked = SelfReport(status, issue, notes, name) if status is not None else None
    report_work(asked, session_in(os.environ, session), state_dir, as_json=as_json)


@sessions_app.command()
def top(
    hub: HubUrl = None,
    state_dir: StateDir = None,
    host: OnlyHost = None,
    project: OnlyProject = None,
    agent: OnlyAgent = None,
) -> None:
    """The list on a full screen: move, look closer, filter. Needs textual."""
    from adsum.listing import top

    top(hub, state_dir, host, project, agent)


@sessions_app.command()
def usage(
    hub: HubUrl = None,
    state_dir: StateDir = None,
    since: Annotated[str | None, typer.Option(help="First day, such as 2026-11-22.")] = None,
    days: Annotated[
        int | None,
        typer.Option(
            min=1, max=MOST_DAYS, help=f"So many days, at most {MOST_DAYS}, the last included. [7]"
        ),
    ] = None,
    until: Annotated[str | None, typer.Option(help="Last day; today if left out.")] = None,
    by: Annotated[str, typer.Option(help="day, host, project, model, agent or session.")] = "day",
    host: OnlyHost = None,
    project: OnlyProject = None,
    model: Annotated[str | None, typer.Option(help="Only this model.")] = None,
    agent: OnlyAgent = None,
    limit: Annotated[
        int | None,
        typer.Option(
            min=1, help="Of sessions, how many rows of the table, the dearest first. [20]"
        ),
    ] = None,
    as_json: AsJson = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="As CSV, for a spreadsheet.")] = False,
) -> None:
    """Tokens and their cost: by day, project, model, more.

    Exit codes: as those of `agents`.
    """
    from adsum.listing import UsageQuery, show_usage
    from adsum.outcome import require

    asked = UsageQuery(since, until, days, by, host, project, model, limit, agent)
    require(not (as_json and as_csv), "--json and --csv exclude each other.")
    raise typer.Exit(show_usage(asked, hub, state_dir, as_json=as_json, as_csv=as_csv))


@sessions_app.command()
def history(
    text: Annotated[list[str] | None, typer.Argument(help="Words to look for.")] = None,
    hub: HubUrl = None,
    state_dir: StateDir = None,
    host: OnlyHost = None,
    project: OnlyProject = None,
    agent: OnlyAgent = None,
    limit: Annotated[int, typer.Option(min=1, help="How many, the latest first.")] = 20,
    as_json: AsJson = False,
) -> None:
    """Sessions that are over, the latest first. `show ID` has one in full."""
    from adsum.listing import history

    history(text, hub, state_dir, host, project, limit, agent, as_json=as_json)


@hosts_app.callback()
def hosts(
    context: typer.Context, hub: HubUrl = None, state_dir: StateDir = None, as_json: AsJson = False
) -> None:
    """Machines, how fresh their news is; rename, forget."""
    if context.invoked_subcommand is not None:
        context.obj = hub, state_dir  # for a command that names none itself
        return
    from adsum.listing import list_hosts

    raise typer.Exit(list_hosts(hub, state_dir, as_json=as_json))


def _change(
    context: typer.Context,
    verb: str,
    named: str,
    hub: str | None,
    state_dir: Path | None,
    label: str | None = None,
) -> None:
    from adsum.listing import change_host

    above_hub, above_dir = context.obj
    change_host(hub or above_hub, state_dir or above_dir, verb, named, label)


@hosts_app.command("rename")
def rename(
    context: typer.Context,
    named: HostName,
    label: Annotated[str, typer.Argument(help="Its name from now on; '' is what it calls itself.")],
    hub: HubUrl = None,
    state_dir: HomeDir = None,
) -> None:
    """Call it otherwise, everywhere."""
    _change(context, "rename", named, hub, state_dir, label)


def _add_change(verb: str, words: str) -> None:
    @hosts_app.command(verb, help=words)
    def change(
        context: typer.Context, named: HostName, hub: HubUrl = None, state_dir: HomeDir = None
    ) -> None:
        _change(context, verb, named, hub, state_dir)


_add_change(
    "forget",
    "Take it out of all lists, with its sessions and its access. It comes back by joining.",
)
_add_change("revoke", "Make its credential worthless, at once. What it sent stays.")
_add_change(
    "reset",
    "Have it join anew.\n\nAfter a revocation, a lost credential, or when there are two of it.",
)


@reach_app.command("open")
def open_page(
    session: Annotated[
        str | None, typer.Argument(help="Session id, or the start of it.", autocompletion=sessions)
    ] = None,
    only_print: Annotated[bool, typer.Option("--print", help="Print the address only.")] = False,
    hub: HubUrl = None,
    state_dir: StateDir = None,
) -> None:
    """The dashboard in your browser, or a session's page."""
    from adsum.reach import open_dashboard

    open_dashboard(session, only_print=only_print, hub=hub, state_dir=state_dir)


@reach_app.command()
def attach(
    session: SessionId,
    ssh: Annotated[
        str | None, typer.Option(help="What ssh calls its machine, if not by its label.")
    ] = None,
    only_print: Annotated[
        bool, typer.Option("--print", help="Print the command, do not run it.")
    ] = False,
    hub: HubUrl = None,
    state_dir: StateDir = None,
) -> None:
    """Go to the terminal a session runs in.

    To its tmux pane; by ssh, if it is on another machine: the first time it asks. One that Claude Code keeps in the background
    here (`claude --bg`) is opened by `claude attach`.
    """
    from adsum.reach import attach

    raise typer.Exit(attach(session, ssh, only_print=only_print, hub=hub, state_dir=state_dir))


MaybeSessions = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="SESSION",
        help="Session ids, or the start of each; ID#2 is its second open request. At a terminal, the one "
        "that asks, if left out.",
        autocompletion=sessions,
    ),
]
Yes = Annotated[
    bool, typer.Option("--yes", "-y", help="Skip the confirmation. Requires a session id.")
]
WaitS = Annotated[
    float, typer.Option("--wait", min=0, max=300, help="Seconds to wait for the effect.")
]
OutcomeJson = Annotated[bool, typer.Option("--json", help="What became of it, as JSON.")]
DECIDED = """

    Shows all of what is asked before it is decided, and then waits for the effect.

    Exit codes: 0 took effect, 1 refused or error, 2 usage, 3 hub unreachable, 4 not allowed, 5 sent,
    but what came of it is not known yet, 6 overruled at the terminal, 7 too late."""


def _decide(name: str, sessions: list[str] | None, **given: Any) -> None:
    from adsum.decide import DecisionAsked, asker, decide

    raise typer.Exit(decide(DecisionAsked(name, sessions or (), ask=asker(), **given)))


@reach_app.command(help=f"Allow what a session asks; a plan: adsum plan.{DECIDED}")
def approve(
    sessions: MaybeSessions = None,
    always: Annotated[
        bool, typer.Option("--always", help="In this session, by the rules that it suggests.")
    ] = False,
    yes: Yes = False,
    wait_s: WaitS = 12.0,
    as_json: OutcomeJson = False,
    hub: HubUrl = None,
    state_dir: StateDir = None,
) -> None:
    name = "always" if always else "approve"
    _decide(name, sessions, yes=yes, wait_s=wait_s, as_json=as_json, hub=hub, state_dir=state_dir)


@reach_app.command(help=f"Deny what a session asks, with a reason.{DECIDED}")
def deny(
    sessions: MaybeSessions = None,
    text: Annotated[
        str | None, typer.Option("--message", "-m", help="What the agent is told.")
    ] = None,
    stop: Annotated[
        bool, typer.Option("--stop", help="Its turn ends; it is not told the message then.")
    ] = False,
    yes: Yes = False,
    wait_s: WaitS = 12.0,
    as_json: OutcomeJson = False,
    hub: HubUrl = None,
    state_dir: StateDir = None,
) -> None:
    given = {"yes": yes, "wait_s": wait_s, "as_json": as_json, "hub": hub, "state_dir": state_dir}
    _decide("deny", sessions, text=text, stop=stop, **given)


@reach_app.command(help=f"Answer a session's questions, or its form.{DECIDED}")
def answer(
    session: Annotated[
        str | None,
        typer.Argument(
            help="Session id, or the start of it; ID#2 is its second open request. At a terminal, the one "
            "that asks, if left out.",
            autocompletion=sessions,
        ),
    ] = None,
    answers: Annotated[
        list[str] | None,
        typer.Option(
            "--answer",
            "-a",
            help="For each question: a number, a label, words; several as 1,3. Of a form FIELD=VALUE.",
        ),
    ] = None,
    note: Annotated[str | None, typer.Option(help="Beside the first answer.")] = None,
    yes: Yes = False,
    wait_s: WaitS = 12.0,
    as_json: OutcomeJson = False,
    hub: HubUrl = None,
    state_dir: StateDir = None,
) -> None:
    given = {"yes": yes, "wait_s": wait_s, "as_json": as_json, "hub": hub, "state_dir": state_dir}
    _decide(
        "answer", None if session is None else [session], answers=answers or (), note=note, **given
    )


@reach_app.command(help=f"Give what a session asks back to its terminal.{DECIDED}")
def defer(
    sessions: MaybeSessions = None,
    yes: Yes = False,
    wait_s: WaitS = 12.0,
    as_json: OutcomeJson = False,
    hub: HubUrl = None,
    state_dir: StateDir = None,
) -> None:
    given = {"yes": yes, "wait_s": wait_s, "as_json": as_json, "hub": hub, "state_dir": state_dir}
    _decide("defer", sessions, **given)


@reach_app.command(help=f"Approve a session's plan. To send it back: deny -m.{DECIDED}")
def plan(
    sessions: MaybeSessions = None,
    mode: Annotated[
        str | None, typer.Option(help="In which it is carried out: default or acceptEdits.")
    ] = None,
    edit: Annotated[
        Path | None, typer.Option("--edit", metavar="FILE", help="This plan in its place.")
    ] = None,
    yes: Yes = False,
    wait_s: WaitS = 12.0,
    as_json: OutcomeJson = False,
    hub: HubUrl = None,
    state_dir: StateDir = None,
) -> None:
    given = {"yes": yes, "wait_s": wait_s, "as_json": as_json, "hub": hub, "state_dir": state_dir}
    _decide("plan", sessions, mode=mode, edit=edit, **given)


DONE = """

Its machine's owner must have agreed to it there: adsum control full.

Exit codes: 0 it took effect, or waits; 1 refused; 2 usage; 5 sent, its effect not known yet; 7 too late.
"""
PromptText = Annotated[str, typer.Argument(metavar="TEXT", help="- reads it from standard input.")]


@reach_app.command(help=f"Say something to a session, as its user would.{DONE}")
def prompt(
    session: SessionId,
    text: PromptText,
    wait_s: WaitS = 12.0,
    as_json: OutcomeJson = False,
    hub: HubUrl = None,
    state_dir: StateDir = None,
) -> None:
    _act("prompt", session, text=text, wait_s=wait_s, as_json=as_json, hub=hub, state_dir=state_dir)


@reach_app.command(help=f"Have something said once a turn is over.{DONE}")
def queue(
    session: SessionId,
    text: Annotated[
        str | None, typer.Argument(metavar="TEXT", help="- reads it from standard input.")
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="What waits, the next first.")] = False,
    withdraw: Annotated[
        str | None,
        typer.Option("--withdraw", metavar="ITEM", help="Take it back: its number or id."),
    ] = None,
    move: Annotated[
        tuple[str, int] | None,
        typer.Option("--move", metavar="ITEM PLACE", help="1 is said next."),
    ] = None,
    wait_s: WaitS = 12.0,
    as_json: OutcomeJson = False,
    hub: HubUrl = None,
    state_dir: StateDir = None,
) -> None:
    from adsum.decide import ActionAsked, show_queue
    from adsum.outcome import require

    wanted = [each for each in (text, withdraw, move) if each is not None]
    require(len(wanted) + listed <= 1, "Give a text, or --list, --withdraw or --move, one of them.")
    options: dict[str, Any] = {"as_json": as_json, "hub": hub, "state_dir": state_dir}
    if not wanted:
        show_queue(ActionAsked("queue", session, **options))
    elif withdraw is not None:
        _act("withdraw", session, item=withdraw, wait_s=wait_s, **options)
    elif move is not None:
        _act("move", session, item=move[0], place=move[1], wait_s=wait_s, **options)
    else:
        _act("queue", session, text=text, wait_s=wait_s, **options)


@reach_app.command(help=f"End a session's turn, as Escape does at its terminal.{DONE}")
def interrupt(
    session: SessionId,
    wait_s: WaitS = 12.0,
    as_json: OutcomeJson = False,
    hub: HubUrl = None,
    state_dir: StateDir = None,
) -> None:
    _act("interrupt", session, wait_s=wait_s, as_json=as_json, hub=hub, state_dir=state_dir)


def _act(verb: str, session: str, **given: Any) -> None:
    from adsum.decide import ActionAsked, act

    raise typer.Exit(act(ActionAsked(verb, session, **given)))


@reach_app.command(help=f"End a resting session's process, to save its memory.{DONE}")
def suspend(
    session: SessionId,
    wait_s: WaitS = 30.0,
    as_json: OutcomeJson = False,
    hub: HubUrl = None,
    state_dir: StateDir = None,
) -> None:
    _act("suspend", session, wait_s=wait_s, as_json=as_json, hub=hub, state_dir=state_dir)


@reach_app.command(help=f"Take a suspended session up again, under the same id.{DONE}")
def resume(
    session: SessionId,
    text: Annotated[str | None, typer.Argument(help="What it is told, as a prompt.")] = None,
    wait_s: WaitS = 60.0,
    as_json: OutcomeJson = False,
    hub: HubUrl = None,
    state_dir: StateDir = None,
) -> None:
    _act("resume", session, text=text, wait_s=wait_s, as_json=as_json, hub=hub, state_dir=state_dir)


@reach_app.command("report-wrong-state")
def report_wrong_state(
    session: SessionId,
    hub: HubUrl = None,
    state_dir: StateDir = None,
    minutes: Annotated[int, typer.Option(min=1, max=1440, help="How far back.")] = 10,
    should_be: Annotated[
        str | None, typer.Option(metavar="STATE", help="What it was in truth, such as idle.")
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Into this file.")] = None,
) -> None:
    """Bundle a session's last signals; nothing is sent.

    Redacted, with what was shown: a .tar.gz in this directory. Look into it, and attach it to an
    issue.
    """
    from adsum.reports import report_wrong_state as report

    report(session, hub, state_dir, minutes=minutes, should_be=should_be, output=output)


@reach_app.command("logs")
def logs(
    part: Annotated[
        str | None, typer.Argument(help="hub, collector or broker; all of them if left out.")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until Ctrl-C.")] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="So many at first.")] = 50,
    state_dir: StateDir = None,
) -> None:
    """What the parts on this machine have written."""
    from adsum.supervise import show_logs

    show_logs(part, follow=follow, lines=lines, state_dir=state_dir)
