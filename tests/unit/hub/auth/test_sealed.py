"""The MAC of a record: valid for one secret, one place and every byte of it."""

from __future__ import annotations

import msgspec
import pytest

from adsum_hub.auth.sealed import sealed, unsealed

SECRET, KEY = b"s" * 32, "adsum:{auth}:token:aa"
RECORD = b'{"id":"aa","role":"viewer"}'


@pytest.mark.parametrize("field", [None, "oak"])
@pytest.mark.parametrize("record", [RECORD, b'{"mac":"x","of_a_newer_version":[{}]}'])
def test_what_is_sealed_is_read_again_and_older_hubs_ignore_the_mac(
    record: bytes, field: str | None
) -> None:
    raw = sealed(SECRET, KEY, record, field)

    assert unsealed(SECRET, KEY, raw, field) == record
    assert msgspec.json.decode(record).keys() <= msgspec.json.decode(raw).keys()


@pytest.mark.parametrize(
    ("secret", "key", "field"),
    [
        (b"t" * 32, KEY, "oak"),
        (SECRET, "adsum:{auth}:token:bb", "oak"),
        (SECRET, KEY, "elm"),
        (SECRET, KEY, None),
        (SECRET, f"{KEY}\0oak", None),
    ],
    ids=["secret", "key", "field", "no field", "key and field as one"],
)
def test_a_seal_is_for_one_secret_and_one_place(secret: bytes, key: str, field: str | None) -> None:
    raw = sealed(SECRET, KEY, RECORD, "oak")

    # A key has no zero byte, so the last case names the same place.
    assert (unsealed(secret, key, raw, field) is None) == ("\0" not in key)


def test_a_changed_byte_breaks_the_seal_wherever_it_is() -> None:
    raw = sealed(SECRET, KEY, RECORD)

    for at in range(len(raw)):
        changed = raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :]
        assert unsealed(SECRET, KEY, changed) is None, at


@pytest.mark.parametrize(
    "raw", [b"", b"{", b"{}", RECORD, RECORD[:-1] + b',"mac":"' + b"0" * 64 + b'"}']
)
def test_a_record_without_a_valid_seal_is_none(raw: bytes) -> None:
    assert unsealed(SECRET, KEY, raw) is None
