"""Has the machine itself start collector and hub: `adsum service`, under systemd or launchd."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from adsum.client import SilentError, readiness
from adsum.config import read_settings
from adsum.doctor.checks import check_collector
from adsum.outcome import CommandError, Exit
from adsum.service.job import (
    BOTH,
    MARK,
    Init,
    Owner,
    PartName,
    UnitFile,
    View,
    environment,
    job_of,
    kept_values,
    owner_of,
    settled,
)
from adsum.text.saying import put, put_json, say
from adsum.text.words import age
from adsum_collector.settings import CollectorSettings
from adsum_collector.state_dir import holder_of, running_port
from adsum_shared.private_files import write_private
from adsum_shared.redact import clean

SCHEMA = 1
#: Where `uvx` keeps what it runs, and throws it away.
_PASSING = "archive-v0"
_UVX = (
    "This adsum was run by uvx, which throws away what it runs, and the service with it. Install it "
    "to stay (docs/start.md), then: adsum service install"
)
#: A part that starts is up long before.
UP_WITHIN_S = 15.0
#: Settings that are no secrets: what is printed lands in tickets.
_SHOWN = "ADSUM_STATE_DIR|ADSUM_COLLECTOR_PORT|ADSUM_HUB_PORT|CLAUDE_CONFIG_DIR|XDG_CONFIG_HOME"


@dataclass(frozen=True, slots=True)
class Installed:
    """files: all there are now, or would be. changed: those that were written."""

    files: tuple[UnitFile, ...]
    changed: tuple[Path, ...]
    notes: tuple[str, ...]


def find_init(*, system: bool) -> Init:
    if sys.platform == "darwin":
        from adsum.service.launchd import Launchd

        return Launchd(system)
    from adsum.service.systemd import Systemd

    return Systemd(system)


def run_install(
    state_dir: Path | None, redis_url: str | None, *, system: bool, hub: bool, dry_run: bool
) -> None:
    """Raises CommandError."""
    if not dry_run:
        find_init(system=system).require()
    with settled(owner_of(system=system), kept_values(system=system)):
        if not _read_here(state_dir, redis_url).redis_url:
            raise CommandError(
                "A service needs to know the broker it reports to. Set ADSUM_REDIS_URL (or "
                "--redis-url), or join a hub; only `adsum up` brings a broker of its own."
            )
    done = install_service(state_dir, redis_url, system=system, hub=hub, dry_run=dry_run)
    if dry_run:
        for file in done.files:
            hidden = re.sub(rf"^(?!{_SHOWN})(\w+)=.*$", r'\1="..."', file.text, flags=re.MULTILINE)
            secret = file.mode == 0o600
            put(f"# {file.path} ({file.mode:o})\n{hidden if secret else file.text}")
        return
    for path in done.changed:
        put(f"wrote {path}")
    for note in done.notes:
        say(note)
    if not _until_up(system=system, hub=hub):
        raise CommandError("It is installed but does not run yet. Next: adsum service status")
    put("It runs, and starts with the machine." if done.changed else "It runs; nothing to change.")


def run_remove(*, system: bool, only_hub: bool, dry_run: bool) -> None:
    if dry_run:
        init = find_init(system=system)
        parts = BOTH[1:] if only_hub else BOTH
        gone = tuple(path for part in parts for path in init.paths(part) if path.is_file())
    else:
        gone = remove_service(system=system, only_hub=only_hub)
    for path in gone:
        put(f"{'would remove' if dry_run else 'removed'} {path}")
    if not gone:
        put("There was nothing to remove.")


def _read_here(state_dir: Path | None, redis_url: str | None) -> CollectorSettings:
    settings = read_settings(CollectorSettings, state_dir=state_dir, redis_url=redis_url)
    return settings.model_copy(update={"state_dir": settings.state_dir.absolute()})


def install_service(
    state_dir: Path | None = None,
    redis_url: str | None = None,
    *,
    system: bool = False,
    hub: bool = False,
    dry_run: bool = False,
    given: Mapping[str, str] | None = None,
) -> Installed:
    """Writes the files and starts what they say, now and with the machine. Idempotent.

    given: further variables for the services, credentials too; they go into a private file.
    Raises NoServiceManagerError where nobody starts services, CommandError for all else; then
    everything is as it was.
    """
    init = find_init(system=system)
    owner = owner_of(system=system)
    kept = kept_values(system=system)
    given = {**({"ADSUM_REDIS_URL": redis_url} if redis_url else {}), **(given or {})}
    parts = BOTH if hub else BOTH[:1]
    with settled(owner, {**kept, **given}):
        settings = _read_here(state_dir, redis_url)
        text = environment(settings, given, kept)
    files = {part: _files(init, part, settings, text, owner) for part in parts}
    every = tuple(file for some in files.values() for file in some)
    if dry_run:
        return Installed(every, (), ())
    _require_root(init, "install")
    init.require()
    _require_ours(file.path for file in every)
    _require_alone(init, settings.state_dir)
    _make_home(settings.state_dir, owner)
    before = {file.path: _held(file.path) for file in every}
    changed = [file for file in every if before[file.path] != (file.text, file.mode)]
    try:
        for file in changed:
            _write(file)
        for part, some in files.items():
            init.start(part, [file.path for file in some if file in changed])
    except (CommandError, OSError, KeyboardInterrupt) as error:
        _undo(init, parts, {file.path: before[file.path] for file in changed})
        if isinstance(error, OSError):
            raise CommandError(
                f"{error.filename} cannot be written: {error.strerror}. Nothing has changed."
            ) from error
        raise
    passing = [_UVX] if any(_PASSING in file.text for file in every) else []
    notes = (*passing, *init.notes(owner))
    return Installed(every, tuple(file.path for file in changed), notes)


def remove_service(
    *, system: bool = False, only_hub: bool = False, only_collector: bool = False
) -> tuple[Path, ...]:
    """Stops the services and takes their files out, which it returns; none: there were none.

    What a collector has collected stays. Raises CommandError.
    """
    init = find_init(system=system)
    gone: list[Path] = []
    for part in BOTH[1:] if only_hub else BOTH[:1] if only_collector else BOTH:
        paths = [path for path in init.paths(part) if path.is_file()]
        if not paths:
            continue
        _require_root(init, "remove")
        _require_ours(paths)
        init.require()
        init.stop(part)
        for path in paths:
            path.unlink(missing_ok=True)
            _tidy(path.parent)
        gone += paths
    if gone:
        init.reread()
    return tuple(gone)


def _files(
    init: Init, part: PartName, settings: CollectorSettings, environment: str, owner: Owner
) -> list[UnitFile]:
    job = job_of(part, settings, owner.name if init.system else None)
    return [UnitFile(job.env_file, environment, 0o600), *init.files(job)]


def _require_root(init: Init, verb: str) -> None:
    if init.system and os.geteuid() != 0:
        raise CommandError(
            f"A service of the whole machine is root's to {verb}. "
            f"Run `sudo adsum service {verb} --system`, or leave --system out."
        )


def _require_ours(paths: Iterable[Path]) -> None:
    for path in paths:
        held = _held(path)
        if held is not None and MARK not in held[0][:400]:
            raise CommandError(
                f"{path} is there already and was not written by Adsum. Move it away, then again."
            )


def _require_alone(init: Init, state_dir: Path) -> None:
    """A collector that somebody started by hand would keep the service from starting."""
    holder = holder_of(state_dir)
    ours = {str(view.pid) for view in init.view("collector") if view.pid}
    if holder is not None and holder.pid not in ours:
        raise CommandError(
            f"A collector runs already on {state_dir} (process {holder.pid}), perhaps by `adsum "
            "up`. Stop it, then install the service."
        )


def _make_home(state_dir: Path, owner: Owner) -> None:
    """A service cannot make it: it may write nowhere else."""
    for folder in (state_dir, state_dir / "logs"):
        missing = [each for each in (folder, *folder.parents) if not each.exists()]
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            for each in missing:
                os.chown(each, owner.uid, owner.gid)
        except OSError as error:
            raise CommandError(
                f"The state directory {state_dir} cannot be made: {error.strerror}. "
                "Choose another with ADSUM_STATE_DIR.",
                Exit.USAGE,
            ) from error


def _held(path: Path) -> tuple[str, int] | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace"), path.stat().st_mode & 0o777
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CommandError(f"{path} cannot be read: {error.strerror}.") from error


def _write(file: UnitFile) -> None:
    """All of it or nothing, and never readable by others for a moment."""
    file.path.parent.mkdir(parents=True, exist_ok=True)
    write_private(file.path, file.text.encode(), mode=file.mode)


def _undo(
    init: Init, parts: Iterable[PartName], before: Mapping[Path, tuple[str, int] | None]
) -> None:
    """As it was: also a service that was there, with its former files."""
    try:
        for part in parts:
            if any(before.get(path, ("", 0)) is None for path in init.paths(part)):
                init.stop(part)
        for path, held in before.items():
            if held is None:
                path.unlink(missing_ok=True)
                _tidy(path.parent)
            else:
                _write(UnitFile(path, *held))
        for part in parts:
            kept = [path for path in init.paths(part) if before.get(path)]
            if kept:
                init.start(part, kept)
        init.reread()
    except (CommandError, OSError):
        return  # what went wrong first is what has to be said


def _tidy(folder: Path) -> None:
    """Empty folders that an install makes; never those of the whole machine."""
    while folder.name in {"user", "systemd", "adsum"} and folder != Path("/etc/systemd"):
        try:
            folder.rmdir()
        except OSError:  # something else is in it
            return
        folder = folder.parent


def show_status(*, system: bool, only_hub: bool, as_json: bool = False) -> Exit:
    """ERROR if anything that should run does not, or nothing is installed."""
    init = find_init(system=system)
    parts = _installed(init, only_hub=only_hub)
    init.require()
    views = [view for part in parts for view in init.view(part)]
    wrong = [clean(each) for each in _wrong(init, parts, views)]
    if as_json:
        units = [each.as_json() for each in views]
        put_json({"schema": SCHEMA, "installed": bool(parts), "units": units, "wrong": wrong})
    elif not parts:
        what = "The hub is" if only_hub else "Adsum is"
        flags = " --system" * system + " --hub" * only_hub
        _out(f"{what} not installed as a service. Next: adsum service install{flags}")
    else:
        lines = [*map(_line, views), *(f"  ! {each}" for each in wrong)]
        _out("\n".join([*lines, *(f"  {each}" for each in init.notes(owner_of(system=system)))]))
    return Exit.ERROR if wrong or not parts else Exit.OK


def _wrong(init: Init, parts: list[PartName], views: list[View]) -> list[str]:
    wrong = [sentence for view in views for sentence in view.wrong]
    wrong += [sentence for part in parts for sentence in _wrong_files(init.paths(part))]
    if "collector" in parts and not wrong:
        wrong += _wrong_inside(init)
    return wrong


def show_logs(*, system: bool, only_hub: bool, lines: int, follow: bool) -> int:
    init = find_init(system=system)
    part: PartName = "hub" if only_hub else "collector"
    if not _installed(init, only_hub=only_hub):
        raise CommandError("Adsum is not installed as a service. Next: adsum service install")
    command = init.log_command(part, lines, follow=follow)
    try:
        code = subprocess.call(command)  # noqa: S603 - our own words, no shell
    except FileNotFoundError as error:
        raise CommandError(f"There is no {command[0]} on PATH to read the log with.") from error
    if code:
        raise CommandError(
            f"`{' '.join(command)}` ended with {code}. Run it with sudo if you may not read the log."
        )
    return int(Exit.OK)


def _until_up(*, system: bool, hub: bool) -> bool:
    """Whether all of it runs soon. At once where something has failed for good."""
    init = find_init(system=system)
    deadline = time.monotonic() + UP_WITHIN_S
    while True:
        views = [view for part in (BOTH if hub else BOTH[:1]) for view in init.view(part)]
        if all(view.since is not None for view in views) and _answers(init):
            return True
        if any(view.state == "failed" for view in views) or time.monotonic() > deadline:
            return False
        time.sleep(0.2)


def _answers(init: Init) -> bool:
    state_dir = _state_dir(init)
    port = running_port(state_dir) if state_dir else None
    try:
        return port is not None and bool(readiness(f"http://127.0.0.1:{port}"))
    except SilentError:
        return False


def _installed(init: Init, *, only_hub: bool) -> list[PartName]:
    parts = BOTH[1:] if only_hub else BOTH
    return [part for part in parts if any(path.is_file() for path in init.paths(part))]


def _wrong_inside(init: Init) -> list[str]:
    """What the collector says of itself."""
    state_dir = _state_dir(init)
    if state_dir is None:
        return []
    check = check_collector(state_dir)
    if check.result == "ok":
        return []
    fix = check.fix if check.fix and "adsum up" not in check.fix else None
    return [f"{check.what} {fix or 'Look at: adsum service logs'}"]


def _state_dir(init: Init) -> Path | None:
    """As the service was told; None where only root may read that."""
    told = kept_values(system=init.system).get("ADSUM_STATE_DIR")
    return Path(told) if told else None


def _wrong_files(paths: Iterable[Path]) -> list[str]:
    wrong = []
    for path in paths:
        if not path.is_file():
            wrong.append(f"{path} is gone. Next: adsum service install")
        elif path.suffix == ".env" and path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            wrong.append(
                f"{path} may hold credentials and others can read it. Run `chmod 600 {path}`."
            )
        elif path.suffix == ".service":
            wrong += _wrong_program(path)
    return wrong


def _wrong_program(unit: Path) -> list[str]:
    """The commonest end of a service: its Python is gone with an upgrade."""
    found = re.search(r'^ExecStart="?(.+?)"? -P ', unit.read_text(encoding="utf-8"), re.MULTILINE)
    if found is None:
        return []
    program = found[1].replace("%%", "%").replace("$$", "$").replace("\\", "")
    if Path(program).exists():
        return []
    return [f"The program it starts, {program}, is gone. Next: adsum service install"]


def _line(view: View) -> str:
    words = [f"{view.unit:<25}", f"{view.state:<10}"]
    if view.since is not None:
        at = datetime.fromtimestamp(time.time() - view.since).astimezone()
        words.append(f"since {at:%Y-%m-%d %H:%M:%S} ({age(int(view.since * 1000))})")
    more = [f"process {view.pid}"] if view.pid else []
    more += view.notes
    return " ".join((*words, ", ".join(more))).rstrip()


def _out(text: str) -> None:
    say(text, sys.stdout)
