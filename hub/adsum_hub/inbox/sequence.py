"""Which signals of a batch are new, known already, too early, or a stranger's. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from adsum_shared.envelope import Batch, Unread
from adsum_shared.signals import AnySignal

#: Spools of one host that are remembered, those that advanced last. A host begins a new one when
#: its disk was copied, set back, damaged or emptied: a handful in its life.
MOST_SPOOLS = 64
#: Of these, the spools whose runs are remembered, and the runs of each.
MOST_SPOOLS_WITH_RUNS = 16
MOST_RUNS = 16

#: Spool id -> nonce of a run -> the last number applied from that run. The runs stand in order of
#: appearance, and so in order of their numbers.
Runs = dict[str, dict[str, int]]


class Admission(NamedTuple):
    """signals: to fold now. applied: the spool's number afterwards, None if nothing is to change.

    missing: the first number that has to come before this batch, 0 if there is none. stranger: it
    is an older run's and is left out. emptied: a known host begins a spool and says nothing of the
    one before, so that was lost.
    """

    signals: tuple[AnySignal | Unread, ...] = ()
    applied: int | None = None
    missing: int = 0
    stranger: bool = False
    emptied: bool = False


def admit(
    applied: Mapping[str, int],
    batch: Batch,
    runs: Mapping[str, dict[str, int]] = MappingProxyType({}),
) -> Admission:
    """One integer per spool is the whole dedupe: numbers are assigned once, in the spool's commit.

    A time window or a set of ids was rejected: neither covers an outage of hours.
    """
    seen = applied.get(batch.spool_id, 0)
    if batch.last <= seen:
        return Admission()
    if is_stranger(runs.get(batch.spool_id, {}), batch, seen):
        return Admission(stranger=True)
    if batch.first > seen + 1:
        return Admission(missing=seen + 1)
    emptied = bool(applied) and batch.spool_id not in applied and batch.gap is None
    signals = batch.signals[max(0, seen + 1 - batch.first) :]
    return Admission(signals, batch.last, emptied=emptied)


def is_stranger(runs: dict[str, int], batch: Batch, seen: int) -> bool:
    """Whether a later run than the batch's has brought numbers, or another run some of these.

    A run gives its numbers after the last one of the run before, and is dead by then; an entry
    holds numbers of one run. Whoever breaks that is another life of the same disk, and means
    something else by its numbers. Every hub finds the same, whatever it has read twice or not at
    all, since all go by the numbers.
    """
    if not runs:
        return False
    latest = next(reversed(runs))
    if batch.nonce == latest:
        return False
    return batch.nonce in runs or (batch.first <= seen == runs[latest])


def advance(applied: dict[str, int], runs: Runs, batch: Batch) -> None:
    """The batch's numbers are part of the facts now."""
    spool_id = batch.spool_id
    applied.pop(spool_id, None)  # put last: the order is that of the latest advance
    applied[spool_id] = batch.last
    held = runs[spool_id] = {**runs.pop(spool_id, {}), batch.nonce: batch.last}
    bounds = (applied, MOST_SPOOLS), (runs, MOST_SPOOLS_WITH_RUNS), (held, MOST_RUNS)
    for kept, most in bounds:
        while len(kept) > most:
            del kept[next(iter(kept))]


def covers(mine: Mapping[str, int], theirs: Mapping[str, int]) -> bool:
    """Whether `mine` has applied all that `theirs` has.

    A full map has let go of those that advanced longest ago, which stand first in `theirs`.
    """
    let_go = len(mine) >= MOST_SPOOLS
    for spool_id, seq in theirs.items():
        if spool_id in mine:
            let_go = False
        elif let_go:
            continue
        if mine.get(spool_id, 0) < seq:
            return False
    return True
