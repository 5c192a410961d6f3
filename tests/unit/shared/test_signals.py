"""The wire form of signals, known and unknown."""

from __future__ import annotations

import msgspec
import pytest

from adsum_shared.signals import (
    KINDS,
    ToolStarted,
    UnknownSignal,
    decode_signal,
    decode_signals,
    encode_signal,
)

STARTED = ToolStarted(session_id="s", at=1, seen=2, tool="Bash", tool_use_id="t")


def test_a_signal_survives_the_wire():
    assert decode_signal(encode_signal(STARTED)) == STARTED


def test_kinds_of_the_state_model_are_all_there():
    assert {"session.started", "tool.finished", "status.reported", "alive"} <= KINDS
    assert "signal" not in KINDS


def test_an_unknown_kind_is_kept_and_passed_on_unchanged():
    raw = b'{"kind":"quota.asked","session_id":"s","at":1,"seen":2,"how":{"much":3}}'

    signal = decode_signal(raw)

    assert isinstance(signal, UnknownSignal)
    assert signal.kind == "quota.asked"
    assert msgspec.json.decode(encode_signal(signal)) == msgspec.json.decode(raw)


def test_unknown_fields_are_ignored():
    raw = b'{"kind":"alive","session_id":"s","at":1,"seen":2,"mood":"good"}'

    assert decode_signal(raw).session_id == "s"


def test_one_unknown_kind_does_not_spoil_its_batch():
    unknown = b'{"kind":"x","session_id":"s","at":1,"seen":2}'

    signals = decode_signals(b"[" + encode_signal(STARTED) + b"," + unknown + b"]")

    assert signals[0] == STARTED
    assert isinstance(signals[1], UnknownSignal)


@pytest.mark.parametrize("raw", [b"", b"[]", b"{}", b'{"kind":"alive"}', b'{"kind":7}', b"\xff"])
def test_what_is_no_signal_raises(raw: bytes):
    with pytest.raises(msgspec.DecodeError):
        decode_signal(raw)
