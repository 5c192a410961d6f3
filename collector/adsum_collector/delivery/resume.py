"""Where to go on in a stream, from what it and the hubs still hold. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from adsum_shared import streams

_WANT = re.compile(r"(.*):([1-9]\d{0,15})", re.ASCII | re.DOTALL)


class EntryId(msgspec.Struct, frozen=True, order=True):
    """An entry's id: `<incarnation>-<last number of the batch>`."""

    incarnation: int
    seq: int

    @classmethod
    def parse(cls, raw: bytes | str) -> EntryId:
        text = raw.decode() if isinstance(raw, bytes) else raw
        incarnation, _, seq = text.partition("-")
        return cls(int(incarnation), int(seq or 0))

    def __str__(self) -> str:
        return f"{self.incarnation}-{self.seq}"

    @property
    def leaves_room(self) -> bool:
        """Whether an entry of ours can follow: else somebody has written nonsense there."""
        return self.incarnation < streams.MOST_ID and self.seq <= streams.MOST_ID


class Head(msgspec.Struct, frozen=True):
    """The last id ever given in a stream. spool_id, nonce: empty if its entry is gone, or none."""

    id: EntryId
    spool_id: str = ""
    nonce: str = ""


class Stored(msgspec.Struct, frozen=True):
    """What hubs have stored of one spool, all of one moment.

    cursor: they have spoken on every entry up to there. applied: the last number they have.
    runs: nonce → the last number they have from that run, in order of the runs' first appearance;
    None where the hubs do not tell.
    """

    cursor: EntryId = EntryId(0, 0)
    applied: int = 0
    runs: Mapping[str, int] | None = None


class Resume(msgspec.Struct, frozen=True):
    """Publish what follows `after`, under `incarnation`."""

    after: int
    incarnation: int


def where_to_resume(
    *, incarnation: int, spool_id: str, sent: int, head: Head | None, applied: int
) -> Resume:
    """head: None if there is no stream. For a spool that is ours alone: see `runs.why_to_leave`.

    sent: what this run knows to be in the stream under `incarnation`; 0 after a start.

    The incarnation goes up whenever the stream is not where we left it. Readers' cursors may be
    beyond what it still holds, and only a higher id is sure to reach them; what comes twice, they
    drop by its number.
    """
    if head is None:
        return Resume(applied, incarnation + 1)
    if head.id.incarnation != incarnation or head.spool_id != spool_id:
        return Resume(applied, max(incarnation, head.id.incarnation) + 1)
    if head.id.seq < sent:
        return Resume(head.id.seq, incarnation + 1)
    return Resume(max(head.id.seq, applied), incarnation)


def wanted_after(want: bytes | None, spool_id: str, last_seq: int) -> int | None:
    """The number to replay after, if a hub's request names this spool and makes sense."""
    found = _WANT.fullmatch((want or b"").decode(errors="replace"))
    if found is None or found[1] != spool_id or int(found[2]) > last_seq:
        return None
    return int(found[2]) - 1
