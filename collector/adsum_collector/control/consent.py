"""What this machine's owner lets be done from elsewhere, until when and by whose word, and the trail of what was done.

The consent lies in a file of the state directory, changed by `adsum control` alone: nothing that comes over a
network writes it. A file that cannot be read, belongs to somebody else or is odd means off.

The trail tells what was asked, commanded, by whom, and what came of it. It is append-only.
Each line bears the hash of the line before it, so that none can be changed or taken out without all
that follow showing it. Whoever can write the file could write it all anew: compare the last hash with
one that was noted elsewhere; hubs are told it with each report. A file that is full is put aside, and
the chain goes on in a new one; of those put aside the oldest goes, and a line says up to where.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from adsum_shared import Timer
from adsum_shared.private_files import open_private, write_private
from adsum_shared.state import Control

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey


FILE: Final = "control.json"
MOST_BYTES: Final = 64 << 10
MOST_KEYS: Final = 32
_KEY = re.compile(r"[0-9a-f]{64}")


class Consent(msgspec.Struct, frozen=True):
    """since, until: seconds of wall clock; until None: until it is changed.

    keys: of the hubs whose commands count, key id -> public key in hex.
    """

    level: Control = "off"
    since: float = 0.0
    until: float | None = None
    keys: dict[str, str] = {}

    def at(self, wall: float) -> Control:
        """A clock that was set back behind its beginning ends it: nobody knows how long it holds."""
        over = self.until is not None and not self.since <= wall < self.until
        return "off" if over or not self.keys else self.level

    def public_keys(self) -> dict[str, Ed25519PublicKey]:
        """Those whose id is their own; a key under another's id is nobody's."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        from adsum_shared.commands import key_id

        plain = (each for each in self.keys.values() if _KEY.fullmatch(each))
        found = [Ed25519PublicKey.from_public_bytes(bytes.fromhex(each)) for each in plain]
        return {named: key for key in found if (named := key_id(key)) in self.keys}


def read_consent(state_dir: Path) -> Consent:
    """Off where there is none, or one that nobody can rely on."""
    try:
        with os.fdopen(open_private(state_dir / FILE, os.O_RDONLY), "rb") as file:
            if os.fstat(file.fileno()).st_mode & 0o077:
                return Consent()
            raw = file.read(MOST_BYTES + 1)
        found = msgspec.json.decode(raw, type=Consent)
    except (OSError, ValueError, RecursionError):
        return Consent()
    return found if len(raw) <= MOST_BYTES and len(found.keys) <= MOST_KEYS else Consent()


def keep_consent(state_dir: Path, consent: Consent) -> None:
    """Raises OSError."""
    write_private(state_dir / FILE, msgspec.json.encode(consent))


class LiveConsent:
    """As it is at the moment, whoever changes the file. wall: of the clock; timer: seconds, monotonic.

    allowed: False where what is asked may not leave the machine, so nobody could decide it.
    """

    def __init__(self, state_dir: Path, *, wall: Timer, timer: Timer, allowed: bool = True) -> None:
        self._state_dir = state_dir
        self._wall, self._timer = wall, timer
        self._allowed = allowed
        self._stamp: tuple[int, int, int] | None = None
        self._ends = 0.0
        self._consent = Consent()
        self._keys: dict[str, Ed25519PublicKey] = {}

    @property
    def level(self) -> Control:
        """Off as soon as either clock says so: the wall's may be set back while we run."""
        self._renew()
        consent = self._consent
        if not self._allowed or (consent.until is not None and self._timer() >= self._ends):
            return "off"
        return consent.at(self._wall())

    @property
    def keys(self) -> dict[str, Ed25519PublicKey]:
        self._renew()
        return self._keys

    def _renew(self) -> None:
        try:
            found = os.lstat(self._state_dir / FILE)
            stamp = (found.st_ino, found.st_mtime_ns, found.st_mode)
        except OSError:
            stamp = (0, 0, 0)
        if stamp == self._stamp:
            return
        self._stamp, self._consent = stamp, read_consent(self._state_dir)
        self._ends = self._timer() + max(0.0, (self._consent.until or 0.0) - self._wall())
        try:
            self._keys = self._consent.public_keys()
        except ValueError:
            self._keys = {}


TRAIL_FILE: Final = "control-trail.jsonl"
FIRST: Final = "0" * 64
TAIL_BYTES: Final = 1 << 20
#: Of one file, some 25,000 lines; and how many are kept beside the one that is written to.
FILE_BYTES: Final = 8 << 20
MOST_ASIDE: Final = 7
DROPPED: Final = "dropped"


class Line(msgspec.Struct, frozen=True, omit_defaults=True):
    """n: from 1. at: ms. what: held, ended, tried, command, effect, dropped. before, hash: of the lines."""

    n: int
    at: int
    what: str
    before: str
    session_id: str = ""
    request_id: str = ""
    command_id: str = ""
    verb: str = ""
    by: str = ""
    outcome: str = ""
    about: str = ""
    hash: str = ""

    def hashed(self) -> str:
        bare = msgspec.structs.replace(self, hash="")
        return hashlib.sha256(msgspec.json.encode(bare, order="sorted")).hexdigest()


