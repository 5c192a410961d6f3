"""Declares the commands that run the parts and look after them: hub, collector, service.

What a command needs is imported when it runs.
"""

# ruff: noqa: FBT002, PLR0913, PLR0917 - typer reads the options from the signatures

from pathlib import Path
from typing import Annotated

import typer

from adsum.options import AgentProgram, AsJson, HubUrl, RedisUrl, StateDir

hub_app = typer.Typer(invoke_without_command=True)
tokens_app = typer.Typer(help="Tokens for the API and for command lines.", no_args_is_help=True)
sign_ins_app = typer.Typer(help="The browsers that are signed in.", no_args_is_help=True)
collector_app = typer.Typer(invoke_without_command=True)
spool_app = typer.Typer(help="What waits on this machine's disk.", no_args_is_help=True)
service_app = typer.Typer(
    help="Have systemd or launchd run the collector, and a hub.", no_args_is_help=True
)
control_app = typer.Typer(invoke_without_command=True)
rules_app = typer.Typer(invoke_without_command=True)
hub_app.add_typer(tokens_app, name="tokens")
hub_app.add_typer(sign_ins_app, name="sign-ins")
collector_app.add_typer(spool_app, name="spool")
control_app.add_typer(rules_app, name="rules")

HomeDir = Annotated[Path | None, typer.Option("--state-dir", help="State directory.")]
Here = Annotated[Path | None, typer.Option(help="State directory of this machine.")]
ToJoin = Annotated[bool, typer.Option("--join", help="Of those by which machines join.")]
Id = Annotated[str, typer.Argument(help="As `list` shows it.")]
System = Annotated[bool, typer.Option("--system", help="Of the whole machine, not yours; root's.")]
AsText = Annotated[bool, typer.Option("--json", help="The same, as JSON.")]
Until = Annotated[str | None, typer.Option(help="For how long, such as 30m or 8h; else until off.")]
Agreed = Annotated[bool, typer.Option("--yes", "-y", help="Agree without being asked.")]
OnlyShown = Annotated[bool, typer.Option("--dry-run", help="Say what would change, only.")]
HubOnly = Annotated[bool, typer.Option("--hub", help="Only the hub.")]


@hub_app.callback()
def hub(context: typer.Context, state_dir: StateDir = None, redis_url: RedisUrl = None) -> None:
    """Run a hub in the foreground, or say who may enter it."""
    if context.invoked_subcommand is not None:
        context.obj = state_dir  # for a command that names none itself
        return
    from adsum.foreground import run_hub_part

    run_hub_part(state_dir, redis_url)


@hub_app.command("backup")
def hub_backup(
    context: typer.Context,
    file: Annotated[str, typer.Argument(help="A file that is not there yet; - is stdout.")],
    state_dir: HomeDir = None,
    redis_url: RedisUrl = None,
) -> None:
    """Write what lies in Redis into a file, while all runs."""
    from adsum.broker import back_up

    back_up(file, state_dir or context.obj, redis_url)


@hub_app.command("restore")
def hub_restore(
    context: typer.Context,
    file: Annotated[str, typer.Argument(help="What `backup` wrote; - is stdin.")],
    replace: Annotated[
        bool, typer.Option("--replace", help="Put it in the place of what lies there.")
    ] = False,
    sign_out: Annotated[
        bool,
        typer.Option(
            "--sign-everybody-out", help="Replace also without the secret that it was sealed with."
        ),
    ] = False,
    state_dir: HomeDir = None,
    redis_url: RedisUrl = None,
) -> None:
    """Put a backup into Redis. Stop the hubs first; collectors may run."""
    from adsum.broker import restore

    restore(file, state_dir or context.obj, redis_url, replace=replace, sign_out=sign_out)


