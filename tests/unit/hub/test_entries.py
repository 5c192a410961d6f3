"""An entry is a batch or is set aside, whatever somebody has written there."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adsum_hub.inbox import MOST_MS, is_cursor, is_poisoned, order, read_entry
from adsum_shared.envelope import DecodeError, Unread, encode_batch, encode_gap
from adsum_shared.signals import Alive, ProcessSeen, Signal, UnknownSignal, encode_signal

GOOD = Alive(session_id="s", at=1, seen=1)


def entry(*signals: Signal | UnknownSignal, first: int = 3) -> dict[bytes, bytes]:
    bodies = [encode_signal(signal) for signal in signals]  # type: ignore[arg-type]
    return encode_batch(spool_id="sp", first=first, nonce="n", sent_at=9, signals=bodies)


def test_an_entry_whose_id_and_numbers_agree_is_a_batch():
    assert read_entry("7-4", entry(GOOD, GOOD)).last == 4


def test_an_entry_that_claims_other_numbers_than_its_id_says_is_set_aside():
    with pytest.raises(DecodeError) as caught:
        read_entry("7-5", entry(GOOD, GOOD))

    assert caught.value.span is None


@pytest.mark.parametrize(
    "signal",
    [
        Alive(session_id="", at=1, seen=1),
        Alive(session_id="s" * 201, at=1, seen=1),
        Alive(session_id="a\nb", at=1, seen=1),
        Alive(session_id="s", at=MOST_MS + 1, seen=1),
        Alive(session_id="s", at=-(10**30), seen=1),
        Alive(session_id="s", at=1, seen=10**30),
        ProcessSeen(session_id="s", at=1, seen=1, pid=10**20),
        UnknownSignal("new.kind", "s", 10**30, 1, {}),
    ],
)
def test_a_signal_that_nothing_could_be_made_of_is_set_aside_alone(signal: Signal):
    raw = entry(GOOD, GOOD, GOOD)
    odd = encode_signal(signal)  # type: ignore[arg-type]
    if isinstance(signal, UnknownSignal):
        odd = b'{"kind":"new.kind","session_id":"s","at":1%s,"seen":1}' % (b"0" * 30)
    raw[b"b"] = b"[" + b",".join([encode_signal(GOOD), odd, encode_signal(GOOD)]) + b"]"

    signals = read_entry("7-5", raw).signals

    assert isinstance(signals[1], Unread)
    assert (signals[0], signals[2]) == (GOOD, GOOD)


def test_a_gap_is_read_as_one_whatever_its_size():
    fields = encode_gap(spool_id="sp", first=2, last=90_000_000, nonce="n", sent_at=9, reason="cap")

    assert read_entry("1-90000000", fields).gap is not None


def test_ids_are_ordered_as_redis_orders_them():
    assert order("9-10") > order("9-9") > order("8-99")


def test_ids_after_which_nothing_could_come_are_poison_and_no_cursor():
    assert not is_poisoned(f"{2**53 - 1}-{2**53 - 1}")
    assert is_poisoned(f"{2**53}-1")
    assert is_poisoned(f"1-{2**64 - 1}")
    assert is_cursor("12-3")
    assert not any(
        map(is_cursor, ["", "12", "-", "1-x", "1-2-3", "²-1", f"{2**53}-0", "1" * 30 + "-0"])
    )


@given(
    st.dictionaries(
        st.sampled_from([b"v", b"sp", b"f", b"l", b"n", b"at", b"b", b"g"]),
        st.one_of(
            st.binary(max_size=40),
            st.sampled_from(
                [b"1", b"0", b"-1", b"9" * 17, b"9" * 5000, b"[]", b"[{}]", b"[1e999]"]
            ),
        ),
    ),
    st.from_regex(r"[0-9]{1,20}-[0-9]{1,20}", fullmatch=True),
)
def test_no_entry_whatever_raises_anything_but_that_it_is_set_aside(
    fields: dict[bytes, bytes], entry_id: str
):
    with contextlib.suppress(DecodeError):
        read_entry(entry_id, fields)
