"""Batches on the wire: one error for everything that cannot be understood."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adsum_shared.envelope import (
    MOST_BYTES,
    NONCE_BEFORE,
    Batch,
    DecodeError,
    Gap,
    Unread,
    decode_batch,
    encode_batch,
    encode_gap,
)
from adsum_shared.signals import Alive, encode_signal

ALIVE = Alive(session_id="s", at=1, seen=2)


def fields(count: int = 2, first: int = 5) -> dict[bytes, bytes]:
    return encode_batch(
        spool_id="sp", first=first, nonce="n", sent_at=9, signals=[encode_signal(ALIVE)] * count
    )


def test_a_batch_survives_the_wire():
    assert decode_batch(fields()) == Batch("sp", 5, 6, "n", 9, (ALIVE, ALIVE))


def test_an_entry_may_name_the_run_of_the_number_before_it():
    assert decode_batch(fields() | {NONCE_BEFORE: b"m"}).nonce_before == "m"
    assert decode_batch(fields()).nonce_before == ""


def test_a_gap_names_its_numbers_and_its_reason():
    gap = decode_batch(
        encode_gap(spool_id="sp", first=1, last=4, nonce="n", sent_at=9, reason="cap", lost_at=7)
    )

    assert (gap.first, gap.last, gap.signals) == (1, 4, ())
    assert gap.gap == Gap("cap", 7)


def test_a_gap_of_an_older_collector_has_no_time_of_its_own():
    fields = encode_gap(spool_id="sp", first=1, last=4, nonce="n", sent_at=9, reason="cap")
    del fields[b"ga"]

    assert decode_batch(fields).gap == Gap("cap", 0)


def test_fewer_signals_than_numbers_are_refused_and_their_span_is_known():
    with pytest.raises(DecodeError) as caught:
        decode_batch(fields() | {b"l": b"9"})

    assert caught.value.span is not None
    assert (caught.value.span.first, caught.value.span.last) == (5, 9)


@pytest.mark.parametrize(
    "change",
    [
        {b"v": b"2"},
        {b"v": b"one"},
        {b"f": b"0"},
        {b"l": b"4"},
        {b"b": b"[{]"},
        {b"b": b"\xff"},
        {b"b": b"[" * 100_000},
        {b"b": b"[" + b" " * MOST_BYTES + b"]"},
        {b"sp": b"\xff"},
        {b"sp": b""},
        {b"sp": b"x" * (1 << 20)},
        {b"sp": b"a\nb"},
        {b"n": b""},
        {b"n": b"x" * 65},
        {b"g": b"x" * 65},
        {b"at": b"now"},
        {b"at": b"-1"},
        {b"at": b"9" * 5_000},
        {b"f": b"-3"},
        {b"f": b"1_0"},
        {b"l": b"1" + b"0" * 30},
        {b"f": b"1", b"l": b"1001"},
    ],
)
def test_a_damaged_entry_raises_one_error_with_the_entry_in_it(change: dict[bytes, bytes]):
    damaged = fields() | change

    with pytest.raises(DecodeError) as caught:
        decode_batch(damaged)

    assert caught.value.raw == damaged


def test_one_signal_that_makes_no_sense_does_not_take_its_neighbours_along():
    odd = b'{"kind":"alive","session_id":5},7,{"kind":"alive","session_id":"\xff","at":1,"seen":1}'
    body = b"[%s,%s,%s]" % (encode_signal(ALIVE), odd, encode_signal(ALIVE))

    signals = decode_batch(fields() | {b"l": b"9", b"b": body}).signals

    assert (signals[0], signals[4]) == (ALIVE, ALIVE)
    assert all(isinstance(each, Unread) for each in signals[1:4])


def test_another_format_is_named_and_its_numbers_are_not_passed_over():
    with pytest.raises(DecodeError) as caught:
        decode_batch(fields() | {b"v": b"2"})

    assert (caught.value.version, caught.value.span) == (2, None)


def test_a_cause_stays_short_whatever_the_entry_holds():
    with pytest.raises(DecodeError) as caught:
        decode_batch(fields() | {b"f": b"x" * 1_000_000})

    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("missing", [b"v", b"sp", b"f", b"l", b"n", b"at", b"b"])
def test_a_missing_field_raises_that_error_too(missing: bytes):
    damaged = fields()
    del damaged[missing]

    with pytest.raises(DecodeError):
        decode_batch(damaged)


@given(
    st.dictionaries(
        st.sampled_from([b"v", b"sp", b"f", b"l", b"n", b"at", b"b", b"g"]), st.binary()
    )
)
def test_no_entry_whatever_raises_anything_else(entry: dict[bytes, bytes]):
    with contextlib.suppress(DecodeError):
        decode_batch(entry)
