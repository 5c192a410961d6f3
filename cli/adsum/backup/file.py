"""The file of a backup: gzipped lines of JSON, a header first, a count last. Knows no Redis.

By type and not by DUMP, whose bytes another version of Redis, and Valkey, refuse.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import IO, Any

FORMAT = 1
TYPES = ("string", "hash", "set", "zset", "stream")


class BackupFileError(ValueError):
    """The text says what is wrong with the file."""


@dataclass(frozen=True, slots=True)
class Record:
    """One key. ends_at: ms since 1970, None: never. value: in the form its type has in JSON."""

    key: str
    type: str
    ends_at: int | None
    value: Any


def text(raw: bytes) -> str:
    """Reversible for any bytes, and plain to read where they are ASCII."""
    return raw.decode("latin-1")


def raw(told: str) -> bytes:
    return told.encode("latin-1")


def write(file: IO[bytes], header: dict[str, Any], records: Iterable[Record]) -> int:
    """The number of keys."""
    count = 0
    with gzip.GzipFile(fileobj=file, mode="wb", mtime=0) as packed:
        packed.write(_line({"adsum_backup": FORMAT, **header}))
        for count, record in enumerate(records, 1):  # noqa: B007 - the last is the number of all
            packed.write(_line([record.key, record.type, record.ends_at, record.value]))
        packed.write(_line({"end": count}))
    return count


def read_header(file: IO[bytes]) -> dict[str, Any]:
    """Raises BackupFileError."""
    header: dict[str, Any] = next(_lines(file))
    return header


def read(file: IO[bytes]) -> Iterator[Record]:
    """Raises BackupFileError, at the latest behind the last record: look at all before you use one."""
    lines = _lines(file)
    next(lines)
    for count, line in enumerate(lines):
        if isinstance(line, dict):
            if line.get("end") != count or next(lines, None) is not None:
                raise BackupFileError("its last line does not fit the lines before it")
            return
        yield _record(line, count + 2)
    raise BackupFileError("it ends in the middle: its last line is not there")


def _record(line: Any, number: int) -> Record:
    well = (
        isinstance(line, list)
        and len(line) == 4
        and isinstance(line[0], str)
        and line[1] in TYPES
        and isinstance(line[2], int | None)
    )
    if not well:
        raise BackupFileError(f"line {number} is no key of a backup")
    return Record(*line)


def _lines(file: IO[bytes]) -> Iterator[Any]:
    """The header first, which is looked at."""
    file.seek(0)
    number = 0
    try:
        with gzip.GzipFile(fileobj=file, mode="rb") as packed:
            for number, line in enumerate(packed, 1):
                told = json.loads(line)
                if number == 1:
                    _require_header(told)
                yield told
    except (EOFError, zlib.error) as error:
        raise BackupFileError("it ends in the middle, or was damaged") from error
    except gzip.BadGzipFile as error:
        raise BackupFileError("it is no backup, or was damaged") from error
    except ValueError as error:
        if isinstance(error, BackupFileError):
            raise
        raise BackupFileError(f"line {number} is not JSON") from error
    if not number:
        raise BackupFileError("it is empty")


def _require_header(told: Any) -> None:
    found = told.get("adsum_backup") if isinstance(told, dict) else None
    if not isinstance(found, int):
        raise BackupFileError("it is no backup of Adsum")
    if found > FORMAT:
        raise BackupFileError(f"it has format {found}, from a newer Adsum than this one")


def _line(told: Any) -> bytes:
    return json.dumps(told, separators=(",", ":")).encode() + b"\n"