@tokens_app.command("create")
def tokens_create(
    context: typer.Context,
    name: Annotated[str, typer.Option(help="What it is for: shown in lists.")] = "",
    role: Annotated[str | None, typer.Option(help="viewer, operator or admin. [viewer]")] = None,
    hosts: Annotated[str, typer.Option(help="Machines where an operator may act: a,b")] = "",
    expires: Annotated[
        str | None,
        typer.Option(help="Such as 12h or 90d; at most 366d, to join 31d. [90d; to join: 1h]"),
    ] = None,
    join: Annotated[
        bool,
        typer.Option("--join", help="One by which a machine joins: prints what to type there."),
    ] = False,
    reusable: Annotated[
        bool, typer.Option("--reusable", help="Joins many machines, not one.")
    ] = False,
    host_label: Annotated[str, typer.Option(help="What the machine is to be called.")] = "",
    hub: HubUrl = None,
    state_dir: HomeDir = None,
    as_json: AsJson = False,
) -> None:
    """Make one. Its secret goes to stdout, this once."""
    from adsum.access import create_join_token, create_token
    from adsum.outcome import require

    home, good_for = state_dir or context.obj, expires
    if good_for is None:
        good_for = "1h" if join else "90d"
    if join:
        step = "--host-label says what the machine is to be called."
        of_people = name or role is not None or hosts
        require(not of_people, f"--name, --role and --hosts do not go with --join; {step}")
        create_join_token(hub, home, good_for, host_label, reusable=reusable, as_json=as_json)
        return
    require(not (reusable or host_label), "--reusable and --host-label go with --join.")
    if name:
        who = ("viewer" if role is None else role, name, hosts)
        create_token(hub, home, who, good_for, as_json=as_json)
    else:
        raise typer.BadParameter("a token for the API needs --name, one to join by --join")


@tokens_app.command("list")
def tokens_list(
    context: typer.Context,
    hub: HubUrl = None,
    state_dir: HomeDir = None,
    as_json: AsJson = False,
    join: ToJoin = False,
) -> None:
    """Those that are good, and when each was last used."""
    from adsum.access import list_access

    kind = "join-tokens" if join else "tokens"
    list_access(kind, hub, state_dir or context.obj, as_json=as_json)


@tokens_app.command("revoke")
def tokens_revoke(
    context: typer.Context,
    named: Id,
    hub: HubUrl = None,
    state_dir: HomeDir = None,
    join: ToJoin = False,
) -> None:
    """Make one worthless."""
    from adsum.access import revoke

    revoke("join-tokens" if join else "tokens", hub, state_dir or context.obj, named)


@sign_ins_app.command("list")
def sign_ins_list(
    context: typer.Context, hub: HubUrl = None, state_dir: HomeDir = None, as_json: AsJson = False
) -> None:
    """Who is signed in, where, and when they were last here."""
    from adsum.access import list_access

    list_access("sign-ins", hub, state_dir or context.obj, as_json=as_json)


@sign_ins_app.command("revoke")
def sign_ins_revoke(
    context: typer.Context, named: Id, hub: HubUrl = None, state_dir: HomeDir = None
) -> None:
    """Sign a browser out, and close what it has open."""
    from adsum.access import revoke

    revoke("sign-ins", hub, state_dir or context.obj, named)


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
    state_dir: Here = None,
    as_json: Annotated[bool, typer.Option("--json", help="Everything, as JSON.")] = False,
) -> None:
    """What is held, sent, confirmed and missing. Changes nothing."""
    from adsum.collector import show_spool

    show_spool(state_dir or context.obj, as_json=as_json)


@collector_app.command("new-identity")
def renew(context: typer.Context, state_dir: Here = None) -> None:
    """Make a copy of a machine one of its own.

    On the copy, while its collector is stopped.
    """
    from adsum.collector import take_new_identity

    take_new_identity(state_dir or context.obj)


@control_app.callback()
def control(context: typer.Context, state_dir: StateDir = None, as_json: AsText = False) -> None:
    """Let people elsewhere decide what sessions here ask.

    Off unless you say so, here, and for as long as you say.
    """
    context.obj = state_dir
    if context.invoked_subcommand is None:
        from adsum.control import show

        show(state_dir, as_json=as_json)


@control_app.command("approve")
def control_approve(
    context: typer.Context,
    until: Until = None,
    yes: Agreed = False,
    dry_run: OnlyShown = False,
    program: AgentProgram = None,
    state_dir: Here = None,
) -> None:
    """Let them answer what a session itself asks."""
    from adsum.control import Asking, change

    change("approve", Asking(state_dir or context.obj, until, program, yes, dry_run))


