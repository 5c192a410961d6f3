"""What of a transcript was told from another of its session, found by comparing the two."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

import adsum_collector.transcripts.cursors as match_module
from adsum_collector.transcripts.cursors import (
    Chunk,
    CopyWait,
    Cursor,
    Elsewhere,
    Stamp,
    read_chunk,
)

LINES = [b"%d %s\n" % (number, b"x" * 300) for number in range(40)]
TOLD = b"".join(LINES)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "copy.jsonl"


@pytest.fixture
def others(tmp_path: Path) -> list[Elsewhere]:
    return [told(tmp_path / "first.jsonl", TOLD)]


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """From where on, each time that bytes are compared."""
    starts: list[int] = []

    def same_until(one: int, other: int, start: int, end: int) -> int:
        starts.append(start)
        return original(one, other, start, end)

    original = match_module._same_until
    monkeypatch.setattr(match_module, "_same_until", same_until)
    return starts


def told(path: Path, content: bytes) -> Elsewhere:
    path.write_bytes(content)
    return Elsewhere(str(path), read_chunk(str(path), None, with_sidecar=False).cursor)


def take(
    path: Path, others: list[Elsewhere], own: Cursor | None = None, waits: CopyWait | None = None
) -> Chunk:
    return read_chunk(str(path), own, others, with_sidecar=False, waits=waits)


def test_what_holds_nothing_but_what_was_told_waits(path: Path, others: list[Elsewhere]) -> None:
    for content in (b"", LINES[0], TOLD[:5000], TOLD[:-1]):
        path.write_bytes(content)

        chunk = take(path, others)

        assert (chunk.lines, chunk.waits) == ([], CopyWait(chunk.stamp, 0, 0, len(content)))


@pytest.mark.parametrize("step", [1, 1000, 64 << 10])
def test_it_is_begun_with_the_line_that_is_not_the_others(
    path: Path, others: list[Elsewhere], step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(match_module, "COMPARED_BYTES", step)
    # begins as the other's eleventh line does
    path.write_bytes(b"".join(LINES[:10]) + b"10 y\nmore\n")

    chunk = take(path, others)

    assert (chunk.lines, chunk.head, chunk.waits) == ([b"10 y", b"more"], [], None)


def test_half_a_line_that_is_not_the_others_is_told_when_it_is_whole(
    path: Path, others: list[Elsewhere]
) -> None:
    path.write_bytes(b"".join(LINES[:10]) + b"10 y")
    half = take(path, others)
    with path.open("ab") as file:
        file.write(b"z\n")

    assert half.lines == []
    assert take(path, others, half.cursor).lines == [b"10 yz"]


def test_of_one_that_shares_no_line_all_is_told(path: Path, others: list[Elsewhere]) -> None:
    path.write_bytes(TOLD[:280] + b"y\nmore\n")

    assert take(path, others).lines == [TOLD[:280] + b"y", b"more"]


def test_of_two_others_the_one_counts_with_which_it_shares_more(
    path: Path, others: list[Elsewhere], tmp_path: Path
) -> None:
    third = told(tmp_path / "third.jsonl", b"".join(LINES[:10]) + b"y\n" + TOLD)
    path.write_bytes(b"".join(LINES[:10]) + b"y\nmore\n")

    assert take(path, [*others, third]).lines == [b"more"]


@pytest.mark.parametrize("change", [os.unlink, lambda path: os.truncate(path, 3000)])
def test_what_is_not_there_as_it_was_read_is_not_compared(
    path: Path, others: list[Elsewhere], change: object
) -> None:
    assert callable(change)
    change(others[0].path)
    path.write_bytes(b"".join(LINES[:10]))

    waits = take(path, others).waits

    assert waits is not None
    assert waits.shared == 0


def test_that_another_cannot_be_read_any_more_is_no_fault_of_this_one(
    path: Path, others: list[Elsewhere], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stale(*_: int) -> int:
        raise OSError(errno.ESTALE, "its server has deleted it")

    monkeypatch.setattr(match_module, "_same_until", stale)
    path.write_bytes(TOLD[:5000])

    waits = take(path, others).waits

    assert waits is not None
    assert waits.shared == 0


def test_what_was_compared_is_not_compared_again(
    path: Path, others: list[Elsewhere], compared: list[int]
) -> None:
    path.write_bytes(TOLD[:5000])
    waits = take(path, others).waits
    path.write_bytes(TOLD[:9000])

    take(path, others, waits=waits)

    assert compared == [0, 5000]


def test_what_was_written_anew_since_it_was_compared_is_compared_again(
    path: Path, others: list[Elsewhere]
) -> None:
    path.write_bytes(TOLD[:5000])
    waits = take(path, others).waits
    path.write_bytes(LINES[0] + b"one\n" + b"y" * 8000 + b"\n")

    assert take(path, others, waits=waits).lines == [b"one", b"y" * 8000]


def test_what_parted_from_the_other_before_is_not_compared_any_more(
    path: Path, others: list[Elsewhere], compared: list[int]
) -> None:
    path.write_bytes(LINES[0] + b"one\n")
    own = take(path, others).cursor
    compared.clear()
    with path.open("ab") as file:
        file.write(b"two\n")

    assert take(path, others, own).lines == [b"two"]
    assert compared == []


def test_what_is_written_over_in_place_waits_until_it_parts(
    path: Path, others: list[Elsewhere]
) -> None:
    own = told(path, TOLD[:6000]).cursor
    with path.open("ab") as file:
        file.write(TOLD[own.offset : 9000][6000 - own.offset :])

    assert Stamp.of(path.stat()).size == 9000
    assert take(path, others, own).waits
    with path.open("ab") as file:
        file.write(b"y\nmore\n")

    assert take(path, others, own).lines[-1] == b"more"
    assert len(take(path, others, own).lines) == 2
