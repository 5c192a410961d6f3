"""An entry of a host's stream, taken apart: its batch, or why it is set aside. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, get_args

import msgspec

from adsum_hub.inbox.usage_bounds import wrong_with
from adsum_shared.envelope import Batch, DecodeError, Unread, decode_batch
from adsum_shared.signals import AnySignal, Signal, UnknownSignal, is_session_id
from adsum_shared.streams import MOST_ID

#: The end of year 9999: beyond it no browser makes a date of it, nor do sums stay numbers.
MOST_MS = 253_402_300_799_999

_ENTRY_ID = re.compile(r"[0-9]{1,20}-[0-9]{1,20}")


def order(entry_id: str) -> tuple[int, int]:
    """A stream id as Redis orders it."""
    incarnation, _, seq = entry_id.partition("-")
    return int(incarnation), int(seq or 0)


def is_poisoned(entry_id: str) -> bool:
    """So high that nothing could follow for long. No collector writes it."""
    return max(order(entry_id)) > MOST_ID


def is_cursor(text: str) -> bool:
    """Whether Redis takes it for a place in a stream, and a stream can come to be there."""
    return bool(_ENTRY_ID.fullmatch(text)) and not is_poisoned(text)


def read_entry(entry_id: str, fields: Mapping[bytes, bytes]) -> Batch:
    """Raises DecodeError, and nothing else."""
    batch = decode_batch(fields)
    if order(entry_id)[1] != batch.last:
        # A forged number is so bound to a forged id, which its collector notices at its next batch.
        raise DecodeError(f"it ends with {batch.last}, its id says otherwise", fields)
    if batch.gap is None:
        signals = tuple(map(_screened, batch.signals))
        if signals != batch.signals:
            return msgspec.structs.replace(batch, signals=signals)
    return batch


def _screened(signal: AnySignal | Unread) -> AnySignal | Unread:
    if isinstance(signal, Unread):
        return signal
    if not is_session_id(signal.session_id):
        return Unread(f"session id of {len(signal.session_id)} signs: {signal.session_id[:40]!r}")
    for name in _NUMBERS[type(signal)]:
        number = getattr(signal, name)
        if number is not None and abs(number) > MOST_MS:
            return Unread(f"{name} is {str(number)[:40]}")
    wrong = wrong_with(signal)
    return signal if wrong is None else Unread(wrong)


def dated_back(signal: AnySignal, latest: int) -> AnySignal | Unread:
    """As told at `latest`, and nothing in it from after that. What it counts by day has its own bounds."""
    earlier = msgspec.structs.replace(
        signal, at=min(signal.at, latest), seen=min(signal.seen, latest)
    )
    wrong = wrong_with(earlier)
    return earlier if wrong is None else Unread(wrong)


def _numbers_of(kind: Any) -> tuple[str, ...]:
    """The fields of a signal that may hold a number: all are times, ids of processes or counts."""
    fields = msgspec.structs.fields(kind)
    return tuple(each.name for each in fields if int in (each.type, *get_args(each.type)))


_NUMBERS = {kind: _numbers_of(kind) for kind in (*Signal.__subclasses__(), UnknownSignal)}
