"""Has the machine itself start collector and hub: `adsum service`, under systemd or launchd."""

import contextlib
import os
import pwd
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from adsum.client import SilentError, readiness
from adsum.config import read_settings
from adsum.doctor.checks import check_collector
from adsum.machine import membership
from adsum.outcome import CommandError, Exit, put, put_json, say
from adsum.service.inits import Launchd, Systemd
from adsum.service.job import (
    BOTH,
    MARK,
    Files,
    Init,
    PartName,
    View,
    carried_names,
    environment,
    job_of,
    kept_values,
    owner_of,
    settled,
)
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
_SHOWN = ("ADSUM_STATE_DIR", "ADSUM_COLLECTOR_PORT", "ADSUM_HUB_PORT")


@dataclass(frozen=True, slots=True)
class Installed:
    """files: all there are now, or would be. changed: those that were written."""

    files: Files
    changed: tuple[Path, ...]
    notes: tuple[str, ...]


def find_init(*, system: bool) -> Init:
    return (Launchd if sys.platform == "darwin" else Systemd)(system)


def run_install(
    state_dir: Path | None, redis_url: str | None, *, system: bool, hub: bool, dry_run: bool
) -> None:
    """Raises CommandError."""
    done = install_service(state_dir, redis_url, system=system, hub=hub, dry_run=dry_run)
    if dry_run:
        shown = "|".join((*_SHOWN, *carried_names()))
        for path, (text, mode) in done.files.items():
            hidden = re.sub(rf"^(?!{shown})(\w+)=.*$", r'\1="..."', text, flags=re.MULTILINE)
            put(f"# {path} ({mode:o})\n{hidden if mode == 0o600 else text}")
        return
    for path in done.changed:
        put(f"wrote {path}")
    for note in done.notes:
        say(note)
    if not _until_up(find_init(system=system), BOTH if hub else BOTH[:1]):
        raise CommandError("It is installed but does not run yet. Next: adsum service status")
    put("It runs, and starts with the machine." if done.changed else "It runs; nothing to change.")


def run_remove(*, system: bool, only_hub: bool, dry_run: bool) -> None:
    gone = remove_service(BOTH[1:] if only_hub else BOTH, system=system, dry_run=dry_run)
    for path in gone:
        put(f"{'would remove' if dry_run else 'removed'} {path}")
    if not gone:
        put("There was nothing to remove.")


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
    init, owner = find_init(system=system), owner_of(system=system)
    if not dry_run:
        _require_root(init, "install")
        init.require()
    kept = kept_values(system=system)
    given = {**({"ADSUM_REDIS_URL": redis_url} if redis_url else {}), **(given or {})}
    parts = BOTH if hub else BOTH[:1]
    with settled(owner, {**kept, **given}):
        settings = read_settings(CollectorSettings, state_dir=state_dir, redis_url=redis_url)
        home = settings.state_dir.absolute()
        settings = settings.model_copy(update={"state_dir": home})
        text = environment(settings, given, kept)
    # A machine that has joined has a way of its own, which no hub can use.
    if not settings.redis_url and (hub or membership(home) is None):
        raise CommandError(
            "A service needs to know the broker it reports to. Set ADSUM_REDIS_URL (or "
            "--redis-url), or join a hub; only `adsum up` brings a broker of its own."
        )
    files: Files = {}
    for part in parts:
        job = job_of(part, settings, owner.pw_name if system else None)
        files[job.env_file] = (text, 0o600)
        units = zip(init.units(part), init.texts(job), strict=True)
        files |= {path: (unit, 0o644) for path, unit in units}
    if dry_run:
        return Installed(files, (), ())
    _require_alone(init, home)
    _make_home(home, owner)
    changed = _write_and_start(init, parts, files)
    passing = [_UVX] if any(_PASSING in text for text, _ in files.values()) else []
    return Installed(files, changed, (*passing, *init.notes(owner.pw_name)))


def _write_and_start(init: Init, parts: Sequence[PartName], files: Files) -> tuple[Path, ...]:
    """The files that were not so before. Raises CommandError; then everything is as it was."""
    before = {path: _held(path) for path in files}
    changed = [path for path, file in files.items() if before[path] != file]
    try:
        for path in changed:
            _write(path, *files[path])
        for part in parts:
            init.start(part, [path for path in init.paths(part) if path in changed])
    except (CommandError, OSError, KeyboardInterrupt) as error:
        # What went wrong first is what has to be said.
        with contextlib.suppress(CommandError, OSError):
            _undo(init, parts, {path: before[path] for path in changed})
        if isinstance(error, OSError):
            raise CommandError(
                f"{error.filename} cannot be written: {error.strerror}. Nothing has changed."
            ) from error
        raise
    return tuple(changed)


def remove_service(
    parts: Iterable[PartName] = BOTH, *, system: bool = False, dry_run: bool = False
) -> tuple[Path, ...]:
    """Stops the services and takes their files out, which it returns; none: there were none.

    What a collector has collected stays. Raises CommandError.
    """
    init = find_init(system=system)
    gone: list[Path] = []
    for part in parts:
        paths = [path for path in init.paths(part) if path.is_file()]
        gone += paths
        if not paths or dry_run:
            continue
        _require_root(init, "remove")
        for path in paths:
            _held(path)  # raises for what is somebody else's
        init.require()
        init.stop(part)
        for path in paths:
            _unlink(path)
    if gone and not dry_run:
        init.reread()
    return tuple(gone)


