"""Seals a record of Redis with the hub's secret, and returns only records that it has sealed."""

import hmac

_PURPOSE = b"adsum record 1\0"
_BEFORE_MAC = b',"mac":"'
#: What a seal adds to the JSON, in place of its last brace, and the 64 digits of a SHA-256.
_SEAL_BYTES = len(_BEFORE_MAC) + 64 + len(b'"}')
#: Of a secret. HMAC-SHA256 gains nothing from a longer one.
LEAST_SECRET = 32


def sealed(secret: bytes, key: str, record: bytes, field: str | None = None) -> bytes:
    """Return the JSON object `record` with a MAC as its last field.

    key, field: where Redis has it. Both are in the MAC, so a copy at another place is not valid. A hub
    of an earlier version ignores the field.
    """
    place = key if field is None else f"{key}\0{field}"
    message = b"%b%b\0%b" % (_PURPOSE, place.encode(), record)
    mac = hmac.digest(secret, message, "sha256").hex().encode()
    return b'%b%b%b"}' % (record[:-1], _BEFORE_MAC, mac)


def unsealed(secret: bytes, key: str, raw: bytes, field: str | None = None) -> bytes | None:
    """Return the record without its MAC; None if this secret did not seal it for this place.

    The MAC is cut off by its length, so unknown fields of a newer version stay part of what it covers.
    """
    record = raw[:-_SEAL_BYTES] + b"}"
    valid = hmac.compare_digest(raw, sealed(secret, key, record, field))
    return record if valid else None
