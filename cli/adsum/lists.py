"""The commands that show what the hub knows. What a command needs is imported when it runs."""

# ruff: noqa: FBT002, PLR0913, PLR0917 - typer reads the options from the signatures

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from adsum.options import AsJson, HubUrl, OnlyHost, OnlyProject, SessionId, StateDir
from adsum.outcome import CommandError, Exit
from adsum_shared import MOST_DAYS

lists_app = typer.Typer()


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
