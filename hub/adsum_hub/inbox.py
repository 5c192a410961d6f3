"""Takes the entries of a host's stream apart, checks them, and puts them in order. Pure.

An entry is its batch, or why it is set aside. Of a batch each signal is one that can be, or is set
aside by itself. And numbers say which of them are new, known already, too early, or a stranger's.
"""

import math
import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from types import MappingProxyType
from typing import Any, NamedTuple, get_args

import msgspec

from adsum_shared import signals as s
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


#: A hundred years of the busiest agent there is.
MOST_TOKENS = 10**15
MOST_USD = 1e9
MOST_MODELS = 100
#: A machine's own zone may be ahead of UTC by fourteen hours.
AHEAD = timedelta(hours=14)
FIRST_DAY = date(2020, 1, 1)

_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_NAME = re.compile(r"[^\x00-\x1f\x7f]{1,200}")
_GEO = re.compile(r"[\w.-]{0,40}")
_COUNTS = tuple(name for name in _NUMBERS[s.UsageTotalled] if name not in ("at", "seen"))
_MODEL_COUNTS = tuple(name for name in s.ModelCost.__struct_fields__ if name != "cost_usd")


def wrong_with(signal: AnySignal) -> str | None:
    """Why it is not to be believed; None for all other signals as well."""
    check = _CHECKS.get(type(signal))
    return check(signal) if check is not None else None


def _usage(signal: s.UsageTotalled) -> str | None:
    if not _DAY.fullmatch(signal.day):
        return f"day is {signal.day[:40]!r}"
    try:
        day = date.fromisoformat(signal.day)
        latest = (datetime.fromtimestamp(signal.seen / 1000, UTC) + AHEAD).date()
    except (ValueError, OverflowError):
        return f"day is {signal.day!r}, seen is {signal.seen}"
    if not FIRST_DAY <= day <= latest:
        return f"day is {signal.day!r}, told on {latest}"
    if not _NAME.fullmatch(signal.model) or not _GEO.fullmatch(signal.geo):
        return f"model is {signal.model[:40]!r}, geo {signal.geo[:40]!r}"
    return _counts(signal, _COUNTS)


def _cost(signal: s.CostReported) -> str | None:
    models = signal.models or {}
    if len(models) > MOST_MODELS:
        return f"it names {len(models)} models"
    if not _is_usd(signal.cost_usd):
        return f"cost_usd is {signal.cost_usd}"
    for name, model in models.items():
        wrong = _counts(model, _MODEL_COUNTS)
        if wrong or not _is_usd(model.cost_usd):
            return f"{wrong or f'cost_usd is {model.cost_usd}'} for {name[:40]!r}"
    return None


def _gauges(signal: s.GaugesReported) -> str | None:
    for name in ("context_tokens", "context_size"):
        number = getattr(signal, name)
        if number is not None and not 0 <= number <= MOST_TOKENS:
            return f"{name} is {number}"
    for limit in signal.limits or ():
        if not math.isfinite(limit.used_percent) or not 0 <= limit.used_percent <= 10_000:
            return f"used_percent is {limit.used_percent}"
        if not 0 <= limit.resets_at <= MOST_TOKENS or not _NAME.fullmatch(limit.name):
            return f"resets_at is {limit.resets_at} of {limit.name[:40]!r}"
    return (
        f"plan is {signal.plan[:40]!r}"
        if signal.plan and not _NAME.fullmatch(signal.plan)
        else None
    )


def _is_usd(number: float) -> bool:
    return math.isfinite(number) and 0 <= number <= MOST_USD


def _counts(holder: object, names: tuple[str, ...]) -> str | None:
    for name in names:
        number = getattr(holder, name)
        if not 0 <= number <= MOST_TOKENS:
            return f"{name} is {str(number)[:40]}"
    return None


_CHECKS: dict[type, Callable[[Any], str | None]] = {
    s.UsageTotalled: _usage,
    s.CostReported: _cost,
    s.GaugesReported: _gauges,
}


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
    holds numbers of one run and names the run that gave the number before them. Whoever breaks that
    is another life of the same disk, and means something else by its numbers. Every hub finds the
    same, whatever it has read twice or not at all, since all go by the numbers.
    """
    if not runs:
        return False
    latest = next(reversed(runs))
    if batch.nonce == latest:
        return False
    follows = batch.nonce_before in ("", latest) if batch.first == seen + 1 else batch.first > seen
    return batch.nonce in runs or (not follows and seen == runs[latest])


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
