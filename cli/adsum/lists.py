"""The commands that show what the hub knows, and lead there. Each imports late what it needs."""

# ruff: noqa: FBT002, PLR0913, PLR0917 - typer reads the options from the signatures

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from adsum.options import (
    AsJson,
    HostName,
    HubUrl,
    OnlyHost,
    OnlyProject,
    SessionId,
    StateDir,
    sessions,
)
from adsum.outcome import CommandError, Exit
from adsum_shared import MOST_DAYS

lists_app = typer.Typer()
hosts_app = typer.Typer(invoke_without_command=True)
lists_app.add_typer(hosts_app, name="hosts")

HomeDir = Annotated[Path | None, typer.Option("--state-dir", help="State directory.")]


@lists_app.command()
def agents(
    hub: HubUrl = None,
    state_dir: StateDir = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Keep it current.")] = False,
    needs_you: Annotated[bool, typer.Option("--needs-you", help="Only who waits for you.")] = False,
    host: OnlyHost = None,
    state: Annotated[str | None, typer.Option(help="Only this state, such as idle.")] = None,
    project: OnlyProject = None,
    group: Annotated[str | None, typer.Option(help="Only needs_you, working or delivered.")] = None,
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
    from adsum.sessions import Filter

    chosen = Filter(group, state, host, project, needs_you)
    if as_json and jsonl:
        raise CommandError("--json and --jsonl exclude each other.", Exit.USAGE)
    if watch and as_json:
        raise CommandError("To watch as JSON, use --jsonl.", Exit.USAGE)
    if watch and exit_status:
        raise CommandError("--exit-status answers once; leave out --watch.", Exit.USAGE)
    if watch:
        from adsum.client import hub_url
        from adsum.watch import watch_agents

        watch_agents(hub_url(hub, state_dir), chosen, jsonl=jsonl)
        return
    from adsum.listing import list_agents

    code = list_agents(
        hub, state_dir, chosen, as_json=as_json, jsonl=jsonl, exit_status=exit_status
    )
    raise typer.Exit(code)


@lists_app.command()
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

    show_session(hub, state_dir, session, as_json=as_json, activity=activity)


@lists_app.command()
def top(
    hub: HubUrl = None,
    state_dir: StateDir = None,
    host: OnlyHost = None,
    project: OnlyProject = None,
) -> None:
    """The list on a full screen: move, look closer, filter. Needs textual."""
    from adsum.sessions import Filter

    require_textual()
    from adsum.top import run_top

    run_top(hub, state_dir, Filter(host=host, project=project))


def require_textual() -> None:
    if find_spec("textual") is None:
        raise CommandError(
            "adsum top needs Textual, which is not installed. Where Adsum is installed: "
            f"`{Path(sys.executable).parent / 'pip'} install textual`; by pipx: "
            "`pipx inject adsum textual`. Without it: adsum agents --watch"
        )


@lists_app.command()
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
    by: Annotated[str, typer.Option(help="day, host, project, model or session.")] = "day",
    host: OnlyHost = None,
    project: OnlyProject = None,
    model: Annotated[str | None, typer.Option(help="Only this model.")] = None,
    limit: Annotated[
        int | None,
        typer.Option(
            min=1, help="Of sessions, how many rows of the table, the dearest first. [20]"
        ),
    ] = None,
    as_json: AsJson = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="As CSV, for a spreadsheet.")] = False,
) -> None:
    """Tokens and what they cost, by day, project, model and more.

    Exit codes: as those of `agents`.
    """
    from adsum.listing import UsageQuery, show_usage

    asked = UsageQuery(since, until, days, by, host, project, model, limit)
    raise typer.Exit(show_usage(hub, state_dir, asked, as_json=as_json, as_csv=as_csv))


@lists_app.command()
def history(
    text: Annotated[list[str] | None, typer.Argument(help="Words to look for.")] = None,
    hub: HubUrl = None,
    state_dir: StateDir = None,
    host: OnlyHost = None,
    project: OnlyProject = None,
    limit: Annotated[int, typer.Option(min=1, help="How many, the latest first.")] = 20,
    as_json: AsJson = False,
) -> None:
    """Sessions that are over, the latest first. `show ID` has one in full."""
    from adsum.listing import list_history
    from adsum.sessions import HistoryQuery

    search = HistoryQuery(" ".join(text or ()), host, project, limit)
    raise typer.Exit(list_history(hub, state_dir, search, as_json=as_json))


@hosts_app.callback()
def hosts(
    context: typer.Context,
    hub: HubUrl = None,
    state_dir: StateDir = None,
    as_json: AsJson = False,
) -> None:
    """List machines and how fresh their news is; rename, forget."""
    if context.invoked_subcommand is not None:
        context.obj = hub, state_dir  # for a command that names none itself
        return
    from adsum.listing import list_hosts

    raise typer.Exit(list_hosts(hub, state_dir, as_json=as_json))


@hosts_app.command("rename")
def rename(
    context: typer.Context,
    named: HostName,
    label: Annotated[str, typer.Argument(help="Its name from now on; '' is what it calls itself.")],
    hub: HubUrl = None,
    state_dir: HomeDir = None,
) -> None:
    """Call it otherwise, everywhere."""
    _change(context, hub, state_dir, "rename", named, label)


@hosts_app.command("forget")
def forget(
    context: typer.Context, named: HostName, hub: HubUrl = None, state_dir: HomeDir = None
) -> None:
    """Take it out of all lists, with its sessions and its access. It comes back by joining."""
    _change(context, hub, state_dir, "forget", named)


@hosts_app.command("revoke")
def revoke(
    context: typer.Context, named: HostName, hub: HubUrl = None, state_dir: HomeDir = None
) -> None:
    """Make its credential worthless, at once. What it sent stays."""
    _change(context, hub, state_dir, "revoke", named)


@hosts_app.command("reset")
def reset(
    context: typer.Context, named: HostName, hub: HubUrl = None, state_dir: HomeDir = None
) -> None:
    """Have it join anew.

    After a revocation, a lost credential, or when there are two of it.
    """
    _change(context, hub, state_dir, "reset", named)


def _change(
    context: typer.Context,
    hub: str | None,
    state_dir: Path | None,
    verb: str,
    named: str,
    label: str | None = None,
) -> None:
    from adsum.listing import change_host

    above_hub, above_dir = context.obj
    change_host(hub or above_hub, state_dir or above_dir, verb, named, label)


@lists_app.command("open")
def open_(
    session: Annotated[
        str | None, typer.Argument(help="Session id, or the start of it.", autocompletion=sessions)
    ] = None,
    only_print: Annotated[bool, typer.Option("--print", help="Print the address only.")] = False,
    hub: HubUrl = None,
    state_dir: StateDir = None,
) -> None:
    """The dashboard in your browser, or one session's page of it."""
    from adsum.reach import open_dashboard

    open_dashboard(hub, state_dir, session, only_print=only_print)


@lists_app.command()
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

    To its tmux pane; by ssh, if it is on another machine.
    """
    from adsum.reach import attach as attach_to

    attach_to(hub, state_dir, session, ssh, only_print=only_print)


@lists_app.command()
def logs(
    part: Annotated[
        str | None,
        typer.Argument(help="hub, collector or broker; all of them if left out."),
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until Ctrl-C.")] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="So many at first.")] = 50,
    state_dir: StateDir = None,
) -> None:
    """What the parts on this machine have written."""
    from adsum.logs import show_logs

    show_logs(state_dir, part, lines, follow=follow)
