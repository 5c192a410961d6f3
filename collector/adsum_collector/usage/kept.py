"""What goes into the ledger and what comes out of it, as data."""

from __future__ import annotations

from typing import Final

import msgspec

from adsum_collector.agents.transcript_file import TranscriptFile
from adsum_collector.cursors import Stamp
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
        """A main file that does not say when it was begun is taken for a copy of all it holds so far."""
        begun, records = self.scanned.place.begun, self.scanned.records
        if begun is None:
            begun = -records[-1].at if records and self.whose.agent_id is None else 0
        return Source(begun, self.whose.session_id)
