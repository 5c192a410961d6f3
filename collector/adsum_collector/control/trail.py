"""The trail of control: what was asked, commanded, by whom, and what came of it. Append-only.

Each line bears the hash of the line before it, so that none can be changed or taken out without all
that follow showing it. Whoever can write the file could write it all anew: compare the last hash with
one that was noted elsewhere; hubs are told it with each report.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from adsum_shared.private_files import open_private

FILE: Final = "control-trail.jsonl"
FIRST: Final = "0" * 64
TAIL_BYTES: Final = 1 << 20


class Line(msgspec.Struct, frozen=True, omit_defaults=True):
    """n: from 1. at: ms. what: held, ended, command, sent, effect. before, hash: of the lines."""

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
    """last: its hash. fault: where and how the chain is broken; None: it is whole."""

    lines: int
    last: str
    fault: str | None


class Trail:
    """Every method raises OSError."""

    def __init__(self, state_dir: Path) -> None:
        self._file = state_dir / FILE
        self._last: Line | None = None

    def add(self, at: int, what: str, **told: Any) -> str:
        """The line's hash, once it is on disk."""
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT
        with os.fdopen(open_private(self._file, flags), "rb+", buffering=0) as file:
            last = self._last or _last_line(file)
            before, n = (last.hash, last.n) if last else (FIRST, 0)
            line = Line(n=n + 1, at=at, what=what, before=before, **told)
            line = msgspec.structs.replace(line, hash=line.hashed())
            size = os.fstat(file.fileno()).st_size
            # a line that a crash cut short must not swallow ours
            torn = size and os.pread(file.fileno(), 1, size - 1) != b"\n"
            raw = (b"\n" if torn else b"") + msgspec.json.encode(line) + b"\n"
            if file.write(raw) != len(raw):
                self._last = None
                raise OSError(f"{self._file} took only a part of a line")
            os.fdatasync(file.fileno()) if hasattr(os, "fdatasync") else os.fsync(file.fileno())
        self._last = line
        return line.hash


def _last_line(file: Any) -> Line | None:
    size = os.fstat(file.fileno()).st_size
    raw = os.pread(file.fileno(), TAIL_BYTES, max(0, size - TAIL_BYTES))
    for each in reversed(raw.splitlines()):
        try:
            return msgspec.json.decode(each, type=Line)
        except (ValueError, RecursionError):
            continue
    return None


def read_trail(state_dir: Path) -> Iterator[bytes]:
    """Its lines as they stand. Raises OSError."""
    try:
        descriptor = open_private(state_dir / FILE, os.O_RDONLY)
    except FileNotFoundError:
        return
    with os.fdopen(descriptor, "rb") as file:
        yield from file


def check_trail(lines: Iterator[bytes]) -> Checked:
    """What a crash left of half a line is passed over: it is in no chain, so nothing follows it."""
    before, count = FIRST, 0
    for number, raw in enumerate(lines, 1):
        try:
            line = msgspec.json.decode(raw, type=Line)
        except (ValueError, RecursionError):
            continue
        if line.before != before or line.n != count + 1:
            return Checked(count, before, f"line {number} does not follow the one before it")
        if line.hash != line.hashed():
            return Checked(count, before, f"line {number} was changed")
        before, count = line.hash, count + 1
    return Checked(count, before, None)
