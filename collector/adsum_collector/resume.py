"""Where to go on in a stream, from what it and the hubs still hold. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec


class EntryId(msgspec.Struct, frozen=True, order=True):
    """A stream's last id: `<incarnation>-<last number of the batch>`."""

    incarnation: int
    seq: int

    @classmethod
    def parse(cls, raw: bytes | str) -> EntryId:
        text = raw.decode() if isinstance(raw, bytes) else raw
        incarnation, _, seq = text.partition("-")
        return cls(int(incarnation), int(seq or 0))

    def __str__(self) -> str:
        return f"{self.incarnation}-{self.seq}"


class Resume(msgspec.Struct, frozen=True):
    """Publish what follows `after`, under `incarnation`. rolled_back: this spool is an old copy."""

    after: int
    incarnation: int
    rolled_back: bool = False


def where_to_resume(
    *, incarnation: int, last_seq: int, sent: int, head: EntryId | None, applied: int
) -> Resume:
    """head: the stream's last id, None if there is no stream; applied: what hubs have stored.

    sent: what this run knows to be in the stream under `incarnation`; 0 after a start.

    The incarnation goes up whenever the stream is not where we left it. Readers' cursors may be
    beyond what it still holds, and only a higher id is sure to reach them; what comes twice, they
    drop by its number.
    """
    beyond = head is not None and head.incarnation == incarnation and head.seq > last_seq
    if applied > last_seq or beyond:
        newest = max(incarnation, head.incarnation if head else 0)
        return Resume(0, newest + 1, rolled_back=True)
    if head is None:
        return Resume(applied, incarnation + 1)
    if head.incarnation != incarnation:
        return Resume(applied, max(incarnation, head.incarnation) + 1)
    if head.seq < sent:
        return Resume(head.seq, incarnation + 1)
    return Resume(max(head.seq, applied), incarnation)


def first_of(entry: Mapping[bytes, bytes], last: int) -> int:
    """The first number of an entry that ends with `last`; `last` itself if it does not say."""
    first = entry.get(b"f", b"")
    return min(int(first), last) if first.isdigit() else last


def is_told_by(entry: Mapping[bytes, bytes], spool_id: str, bodies: Sequence[bytes] | None) -> bool:
    """Whether the entry says what our spool says of its numbers: `bodies`, None if it forgot them.

    Another run of this collector may have sent it, under another nonce and in another batch. Where
    the spool has forgotten these numbers, nothing speaks against it.
    """
    if entry.get(b"sp") != spool_id.encode():
        return False
    return bodies is None or entry.get(b"b") == b"[" + b",".join(bodies) + b"]"


def wanted_after(want: bytes | None, spool_id: str, last_seq: int) -> int | None:
    """The number to replay after, if a hub's request names this spool and makes sense."""
    if want is None:
        return None
    named, _, seq = want.decode(errors="replace").rpartition(":")
    if named != spool_id or not seq.isdigit() or not 1 <= int(seq) <= last_seq:
        return None
    return int(seq) - 1
