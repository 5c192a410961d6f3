"""What a service will run and where its files lie, from the settings of whoever installs it."""

from __future__ import annotations

import os
import pwd
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from platformdirs import user_config_path

from adsum.config import read_settings
from adsum.outcome import CommandError, Exit
from adsum.service.units import SOCKET_PATH_MOST, Job, PartName, env_text, env_values
from adsum_collector.settings import CollectorSettings
from adsum_shared.settings import KNOWN

SHARED_TMP = (Path("/tmp"), Path("/var/tmp"))  # noqa: S108 - looked for, not written to
_CARRIED = ("CLAUDE_CONFIG_DIR", "XDG_CONFIG_HOME")


@dataclass(frozen=True, slots=True)
class File:
    path: Path
    text: str
    mode: int = 0o644


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose service it is. home: where that account's settings and sessions lie."""

    name: str
    uid: int
    gid: int
    home: Path


def owner_of(*, system: bool, environ: Mapping[str, str] = os.environ) -> Owner:
    """Ourselves; for a system service who called sudo, whose sessions it is to see."""
    caller = environ.get("SUDO_UID", "") if system and os.geteuid() == 0 else ""
    entry = pwd.getpwuid(int(caller) if caller.isdecimal() else os.getuid())
    home = Path(entry.pw_dir) if caller else Path.home()
    return Owner(entry.pw_name, entry.pw_uid, entry.pw_gid, home)


@contextmanager
def settled(owner: Owner, kept: Mapping[str, str]) -> Iterator[None]:
    """Settings as that account has them, and as an earlier install was told them.

    sudo leaves root's HOME, and then root's settings would be read.
    """
    before = dict(os.environ)
    try:
        if owner.uid != os.getuid():
            for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME"):
                os.environ.pop(name, None)
            os.environ["HOME"] = str(owner.home)
        for name, value in kept.items():
            os.environ.setdefault(name, value)
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def kept_values(*, system: bool) -> dict[str, str]:
    """What an earlier install was told: an upgrade from another terminal must not forget it."""
    try:
        return env_values(env_file("collector", system=system).read_text(encoding="utf-8"))
    except OSError:
        return {}


def env_folder(*, system: bool) -> Path:
    return Path("/etc/adsum") if system else user_config_path("adsum")


def env_file(part: PartName, *, system: bool) -> Path:
    return env_folder(system=system) / f"{part}.env"


def read_here(state_dir: Path | None, redis_url: str | None) -> CollectorSettings:
    settings = read_settings(CollectorSettings, state_dir=state_dir, redis_url=redis_url)
    return settings.model_copy(update={"state_dir": settings.state_dir.absolute()})


def job_of(part: PartName, settings: CollectorSettings, account: str | None) -> Job:
    """Raises CommandError for a directory that a service cannot use."""
    state_dir = settings.state_dir
    job = Job(
        part,
        Path(sys.executable),
        state_dir,
        env_file(part, system=account is not None),
        account,
        settings.collector_port,
        any(map(_in_tmp, _needed(settings))),
    )
    if part == "collector":
        _require_doors(job)
    for path in (job.python, job.state_dir, job.env_file):
        if not str(path).isprintable():
            raise CommandError(f"{str(path)!r} cannot stand in a service's file. Rename it.")
    return job


def environment(
    settings: CollectorSettings, given: Mapping[str, str], kept: Mapping[str, str]
) -> str:
    """What this terminal says and a service manager would not know. Raises CommandError."""
    names = {f"ADSUM_{name.upper()}" for name in KNOWN}
    carried = {name: os.environ[name] for name in names.union(_CARRIED) if os.environ.get(name)}
    told = {"ADSUM_STATE_DIR": str(settings.state_dir)}
    try:
        return env_text({**kept, **carried, **told, **given})
    except ValueError as error:
        raise CommandError(f"A setting cannot be handed to a service: {error}.") from error


def _require_doors(job: Job) -> None:
    if job.port == 0:
        raise CommandError(
            "A service needs a fixed port, which hooks must find. Set ADSUM_COLLECTOR_PORT to it, "
            "or leave it out.",
            Exit.USAGE,
        )
    if len(os.fsencode(job.socket)) > SOCKET_PATH_MOST:
        raise CommandError(
            f"{job.socket} is longer than the {SOCKET_PATH_MOST} bytes that the path of a socket "
            "may have. Choose a shorter ADSUM_STATE_DIR.",
            Exit.USAGE,
        )


def _needed(settings: CollectorSettings) -> Iterator[Path]:
    """What it reads, writes or runs."""
    yield Path(sys.executable)
    yield settings.state_dir
    yield from settings.claude_dirs
    url = urlsplit(settings.redis_url or "")
    if url.scheme == "unix":
        yield Path(unquote(url.path))
    if settings.redis_ca is not None:
        yield settings.redis_ca


def _in_tmp(path: Path) -> bool:
    return any(path.is_relative_to(folder) for folder in SHARED_TMP)
