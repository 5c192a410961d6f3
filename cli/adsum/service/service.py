"""`adsum service install|remove`: collector and hub started by the machine itself."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from adsum.outcome import CommandError, Exit
from adsum.service.init import Init
from adsum.service.job import (
    File,
    Owner,
    environment,
    job_of,
    kept_values,
    owner_of,
    read_here,
    settled,
)
from adsum.service.units import MARK, PartName
from adsum_collector.settings import CollectorSettings
from adsum_collector.state_dir import holder_of
from adsum_shared.private_files import write_private

BOTH: tuple[PartName, ...] = ("collector", "hub")
#: Where `uvx` keeps what it runs, and throws it away.
_PASSING = "archive-v0"


@dataclass(frozen=True, slots=True)
class Installed:
    """files: all there are now, or would be. changed: those that were written."""

    files: tuple[File, ...]
    changed: tuple[Path, ...]
    notes: tuple[str, ...]


def find_init(*, system: bool) -> Init:
    if sys.platform == "darwin":
        from adsum.service.launchd import Launchd

        return Launchd(system)
    from adsum.service.systemd import Systemd

    return Systemd(system)


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
        settings = read_here(state_dir, redis_url)
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
    notes = (*_passing(files[parts[0]]), *init.notes(owner))
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
) -> list[File]:
    job = job_of(part, settings, owner.name if init.system else None)
    return [File(job.env_file, environment, 0o600), *init.files(job)]


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


def _write(file: File) -> None:
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
                _write(File(path, *held))
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


def _passing(files: Iterable[File]) -> list[str]:
    if not any(_PASSING in file.text for file in files):
        return []
    return [
        "This adsum was run by uvx, which throws away what it runs, and the service with it. "
        "Install it to stay (docs/start.md), then: adsum service install"
    ]