def _require_root(init: Init, verb: str) -> None:
    if init.system and os.geteuid() != 0:
        raise CommandError(
            f"A service of the whole machine is root's to {verb}. "
            f"Run `sudo adsum service {verb} --system`, or leave --system out."
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


def _make_home(state_dir: Path, owner: pwd.struct_passwd) -> None:
    """A service cannot make it: it may write nowhere else."""
    logs = state_dir / "logs"
    missing = [each for each in (logs, *logs.parents) if not each.exists()]
    try:
        for each in reversed(missing):
            each.mkdir(mode=0o700 if each.is_relative_to(state_dir) else 0o777)
            os.chown(each, owner.pw_uid, owner.pw_gid)
    except OSError as error:
        raise CommandError(
            f"The state directory {state_dir} cannot be made: {error.strerror}. "
            "Choose another with ADSUM_STATE_DIR.",
            Exit.USAGE,
        ) from error


def _held(path: Path) -> tuple[str, int] | None:
    """What stands there, None if nothing. Raises CommandError for a file that we did not write."""
    try:
        text, mode = path.read_text(encoding="utf-8", errors="replace"), path.stat().st_mode & 0o777
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CommandError(f"{path} cannot be read: {error.strerror}.") from error
    if MARK not in text[:400]:
        raise CommandError(
            f"{path} is there already and was not written by Adsum. Move it away, then again."
        )
    return text, mode


def _write(path: Path, text: str, mode: int) -> None:
    """All of it or nothing, and never readable by others for a moment."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_private(path, text.encode(), mode=mode)


def _undo(
    init: Init, parts: Iterable[PartName], before: Mapping[Path, tuple[str, int] | None]
) -> None:
    """As it was: also a service that was there, with its former files."""
    for part in parts:
        if any(path in before and before[path] is None for path in init.paths(part)):
            init.stop(part)
    for path, held in before.items():
        if held is None:
            _unlink(path)
        else:
            _write(path, *held)
    for part in parts:
        if kept := [path for path in init.paths(part) if before.get(path)]:
            init.start(part, kept)
    init.reread()


def _unlink(path: Path) -> None:
    """With the folders that an install makes, if empty; never those of the whole machine."""
    path.unlink(missing_ok=True)
    folder = path.parent
    with contextlib.suppress(OSError):  # something else is in it
        while folder.name in {"user", "systemd", "adsum"} and folder != Path("/etc/systemd"):
            folder.rmdir()
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
        say(f"{what} not installed as a service. Next: adsum service install{flags}", sys.stdout)
    else:
        lines = [*map(_line, views), *(f"  ! {each}" for each in wrong)]
        lines += [f"  {each}" for each in init.notes(owner_of(system=system).pw_name)]
        say("\n".join(lines), sys.stdout)
    return Exit.ERROR if wrong or not parts else Exit.OK


def show_logs(*, system: bool, only_hub: bool, lines: int, follow: bool) -> int:
    init = find_init(system=system)
    if not _installed(init, only_hub=only_hub):
        raise CommandError("Adsum is not installed as a service. Next: adsum service install")
    command = init.log_command("hub" if only_hub else "collector", lines, follow=follow)
    try:
        code = subprocess.call(command)  # noqa: S603 - our own words, no shell
    except FileNotFoundError as error:
        raise CommandError(f"There is no {command[0]} on PATH to read the log with.") from error
    if code:
        raise CommandError(
            f"`{' '.join(command)}` ended with {code}. Run it with sudo if you may not read the log."
        )
    return int(Exit.OK)


def _until_up(init: Init, parts: Iterable[PartName]) -> bool:
    """Whether all of it runs soon. At once where something has failed for good."""
    deadline = time.monotonic() + UP_WITHIN_S
    while True:
        views = [view for part in parts for view in init.view(part)]
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


def _state_dir(init: Init) -> Path | None:
    """As the service was told; None where only root may read that."""
    told = kept_values(system=init.system).get("ADSUM_STATE_DIR")
    return Path(told) if told else None


def _wrong(init: Init, parts: list[PartName], views: list[View]) -> list[str]:
    """What the service manager, the files and, if nothing else is wrong, the collector say."""
    wrong = [sentence for view in views for sentence in view.wrong]
    wrong += [sentence for part in parts for path in init.paths(part) for sentence in _amiss(path)]
    if wrong or "collector" not in parts or (state_dir := _state_dir(init)) is None:
        return wrong
    check = check_collector(state_dir)
    if check.result == "ok":
        return []
    fix = check.fix if check.fix and "adsum up" not in check.fix else None
    return [f"{check.what} {fix or 'Look at: adsum service logs'}"]


def _amiss(path: Path) -> Iterator[str]:
    if not path.is_file():
        yield f"{path} is gone. Next: adsum service install"
    elif path.suffix == ".env" and path.stat().st_mode & 0o077:
        yield f"{path} may hold credentials and others can read it. Run `chmod 600 {path}`."
    elif path.suffix == ".service":
        # The commonest end of a service: its Python is gone with an upgrade.
        text = path.read_text(encoding="utf-8")
        if found := re.search(r'^ExecStart="?(.+?)"? -P ', text, re.MULTILINE):
            program = found[1].replace("%%", "%").replace("$$", "$").replace("\\", "")
            if not Path(program).exists():
                yield f"The program it starts, {program}, is gone. Next: adsum service install"


def _line(view: View) -> str:
    words = [f"{view.unit:<25}", f"{view.state:<10}"]
    if view.since is not None:
        at = datetime.fromtimestamp(time.time() - view.since).astimezone()
        words.append(f"since {at:%Y-%m-%d %H:%M:%S} ({age(int(view.since * 1000))})")
    more = [f"process {view.pid}"] if view.pid else []
    return " ".join((*words, ", ".join((*more, *view.notes)))).rstrip()
