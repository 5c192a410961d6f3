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
from adsum.service.job import MARK, Init, Job, NoServiceManagerError, PartName, View, call, said

#: Read by a shell, so that the values stand in a private file and not in the plist.
SOURCE = 'set -a; . "$0"; exec "$@"'
#: What was booted out goes in its own time, and until then cannot come back.
GOING_S = 10.0


class Launchd(Init):
    def require(self) -> None:
        try:
            _launchctl("version")
        except FileNotFoundError:
            raise NoServiceManagerError("There is no launchctl on PATH.") from None

    def units(self, part: PartName) -> list[Path]:
        if self.system:
            return [Path(f"/Library/LaunchDaemons/adsum.{part}.plist")]
        return [Path.home() / f"Library/LaunchAgents/adsum.{part}.plist"]

    def texts(self, job: Job) -> list[str]:
        return [plist(job)]

    def start(self, part: PartName, changed: Collection[Path]) -> None:
        domain, [unit] = self._domain, self.units(part)
        name = f"{domain}/adsum.{part}"
        loaded = _launchctl("print", name).returncode == 0
        if loaded and not changed:
            return
        _launchctl("enable", name)
        if loaded:
            _launchctl("bootout", name)
        deadline = time.monotonic() + GOING_S
        while (ended := _launchctl("bootstrap", domain, str(unit))).returncode:
            if time.monotonic() > deadline:
                raise CommandError(
                    f"launchd refuses the service: {said(ended)}. See `launchctl print {name}` and "
                    "`adsum service logs`."
                )
            time.sleep(0.2)

    def stop(self, part: PartName) -> None:
        name = f"{self._domain}/adsum.{part}"
        if _launchctl("print", name).returncode == 0:
            _launchctl("bootout", name)

    def view(self, part: PartName) -> list[View]:
        unit = f"adsum.{part}"
        if not self.units(part)[0].exists():
            return [View(unit, "not installed")]
        ended = _launchctl("print", f"{self._domain}/{unit}")
        if ended.returncode:
            wrong = f"{unit} is not loaded. Next: adsum service install"
            return [View(unit, "off", wrong=(wrong,))]
        told = dict(re.findall(r"^\t([a-z ]+) = (.+)$", ended.stdout, re.MULTILINE))
        pid, state = int(told.get("pid", 0)), told.get("state", "unknown")
        if not pid:
            code = told.get("last exit code", "unknown")
            wrong = f"{unit} does not run (last exit code {code}). Look at: adsum service logs"
            return [View(unit, state, wrong=(wrong,))]
        runs = int(told.get("runs", 1))
        notes = (f"restarted {runs - 1} times",) if runs > 1 else ()
        return [View(unit, state, _age(pid), pid, notes=notes)]

    def notes(self, account: str) -> list[str]:
        del account
        if self.system or not self._domain.startswith("gui/"):
            return []
        return ["It runs while you are logged in at the screen; --system runs it always."]

    def log_command(self, part: PartName, lines: int, *, follow: bool) -> list[str]:
        log = plistlib.loads(self.units(part)[0].read_bytes())["StandardOutPath"]
        return ["tail", "-n", str(lines), *(["-F"] if follow else []), str(log)]

    @property
    def _domain(self) -> str:
        if self.system:
            return "system"
        # Over ssh alone nobody has a screen, and the domain of one does not exist.
        screen = f"gui/{os.getuid()}"
        return screen if _launchctl("print", screen).returncode == 0 else f"user/{os.getuid()}"


def _launchctl(*words: str) -> subprocess.CompletedProcess[str]:
    return call("launchctl", *words)


def _age(pid: int) -> float | None:
    try:
        return time.time() - psutil.Process(pid).create_time()
    except psutil.Error:
        return None


def plist(job: Job) -> str:
    """Launchd's own socket activation is another interface; without it a restart refuses hooks."""
    log = str(job.state_dir / "logs" / f"{job.part}.log")
    held: dict[str, Any] = {
        "Label": f"adsum.{job.part}",
        "ProgramArguments": ["/bin/sh", "-c", SOURCE, str(job.env_file), *job.command],
        "RunAtLoad": True,
        "KeepAlive": True,
        "ThrottleInterval": 1,  # launchd's own is 10 s
        "SoftResourceLimits": {"NumberOfFiles": 4096},  # its own is 256, fewer than connections
        "StandardOutPath": log,
        "StandardErrorPath": log,
        "Umask": 0o077,
        **({"Nice": 5} if job.part == "hub" else {}),
        **({"UserName": job.account} if job.account else {}),
    }
    head, declared, rest = plistlib.dumps(held, sort_keys=False).decode().partition("?>\n")
    return f"{head}{declared}<!-- {MARK} -->\n{rest}"
