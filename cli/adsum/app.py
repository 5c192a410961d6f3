"""The commands and their options. What a command needs is imported when it runs."""

# ruff: noqa: FBT001, FBT002, PLR0913, PLR0917 - typer reads the options from the signatures

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from adsum.collector import collector_app
from adsum.options import AsJson, HubUrl, RedisUrl, StateDir
from adsum.outcome import CommandError, Exit
from adsum.reports import reports_app

app = typer.Typer(
    name="adsum",
    help="The roll call of your coding agents: every session on every machine, in one live list.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=True,
)
hooks_app = typer.Typer(help="Claude Code's hooks, which report to Adsum.", no_args_is_help=True)
app.add_typer(hooks_app, name="hooks")
app.add_typer(collector_app, name="collector")
app.add_typer(reports_app)

Scope = Annotated[str, typer.Option(help="user: all your sessions; project: this repository's.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the diff, change nothing.")]
Statusline = Annotated[
    bool | None,
    typer.Option(
        "--statusline/--no-statusline",
        help="Have the status line report too: yours, or an empty one. By default only yours.",
    ),
]
Claude = Annotated[
    Path | None, typer.Option("--claude", help="The claude program, if it is not on PATH.")
]


def run() -> int:
    """The process's exit code."""
    try:
        app(prog_name="adsum")
    except CommandError as error:
        sys.stdout.flush()
        print(f"adsum: {error}", file=sys.stderr)  # noqa: T201 - the command line speaks here
        return int(error.code)
    except KeyboardInterrupt:
        return int(Exit.INTERRUPTED)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(Exit.ERROR if end.code else Exit.OK)
    return int(Exit.OK)


def _version(wanted: bool) -> None:
    if wanted:
        from adsum_shared import __version__

        print(f"adsum {__version__}")  # noqa: T201 - the command line speaks here
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", "-V", callback=_version, is_eager=True)
    ] = False,
) -> None:
    del version


@app.command()
def up(
    state_dir: StateDir = None,
    redis_url: RedisUrl = None,
    no_hooks: Annotated[bool, typer.Option("--no-hooks", help="Leave hooks alone.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Install hooks, do not ask.")] = False,
) -> None:
    """Broker, hub and collector in one command, until Ctrl-C."""
    from adsum.hooks import setup_for
    from adsum.offer import Offer
    from adsum.up import run_up

    run_up(state_dir, redis_url, Offer(setup_for("user", state_dir), not no_hooks, yes))


@app.command()
def hub(state_dir: StateDir = None, redis_url: RedisUrl = None) -> None:
    """Run one hub in the foreground."""
    from adsum.foreground import run_hub_part

    run_hub_part(state_dir, redis_url)


@app.command()
def agents(
    hub: HubUrl = None,
    state_dir: StateDir = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Keep it current.")] = False,
    needs_you: Annotated[bool, typer.Option("--needs-you", help="Only who waits for you.")] = False,
    host: Annotated[str | None, typer.Option(help="Only this machine: label or id.")] = None,
    state: Annotated[str | None, typer.Option(help="Only this state.")] = None,
    project: Annotated[str | None, typer.Option(help="Only this project.")] = None,
    group: Annotated[
        str | None, typer.Option(help="Only needs_you, autonomous or delivered.")
    ] = None,
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


@app.command()
def hosts(hub: HubUrl = None, state_dir: StateDir = None, as_json: AsJson = False) -> None:
    """Every machine, and how fresh its news is."""
    from adsum.hosts import list_hosts

    raise typer.Exit(list_hosts(hub, state_dir, as_json=as_json))


@app.command()
def show(
    session: Annotated[str, typer.Argument(help="Session id, or the start of it.")],
    hub: HubUrl = None,
    state_dir: StateDir = None,
    activity: Annotated[
        int | None, typer.Option(min=0, max=100, help="How many of its last doings.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """One session in full."""
    from adsum.show import show_session

    show_session(hub, state_dir, session, as_json=as_json, activity=activity)


@app.command()
def doctor(
    hub: HubUrl = None,
    state_dir: StateDir = None,
    claude: Claude = None,
    as_json: Annotated[bool, typer.Option("--json", help="Every check, as JSON.")] = False,
) -> None:
    """Check this machine, and compare its sessions with what Claude Code says of them.

    Exit codes: 0 nothing failed, 1 something did.
    """
    from adsum.doctor import run_doctor

    raise typer.Exit(run_doctor(hub, state_dir, claude, as_json=as_json))


@app.command()
def statusline(state_dir: StateDir = None) -> None:
    """Whether your status line reports to Adsum, and how it fares."""
    from adsum.hooks import setup_for
    from adsum.statusline import show_statusline

    setup = setup_for("user", state_dir)
    show_statusline(setup.path, f"http://127.0.0.1:{setup.port}")


@hooks_app.command("install")
def hooks_install(
    scope: Scope = "user",
    claude: Claude = None,
    state_dir: StateDir = None,
    dry_run: DryRun = False,
    statusline: Statusline = None,
) -> None:
    """Merge our hooks beside yours. Idempotent; `remove` restores the file."""
    from adsum.hooks import run_install, setup_for

    run_install(setup_for(scope, state_dir, claude, statusline), dry_run=dry_run)


@hooks_app.command("remove")
def hooks_remove(
    scope: Scope = "user", state_dir: StateDir = None, dry_run: DryRun = False
) -> None:
    """Take our hooks out; everything else stays as it is."""
    from adsum.hooks import run_remove, setup_for

    run_remove(setup_for(scope, state_dir), dry_run=dry_run)


@hooks_app.command("status")
def hooks_status(scope: Scope = "user", claude: Claude = None, state_dir: StateDir = None) -> None:
    """Which hooks stand in which file, and what is wrong with them."""
    from adsum.hooks import setup_for
    from adsum.hooks_status import run_status

    run_status(setup_for(scope, state_dir, claude))


@hooks_app.command("verify")
def hooks_verify(
    scope: Scope = "user",
    claude: Claude = None,
    state_dir: StateDir = None,
    hub: HubUrl = None,
    as_json: Annotated[bool, typer.Option("--json", help="The times, as JSON.")] = False,
) -> None:
    """Send a probe by every way a hook goes, and time it until the hub has applied it."""
    from adsum.hooks import setup_for
    from adsum.verify import verify_hooks

    verify_hooks(setup_for(scope, state_dir, claude), hub, as_json=as_json)
