"""`adsum service`: collector and hub started by the machine itself. What it needs is imported when it runs."""

# ruff: noqa: FBT002 - typer reads the options

from __future__ import annotations

from typing import Annotated

import typer

from adsum.options import RedisUrl, StateDir
from adsum.text.saying import put, say

service_app = typer.Typer(
    help="Have systemd or launchd run the collector, and a hub.", no_args_is_help=True
)

System = Annotated[bool, typer.Option("--system", help="Of the whole machine, not yours; root's.")]


@service_app.command("install")
def install(
    state_dir: StateDir = None,
    redis_url: RedisUrl = None,
    system: System = False,
    hub: Annotated[bool, typer.Option("--hub", help="A hub too.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the files only.")] = False,
) -> None:
    """Start the collector now and whenever the machine starts. Idempotent."""
    from adsum.outcome import CommandError
    from adsum.service.job import kept_values, owner_of, read_here, settled
    from adsum.service.report import until_up
    from adsum.service.service import find_init, install_service

    if not dry_run:
        find_init(system=system).require()
    with settled(owner_of(system=system), kept_values(system=system)):
        if not read_here(state_dir, redis_url).redis_url:
            raise CommandError(
                "A service needs to know the broker it reports to. Set ADSUM_REDIS_URL (or "
                "--redis-url), or join a hub; only `adsum up` brings a broker of its own."
            )
    done = install_service(state_dir, redis_url, system=system, hub=hub, dry_run=dry_run)
    if dry_run:
        for file in done.files:
            secret = file.mode == 0o600
            put(f"# {file.path} ({file.mode:o})\n{_hidden(file.text) if secret else file.text}")
        return
    for path in done.changed:
        put(f"wrote {path}")
    for note in done.notes:
        say(note)
    if not until_up(system=system, hub=hub):
        raise CommandError("It is installed but does not run yet. Next: adsum service status")
    put("It runs, and starts with the machine." if done.changed else "It runs; nothing to change.")


@service_app.command("remove")
def remove(
    system: System = False,
    hub: Annotated[bool, typer.Option("--hub", help="Only the hub.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Name the files only.")] = False,
) -> None:
    """Stop it and take its files out. What was collected stays."""
    from adsum.service.service import BOTH, find_init, remove_service

    if dry_run:
        init = find_init(system=system)
        parts = BOTH[1:] if hub else BOTH
        gone = tuple(path for part in parts for path in init.paths(part) if path.is_file())
    else:
        gone = remove_service(system=system, only_hub=hub)
    for path in gone:
        put(f"{'would remove' if dry_run else 'removed'} {path}")
    if not gone:
        put("There was nothing to remove.")


@service_app.command("status")
def status(
    system: System = False,
    hub: Annotated[bool, typer.Option("--hub", help="Only the hub.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The same, as JSON.")] = False,
) -> None:
    """What runs, since when, and what is wrong.

    Exit codes: 0 all well, 1 something does not run or nothing is installed.
    """
    from adsum.service.report import show_status

    raise typer.Exit(show_status(system=system, only_hub=hub, as_json=as_json))


@service_app.command("logs")
def logs(
    system: System = False,
    hub: Annotated[bool, typer.Option("--hub", help="The hub's, not the collector's.")] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", min=1, help="How many, the last.")] = 100,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until Ctrl-C.")] = False,
) -> None:
    """What it said: systemd's journal, or the log file under launchd."""
    from adsum.service.report import show_logs

    raise typer.Exit(show_logs(system=system, only_hub=hub, lines=lines, follow=follow))


def _hidden(text: str) -> str:
    """Without what may be a secret: what is printed lands in tickets."""
    import re

    shown = "ADSUM_STATE_DIR|ADSUM_COLLECTOR_PORT|ADSUM_HUB_PORT|CLAUDE_CONFIG_DIR|XDG_CONFIG_HOME"
    return re.sub(rf"^(?!{shown})(\w+)=.*$", r'\1="..."', text, flags=re.MULTILINE)
