"""A snapshot is read as far as it makes sense, and what does not is never taken for nothing."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adsum_hub.snapshots import HostRecord, Snapshot, decode_facts, decode_header, session_of
from adsum_shared.state import GapView
from tests.story import working

WHOLE = {
    b"v": b"7",
    b"schema": b"1",
    b"cur": b"3-20",
    b"applied": b'{"sp":20}',
    b"runs": b'{"sp":{"a":12,"b":20}}',
    b"host": b'{"label":"lab","last_seen":5,"gaps":[{"at":4,"reason":"cap","numbers":2}]}',
}


def test_a_header_is_read_whole():
    host = HostRecord("lab", 5, gaps=(GapView(4, "cap", 2),))

    assert decode_header(WHOLE) == Snapshot(
        7, "3-20", {"sp": 20}, host, runs={"sp": {"a": 12, "b": 20}}
    )


def test_one_without_some_of_its_fields_has_them_empty():
    header = decode_header({key: WHOLE[key] for key in (b"v", b"cur", b"applied")})

    assert (header.newer, header.runs, header.applied) == (0, {}, {"sp": 20})


def test_one_of_a_newer_schema_is_read_and_marked():
    header = decode_header(WHOLE | {b"schema": b"2", b"unheard of": b"x"})

    assert (header.newer, header.applied) == (2, {"sp": 20})


@pytest.mark.parametrize(
    "change",
    [
        {b"applied": b"{broken"},
        {b"applied": b'{"sp":-1}'},
        {b"applied": b'{"sp":1' + b"0" * 30 + b"}"},
        {b"applied": b"\xff"},
        {b"applied": b"[" * 50_000},
        {b"runs": b'{"sp":5}'},
        {b"runs": b'{"sp":{"a":-4}}'},
        {b"host": b"[]"},
        {b"host": b'{"clock_offset_ms":1' + b"0" * 20 + b"}"},
        {b"cur": b"\xff\xfe"},
    ],
)
def test_a_header_that_makes_no_sense_is_told_and_nothing_of_it_is_used(
    change: dict[bytes, bytes],
):
    header = decode_header(WHOLE | change)

    assert header.problem
    assert len(header.problem) <= 200
    assert (header.version, header.applied, header.cursor) == (7, {}, "0-0")


@pytest.mark.parametrize(
    "cursor", [b"x", b"1", b"1-2-3", b"18446744073709551615-0", b"9" * 40 + b"-1"]
)
def test_a_cursor_that_is_no_place_means_to_read_from_the_start(cursor: bytes):
    header = decode_header(WHOLE | {b"cur": cursor})

    assert (header.problem, header.cursor, header.applied) == (None, "0-0", {"sp": 20})


@pytest.mark.parametrize("version", [b"", b"x", b"-1", b"1.5", b"9" * 16, b"\xff"])
def test_a_version_that_is_none_counts_as_none(version: bytes):
    assert decode_header(WHOLE | {b"v": version}).version == 0


def test_facts_survive_and_what_are_none_are_none():
    facts = working().told()

    assert decode_facts(msgspec.json.encode(facts)) == facts
    assert decode_facts(b"{}") is None
    assert decode_facts(b"[" * 100_000) is None


def test_a_field_belongs_to_a_session_or_to_none():
    assert session_of(b"s:abc", "s:") == "abc"
    assert session_of(b"schema", "s:") is None


@given(st.dictionaries(st.sampled_from(list(WHOLE)), st.binary(max_size=30)))
def test_no_header_whatever_raises(change: dict[bytes, bytes]):
    assert isinstance(decode_header(WHOLE | change), Snapshot)
