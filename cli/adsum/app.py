"""The commands and their options. What a command needs is imported when it runs."""

# ruff: noqa: FBT001, FBT002, PLR0913, PLR0917 - typer reads the options from the signatures

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from adsum.options import AgentProgram, HubUrl, RedisUrl, StateDir
from adsum.outcome import CommandError, Exit
from adsum.parts_app import collector_app, control_app, hub_app, service_app
from adsum.sessions_app import reach_app, sessions_app
from adsum_shared import AdsumError

app = typer.Typer(
    name="adsum",
    help="The roll call of your coding agents: every session on every machine, in one live list.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=True,
    # Without it help is plain text, and a third of a second is a quarter.
    rich_markup_mode=None,
)
config_app = typer.Typer(help="Settings, and where they come from.", no_args_is_help=True)
hooks_app = typer.Typer(help="The hooks of agents, which report to Adsum.", no_args_is_help=True)
app.add_typer(sessions_app)
app.add_typer(reach_app)
app.add_typer(hooks_app, name="hooks")
app.add_typer(config_app, name="config")
app.add_typer(collector_app, name="collector")
app.add_typer(control_app, name="control")
app.add_typer(hub_app, name="hub")
app.add_typer(service_app, name="service")

Scope = Annotated[str, typer.Option(help="user: all your sessions; project: this repository's.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the diff, change nothing.")]
HookTransport = Annotated[
    str | None,
    typer.Option(
        "--transport",
        metavar="auto|http|shim",
        help="How hooks are sent: posted to the collector's port, or over its socket, for which "
        "only this user can listen. auto: posted where nobody else has an account. Kept.",
    ),
]
Statusline = Annotated[
    bool | None,
    typer.Option(
        "--statusline/--no-statusline",
        help="Have the status line report too: yours, or an empty one. By default only yours.",
    ),
]
AgentName = Annotated[
    str | None, typer.Option("--agent", help="Of this agent alone, such as claude_code.")
]


def run() -> int:
    """The process's exit code."""
    from adsum.outcome import flush_output, open_output

    sys.excepthook = _print_fault
    open_output()
    try:
        code = _end()
    except OSError:
        # Without a buffer, as in containers, nothing waits there that would fail again by itself.
        if flush_output("\n"):
            raise
        return int(Exit.ERROR)
    return code if flush_output() else int(Exit.ERROR)


def _end() -> int:
    """How the command ended."""
    try:
        _require_text(sys.argv[1:])
        app(prog_name="adsum")
    except AdsumError as error:
        from adsum.outcome import say

        sys.stdout.flush()
        say(f"adsum: {error}")
        return int(error.code if isinstance(error, CommandError) else Exit.ERROR)
    except KeyboardInterrupt:
        return int(Exit.INTERRUPTED)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(Exit.ERROR if end.code else Exit.OK)
    return int(Exit.OK)


def _require_text(words: Sequence[str]) -> None:
    """Raises CommandError: what is not UTF-8 could be neither sent nor shown."""
    from adsum.outcome import require

    for word in words:
        shown = os.fsencode(word).decode(errors="backslashreplace")
        readable = word.encode(errors="replace").decode() == word
        require(readable, f"The word '{shown}' is not UTF-8: type it anew.")


def _print_fault(*fault: Any) -> None:
    """What it quotes may come from an agent."""
    import traceback

    from adsum.outcome import say

    say("".join(traceback.format_exception(*fault)).rstrip())


def _version(wanted: bool) -> None:
    if wanted:
        from adsum.build import version_line
        from adsum.outcome import put

        put(version_line())
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            "-V",
            callback=_version,
            is_eager=True,
            help="Print version, commit and date.",
        ),
    ] = False,
) -> None:
    del version


@app.command()
def up(
    state_dir: StateDir = None,
    redis_url: RedisUrl = None,
    no_hooks: Annotated[bool, typer.Option("--no-hooks", help="Leave hooks alone.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Install hooks, do not ask.")] = False,
    demo: Annotated[
        bool, typer.Option("--demo", help="Play a made-up fleet, apart from yours; then delete it.")
    ] = False,
) -> None:
    """Broker, hub, collector in one command, until Ctrl-C."""
    if demo:
        from adsum.demo import run_demo

        run_demo(state_dir)
        return
    from adsum.hooks import setups_for
    from adsum.up import Offer, run_up

    setups = setups_for("user", state_dir)
    run_up(state_dir, redis_url, *(Offer(setup, not no_hooks, yes) for setup in setups))


@app.command()
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
    control: Annotated[str, typer.Option(help="off, approve or full: see adsum control.")] = "off",
    state_dir: StateDir = None,
) -> None:
    """Have this machine report to a hub. Ends with its first signal there, or undoes everything."""
    from adsum.control import parse_level
    from adsum.join.join import Wish
    from adsum.join.join import join as join_hub
    from adsum.machine import wished_way

    way, level = wished_way(via), parse_level(control)
    wish = Wish(token, ca, yes, not no_hooks, not no_service, again, fresh, way, level)
    join_hub(url, state_dir, wish)


