"""Services under systemd: of the system, or of one user."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Collection, Mapping
from pathlib import Path

from platformdirs import user_config_path

from adsum.outcome import CommandError
from adsum.service.init import NoServiceManagerError, View, call, said, why_none
from adsum.service.job import File, Owner, env_file
from adsum.service.units import Job, PartName, service_unit, socket_unit

#: What `view` asks for.
ASKED = [
    "LoadState",
    "ActiveState",
    "SubState",
    "UnitFileState",
    "NeedDaemonReload",
    "Result",
    "NRestarts",
    "MainPID",
    "ActiveEnterTimestampMonotonic",
]
_RESULTS = {
    "oom-kill": "it needed more memory than it may have (MemoryMax)",
    "start-limit-hit": "it ended 20 times within five minutes and was given up",
    "service-start-limit-hit": "the service behind it was given up",
    "timeout": "it did not stop in time",
    "exit-code": "it ended with an error",
    "signal": "it was killed",
    "core-dump": "it crashed",
    "resources": "its files could not be read or its address is in use",
}


class Systemd:
    def __init__(self, system: bool) -> None:  # noqa: FBT001 - of the system, or of a user
        self.system = system
        self._scope = [] if system else ["--user"]

    @property
    def folder(self) -> Path:
        if self.system:
            return Path("/etc/systemd/system")
        return user_config_path() / "systemd" / "user"

    def require(self) -> None:
        try:
            ended = self._systemctl("show", "--property=Version", "--value")
        except FileNotFoundError:
            told = ""
        else:
            if ended.returncode == 0:
                return
            told = said(ended)
        try:
            version = Path("/proc/version").read_text(encoding="utf-8")
        except OSError:
            version = ""
        why = why_none(told, version, os.environ)
        raise NoServiceManagerError(why)

    def files(self, job: Job) -> list[File]:
        texts = {"service": service_unit(job)}
        if job.part == "collector":
            texts["socket"] = socket_unit(job)
        return [
            File(self.folder / f"adsum-{job.part}.{kind}", text) for kind, text in texts.items()
        ]

    def paths(self, part: PartName) -> list[Path]:
        units = [self.folder / unit for unit in self._units(part)]
        return [env_file(part, system=self.system), *units]

    def start(self, part: PartName, changed: Collection[Path]) -> None:
        self.reread()
        units = self._units(part)
        # Earlier failures must not count: it may have been given up, and somebody has seen to it.
        self._systemctl("reset-failed", *units)
        last = ("restart", f"adsum-{part}.service") if changed else ("start", *units)
        if any(path.suffix == ".socket" for path in changed):
            # An address changes only while nobody has it. Otherwise the doors stay open.
            self._systemctl("stop", *units)
            last = ("start", *units)
        for words in (("enable", *units), last):
            ended = self._systemctl(*words)
            if ended.returncode:
                raise CommandError(
                    f"systemd refuses the service: {said(ended)}. {self._look(units)}"
                )

    def stop(self, part: PartName) -> None:
        units = self._units(part)
        ended = self._systemctl("disable", "--now", *units)
        if (
            ended.returncode
            and "not exist" not in ended.stderr
            and "not loaded" not in ended.stderr
        ):
            raise CommandError(f"systemd does not stop the service: {said(ended)}.")
        self._systemctl("reset-failed", *units)

    def reread(self) -> None:
        ended = self._systemctl("daemon-reload")
        if ended.returncode:
            raise CommandError(f"systemd does not read its units again: {said(ended)}.")

    def view(self, part: PartName) -> list[View]:
        return [self._view(unit) for unit in self._units(part)]

    def notes(self, owner: Owner) -> list[str]:
        if self.system:
            return []
        try:
            ended = call(["loginctl", "show-user", owner.name, "--property=Linger", "--value"])
        except FileNotFoundError:
            return []
        if ended.stdout.strip() == "yes":
            return []
        return [
            "Lingering is off: the service ends when you log out, and starts when you log in. To "
            f"have it run as long as the machine does: loginctl enable-linger {owner.name}"
        ]

    def log_command(self, part: PartName, lines: int, *, follow: bool) -> list[str]:
        unit = f"adsum-{part}.service"
        more = ["--follow"] if follow else ["--no-pager"]
        return ["journalctl", *self._scope, f"--unit={unit}", f"--lines={lines}", *more]

    def _units(self, part: PartName) -> list[str]:
        kinds = ("socket", "service") if part == "collector" else ("service",)
        return [f"adsum-{part}.{kind}" for kind in kinds]

    def _view(self, unit: str) -> View:
        ended = self._systemctl("show", unit, f"--property={','.join(ASKED)}")
        pairs = (line.partition("=") for line in ended.stdout.splitlines())
        told = {name: value for name, _, value in pairs}
        if told.get("LoadState", "not-found") == "not-found":
            return View(unit, "not installed")
        active = told.get("ActiveState") == "active"
        state = told.get("SubState", "") if active else told.get("ActiveState", "unknown")
        entered = int(told.get("ActiveEnterTimestampMonotonic") or 0)
        since = time.clock_gettime(time.CLOCK_MONOTONIC) - entered / 1e6 if active else None
        restarts = told.get("NRestarts", "")
        notes = (f"restarted {restarts} times",) if restarts not in {"", "0"} else ()
        pid = int(told.get("MainPID") or 0)
        return View(unit, state, since, pid, tuple(self._wrong(unit, told, active=active)), notes)

    def _wrong(self, unit: str, told: Mapping[str, str], *, active: bool) -> list[str]:
        wrong = []
        if not active:
            result = told.get("Result", "")
            why = f": {_RESULTS.get(result, result)}" if result not in {"", "success"} else ""
            step = "Set right what `adsum service logs` says, then: adsum service install"
            wrong.append(f"{unit} does not run{why}. {step}")
        if told.get("LoadState") not in {"loaded", "not-found"}:
            wrong.append(f"{unit} cannot be read. Write it anew: adsum service install")
        if told.get("UnitFileState") in {"disabled", "masked", "masked-runtime"}:
            state = told["UnitFileState"]
            wrong.append(
                f"{unit} is {state}, and so will not start by itself. {self._enable(unit)}"
            )
        if told.get("NeedDaemonReload") == "yes":
            step = f"Run `{' '.join(('systemctl', *self._scope, 'daemon-reload'))}`."
            wrong.append(f"{unit} has changed on disk since systemd read it. {step}")
        return wrong

    def _enable(self, unit: str) -> str:
        words = " ".join(("systemctl", *self._scope))
        return f"Run `{words} unmask {unit}`, then: adsum service install"

    def _look(self, units: list[str]) -> str:
        words = " ".join(("systemctl", *self._scope, "status", *units))
        return f"See `{words}` and `adsum service logs`."

    def _systemctl(self, *words: str) -> subprocess.CompletedProcess[str]:
        env = {"LC_ALL": "C", "SYSTEMD_PAGER": "", "SYSTEMD_COLORS": "0"}
        runtime = Path(f"/run/user/{os.getuid()}")
        # Left out by `ssh host command` without PAM, by cron: the user's own systemd runs all the same.
        if not self.system and not os.environ.get("XDG_RUNTIME_DIR") and runtime.is_dir():
            env["XDG_RUNTIME_DIR"] = str(runtime)
        return call(["systemctl", *self._scope, *words], env)
