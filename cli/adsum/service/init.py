"""What `adsum service` asks of a service manager, and what it says when there is none."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from adsum.outcome import CommandError
from adsum.service.job import File, Owner
from adsum.service.units import Job, PartName

PATIENCE_S = 60.0


class NoServiceManagerError(CommandError):
    """Nobody here starts services. Everything else about the machine may be well. why: the cause."""

    def __init__(self, why: str) -> None:
        super().__init__(f"{why} {by_hand()}")
        self.why = why


@dataclass(frozen=True, slots=True)
class View:
    """One unit as the service manager has it.

    since: seconds it has been so, None if it is not up. wrong: sentences with their next step;
    notes: what is no fault.
    """

    unit: str
    state: str
    since: float | None = None
    pid: int = 0
    wrong: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class Init(Protocol):
    """systemd or launchd, of the system or of one user."""

    @property
    def system(self) -> bool: ...
    def require(self) -> None:
        """Raises NoServiceManagerError."""

    def files(self, job: Job) -> list[File]: ...
    def paths(self, part: PartName) -> list[Path]: ...
    def start(self, part: PartName, changed: Collection[Path]) -> None:
        """Now and whenever the machine starts; anew if files changed. Raises CommandError."""

    def stop(self, part: PartName) -> None: ...
    def reread(self) -> None:
        """After files have come or gone."""

    def view(self, part: PartName) -> list[View]: ...
    def notes(self, owner: Owner) -> list[str]:
        """What else decides whether it runs, as sentences with their next step."""

    def log_command(self, part: PartName, lines: int, *, follow: bool) -> list[str]: ...


def call(
    command: Sequence[str], env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Raises FileNotFoundError if there is no such program, CommandError if it hangs."""
    try:
        return subprocess.run(  # noqa: S603 - our own words, no shell
            command,
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=PATIENCE_S,
        )
    except subprocess.TimeoutExpired as error:
        raise CommandError(
            f"`{' '.join(command)}` has not ended within {PATIENCE_S:.0f} s. Run it yourself to see "
            "what it waits for."
        ) from error


def said(ended: subprocess.CompletedProcess[str]) -> str:
    """The last line of what a program complained of; the code it ended with, if of nothing."""
    lines = (ended.stderr or ended.stdout).strip().splitlines()
    return lines[-1].strip().removesuffix(".") if lines else f"exit code {ended.returncode}"


def by_hand(part: PartName = "collector") -> str:
    """How to do without."""
    return (
        f"Without a service, start it yourself, and again after every restart of the machine:\n"
        f"  nohup adsum {part} >> ~/adsum-{part}.log 2>&1 &"
    )


def why_none(told: str, proc_version: str, environ: Mapping[str, str]) -> str:
    """The cause and the next step, for a Linux whose systemd does not answer."""
    if "microsoft" in proc_version.lower():
        return (
            "This WSL runs without systemd. Put `[boot]` and, under it, `systemd=true` into "
            "/etc/wsl.conf, then run `wsl --shutdown` in Windows and install again."
        )
    if Path("/.dockerenv").exists() or Path("/run/.containerenv").exists():
        return "This is a container, where nobody starts services."
    if "not been booted" in told or not told:
        return f"This machine runs without systemd ({told or 'no systemctl on PATH'})."
    if environ.get("SUDO_UID"):
        return (
            f"systemd cannot be asked for the services of this account ({told}): you are here by "
            "sudo. Run it without sudo, or with --system for a service of the whole machine."
        )
    return (
        f"systemd cannot be asked for your services ({told}). Log in as yourself (by ssh or at the "
        "console, not by su), or install with `sudo adsum service install --system`."
    )
