"""The commands about what is now: agents, hosts, show, top. What one needs is imported when it runs."""

# ruff: noqa: FBT002, PLR0913, PLR0917 - typer reads the options from the signatures

from __future__ import annotations

from typing import Annotated

import typer

from adsum.completion import hosts as known_hosts
from adsum.completion import sessions as known_sessions
from adsum.options import AsJson, HubUrl, StateDir

lists_app = typer.Typer()


@lists_app.command()
def agents(
    hub: HubUrl = None,
    state_dir: StateDir = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Keep it current.")] = False,
    needs_you: Annotated[bool, typer.Option("--needs-you", help="Only who waits for you.")] = False,
    host: Annotated[
        str | None,
        typer.Option(help="Only this machine: label or id.", autocompletion=known_hosts),
    ] = None,
    state: Annotated[str | None, typer.Option(help="Only this state, such as idle.")] = None,
    project: Annotated[str | None, typer.Option(help="Only this project.")] = None,
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
    from adsum.agents import Form, list_agents
    from adsum.select import Filter

    chosen = Filter(group, state, host, project, needs_you)
    form = Form(watch=watch, json=as_json, jsonl=jsonl, exit_status=exit_status)
    raise typer.Exit(list_agents(hub, state_dir, chosen, form))


@lists_app.command()
def show(
    session: Annotated[
        str, typer.Argument(help="Session id, or the start of it.", autocompletion=known_sessions)
    ],
    hub: HubUrl = None,
    state_dir: StateDir = None,
    activity: Annotated[
        int | None, typer.Option(min=0, max=100, help="How many of its last doings.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """One session in full, and why its state is believed."""
    from adsum.show import show_session

    show_session(hub, state_dir, session, as_json=as_json, activity=activity)


@lists_app.command()
def top(
    hub: HubUrl = None,
    state_dir: StateDir = None,
    host: Annotated[
        str | None,
        typer.Option(help="Only this machine: label or id.", autocompletion=known_hosts),
    ] = None,
    project: Annotated[str | None, typer.Option(help="Only this project.")] = None,
) -> None:
    """The list on a full screen: move, look closer, filter. Needs textual."""
    from adsum.select import Filter
    from adsum.top.top import run_top

    run_top(hub, state_dir, Filter(host=host, project=project))
