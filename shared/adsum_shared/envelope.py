"""The envelope: one batch of a host's signals as it lies in one entry of its stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from adsum_shared.signals import AnySignal, decode_signals

VERSION = 1


class DecodeError(ValueError):
    """An entry that cannot be understood. `raw` is the entry as read, `cause` says why.

    span: a gap over the entry's numbers, if at least its header could be read.
    """

    def __init__(self, cause: str, raw: Mapping[bytes, bytes], span: Batch | None = None) -> None:
        super().__init__(cause)
        self.cause = cause
        self.raw = raw
        self.span = span


class Gap(msgspec.Struct, frozen=True):
    """Numbers that will never come. reason: `cap`, `copy`, `corrupt`, `retention`, `rollback`."""

    reason: str


class Batch(msgspec.Struct, frozen=True):
    """Signals `first` to `last` of one spool, without holes; or a gap over these numbers.

    nonce names the collector's run, sent_at is the host's wall clock in ms when it was sent.
    """

    spool_id: str
    first: int
    last: int
    nonce: str
    sent_at: int
    signals: tuple[AnySignal, ...] = ()
    gap: Gap | None = None


def encode_batch(
    *, spool_id: str, first: int, nonce: str, sent_at: int, signals: Sequence[bytes]
) -> dict[bytes, bytes]:
    """The fields of a stream entry. `signals` are encoded already: the spool keeps them so."""
    header = _encode_header(spool_id, first, first + len(signals) - 1, nonce, sent_at)
    return header | {b"b": b"[" + b",".join(signals) + b"]"}


def encode_gap(
    *, spool_id: str, first: int, last: int, nonce: str, sent_at: int, reason: str
) -> dict[bytes, bytes]:
    return _encode_header(spool_id, first, last, nonce, sent_at) | {b"g": reason.encode()}


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
    span: Batch | None = None
    try:
        header = _decode_header(fields)
        span = msgspec.structs.replace(header, gap=header.gap or Gap("undecodable"))
        if header.gap is not None:
            return header
        signals = tuple(decode_signals(fields[b"b"]))
        if len(signals) != header.last - header.first + 1:
            raise ValueError(f"{len(signals)} signals for {header.first} to {header.last}")
        return msgspec.structs.replace(header, signals=signals)
    except (KeyError, ValueError, msgspec.DecodeError) as error:
        raise DecodeError(f"{type(error).__name__}: {error}", fields, span) from error


def _decode_header(fields: Mapping[bytes, bytes]) -> Batch:
    version = int(fields[b"v"])
    if version != VERSION:
        raise ValueError(f"batch version {version}, this hub reads {VERSION}")
    first, last = int(fields[b"f"]), int(fields[b"l"])
    if first < 1 or last < first:
        raise ValueError(f"numbers {first} to {last}")
    gap = fields.get(b"g")
    return Batch(
        spool_id=fields[b"sp"].decode(),
        first=first,
        last=last,
        nonce=fields[b"n"].decode(),
        sent_at=int(fields[b"at"]),
        gap=None if gap is None else Gap(gap.decode()),
    )