@control_app.command("full")
def control_full(
    context: typer.Context,
    until: Until = None,
    yes: Agreed = False,
    dry_run: OnlyShown = False,
    program: AgentProgram = None,
    state_dir: Here = None,
) -> None:
    """Let them prompt and interrupt as well.

    Whoever may prompt may run anything as you.
    """
    from adsum.control import Asking, change

    change("full", Asking(state_dir or context.obj, until, program, yes, dry_run))


@control_app.command("off")
def control_off(
    context: typer.Context,
    dry_run: OnlyShown = False,
    program: AgentProgram = None,
    state_dir: Here = None,
) -> None:
    """Decide everything here again."""
    from adsum.control import Asking, change

    change("off", Asking(state_dir or context.obj, program=program, dry_run=dry_run))


@rules_app.callback()
def control_rules(context: typer.Context, as_json: AsText = False) -> None:
    """The rules by which this machine decides without a person."""
    if context.invoked_subcommand is None:
        from adsum.control import show_rules

        show_rules(as_json=as_json)


@rules_app.command("test")
def control_rules_test(
    context: typer.Context,
    days: Annotated[int, typer.Option(min=1, max=366, help="How far back.")] = 7,
    as_json: AsText = False,
    state_dir: Here = None,
) -> None:
    """Try them on what sessions here did: nothing changes."""
    from adsum.control import try_rules

    try_rules(state_dir or context.obj, days, as_json=as_json)


@control_app.command("trail")
def control_trail(
    context: typer.Context,
    verify: Annotated[bool, typer.Option("--verify", help="Whether it was changed.")] = False,
    since: Annotated[str | None, typer.Option(help="The last 12h or 7d alone.")] = None,
    session: Annotated[str | None, typer.Option(help="Of this one: how its id begins.")] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="For a spreadsheet.")] = False,
    as_json: AsText = False,
    state_dir: Here = None,
) -> None:
    """What was asked, decided, by whom, and what came of it."""
    from adsum.control import TrailWanted, show_trail
    from adsum.outcome import require

    require(not (as_json and as_csv), "--json and --csv exclude each other.")
    part = as_csv or since is not None or session is not None
    require(not (verify and part), "--verify is of the whole: no --since, --session or --csv.")
    form = "csv" if as_csv else "json" if as_json else "text"
    show_trail(state_dir or context.obj, TrailWanted(since, session, form, verify))


@service_app.command("install")
def service_install(
    state_dir: StateDir = None,
    redis_url: RedisUrl = None,
    system: System = False,
    hub: Annotated[bool, typer.Option("--hub", help="A hub too.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the files only.")] = False,
) -> None:
    """Start the collector now and whenever the machine starts. Idempotent."""
    from adsum.service.service import run_install

    run_install(state_dir, redis_url, system=system, hub=hub, dry_run=dry_run)


@service_app.command("remove")
def service_remove(
    system: System = False,
    hub: HubOnly = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Name the files only.")] = False,
) -> None:
    """Stop it and take its files out. What was collected stays."""
    from adsum.service.service import run_remove

    run_remove(system=system, only_hub=hub, dry_run=dry_run)


@service_app.command("status")
def service_status(
    system: System = False,
    hub: HubOnly = False,
    as_json: Annotated[bool, typer.Option("--json", help="The same, as JSON.")] = False,
) -> None:
    """What runs, since when, and what is wrong.

    Exit codes: 0 all well, 1 something does not run or nothing is installed.
    """
    from adsum.service.service import show_status

    raise typer.Exit(show_status(system=system, only_hub=hub, as_json=as_json))


@service_app.command("logs")
def service_logs(
    system: System = False,
    hub: Annotated[bool, typer.Option("--hub", help="The hub's, not the collector's.")] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", min=1, help="How many, the last.")] = 100,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until Ctrl-C.")] = False,
) -> None:
    """What it said: systemd's journal, or the log file under launchd."""
    from adsum.service.service import show_logs

    raise typer.Exit(show_logs(system=system, only_hub=hub, lines=lines, follow=follow))
