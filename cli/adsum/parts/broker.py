"""The embedded broker: a private server on a 0700 unix socket under the state directory."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import stat
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from adsum.outcome import CommandError
from adsum.parts.engine import Engine
from adsum_shared.private_files import write_private

#: sun_path holds 104 bytes on macOS and 108 on Linux, with the final zero.
SOCKET_PATH_MOST = 100
#: What a server says when it cannot read the files it finds.
UNREADABLE = (
    "Bad file format",
    "Can't handle RDB format",
    "Fatal error loading",
    "Unrecoverable error reading the append only file",
    "Error reading the RDB preamble",
)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a state directory's broker lives."""

    folder: Path
    log: Path
    socket: Path

    @property
    def data_dir(self) -> Path:
        return self.folder / "data"

    @property
    def stamp(self) -> Path:
        return self.data_dir / "engine.json"

    @property
    def url(self) -> str:
        return f"unix://{quote(str(self.socket))}?db=0"


def place_of(state_dir: Path) -> Place:
    folder = state_dir / "broker"
    try:
        socket = Path((folder / "socket").read_text(encoding="utf-8").strip())
    except OSError:  # no record; or a state directory that is none, and then nobody listens there
        socket = folder / "broker.sock"
    return Place(folder, state_dir / "logs" / "broker.log", socket)


def prepare(state_dir: Path, runtime_dir: Path | None = None) -> Place:
    """Makes the directories, all 0700, and settles the socket's path."""
    for folder in (state_dir, state_dir / "broker", state_dir / "broker/data", state_dir / "logs"):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    (state_dir / "broker").chmod(0o700)
    record = state_dir / "broker" / "socket"
    if len(os.fsencode(state_dir / "broker" / "broker.sock")) <= SOCKET_PATH_MOST:
        record.unlink(missing_ok=True)
    else:
        write_private(record, os.fsencode(_short_folder(state_dir, runtime_dir) / "broker.sock"))
    return place_of(state_dir)


def command_line(engine: Engine, place: Place, memory_mb: int) -> list[str]:
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


def settle_files(place: Place, engine: Engine, say: Callable[[str], None]) -> None:
    """Stamps the data with the engine; moves aside what this engine could not read.

    Nothing is lost by that: hubs ask collectors to replay what their streams no longer hold.
    """
    kept = [path for path in place.data_dir.iterdir() if path != place.stamp]
    if kept and not _readable(place, engine):
        move_aside(place, f"written by {_writer(place)}, which {engine.label} cannot read", say)
    stamp = {"engine": engine.name, "version": list(engine.version)}
    write_private(place.stamp, json.dumps(stamp).encode())


def move_aside(place: Place, why: str, say: Callable[[str], None]) -> Path:
    aside = place.folder / f"data-{time.strftime('%Y%m%d-%H%M%S')}-{time.time_ns() % 10**6:06d}"
    place.data_dir.rename(aside)
    place.data_dir.mkdir(mode=0o700)
    say(f"The broker's files ({why}) were moved to {aside}. It starts empty; collectors replay.")
    return aside


async def dismiss_orphan(place: Place, patience_s: float = 5.0) -> None:
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


async def answers(socket: Path, command: bytes) -> bytes:
    """One inline command's first line; empty when there is no answer."""
    try:
        reader, writer = await asyncio.wait_for(asyncio.open_unix_connection(socket), 1.0)
    except (OSError, TimeoutError):
        return b""
    try:
        writer.write(command)
        await writer.drain()
        line = await asyncio.wait_for(reader.readline(), 1.0)
    except TimeoutError:
        return b"?"  # it holds the socket but is busy or stopped
    except OSError:
        return b""
    finally:
        writer.close()
    return line


def _readable(place: Place, engine: Engine) -> bool:
    stamp = _stamp(place)
    return stamp is not None and engine.reads(*stamp)


def _writer(place: Place) -> str:
    stamp = _stamp(place)
    return f"{stamp[0]} {'.'.join(map(str, stamp[1]))}" if stamp else "an unknown server"


def _stamp(place: Place) -> tuple[str, tuple[int, ...]] | None:
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
