"""The wire of ingest, for machines that may reach only the hub: what both sides have to agree on.

A request is `host_keys.Asked`, its answer `host_keys.Told`, both as MessagePack: what goes through
is bytes, and is to arrive as it was. Refusals are JSON as everywhere.
"""

from __future__ import annotations

import msgspec

from adsum_shared.envelope import MOST_BYTES as MOST_BATCH
from adsum_shared.host_keys import Asked, Told

PATH = "/ingest"
KIND = "application/msgpack"
#: What a batch may hold, and room for the rest of an entry and a heartbeat.
MOST_BEAT = 256 << 10
MOST_BYTES = MOST_BATCH + MOST_BEAT + (64 << 10)

_asked = msgspec.msgpack.Decoder(Asked)
_told = msgspec.msgpack.Decoder(Told)
_encoder = msgspec.msgpack.Encoder()


def encode(what: Asked | Told) -> bytes:
    return _encoder.encode(what)


def decode_asked(raw: bytes) -> Asked:
    """Raises ValueError."""
    return _asked.decode(raw)


def decode_told(raw: bytes) -> Told:
    """Raises ValueError."""
    return _told.decode(raw)
