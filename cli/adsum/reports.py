"""The commands about what was: usage and history. What a command needs is imported when it runs."""

# ruff: noqa: FBT002, PLR0913, PLR0917 - typer reads the options from the signatures

from __future__ import annotations

from typing import Annotated

import typer

from adsum.options import AsJson, HubUrl, StateDir
from adsum_shared import MOST_DAYS

reports_app = typer.Typer()

Host = Annotated[str | None, typer.Option(help="Only this machine: label or id.")]
Project = Annotated[str | None, typer.Option(help="Only this project.")]


@reports_app.command()
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
    host: Host = None,
    project: Project = None,
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
    from adsum.usage import Question, show_usage

    asked = Question(since, until, days, by, host, project, model, limit)
    raise typer.Exit(show_usage(hub, state_dir, asked, as_json=as_json, as_csv=as_csv))


@reports_app.command()
def history(
    text: Annotated[list[str] | None, typer.Argument(help="Words to look for.")] = None,
    hub: HubUrl = None,
    state_dir: StateDir = None,
    host: Host = None,
    project: Project = None,
    limit: Annotated[int, typer.Option(min=1, help="How many, the latest first.")] = 20,
    as_json: AsJson = False,
) -> None:
    """Sessions that are over, the latest first. `show ID` has one in full."""
    from adsum.history import Search, list_history

    search = Search(" ".join(text or ()), host, project, limit)
    raise typer.Exit(list_history(hub, state_dir, search, as_json=as_json))
