"""Runs services under systemd, or under launchd, which holds no socket for us."""

import os
import plistlib
import re
import subprocess
import time
from collections.abc import Collection, Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import psutil
from platformdirs import user_config_path

from adsum.outcome import CommandError
from adsum.service.job import MARK, Init, Job, NoServiceManagerError, PartName, View, call, said

#: What `view` asks for.
ASKED = (
    "LoadState,ActiveState,SubState,UnitFileState,NeedDaemonReload,Result,NRestarts,MainPID,"
    "ActiveEnterTimestampMonotonic"
)
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
#: StartLimit…: with less, a part that cannot start would hold the socket open for ever without
#: taking anything, and every hook would wait for its time-out. Given up, the socket closes too.
#: RestartSec: what comes meanwhile waits at the socket, and an agent waits with it.
#: OOMPolicy: a reader of history that takes too much ends alone, and the collector stays.
#: Nice: not for the collector, for whose answer an agent waits; its readers of history are at 19.
#: NoNewPrivileges to UMask: what a user's manager can do too, by seccomp and prctl alone.
#: The last of them, from `capabilities` on, for the system alone: whatever drops capabilities ends in a
#: user's manager with 218/CAPABILITIES, and guards nothing from somebody who is not root.
#: ProtectProc stays as it is: a collector looks at the processes of sessions.
SERVICE = "adsum.service"
#: Held open by systemd, so that a restart refuses no hook.
SOCKET = "adsum.socket"


class Systemd(Init):
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
        raise NoServiceManagerError(why_none(told, version, os.environ))

    def units(self, part: PartName) -> list[Path]:
        own = user_config_path() / "systemd" / "user"
        folder = Path("/etc/systemd/system") if self.system else own
        return [folder / unit for unit in _names(part)]

    def texts(self, job: Job) -> list[str]:
        return [socket_unit(job), service_unit(job)][-len(_names(job.part)) :]

    def start(self, part: PartName, changed: Collection[Path]) -> None:
        self.reread()
        units = _names(part)
        # Earlier failures must not count: it may have been given up, and somebody has seen to it.
        self._systemctl("reset-failed", *units)
        last = ("restart", units[-1]) if changed else ("start", *units)
        if any(path.suffix == ".socket" for path in changed):
            # An address changes only while nobody has it. Otherwise the doors stay open.
            self._systemctl("stop", *units)
            last = ("start", *units)
        for words in (("enable", *units), last):
            ended = self._systemctl(*words)
            if ended.returncode:
                look = " ".join(("systemctl", *self._scope, "status", *units))
                raise CommandError(
                    f"systemd refuses the service: {said(ended)}. See `{look}` and "
                    "`adsum service logs`."
                )

    def stop(self, part: PartName) -> None:
        ended = self._systemctl("disable", "--now", *_names(part))
        if ended.returncode and not re.search("not (exist|loaded)", ended.stderr):
            raise CommandError(f"systemd does not stop the service: {said(ended)}.")
        self._systemctl("reset-failed", *_names(part))

    def reread(self) -> None:
        ended = self._systemctl("daemon-reload")
        if ended.returncode:
            raise CommandError(f"systemd does not read its units again: {said(ended)}.")

    def view(self, part: PartName) -> list[View]:
        return [self._view(unit) for unit in _names(part)]

    def notes(self, account: str) -> list[str]:
        if self.system:
            return []
        try:
            ended = call("loginctl", "show-user", account, "--property=Linger", "--value")
        except FileNotFoundError:
            return []
        if ended.stdout.strip() == "yes":
            return []
        return [
            "Lingering is off: the service ends when you log out, and starts when you log in. To "
            f"have it run as long as the machine does: loginctl enable-linger {account}"
        ]

    def log_command(self, part: PartName, lines: int, *, follow: bool) -> list[str]:
        more = "--follow" if follow else "--no-pager"
        return ["journalctl", *self._scope, f"--unit={_names(part)[-1]}", f"--lines={lines}", more]

    @property
    def _scope(self) -> list[str]:
        return [] if self.system else ["--user"]

    def _view(self, unit: str) -> View:
        ended = self._systemctl("show", unit, f"--property={ASKED}")
        told = dict(re.findall("^([^=]+)=(.*)$", ended.stdout, re.MULTILINE))
        if told.get("LoadState", "not-found") == "not-found":
            return View(unit, "not installed")
        active = told.get("ActiveState") == "active"
        state = told.get("SubState", "") if active else told.get("ActiveState", "unknown")
        entered = int(told.get("ActiveEnterTimestampMonotonic") or 0)
        since = time.clock_gettime(time.CLOCK_MONOTONIC) - entered / 1e6 if active else None
        restarts = told.get("NRestarts", "")
        notes = (f"restarted {restarts} times",) if restarts not in {"", "0"} else ()
        wrong = tuple(self._wrong(unit, told, active=active))
        return View(unit, state, since, int(told.get("MainPID") or 0), wrong, notes)

    def _wrong(self, unit: str, told: Mapping[str, str], *, active: bool) -> Iterator[str]:
        systemctl = " ".join(("systemctl", *self._scope))
        if not active:
            result = told.get("Result", "")
            why = f": {_RESULTS.get(result, result)}" if result not in {"", "success"} else ""
            step = "Set right what `adsum service logs` says, then: adsum service install"
            yield f"{unit} does not run{why}. {step}"
        if told["LoadState"] != "loaded":
            yield f"{unit} cannot be read. Write it anew: adsum service install"
        if (state := told.get("UnitFileState")) in {"disabled", "masked", "masked-runtime"}:
            step = f"Run `{systemctl} unmask {unit}`, then: adsum service install"
            yield f"{unit} is {state}, and so will not start by itself. {step}"
        if told.get("NeedDaemonReload") == "yes":
            step = f"Run `{systemctl} daemon-reload`."
            yield f"{unit} has changed on disk since systemd read it. {step}"

    def _systemctl(self, *words: str) -> subprocess.CompletedProcess[str]:
        env = {"LC_ALL": "C", "SYSTEMD_PAGER": "", "SYSTEMD_COLORS": "0"}
        runtime = Path(f"/run/user/{os.getuid()}")
        # Left out by `ssh host command` without PAM, by cron: the user's own systemd runs all the same.
        if not self.system and not os.environ.get("XDG_RUNTIME_DIR") and runtime.is_dir():
            env["XDG_RUNTIME_DIR"] = str(runtime)
        return call("systemctl", *self._scope, *words, **env)


