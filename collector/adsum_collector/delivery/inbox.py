"""One host's keys as the collector uses them, by whichever way they are reached."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from adsum_collector.delivery.resume import EntryId, Head, HubProgress
from adsum_collector.delivery.transport import Line
from adsum_collector.errors import StreamMovedError, StreamUnusableError
from adsum_shared import host_keys, streams
from adsum_shared.beat import Beat, decode_beat
from adsum_shared.host_keys import FoundEntry, KeysReply, KeysRequest, NewEntry, OddReplyError

_applied = msgspec.json.Decoder(dict[str, int])
_runs = msgspec.json.Decoder(dict[str, dict[str, int]])
_CURSOR = re.compile(rb"\d{1,20}-\d{1,20}")


class StreamLook(NamedTuple):
    """other: the first entry beyond one of ours. want: a hub's request to replay, if there is one."""

    other: Head | None
    stored: HubProgress
    want: bytes | None


class Inbox:
    """Every method raises what `Line.ask` does."""

    def __init__(self, line: Line, host_id: str) -> None:
        self._line = line
        self.key = streams.inbox(host_id)
        self._host_id = host_id
        self._carried: bytes | None = None

    async def head(self) -> Head | None:
        """None if there is no stream."""
        return self._head((await self._ask(KeysRequest(head=True))).head)

    async def stored(self, spool_id: str) -> HubProgress:
        """Foreign values in it count as if no hub had stored anything."""
        return _stored((await self._ask(KeysRequest(stored=True))).stored, spool_id)

    async def look(
        self, spool_id: str, after: EntryId | None, *, others: bool = True
    ) -> StreamLook:
        """others: whether entries beyond `after` matter: somebody else's, or of an earlier try."""
        beyond = None if not others else str(after) if after else ""
        told = await self._ask(KeysRequest(after=beyond, stored=True, want=True))
        return StreamLook(self._head(told.beyond), _stored(told.stored, spool_id), told.want)

    async def add(self, entry: EntryId, fields: Mapping[bytes, bytes]) -> None:
        """Raises StreamMovedError, StreamUnusableError."""
        told = await self._ask(KeysRequest(add=NewEntry(str(entry), fields)))
        if told.added == "exhausted":
            raise StreamUnusableError(self.key)
        if told.added == "moved":
            raise StreamMovedError
        if told.added not in ("new", "there"):
            raise OddReplyError(
                f"the answer about {self.key} does not say whether it took what was sent "
                f"({told.added!r}). Upgrade the hub, or look at what stands before it."
            )

    async def beat(self, beat: bytes) -> None:
        """And have ourselves listed."""
        await self._ask(KeysRequest(beat=beat))

    def carry(self, beat: bytes) -> None:
        """As `beat`, along with whatever is asked next."""
        self._carried = beat

    async def last_beat(self) -> Beat | None:
        """The heartbeat that stands there, whoever wrote it."""
        raw = (await self._ask(KeysRequest(last_beat=True))).beat
        return None if raw is None else decode_beat(raw)

    async def _ask(self, asked: KeysRequest) -> KeysReply:
        if self._carried is not None:
            asked = msgspec.structs.replace(asked, beat=self._carried)
            self._carried = None
        return await self._line.ask(self._host_id, asked)

    def _head(self, found: FoundEntry | None) -> Head | None:
        if found is None:
            return None
        try:
            entry = EntryId.parse(found.id)
        except ValueError as error:
            raise OddReplyError(
                f"the answer about {self.key} names no entry ({found.id[:40]!r}). "
                "Look whether that address is a Redis."
            ) from error
        spool_id, nonce = found.spool_id, found.nonce
        return Head(entry, spool_id.decode(errors="replace"), nonce.decode(errors="replace"))


def _stored(raw: host_keys.StoredOffsets, spool_id: str) -> HubProgress:
    found = _decoded(_runs, raw.runs)
    return HubProgress(
        EntryId.parse(raw.cursor)
        if raw.cursor and _CURSOR.fullmatch(raw.cursor)
        else EntryId(0, 0),
        max(0, (_decoded(_applied, raw.applied) or {}).get(spool_id, 0)),
        None if found is None else found.get(spool_id, {}),
    )


def _decoded(decoder: msgspec.json.Decoder[Any], raw: bytes | None) -> Any:
    try:
        return None if raw is None else decoder.decode(raw)
    except msgspec.DecodeError:
        return None
