"""The changes of late, encoded once each; several are merged for a client that has missed them. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

RING_MESSAGES = 4096
RING_BYTES = 4_000_000
#: A client that has missed more than this gets a snapshot instead.
MERGED_BYTES = 1_000_000

#: By id; None: it is gone.
Views = dict[str, msgspec.Raw | None]


class Delta(NamedTuple):
    """One message's worth of changes."""

    sessions: Views
    hosts: Views
    message: bytes


def merge(views: Iterable[Views]) -> Views:
    """The latest of each."""
    merged: Views = {}
    for each in views:
        merged |= each
    return merged


def parts(sessions: Views, hosts: Views) -> dict[str, Any]:
    return {
        "sessions": [raw for raw in sessions.values() if raw is not None],
        "gone": [key for key, raw in sessions.items() if raw is None],
        "hosts": [raw for raw in hosts.values() if raw is not None],
        "gone_hosts": [key for key, raw in hosts.items() if raw is None],
    }


class Ring:
    """`count` is always that of the newest: 1 means the last one alone."""

    def __init__(self) -> None:
        self._deltas: deque[Delta] = deque()
        self._bytes = 0

    def append(self, delta: Delta) -> None:
        self._deltas.append(delta)
        self._bytes += len(delta.message)
        while len(self._deltas) > RING_MESSAGES or (
            self._bytes > RING_BYTES and len(self._deltas) > 1
        ):
            self._bytes -= len(self._deltas.popleft().message)

    def can_merge(self, count: int) -> bool:
        """Whether so many are kept, and few enough bytes to be one message."""
        if not 0 <= count <= len(self._deltas):
            return False
        if count <= 1:
            return True
        return (
            sum(len(self._deltas[-index].message) for index in range(1, count + 1)) <= MERGED_BYTES
        )

    def newest(self) -> bytes:
        return self._deltas[-1].message

    def merged(self, count: int) -> dict[str, Any]:
        deltas = [self._deltas[index - count] for index in range(count)]
        sessions = merge(delta.sessions for delta in deltas)
        return parts(sessions, merge(delta.hosts for delta in deltas))
