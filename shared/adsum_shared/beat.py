"""The heartbeat: renewed by the loop that publishes, so it means ready, not merely alive."""

from typing import Literal

import msgspec

from adsum_shared.state import Control, HostAgent, HostWitness, ScanProgress


class Counts(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a collector has done since it started; spool_bytes alone is as of now.

    hooks, refused: taken and refused, of both doors. signals: put into the spool. published,
    published_bytes: into the stream, replays too. replays: begun because a hub asked.
    """

    hooks: int = 0
    refused: int = 0
    signals: int = 0
    published: int = 0
    published_bytes: int = 0
    replays: int = 0
    spool_bytes: int = 0


class Beat(msgspec.Struct, frozen=True, omit_defaults=True):
    """at: host wall clock, ms. seq: highest number in the spool, sent: highest in the stream.

    fingerprint tells machines apart that share a copied state directory. stopping: a clean
    shutdown, so the host may be called offline at once. witnesses: their times are host ms. scan:
    while the history is being read. counts: None from a collector that is older than they are. via:
    what its signals go through; None: straight to Redis. agents: that the collector knows. control:
    what the machine's owner lets be done from elsewhere. report_key: in hex, by which tokens of its
    sessions are checked; None: it has given none.
    """

    host_id: str
    label: str
    at: int
    nonce: str
    spool_id: str
    seq: int = 0
    sent: int = 0
    version: str | None = None
    fingerprint: str | None = None
    agent_version: str | None = None
    stopping: bool = False
    problem: str | None = None
    witnesses: tuple[HostWitness, ...] = ()
    scan: ScanProgress | None = None
    counts: Counts | None = None
    via: Literal["hub"] | None = None
    agents: tuple[HostAgent, ...] = ()
    control: Control = "off"
    report_key: str | None = None


_decoder: msgspec.json.Decoder[Beat] = msgspec.json.Decoder(Beat)


def encode_beat(beat: Beat) -> bytes:
    return msgspec.json.encode(beat)


def decode_beat(raw: bytes) -> Beat | None:
    """None for what is no heartbeat: a foreign value must not stop a hub."""
    try:
        return _decoder.decode(raw)
    except (ValueError, RecursionError):
        return None
