"""The messages between the collector and the process that reads the history, a line each."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from adsum_collector.usage.reading import Batch, Errand


class Order(msgspec.Struct, frozen=True):
    """What the process reads, on stdin. directory: the ledger's."""

    directory: str
    errands: Sequence[Errand]


class Word(Batch, frozen=True, omit_defaults=True):
    """What it says, on stdout: a batch; or a failure, damage if the ledger is; or that this is all."""

    failure: str | None = None
    damage: bool = False
    over: bool = False
