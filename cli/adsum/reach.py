"""The commands that lead somewhere: to a session, to logs, to settings. What one needs is imported when it runs."""

# ruff: noqa: FBT002 - typer reads the options from the signatures

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from adsum.options import HubUrl, RedisUrl, SessionId, StateDir, sessions

reach_app = typer.Typer()
config_app = typer.Typer(help="Settings, and where they come from.", no_args_is_help=True)
reach_app.add_typer(config_app, name="config")


@config_app.command("show")
def config_show(
    origin: Annotated[
        bool, typer.Option("--origin", help="Say which flag, variable or file set each.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="With origins, as JSON.")] = False,
    state_dir: StateDir = None,
    redis_url: RedisUrl = None,
) -> None:
    """Every setting of every part, as it holds now. Secrets are not shown."""
    from adsum.config_show import show_config

    raise typer.Exit(show_config(_flags(state_dir, redis_url), origin=origin, as_json=as_json))


def _flags(state_dir: Path | None, redis_url: str | None) -> dict[str, Any]:
    """Typer takes a variable for a flag; where it stands is the variable."""
    import os

    given = {"state_dir": state_dir, "redis_url": redis_url}
    return {
        name: value
        for name, value in given.items()
        if value is not None and os.environ.get(f"ADSUM_{name.upper()}") != str(value)
    }


@reach_app.command("open")
def open_(
    session: Annotated[
        str | None, typer.Argument(help="Session id, or the start of it.", autocompletion=sessions)
    ] = None,
    only_print: Annotated[bool, typer.Option("--print", help="Print the address only.")] = False,
    hub: HubUrl = None,
    state_dir: StateDir = None,
) -> None:
    """The dashboard in your browser, or one session's page of it."""
    from adsum.open import open_dashboard

    open_dashboard(hub, state_dir, session, only_print=only_print)


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

    To its tmux pane; by ssh, if it is on another machine.
    """
    from adsum.attach import attach as attach_to

    attach_to(hub, state_dir, session, ssh, only_print=only_print)


@reach_app.command()
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
