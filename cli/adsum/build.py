"""Finds the commit that this program was built from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

#: Written into wheel and sdist by cli/build_hook.py. A checkout has none and asks git instead.
BUILD_FILE = "build.json"


class Build(NamedTuple):
    #: The first 12 digits, and `-modified` if tracked files differ from the commit.
    commit: str
    #: Day of the commit in UTC, and not of the build: the same commit makes the same wheel.
    date: str


def build_of(package: Path) -> Build | None:
    """Return the build of the package in this folder, or None if neither file nor git names one."""
    file = package / BUILD_FILE
    if file.exists():
        return Build(**json.loads(file.read_text("utf-8")))
    return git_build(package.parent.parent)


def git_build(checkout: Path) -> Build | None:
    """Return the commit that is checked out, or None where the folder is no checkout or git fails.

    Only a `.git` in this folder counts. A repository further up is another project.
    """
    if not (checkout / ".git").exists():
        return None
    commit = _git(
        checkout, "describe", "--always", "--dirty=-modified", "--abbrev=12", "--exclude=*"
    )
    date = _git(checkout, "log", "-1", "--format=%cd", "--date=format-local:%Y-%m-%d")
    return Build(commit, date) if commit and date else None


def _git(checkout: Path, *words: str) -> str:
    """Return what git prints, or an empty text if there is no git or it fails."""
    import os
    import subprocess

    try:
        result = subprocess.run(  # noqa: S603 - our own words, no shell
            ["git", "--no-optional-locks", "-C", str(checkout), *words],  # noqa: S607 - the user's own git
            env=os.environ | {"TZ": "UTC"},
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError:
        return ""
    return result.stdout.strip() if result.returncode == 0 else ""


def version_line() -> str:
    """Return what `adsum --version` prints."""
    from adsum_shared import __version__

    build = build_of(Path(__file__).parent)
    return (
        f"adsum {__version__} ({build.commit}, {build.date})" if build else f"adsum {__version__}"
    )