@app.command()
def leave(state_dir: StateDir = None) -> None:
    """Leave the hub and remove what `join` created.

    Service, hooks and credential; and the hub lets go.

    Exit codes: 0 all done, 1 something here is left, 5 the hub could not be told.
    """
    from adsum.join.leave import leave as leave_hub

    raise typer.Exit(leave_hub(state_dir))


@app.command()
def login(
    role: Annotated[str, typer.Option(help="viewer, operator or admin.")] = "admin",
    name: Annotated[str | None, typer.Option(help="Whom it lets in; you, if left out.")] = None,
    hosts: Annotated[str, typer.Option(help="Machines where an operator may act: a,b")] = "",
    hub: HubUrl = None,
    state_dir: StateDir = None,
    as_json: Annotated[bool, typer.Option("--json", help="The link, as JSON.")] = False,
) -> None:
    """Print a link that signs one browser in.

    Yours, your phone's, or a colleague's.
    """
    from adsum.access import print_login

    print_login(hub, state_dir, (role, name, hosts), as_json=as_json)


@app.command()
def doctor(
    hub: HubUrl = None,
    state_dir: StateDir = None,
    claude: AgentProgram = None,
    as_json: Annotated[bool, typer.Option("--json", help="Every check, as JSON.")] = False,
    bundle: Annotated[
        Path | None, typer.Option(help="Write a .tar.gz for whoever is to help: no secrets in it.")
    ] = None,
) -> None:
    """Check this machine, its list against Claude Code's.

    Exit codes: 0 nothing failed, 1 something did.
    """
    from adsum.doctor.doctor import run_doctor

    raise typer.Exit(run_doctor(hub, state_dir, claude, as_json=as_json, bundle=bundle))


@app.command()
def upgrade(
    check: Annotated[
        bool,
        typer.Option(
            "--check", help="Ask the package index for the newest release; change nothing."
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The same, as JSON.")] = False,
) -> None:
    """Print the command that upgrades this installation.

    With --check, print whether a newer release exists. Only then does pip or uv ask your package index.

    Exit codes: 0 printed, or nothing newer; 10 a newer release exists; 3 the index lists no release.
    """
    from adsum.upgrade import show_upgrade

    raise typer.Exit(show_upgrade(check=check, as_json=as_json))


@app.command()
def statusline(
    state_dir: StateDir = None,
    as_json: Annotated[bool, typer.Option("--json", help="The same, as JSON.")] = False,
) -> None:
    """Whether your status line reports, and how it fares."""
    from adsum import hooks, hooks_commands

    hooks_commands.show_statusline(hooks.setup_for("user", state_dir), as_json=as_json)


@hooks_app.command("install")
def hooks_install(
    scope: Scope = "user",
    claude: AgentProgram = None,
    state_dir: StateDir = None,
    dry_run: DryRun = False,
    statusline: Statusline = None,
    transport: HookTransport = None,
    agent: AgentName = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Trust them too, do not ask.")] = False,
) -> None:
    """Put Adsum's hooks beside yours; `remove` restores the file.

    Doing it again changes nothing.
    """
    from adsum import hooks, hooks_commands

    for setup in hooks.setups_for(scope, state_dir, claude, statusline, transport, agent):
        hooks_commands.run_install(setup, dry_run=dry_run, yes=yes)


@hooks_app.command("remove")
def hooks_remove(
    scope: Scope = "user",
    state_dir: StateDir = None,
    dry_run: DryRun = False,
    agent: AgentName = None,
) -> None:
    """Take Adsum's hooks out; everything else stays as it is."""
    from adsum import hooks, hooks_commands

    for setup in hooks.setups_for(scope, state_dir, agent=agent):
        hooks_commands.run_remove(setup, dry_run=dry_run)


@hooks_app.command("status")
def hooks_status(
    scope: Scope = "user",
    claude: AgentProgram = None,
    state_dir: StateDir = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="The same, as JSON, of one agent.")
    ] = False,
    agent: AgentName = None,
) -> None:
    """Which hooks stand in which file, and what is wrong with them."""
    from adsum import hooks, hooks_commands

    setups = hooks.setups_for(scope, state_dir, claude, agent=agent)
    hooks_commands.run_status(*setups[: 1 if as_json else None], as_json=as_json)


@hooks_app.command("verify")
def hooks_verify(
    scope: Scope = "user",
    claude: AgentProgram = None,
    state_dir: StateDir = None,
    hub: HubUrl = None,
    as_json: Annotated[bool, typer.Option("--json", help="Times and faults, as JSON.")] = False,
    agent: AgentName = None,
) -> None:
    """Send a probe by every way a hook goes, and time it.

    Until the hub has applied it.
    """
    from adsum.hooks import setup_for
    from adsum.verify import verify_hooks

    verify_hooks(setup_for(scope, state_dir, claude, agent=agent), hub, as_json=as_json)


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
    from adsum.config import show_config

    raise typer.Exit(show_config(_flags(state_dir, redis_url), origin=origin, as_json=as_json))


def _flags(state_dir: Path | None, redis_url: str | None) -> dict[str, Any]:
    """Typer takes a variable for a flag; where it stands is the variable."""
    given = {"state_dir": state_dir, "redis_url": redis_url}
    return {
        name: value
        for name, value in given.items()
        if value is not None and os.environ.get(f"ADSUM_{name.upper()}") != str(value)
    }
