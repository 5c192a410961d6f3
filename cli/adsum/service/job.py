"""Says what a service runs and with which settings, and what is asked of a service manager."""

import os
import pwd
import re
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote, urlsplit

from platformdirs import user_config_path

from adsum.outcome import CommandError, Exit
from adsum_collector.agents import known_agents
from adsum_collector.settings import CollectorSettings
from adsum_shared.settings import KNOWN

PartName = Literal["collector", "hub"]
#: What stands in each file, and its mode.
Files = dict[Path, tuple[str, int]]

BOTH: tuple[PartName, ...] = ("collector", "hub")
#: First line of whatever we write: what does not begin with it is somebody else's file.
MARK = "# Written by `adsum service install`; `adsum service remove` takes it out."
#: sun_path holds 107 bytes and a zero.
SOCKET_PATH_MOST = 107
SHARED_TMP = (Path("/tmp"), Path("/var/tmp"))  # noqa: S108 - looked for, not written to
PATIENCE_S = 60.0


class NoServiceManagerError(CommandError):
    """Nobody here starts services. Everything else about the machine may be well. why: the cause."""

    def __init__(self, why: str) -> None:
        super().__init__(
            f"{why} Without a service, start it yourself, and again after every restart of the "
            "machine:\n  nohup adsum collector >> ~/adsum-collector.log 2>&1 &"
        )
        self.why = why


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
    def command(self) -> tuple[str, ...]:
        # -P: a folder named like one of our packages in the current directory must not win.
        return (str(self.python), "-P", "-m", "adsum", self.part)

    @property
    def socket(self) -> Path:
        return self.state_dir / "collector.sock"


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

    def as_json(self) -> dict[str, Any]:
        return {
            "unit": self.unit,
            "state": self.state,
            "up_s": None if self.since is None else round(self.since),
            "pid": self.pid or None,
            "notes": list(self.notes),
        }


class Init(ABC):
    """systemd or launchd, of the system or of one user."""

    def __init__(self, system: bool) -> None:  # noqa: FBT001 - of the system, or of a user
        self.system = system

    def paths(self, part: PartName) -> list[Path]:
        """All files of that service, the environment's first."""
        return [env_file(part, system=self.system), *self.units(part)]

    @abstractmethod
    def require(self) -> None:
        """Raises NoServiceManagerError."""

    @abstractmethod
    def units(self, part: PartName) -> list[Path]: ...

    @abstractmethod
    def texts(self, job: Job) -> list[str]:
        """What stands in each of the units."""

    @abstractmethod
    def start(self, part: PartName, changed: Collection[Path]) -> None:
        """Now and whenever the machine starts; anew if files changed. Raises CommandError."""

    @abstractmethod
    def stop(self, part: PartName) -> None: ...

    def reread(self) -> None:  # noqa: B027 - launchd reads a file when it is told to start it
        """After files have come or gone."""

    @abstractmethod
    def view(self, part: PartName) -> list[View]: ...

    @abstractmethod
    def notes(self, account: str) -> list[str]:
        """What else decides whether it runs, as sentences with their next step."""

    @abstractmethod
    def log_command(self, part: PartName, lines: int, *, follow: bool) -> list[str]: ...


def call(*command: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Raises FileNotFoundError if there is no such program, CommandError if it hangs."""
    try:
        return subprocess.run(  # noqa: S603 - our own words, no shell
            command,
            env={**os.environ, **env},
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


def owner_of(*, system: bool) -> pwd.struct_passwd:
    """Ourselves; for a system service who called sudo, whose sessions it is to see."""
    caller = os.environ.get("SUDO_UID", "") if system and os.geteuid() == 0 else ""
    return pwd.getpwuid(int(caller) if caller.isdecimal() else os.getuid())


@contextmanager
def settled(owner: pwd.struct_passwd, values: Mapping[str, str]) -> Iterator[None]:
    """Settings as that account has them, and these where it has none.

    sudo leaves root's HOME, and then root's settings would be read.
    """
    before = dict(os.environ)
    try:
        if owner.pw_uid != os.getuid():
            for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME"):
                os.environ.pop(name, None)
            os.environ["HOME"] = owner.pw_dir
        for name, value in values.items():
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


def env_file(part: PartName, *, system: bool) -> Path:
    folder = Path("/etc/adsum") if system else user_config_path("adsum")
    return folder / f"{part}.env"


def env_text(values: Mapping[str, str]) -> str:
    """In what systemd and a shell read alike. Raises ValueError for what neither can take."""
    lines = [MARK]
    for name, value in sorted(values.items()):
        if not value.isprintable():
            raise ValueError(f"{name} has a line break or another control character in it")
        escaped = re.sub(r'([\\"`$])', r"\\\1", value)
        lines.append(f'{name}="{escaped}"')
    return "\n".join(lines) + "\n"


def env_values(text: str) -> dict[str, str]:
    """What `env_text` was given."""
    found = re.findall(r'^(\w+)="(.*)"$', text, re.MULTILINE)
    return {name: re.sub(r"\\(.)", r"\1", value) for name, value in found}


def carried_names() -> list[str]:
    """Variables that say where agents' files are."""
    return [*(agent.variable for agent in known_agents() if agent.variable), "XDG_CONFIG_HOME"]


def environment(
    settings: CollectorSettings, given: Mapping[str, str], kept: Mapping[str, str]
) -> str:
    """What this terminal says and a service manager would not know. Raises CommandError."""
    names = {f"ADSUM_{name.upper()}" for name in KNOWN}
    carried = {
        name: os.environ[name] for name in names.union(carried_names()) if os.environ.get(name)
    }
    told = {"ADSUM_STATE_DIR": str(settings.state_dir), **given}
    try:
        return env_text({**kept, **carried, **told})
    except ValueError as error:
        raise CommandError(f"A setting cannot be handed to a service: {error}.") from error


def job_of(part: PartName, settings: CollectorSettings, account: str | None) -> Job:
    """Raises CommandError for what a service cannot use."""
    job = Job(
        part,
        Path(sys.executable),
        settings.state_dir,
        env_file(part, system=account is not None),
        account,
        settings.collector_port,
        any(path.is_relative_to(tmp) for path in _needed(settings) for tmp in SHARED_TMP),
    )
    if part == "collector" and job.port == 0:
        raise CommandError(
            "A service needs a fixed port, which hooks must find. Set ADSUM_COLLECTOR_PORT to it, "
            "or leave it out.",
            Exit.USAGE,
        )
    if part == "collector" and len(os.fsencode(job.socket)) > SOCKET_PATH_MOST:
        raise CommandError(
            f"{job.socket} is longer than the {SOCKET_PATH_MOST} bytes that the path of a socket "
            "may have. Choose a shorter ADSUM_STATE_DIR.",
            Exit.USAGE,
        )
    for path in (job.python, job.state_dir, job.env_file):
        if not str(path).isprintable():
            raise CommandError(f"{str(path)!r} cannot stand in a service's file. Rename it.")
    return job


def _needed(settings: CollectorSettings) -> Iterator[Path]:
    """What it reads, writes or runs."""
    yield from (Path(sys.executable), settings.state_dir)
    for agent in known_agents():
        yield from settings.directories_of(agent)
    url = urlsplit(settings.redis_url or "")
    if url.scheme == "unix":
        yield Path(unquote(url.path))
    if settings.redis_ca is not None:
        yield settings.redis_ca
