"""Finds an agent's program on this machine, and asks it for its version."""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from adsum_collector.agents.installer import ProgramNotFoundError, Version

_VERSION = re.compile(r"\b(\d+)\.(\d+)\.(\d+)\b")
#: Where installers put programs, beside PATH: a service or a cron job has a short PATH.
_FOLDERS = (".local/bin", ".npm-global/bin", ".bun/bin", ".volta/bin")
_SHARED_FOLDERS = (Path("/usr/local/bin"), Path("/opt/homebrew/bin"))


def find_program(name: str, env: Mapping[str, str], home: Path, *more: Path) -> Path | None:
    """more: where it may be as well."""
    if on_path := shutil.which(name, path=env.get("PATH", "")):
        return Path(on_path)
    places = [home / folder / name for folder in _FOLDERS]
    places += [*more, *(folder / name for folder in _SHARED_FOLDERS)]
    return next((place for place in places if os.access(place, os.X_OK)), None)


def version_of(program: Path, timeout_s: float = 10.0) -> Version | None:
    """None when the program does not answer as an agent does."""
    try:
        answer = subprocess.run(  # noqa: S603 - the user's own program, no shell
            [program, "--version"],
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=timeout_s,
            env={**os.environ, "DISABLE_AUTOUPDATER": "1"},
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _VERSION.search(answer.stdout)
    if answer.returncode or not found:
        return None
    return tuple(int(number) for number in found.groups())


def installed_version(
    chosen: Path | None, found: Path | None, name: str, title: str
) -> tuple[Version | None, Path | None]:
    """(version, program), see `Installer.program`. found: the one to take unless another was chosen."""
    program = chosen or found
    version = version_of(program) if program else None
    if chosen and version is None:
        raise ProgramNotFoundError(
            f"{chosen} does not answer `--version` as {title} does. {name_it(name)}"
        )
    return version, program


def name_it(name: str) -> str:
    return f"Give --claude the path of the `{name}` program."
