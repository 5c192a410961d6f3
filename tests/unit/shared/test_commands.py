from __future__ import annotations

from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from adsum_shared.commands import (
    DECISION_TTL_MS,
    MOST_BYTES,
    Command,
    Displayed,
    NotObeyedError,
    binding_of,
    key_id,
    opened,
    signed,
)

KEY = Ed25519PrivateKey.generate()
KEYS = {key_id(KEY.public_key()): KEY.public_key()}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
COMMAND = Command(id="c1", host_id="host", session_id="s", verb="allow", by="ann")


def test_a_command_arrives_as_it_was_signed() -> None:
    assert opened(signed(COMMAND, KEY), "host", KEYS, 0) == COMMAND


@pytest.mark.parametrize("field", [b"c", b"s", b"k"])
def test_a_changed_or_missing_field_is_refused(field: bytes) -> None:
    fields = signed(COMMAND, KEY)
    last = b"1" if fields[field].endswith(b"0") else b"0"
    for other in (fields[field][:-1] + last, b"", b"\xff"):
        with pytest.raises(NotObeyedError):
            opened({**fields, field: other}, "host", KEYS, 0)
    del fields[field]
    with pytest.raises(NotObeyedError):
        opened(fields, "host", KEYS, 0)


def test_a_command_for_another_machine_is_refused() -> None:
    with pytest.raises(NotObeyedError, match="signature"):
        opened(signed(COMMAND, KEY), "other", KEYS, 0)


def test_a_key_that_is_not_pinned_signs_nothing() -> None:
    with pytest.raises(NotObeyedError, match="no hub that this machine trusts"):
        opened(signed(COMMAND, Ed25519PrivateKey.generate()), "host", KEYS, 0)


@pytest.mark.parametrize("age", [DECISION_TTL_MS + 1, -DECISION_TTL_MS - 1])
def test_a_command_out_of_its_time_is_refused(age: int) -> None:
    with pytest.raises(NotObeyedError, match="too late"):
        opened(signed(COMMAND, KEY), "host", KEYS, age)


def test_an_absurd_length_is_refused() -> None:
    long = replace(COMMAND, text="x" * MOST_BYTES)
    with pytest.raises(NotObeyedError, match="too long"):
        opened(signed(long, KEY), "host", KEYS, 0)


def test_a_binding_depends_on_all_that_is_shown_but_not_on_the_order_of_fields() -> None:
    payload = {"command": "ls", "timeout": 1}
    shown = Displayed("s", "/a", "permission", "Bash", "shell", "ls", payload, ("Bash(ls:*)",))
    changes: list[dict[str, Any]] = [
        {},
        *({"session_id": "t"}, {"cwd": "/b"}, {"kind": "plan"}, {"tool": "Write"}),
        *({"role": "write"}, {"summary": "make"}, {"summary": None}, {"always": ()}),
        *({"payload": None}, {"payload": {"command": "ls -a", "timeout": 1}}),
        *({"payload": {**payload, "timeout": value}} for value in (1.0, "1", True, None, 2**70)),
    ]
    assert len({binding_of(shown._replace(**change)) for change in changes}) == len(changes)
    swapped = dict(reversed(payload.items()))
    assert binding_of(shown._replace(payload=swapped)) == binding_of(shown)


@given(st.dictionaries(st.text(), JSON))
def test_what_was_sent_binds_as_what_arrives(payload: dict[str, Any]) -> None:
    shown = Displayed("s", "/é", "permission", "Bash", "shell", "ls", payload, ())
    arrived = msgspec.json.decode(msgspec.json.encode(payload))
    assert binding_of(shown._replace(payload=arrived)) == binding_of(shown)


def test_a_lone_surrogate_is_no_text_on_either_side() -> None:
    with pytest.raises(msgspec.DecodeError):
        msgspec.json.decode(rb'{"command": "\ud800."}')
    shown = Displayed("s", "/a", "permission", "Bash", "shell", None, {"command": "\ud800"}, ())
    with pytest.raises(UnicodeEncodeError):
        binding_of(shown)


def test_no_hub_makes_a_decision_last_longer() -> None:
    lasting = replace(COMMAND, ttl_ms=DECISION_TTL_MS * 100)
    with pytest.raises(NotObeyedError, match="too late"):
        opened(signed(lasting, KEY), "host", KEYS, DECISION_TTL_MS + 1)