def _names(part: PartName) -> list[str]:
    kinds = ("socket", "service") if part == "collector" else ("service",)
    return [f"adsum-{part}.{kind}" for kind in kinds]


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


def service_unit(job: Job) -> str:
    collector = job.part == "collector"
    network = "network-online.target" if job.account else ""
    doors = "adsum-collector.socket" if collector else ""
    return _filled(
        SERVICE,
        part=job.part,
        network=network,
        doors=doors,
        after=f"{network} {doors}".strip(),
        command=" ".join(_word(each).replace("$", "$$") for each in job.command),
        env_file=_path(job.env_file),
        account=job.account,
        memory="512M" if collector else "2G",
        tasks=64 if collector else 128,
        nice=None if collector else 5,
        state_dir=_word(str(job.state_dir)),
        tmp="ReadWritePaths=/tmp /var/tmp" if job.shared_tmp else "PrivateTmp=yes",
        capabilities="CapabilityBoundingSet=" if job.account else "",
        system="yes" if job.account else "",
        target="multi-user.target" if job.account else "default.target",
    )


def socket_unit(job: Job) -> str:
    return _filled(SOCKET, port=job.port, socket=_path(job.socket), account=job.account)


def _filled(file: str, **values: object) -> str:
    """A unit, without the lines whose value is none."""
    template = files(__package__).joinpath(file).read_text("utf-8")
    for name, value in values.items():
        if not value:
            template = re.sub(rf".*{{{name}}}\n", "", template)
    return template.format_map({**values, "mark": MARK})


def _path(path: Path) -> str:
    """Where systemd takes the rest of the line as it is."""
    return str(path).replace("%", "%%")


def _word(text: str) -> str:
    """One word of a line that systemd splits. ExecStart alone would expand `$`."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    plain = escaped == text and not set(text) & set(" \t'")
    return text if plain else f'"{escaped}"'


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
