"""The last batches of signals as they came, for whoever reports a wrong state. Nothing else reads them.

A stream is trimmed as soon as its facts are saved, and a spool is on another machine, so a hub keeps
what came last in memory: as it lay in the stream, since to decode it again costs nothing until somebody
asks. A hub that has started anew knows no earlier signals.
"""

import secrets
from collections import deque
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from adsum_hub.verdict.rules import asks
from adsum_shared.envelope import Unread, decode_batch
from adsum_shared.privacy import private_as
from adsum_shared.redact import digest
from adsum_shared.signals import AnySignal, TurnEnded, UnknownSignal, encode_signal

#: Some 60,000 signals: of 50 busy sessions those of a quarter of an hour.
MOST_BYTES = 16 << 20
#: Of an entry beside its fields: one without signals takes room as well, and any number may come.
ENTRY_BYTES = 500


class KeptEntry(NamedTuple):
    """at: when this hub read it. fields: the entry's."""

    at: int
    host_id: str
    fields: Mapping[bytes, bytes]


class Recent:
    """since: from when on all that came is here; None until something has come."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most = most_bytes
        self._kept: deque[KeptEntry] = deque()
        self._bytes = 0

    @property
    def since(self) -> int | None:
        return self._kept[0].at if self._kept else None

    def keep(self, host_id: str, fields: Mapping[bytes, bytes], now: int) -> None:
        self._kept.append(KeptEntry(now, host_id, fields))
        self._bytes += _size(fields)
        while self._bytes > self._most:
            self._bytes -= _size(self._kept.popleft().fields)

    def batches(self, host_id: str, session_id: str) -> list[Mapping[bytes, bytes]]:
        """Those that may hold signals of the session, as they came."""
        named = msgspec.json.encode(session_id)
        return [
            each.fields
            for each in self._kept
            if each.host_id == host_id and named in each.fields.get(b"b", b"")
        ]


def _size(fields: Mapping[bytes, bytes]) -> int:
    return ENTRY_BYTES + sum(len(name) + len(value) for name, value in fields.items())


def report_of(
    batches: list[Mapping[bytes, bytes]], session_id: str, since: int
) -> list[dict[str, Any]]:
    """The session's signals, stripped of what people and agents wrote, each number once.

    since: by the host's clock. Of those before, the latest of each kind by each witness is there as
    well: a replay that begins in mid-turn would not know what it goes on from.
    """
    numbered: dict[tuple[str, int], AnySignal] = {}
    for fields in batches:
        batch = decode_batch(fields)
        for number, signal in enumerate(batch.signals, batch.first):
            # What this version does not know it cannot strip.
            if isinstance(signal, Unread | UnknownSignal) or signal.session_id != session_id:
                continue
            numbered[batch.spool_id, number] = signal
    before: dict[tuple[type, str], AnySignal] = {}
    within: list[AnySignal] = []
    for signal in sorted(numbered.values(), key=lambda each: each.seen):
        if signal.seen >= since:
            within.append(signal)
        else:
            kind = (type(signal), getattr(signal, "source", ""))
            before.pop(kind, None)
            before[kind] = signal
    salt = secrets.token_hex(16)
    return [_stripped(signal, salt) for signal in (*before.values(), *within)]


def _stripped(signal: AnySignal, salt: str) -> dict[str, Any]:
    found: AnySignal = private_as("metadata", salt)(signal)
    said = signal.last_message if isinstance(signal, TurnEnded) else None
    if isinstance(found, TurnEnded) and said is not None:
        # Whether it asks something decides between two states, and says nothing of what.
        found = msgspec.structs.replace(found, last_message="?" if asks(said) else ".")
    joined = getattr(found, "digest", None)
    if joined is not None:
        # A digest of a tool's input may be guessed; under a salt of its own it still joins.
        found = msgspec.structs.replace(found, digest=digest(joined, salt, size=16))
    return dict(msgspec.json.decode(encode_signal(found)))