class Checked(NamedTuple):
    """last: its hash. fault: where and how the chain is broken; None: it is whole.

    dropped: lines before the first that is kept, as the trail itself says.
    """

    lines: int
    last: str
    fault: str | None
    dropped: int = 0


class Trail:
    """Every method raises OSError."""

    def __init__(self, state_dir: Path) -> None:
        self._file = state_dir / TRAIL_FILE
        self._last: Line | None = None

    def add(self, at: int, what: str, **told: str) -> str:
        """The line's hash, once it is on disk. What is no text in it is replaced."""
        told = {name: text.encode(errors="replace").decode() for name, text in told.items()}
        if self._is_full():
            self._put_aside(at)
        return self._append(at, what, **told)

    def _is_full(self) -> bool:
        try:
            return self._file.stat().st_size >= FILE_BYTES
        except FileNotFoundError:
            return False

    def _put_aside(self, at: int) -> None:
        """The oldest goes, once the chain says so: a crash between the two has it said twice."""
        files = _aside(self._file)
        if files[-1].exists():
            with os.fdopen(open_private(files[-1], os.O_RDONLY), "rb") as file:
                gone = _last_line(file)
            self._append(at, DROPPED, about=f"{gone.n} {gone.hash}" if gone else "")
        for older, newer in zip(reversed(files), reversed([self._file, *files[:-1]]), strict=True):
            if newer.exists():
                newer.replace(older)

    def _latest(self, file: Any) -> Line | None:
        """Of the file that is written to, or the one before: it may just have been put aside."""
        found = self._last or _last_line(file)
        if found is None and (before := _aside(self._file)[0]).exists():
            with os.fdopen(open_private(before, os.O_RDONLY), "rb") as older:
                return _last_line(older)
        return found

    def _append(self, at: int, what: str, **told: Any) -> str:
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT
        with os.fdopen(open_private(self._file, flags), "rb+", buffering=0) as file:
            last = self._latest(file)
            before, n = (last.hash, last.n) if last else (FIRST, 0)
            line = Line(n=n + 1, at=at, what=what, before=before, **told)
            line = msgspec.structs.replace(line, hash=line.hashed())
            size, tail = _tail(file)
            # a crash may have cut the last line short: nobody was given its hash
            os.ftruncate(file.fileno(), size - len(tail.rpartition(b"\n")[2]))
            raw = msgspec.json.encode(line) + b"\n"
            if file.write(raw) != len(raw):
                self._last = None
                raise OSError(f"{self._file} took only a part of a line")
            os.fdatasync(file.fileno()) if hasattr(os, "fdatasync") else os.fsync(file.fileno())
        self._last = line
        return line.hash


def _tail(file: Any) -> tuple[int, bytes]:
    size = os.fstat(file.fileno()).st_size
    return size, os.pread(file.fileno(), TAIL_BYTES, max(0, size - TAIL_BYTES))


def _last_line(file: Any) -> Line | None:
    for each in reversed(_tail(file)[1].split(b"\n")[:-1]):
        try:
            return msgspec.json.decode(each, type=Line)
        except (ValueError, RecursionError):
            continue
    return None


def _aside(file: Path) -> list[Path]:
    """Those that were put aside, the latest first, whether they are there or not."""
    return [file.with_name(f"{file.name}.{number}") for number in range(1, MOST_ASIDE + 1)]


def read_trail(state_dir: Path) -> Iterator[bytes]:
    """Its lines as they stand, the oldest first. Raises OSError."""
    current = state_dir / TRAIL_FILE
    for each in (*reversed(_aside(current)), current):
        try:
            descriptor = open_private(each, os.O_RDONLY)
        except FileNotFoundError:
            continue
        with os.fdopen(descriptor, "rb") as file:
            yield from file


def check_trail(lines: Iterator[bytes]) -> Checked:
    """A file's last line without its newline is ignored: a crash cut it short, so nothing follows it."""
    before, count, first = FIRST, 0, None
    told: set[str] = set()
    for number, raw in enumerate((each for each in lines if each.endswith(b"\n")), 1):
        try:
            line = msgspec.json.decode(raw, type=Line)
        except (ValueError, RecursionError):
            return Checked(count, before, f"line {number} is no line of a trail")
        if msgspec.json.encode(line) + b"\n" != raw:
            return Checked(count, before, f"line {number} is not as the collector writes it")
        if first is None:
            first, before, count = line, line.before, line.n - 1
        if line.before != before or line.n != count + 1:
            return Checked(count, before, f"line {number} does not follow the one before it")
        if line.hash != line.hashed():
            return Checked(count, before, f"line {number} was changed")
        if line.what == DROPPED:
            told.add(line.about)
        before, count = line.hash, count + 1
    gone = 0 if first is None else first.n - 1
    if first is not None and f"{gone} {first.before}" not in told | {f"0 {FIRST}"}:
        return Checked(count, before, f"what came before line {first.n} was taken away", gone)
    return Checked(count - gone, before, None, gone)
