"""The commands about machines: join, leave, hosts. What a command needs is imported when it runs."""

# ruff: noqa: FBT002, PLR0913, PLR0917 - typer reads the options from the signatures

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from adsum.options import AsJson, HostName, HubUrl, StateDir

machines_app = typer.Typer()
hosts_app = typer.Typer(invoke_without_command=True)
machines_app.add_typer(hosts_app, name="hosts")

HomeDir = Annotated[Path | None, typer.Option("--state-dir", help="State directory.")]


@machines_app.command()
def join(
    url: Annotated[str, typer.Argument(help="The hub, such as https://hub.example.net.")],
    token: Annotated[
        str | None, typer.Option(help="As the hub gave it; - reads it. Or ADSUM_JOIN_TOKEN.")
    ] = None,
    ca: Annotated[
        Path | None, typer.Option(help="Certificate of your own authority, for TLS.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Install hooks, do not ask.")] = False,
    no_hooks: Annotated[bool, typer.Option("--no-hooks", help="Leave hooks alone.")] = False,
    no_service: Annotated[
        bool, typer.Option("--no-service", help="Start the collector as a process, until reboot.")
    ] = False,
    via: Annotated[
        str,
        typer.Option(help="auto, redis, or ingest: through the hub, where Redis is not reached."),
    ] = "auto",
    again: Annotated[bool, typer.Option("--again", help="Although it has joined.")] = False,
    fresh: Annotated[
        bool, typer.Option("--new-identity", help="As a machine of its own: on a copy of one.")
    ] = False,
    state_dir: StateDir = None,
) -> None:
    """Have this machine report to a hub. Ends with its first signal there, or undoes everything."""
    from adsum.join.join import Wish, wished_way
    from adsum.join.join import join as join_hub

    way = wished_way(via)
    wish = Wish(token, ca, yes, not no_hooks, not no_service, again, fresh, way)
    join_hub(url, state_dir, wish)


@machines_app.command()
def leave(state_dir: StateDir = None) -> None:
    """Report to no hub any more: all that joining made goes.

    Service, hooks and credential; and the hub lets go.

    Exit codes: 0 all done, 1 something here is left, 5 the hub could not be told.
    """
    from adsum.join.leave import leave as leave_hub

    raise typer.Exit(leave_hub(state_dir))


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
