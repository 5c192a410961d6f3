"""The files of a service as text: systemd units, a launchd plist, an environment file. Pure."""

from __future__ import annotations

import plistlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

PartName = Literal["collector", "hub"]

#: First line of whatever we write: what does not begin with it is somebody else's file.
MARK = "# Written by `adsum service install`; `adsum service remove` takes it out."
#: sun_path holds 107 bytes and a zero.
SOCKET_PATH_MOST = 107
#: Read by a shell, so that the values stand in a private file and not in the plist.
SOURCE = 'set -a; . "$0"; exec "$@"'

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


@dataclass(frozen=True, slots=True)
class Job:
    """One part as a service. account: whom a system service runs as; None: a user's service.

    port: the collector's, held open by systemd. shared_tmp: something it needs lies in /tmp.
    """

    part: PartName
    python: Path
    state_dir: Path
    env_file: Path
    account: str | None = None
    port: int = 0
    shared_tmp: bool = False

    @property
    def title(self) -> str:
        return "Adsum collector" if self.part == "collector" else "Adsum hub"

    @property
    def command(self) -> tuple[str, ...]:
        # -P: a folder named like one of our packages in the current directory must not win.
        return (str(self.python), "-P", "-m", "adsum", self.part)

    @property
    def socket(self) -> Path:
        return self.state_dir / "collector.sock"


def service_unit(job: Job) -> str:
    after = "network-online.target" if job.account else ""
    sockets = "adsum-collector.socket" if job.part == "collector" else ""
    unit = [
        f"Description={job.title}",
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


def env_text(values: Mapping[str, str]) -> str:
    """In what systemd and a shell read alike. Raises ValueError for what neither can take."""
    lines = [MARK]
    for name, value in sorted(values.items()):
        if not value.isprintable():
            raise ValueError(f"{name} has a line break or another control character in it")
        escaped = "".join(f"\\{each}" if each in '\\"`$' else each for each in value)
        lines.append(f'{name}="{escaped}"')
    return "\n".join(lines) + "\n"


def env_values(text: str) -> dict[str, str]:
    """What `env_text` was given."""
    found = re.findall(r'^(\w+)="(.*)"$', text, re.MULTILINE)
    return {name: re.sub(r"\\(.)", r"\1", value) for name, value in found}


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
