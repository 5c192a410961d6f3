"""`adsum collector`: runs this machine's collector, or looks after it."""

# ruff: noqa: FBT002 - typer reads the options from the signatures

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from adsum.options import RedisUrl, StateDir

collector_app = typer.Typer(invoke_without_command=True)
spool_app = typer.Typer(help="What waits on this machine's disk.", no_args_is_help=True)
collector_app.add_typer(spool_app, name="spool")


@collector_app.callback()
def collector(
    context: typer.Context, state_dir: StateDir = None, redis_url: RedisUrl = None
) -> None:
    """Run this machine's collector, or look after it.

    In the foreground, until Ctrl-C; `adsum service` has the machine itself start it.
    """
    if context.invoked_subcommand is not None:
        context.obj = state_dir  # for a command that names none itself
        return
    from adsum.foreground import run_collector_part

    run_collector_part(state_dir, redis_url)


@spool_app.command("status")
def spool_status(
    context: typer.Context,
    state_dir: Annotated[Path | None, typer.Option(help="State directory of this machine.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Everything, as JSON.")] = False,
) -> None:
    """What is held, sent, confirmed and missing. Changes nothing."""
    from adsum.spool import show_spool

    show_spool(state_dir or context.obj, as_json=as_json)


@collector_app.command("new-identity")
def renew(
    context: typer.Context,
    state_dir: Annotated[Path | None, typer.Option(help="State directory of this machine.")] = None,
) -> None:
    """Make a copy of a machine one of its own.

    On the copy, while its collector is stopped.
    """
    from adsum.identity import take_new_identity

    take_new_identity(state_dir or context.obj)
