"""Services under systemd: of the system, or of one user."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from platformdirs import user_config_path

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
#: What a user's manager can do too: seccomp and prctl alone. Whatever drops capabilities (private
#: devices, kernel modules, the clock) ends there with 218/CAPABILITIES, and guards nothing from
#: somebody who is not root.
_ANYWHERE = """\
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=read-only
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallErrorNumber=EPERM
UMask=0077"""
#: ProtectProc stays as it is: a collector looks at the processes of sessions.
_SYSTEM = """\
CapabilityBoundingSet=
PrivateDevices=yes
ProtectClock=yes
ProtectControlGroups=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes"""


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

    def files(self, job: Job) -> list[UnitFile]:
        texts = {"service": service_unit(job)}
        if job.part == "collector":
            texts["socket"] = socket_unit(job)
        return [
            UnitFile(self.folder / f"adsum-{job.part}.{kind}", text) for kind, text in texts.items()
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
    after = "network-online.target" if job.account else ""
    sockets = "adsum-collector.socket" if job.part == "collector" else ""
    unit = [
        f"Description=Adsum {job.part}",
        *([f"Wants={after}"] if after else []),
        *([f"Requires={sockets}"] if sockets else []),
        *([f"After={' '.join(filter(None, (after, sockets)))}"] if after or sockets else []),
        # With less, a part that cannot start would hold the socket open for ever without taking
        # anything, and every hook would wait for its time-out. Given up, the socket closes too.
        "StartLimitIntervalSec=300",
        "StartLimitBurst=20",
    ]
    return _text(("Unit", unit), ("Service", _service(job)), ("Install", [_wanted_by(job)]))


def _service(job: Job) -> list[str]:
    collector = job.part == "collector"
    tmp = ["ReadWritePaths=/tmp /var/tmp"] if job.shared_tmp else ["PrivateTmp=yes"]
    return [
        "Type=exec",
        f"ExecStart={' '.join(_word(each).replace('$', '$$') for each in job.command)}",
        f"EnvironmentFile={_path(job.env_file)}",
        *([f"User={job.account}"] if job.account else []),
        # At once: what comes meanwhile waits at the socket, and an agent waits with it.
        "Restart=always",
        "RestartSec=100ms",
        "TimeoutStopSec=15",
        # A reader of history that takes too much ends alone, and the collector stays.
        "OOMPolicy=continue",
        f"MemoryMax={'512M' if collector else '2G'}",
        f"TasksMax={64 if collector else 128}",
        # Not the collector, for whose answer an agent waits; its readers of history are at 19.
        *([] if collector else ["Nice=5"]),
        *_ANYWHERE.splitlines(),
        f"ReadWritePaths={_word(str(job.state_dir))}",
        *tmp,
        *(_SYSTEM.splitlines() if job.account else []),
    ]


def socket_unit(job: Job) -> str:
    """Held open by systemd, so that a restart refuses no hook."""
    listen = [
        f"ListenStream=127.0.0.1:{job.port}",
        f"ListenStream={_path(job.socket)}",
        "SocketMode=0600",
        "DirectoryMode=0700",
        "Backlog=512",
        "RemoveOnStop=yes",
        *([f"SocketUser={job.account}"] if job.account else []),
    ]
    unit = ["Description=Adsum collector: the doors for hooks"]
    return _text(("Unit", unit), ("Socket", listen), ("Install", ["WantedBy=sockets.target"]))


def _wanted_by(job: Job) -> str:
    return f"WantedBy={'multi-user' if job.account else 'default'}.target"


def _text(*sections: tuple[str, Iterable[str]]) -> str:
    blocks = ["\n".join((f"[{name}]", *filter(None, lines))) for name, lines in sections]
    return "\n\n".join((MARK, *blocks)) + "\n"


def _path(path: Path) -> str:
    """Where systemd takes the rest of the line as it is."""
    return str(path).replace("%", "%%")


def _word(text: str) -> str:
    """One word of a line that systemd splits. ExecStart alone would expand `$`."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    plain = escaped == text and not set(text) & set(" \t'")
    return text if plain else f'"{escaped}"'
