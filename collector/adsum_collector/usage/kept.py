"""The data that goes into the ledger and comes out of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from adsum_collector.agents.records import TranscriptFile
from adsum_collector.transcripts.cursors import Stamp
from adsum_collector.usage.merge import Group
from adsum_collector.usage.scan import Scanned
from adsum_collector.usage.source import Source

#: Kept in one transaction: the more, the cheaper, and the more memory.
BATCH_RECORDS: Final = 20_000
#: Of a file: what is to be told of its session's past besides what it used up.
NO_PAST: Final = 0
PAST_DUE: Final = 1
PAST_TOLD: Final = 2


class Total(msgspec.Struct, frozen=True, gc=False):
    """latest: ms."""

    group: Group
    messages: int
    input: int
    output: int
    cache_read: int
    cache_5m: int
    cache_1h: int
    web_searches: int
    latest: int = 0

    @classmethod
    def of(cls, row: Sequence[Any]) -> Total:
        """As it is kept."""
        session_id, day, model, fast, geo, long, *sums = row
        return cls(Group(session_id, day, model, bool(fast), geo, bool(long)), *sums)


class Untold(msgspec.Struct, frozen=True):
    """To be handed back once it is told. changes: how often it had changed."""

    number: int
    changes: int
    total: Total


class Fork(msgspec.Struct, frozen=True):
    path: str
    session_id: str
    forked_from: str
    begun: int


class Turn(msgspec.Struct, frozen=True):
    """What a turn of reading found in a file. stamp: from before.

    past: it is due to tell what its session was about.
    """

    path: str
    whose: TranscriptFile
    stamp: Stamp
    scanned: Scanned
    past: bool = False

    @property
    def source(self) -> Source:
        """A main file that does not say when it was begun is taken for a copy of all it held at first."""
        place = self.scanned.place
        begun = -(place.held or 0) if place.begun is None else place.begun
        return Source(begun, self.whose.session_id)
