"""What a host puts into Redis: the envelope, one batch of its signals in an entry of its stream, and its heartbeat."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from adsum_shared.signals import AnySignal, decode_signal, decode_signals
from adsum_shared.state import Control, HostAgent, HostWitness, ScanProgress
from adsum_shared.streams import MOST_ID

VERSION = 1

#: What one entry may hold. A publisher sends a hundred signals and half a megabyte, or one signal
#: that is bigger: far more than that is no publisher's, and would stop a hub's loop for long.
MOST_SIGNALS = 1_000
MOST_BYTES = 8 << 20
_BIG = 1 << 20
#: Of a spool id, a nonce, a gap's reason: ours have 16 to 36 signs.
MOST_SIGNS = 64
NONCE_BEFORE = b"p"

_NUMBER = re.compile(rb"[0-9]{1,16}")
_CAUSE = 200


class DecodeError(ValueError):
    """An entry that cannot be understood. `raw` is the entry as read, `cause` says why.

    span: a gap over the entry's numbers, if at least its header could be read. version: of the
    format, where it is another than ours.
    """

    def __init__(
        self,
        cause: str,
        raw: Mapping[bytes, bytes],
        *,
        span: Batch | None = None,
        version: int | None = None,
    ) -> None:
        self.cause = cause[:_CAUSE]
        super().__init__(self.cause)
        self.raw, self.span, self.version = raw, span, version


class Gap(msgspec.Struct, frozen=True):
    """Numbers that will never come. reason: see `GapView`. at: when, in the host's ms; 0: unknown."""

    reason: str
    at: int = 0


class Unread(msgspec.Struct, frozen=True):
    """In place of a signal that cannot be used: its number is passed over, its neighbours are not."""

    cause: str


class Batch(msgspec.Struct, frozen=True):
    """Signals `first` to `last` of one spool, without holes; or a gap over these numbers.

    nonce names the collector's run, nonce_before the run that gave the number before `first`; empty:
    unknown. sent_at is the host's wall clock in ms when it was sent.
    """

    spool_id: str
    first: int
    last: int
    nonce: str
    sent_at: int
    signals: tuple[AnySignal | Unread, ...] = ()
    gap: Gap | None = None
    nonce_before: str = ""


def encode_batch(
    *, spool_id: str, first: int, nonce: str, sent_at: int, signals: Sequence[bytes]
) -> dict[bytes, bytes]:
    """The fields of a stream entry. `signals` are encoded already: the spool keeps them so."""
    header = _encode_header(spool_id, first, first + len(signals) - 1, nonce, sent_at)
    return header | {b"b": b"[" + b",".join(signals) + b"]"}


def encode_gap(
    *, spool_id: str, first: int, last: int, nonce: str, sent_at: int, reason: str, lost_at: int = 0
) -> dict[bytes, bytes]:
    header = _encode_header(spool_id, first, last, nonce, sent_at)
    return header | {b"g": reason.encode(), b"ga": b"%d" % lost_at}


def _encode_header(
    spool_id: str, first: int, last: int, nonce: str, sent_at: int
) -> dict[bytes, bytes]:
    return {
        b"v": b"%d" % VERSION,
        b"sp": spool_id.encode(),
        b"f": b"%d" % first,
        b"l": b"%d" % last,
        b"n": nonce.encode(),
        b"at": b"%d" % sent_at,
    }


def decode_batch(fields: Mapping[bytes, bytes]) -> Batch:
    """Raises DecodeError, and nothing else, whatever the entry holds."""
    version = _number(fields, b"v")
    if version != VERSION:
        cause = f"batch format {version}, this version reads {VERSION}"
        raise DecodeError(cause, fields, version=version)
    header = _decode_header(fields)
    if header.gap is not None:
        return header
    try:
        return msgspec.structs.replace(header, signals=_decode_body(fields, header))
    except (ValueError, RecursionError) as error:
        span = msgspec.structs.replace(header, gap=Gap("undecodable"))
        raise DecodeError(str(error), fields, span=span) from error


def _decode_header(fields: Mapping[bytes, bytes]) -> Batch:
    first, last = _number(fields, b"f"), _number(fields, b"l")
    gap = _words(fields, b"g") if b"g" in fields else None
    if first < 1 or last < first or (gap is None and last - first >= MOST_SIGNALS):
        raise DecodeError(f"numbers {first} to {last}", fields)
    return Batch(
        spool_id=_words(fields, b"sp"),
        first=first,
        last=last,
        nonce=_words(fields, b"n"),
        sent_at=_number(fields, b"at"),
        gap=None if gap is None else Gap(gap, _number(fields, b"ga") if b"ga" in fields else 0),
        nonce_before=_words(fields, NONCE_BEFORE) if NONCE_BEFORE in fields else "",
    )


def _number(fields: Mapping[bytes, bytes], name: bytes) -> int:
    raw = fields.get(name, b"")
    if not _NUMBER.fullmatch(raw) or int(raw) > MOST_ID:
        raise DecodeError(f"its field {name.decode()} is no number: {raw[:40]!r}", fields)
    return int(raw)


def _words(fields: Mapping[bytes, bytes], name: bytes) -> str:
    raw = fields.get(name, b"")
    words = raw[: 4 * MOST_SIGNS + 1].decode(errors="replace")
    if not 0 < len(words) <= MOST_SIGNS or not words.isprintable() or "\ufffd" in words:
        raise DecodeError(f"its field {name.decode()} is no name: {raw[:40]!r}", fields)
    return words


def _decode_body(fields: Mapping[bytes, bytes], header: Batch) -> tuple[AnySignal | Unread, ...]:
    body = fields.get(b"b")
    if body is None:
        raise ValueError("neither signals nor a gap")
    if len(body) > MOST_BYTES:
        raise ValueError(f"{len(body) >> 20} MB of signals")
    count = header.last - header.first + 1
    if len(body) > _BIG:
        _require(len(_items.decode(body)), count)  # millions of numbers in it would take seconds
    signals: Sequence[AnySignal | Unread]
    try:
        signals = decode_signals(body)
    except (msgspec.ValidationError, UnicodeDecodeError):
        # One that is wrong, perhaps of a newer collector, must not take the others along.
        items = _items.decode(body)
        _require(len(items), count)
        signals = [_decode_one(raw) for raw in items]
    _require(len(signals), count)
    return tuple(signals)


def _require(found: int, count: int) -> None:
    if found != count:
        raise ValueError(f"{found} signals for {count} numbers")


_items: msgspec.json.Decoder[list[msgspec.Raw]] = msgspec.json.Decoder(list[msgspec.Raw])


def _decode_one(raw: msgspec.Raw) -> AnySignal | Unread:
    try:
        return decode_signal(raw)
    except (msgspec.ValidationError, UnicodeDecodeError) as error:
        return Unread(str(error)[:_CAUSE])


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
    #: Why no command can reach this collector; None if commands do.
    commands_problem: str | None = None
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
