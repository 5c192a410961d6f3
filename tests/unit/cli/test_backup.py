"""The file of a backup: what is written is read again, and what is not whole is refused in words."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

from adsum.broker import FORMAT, BackupFileError, StoredKey, pack, raw, text, unpack

HEADER = {"adsum_backup": FORMAT, "made": 1}
RECORDS = [
    StoredKey("adsum:s", "string", None, text(bytes(range(256)))),
    StoredKey("adsum:h", "hash", 12, {"field": "value"}),
    StoredKey("adsum:x", "stream", None, {"last": "2-0", "entries": [["1-0", {"b": "1"}]]}),
]


def lines(*told: Any) -> bytes:
    return gzip.compress(b"".join(json.dumps(line).encode() + b"\n" for line in told))


@pytest.mark.parametrize("records", [RECORDS, []], ids=["some", "none"])
def test_what_is_written_is_read_again(records: list[StoredKey]) -> None:
    assert unpack(pack({"made": 1}, records)) == (HEADER, records)


def test_any_bytes_come_back() -> None:
    assert raw(text(bytes(range(256)))) == bytes(range(256))


def test_the_same_keys_make_the_same_file() -> None:
    assert pack({}, RECORDS) == pack({}, RECORDS)


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
        unpack(lines(*told))


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
        unpack(given)


@pytest.mark.parametrize("kept", [0.3, 0.6, 0.95])
def test_a_file_cut_off_is_refused(kept: float) -> None:
    whole = pack({"made": 1}, RECORDS * 50)

    with pytest.raises(BackupFileError, match="it ends in the middle"):
        unpack(whole[: int(len(whole) * kept)])
