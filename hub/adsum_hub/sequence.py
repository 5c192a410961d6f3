"""Which signals of a batch are new, known already, or come too early. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from adsum_shared.envelope import Batch
from adsum_shared.signals import AnySignal


class Admission(NamedTuple):
    """signals: to fold now. applied: the spool's number afterwards, None if nothing is to change.

    missing: the first number that has to come before this batch, 0 if there is none.
    """

    signals: tuple[AnySignal, ...] = ()
    applied: int | None = None
    missing: int = 0


def admit(applied: Mapping[str, int], batch: Batch) -> Admission:
    """One integer per spool is the whole dedupe: numbers are assigned once, in the spool's commit.

    A time window or a set of ids was rejected: neither covers an outage of hours.
    """
    seen = applied.get(batch.spool_id, 0)
    if batch.last <= seen:
        return Admission()
    if batch.first > seen + 1:
        return Admission(missing=seen + 1)
    return Admission(batch.signals[max(0, seen + 1 - batch.first) :], batch.last)
