"""The file of a backup: what is written is read again, and what is not whole is refused in words."""

from __future__ import annotations

import gzip
import io
import json
from typing import Any

import pytest

from adsum.backup import FORMAT, BackupFileError, StoredKey, raw, read, read_header, text, write

HEADER = {"adsum_backup": FORMAT, "made": 1}
RECORDS = [
    StoredKey("adsum:s", "string", None, text(bytes(range(256)))),
    StoredKey("adsum:h", "hash", 12, {"field": "value"}),
    StoredKey("adsum:x", "stream", None, {"last": "2-0", "entries": [["1-0", {"b": "1"}]]}),
]


def written(records: list[StoredKey]) -> io.BytesIO:
    file = io.BytesIO()
    assert write(file, {"made": 1}, records) == len(records)
    return file


def lines(*told: Any) -> io.BytesIO:
    packed = gzip.compress(b"".join(json.dumps(line).encode() + b"\n" for line in told))
    return io.BytesIO(packed)


@pytest.mark.parametrize("records", [RECORDS, []], ids=["some", "none"])
def test_what_is_written_is_read_again(records: list[StoredKey]) -> None:
    file = written(records)

    assert read_header(file) == HEADER
    assert list(read(file)) == records


def test_any_bytes_come_back() -> None:
    assert raw(text(bytes(range(256)))) == bytes(range(256))


def test_the_same_keys_make_the_same_file() -> None:
    assert written(RECORDS).getvalue() == written(RECORDS).getvalue()


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ([{"else": 1}], "it is no backup of Adsum"),
        ([["adsum_backup"]], "it is no backup of Adsum"),
        ([{"adsum_backup": FORMAT + 1}], "from a newer Adsum than this one"),
        ([HEADER], "its last line is not there"),
        ([HEADER, {"end": 1}], "does not fit the lines before it"),
        ([HEADER, {"end": 0}, {"end": 0}], "does not fit the lines before it"),
        ([HEADER, {"other": 0}], "does not fit the lines before it"),
        ([HEADER, ["k", "string", None]], "line 2 is no key of a backup"),
        ([HEADER, ["k", "list", None, []]], "line 2 is no key of a backup"),
        ([HEADER, ["k", "string", "soon", ""]], "line 2 is no key of a backup"),
        ([HEADER, [1, "string", None, ""]], "line 2 is no key of a backup"),
    ],
)
def test_what_is_no_whole_backup_is_refused_with_its_fault(told: list[Any], said: str) -> None:
    with pytest.raises(BackupFileError, match=said):
        list(read(lines(*told)))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (b"", "it is empty"),
        (b"no gzip at all", "it is no backup"),
        (gzip.compress(b"{]\n", mtime=0), "line 1 is not JSON"),
        (gzip.compress(json.dumps(HEADER).encode() + b"\n{]\n", mtime=0), "line 2 is not JSON"),
    ],
)
def test_other_files_are_refused(given: bytes, said: str) -> None:
    with pytest.raises(BackupFileError, match=said):
        list(read(io.BytesIO(given)))


@pytest.mark.parametrize("kept", [0.3, 0.6, 0.95])
def test_a_file_cut_off_is_refused(kept: float) -> None:
    whole = written([*RECORDS] * 50).getvalue()

    with pytest.raises(BackupFileError, match="it ends in the middle"):
        list(read(io.BytesIO(whole[: int(len(whole) * kept)])))
