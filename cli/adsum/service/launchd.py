"""Services under launchd, which holds no socket for us: a restart refuses hooks meanwhile."""

from __future__ import annotations

import os
import plistlib
import re
import subprocess
import time
from collections.abc import Collection
from pathlib import Path
from typing import Any

import psutil

from adsum.outcome import CommandError
from adsum.service.job import (
    MARK,
    Job,
    NoServiceManagerError,
    Owner,
    PartName,
    UnitFile,
    View,
    call,
    env_file,
    said,
)

#: Read by a shell, so that the values stand in a private file and not in the plist.
SOURCE = 'set -a; . "$0"; exec "$@"'
#: What was booted out goes in its own time, and until then cannot come back.
GOING_S = 10.0


class Launchd:
    def __init__(self, system: bool) -> None:  # noqa: FBT001 - of the system, or of a user
        self.system = system

    @property
    def folder(self) -> Path:
        root = Path("/") if self.system else Path.home()
        return root / "Library" / ("LaunchDaemons" if self.system else "LaunchAgents")

    @property
    def _domain(self) -> str:
        if self.system:
            return "system"
        # Over ssh alone nobody has a screen, and the domain of one does not exist.
        screen = f"gui/{os.getuid()}"
        return screen if self._ask("print", screen).returncode == 0 else f"user/{os.getuid()}"

    def require(self) -> None:
        try:
            self._ask("version")
        except FileNotFoundError:
            raise NoServiceManagerError("There is no launchctl on PATH.") from None

    def files(self, job: Job) -> list[UnitFile]:
        log = job.state_dir / "logs" / f"{job.part}.log"
        return [UnitFile(self._plist(job.part), plist(job, _label(job.part), log))]

    def paths(self, part: PartName) -> list[Path]:
        return [env_file(part, system=self.system), self._plist(part)]

    def start(self, part: PartName, changed: Collection[Path]) -> None:
        name = f"{self._domain}/{_label(part)}"
        loaded = self._ask("print", name).returncode == 0
        if loaded and not changed:
            return
        self._ask("enable", name)
        if loaded:
            self._ask("bootout", name)
        deadline = time.monotonic() + GOING_S
        while (ended := self._ask("bootstrap", self._domain, str(self._plist(part)))).returncode:
            if time.monotonic() > deadline:
                raise CommandError(
                    f"launchd refuses the service: {said(ended)}. See `launchctl print {name}` and "
                    "`adsum service logs`."
                )
            time.sleep(0.2)

    def stop(self, part: PartName) -> None:
        name = f"{self._domain}/{_label(part)}"
        if self._ask("print", name).returncode == 0:
            self._ask("bootout", name)

    def reread(self) -> None:
        """Launchd reads a file when it is told to start what stands in it."""

    def view(self, part: PartName) -> list[View]:
        unit = _label(part)
        if not self._plist(part).exists():
            return [View(unit, "not installed")]
        ended = self._ask("print", f"{self._domain}/{unit}")
        if ended.returncode:
            return [
                View(unit, "off", wrong=(f"{unit} is not loaded. Next: adsum service install",))
            ]
        told = dict(re.findall(r"^\t([a-z ]+) = (.+)$", ended.stdout, re.MULTILINE))
        pid = int(told.get("pid", 0))
        state = told.get("state", "unknown")
        if not pid:
            code = told.get("last exit code", "unknown")
            wrong = f"{unit} does not run (last exit code {code}). Look at: adsum service logs"
            return [View(unit, state, wrong=(wrong,))]
        runs = int(told.get("runs", 1))
        notes = (f"restarted {runs - 1} times",) if runs > 1 else ()
        return [View(unit, state, _age(pid), pid, notes=notes)]

    def notes(self, owner: Owner) -> list[str]:
        del owner
        if self.system or not self._domain.startswith("gui/"):
            return []
        return ["It runs while you are logged in at the screen; --system runs it always."]

    def log_command(self, part: PartName, lines: int, *, follow: bool) -> list[str]:
        log = plistlib.loads(self._plist(part).read_bytes())["StandardOutPath"]
        return ["tail", "-n", str(lines), *(["-F"] if follow else []), str(log)]

    def _plist(self, part: PartName) -> Path:
        return self.folder / f"{_label(part)}.plist"

    def _ask(self, *words: str) -> subprocess.CompletedProcess[str]:
        return call(["launchctl", *words])


def _label(part: PartName) -> str:
    return f"adsum.{part}"


def _age(pid: int) -> float | None:
    try:
        return time.time() - psutil.Process(pid).create_time()
    except psutil.Error:
        return None


def plist(job: Job, label: str, log: Path) -> str:
    """Launchd's own socket activation is another interface; without it a restart refuses hooks."""
    held: dict[str, Any] = {
        "Label": label,
        "ProgramArguments": ["/bin/sh", "-c", SOURCE, str(job.env_file), *job.command],
        "RunAtLoad": True,
        "KeepAlive": True,
        "ThrottleInterval": 1,  # launchd's own is 10 s
        "SoftResourceLimits": {"NumberOfFiles": 4096},  # its own is 256, fewer than connections
        "StandardOutPath": str(log),
        "StandardErrorPath": str(log),
        "Umask": 0o077,
        **({"Nice": 5} if job.part == "hub" else {}),
        **({"UserName": job.account} if job.account else {}),
    }
    text = plistlib.dumps(held, sort_keys=False).decode()
    head, declared, rest = text.partition("?>\n")
    return f"{head}{declared}<!-- {MARK} -->\n{rest}"
