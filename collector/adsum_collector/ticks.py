"""What the status lines of this machine say, without their repetitions, and how they fare."""

from __future__ import annotations

import re
from collections import Counter, OrderedDict
from collections.abc import Sequence
from typing import Annotated, Literal, NamedTuple

import msgspec

from adsum_collector.agent import Adapt
from adsum_shared.signals import Alive, AnySignal, CostReported, GaugesReported

#: Between two ticks of a session that say the same. A status line is drawn several times a second
#: while its session works.
PAUSE_MS = 10_000
#: Between two tellings of what a session has cost and how full its context is: they change with
#: every answer, and those of its subagents.
COUNT_PAUSE_MS = 2_000
COUNTS = (CostReported, GaugesReported)
Counts = dict[type[AnySignal], AnySignal]
MOST_SESSIONS = 256


#: One that waited longer for its collector is no sign of life any more.
OLDEST_MS = 10_000

_OURS = re.compile(rb'\{"v":\d+,"kind":"statusline')
# Taken apart by its frame, because what it frames may be no JSON, and is the adapter's to judge.
_TICK = re.compile(rb'\{"v":1,"kind":"statusline","at":(\d{1,15}),"body":(.*)\}\s*', re.DOTALL)


class _Outcome(msgspec.Struct):
    outcome: Literal["failed", "hung"]
    exit: Annotated[int, msgspec.Meta(ge=0, le=255)] = 0


class _Last(NamedTuple):
    """said: without what counts, told: of what counts, by kind; both without their times."""

    at: int
    said: list[AnySignal]
    counted_at: int
    told: Counts


def is_statusline(line: bytes) -> bool:
    return _OURS.match(line) is not None


class Ticks:
    """heard_at: when the last came, ms. outcomes: what went wrong, also with the user's command."""

    def __init__(self, adapt: Adapt) -> None:
        self._adapt = adapt
        self._last: OrderedDict[str, _Last] = OrderedDict()
        self._held: dict[str, Counts] = {}
        self.heard_at = 0
        self.outcomes: Counter[str] = Counter()

    def hear(self, line: bytes, now: int) -> Sequence[AnySignal]:
        """What is worth keeping of what the wrapper sent. Nothing raises; now: ms."""
        try:
            if tick := _TICK.fullmatch(line):
                at = min(int(tick[1]), now)
                return self._news(tick[2], at) if now - at <= OLDEST_MS else []
            told = msgspec.json.decode(line, type=_Outcome)
            self.outcomes["hung" if told.outcome == "hung" else f"exit code {told.exit}"] += 1
        except (ValueError, msgspec.DecodeError, RecursionError):
            self.outcomes["malformed"] += 1
        return []

    def _news(self, body: bytes, at: int) -> Sequence[AnySignal]:
        signals = self._adapt(body, at)
        self.heard_at = at
        if not signals:
            return []
        session_id = signals[0].session_id
        counts = {type(signal): signal for signal in signals if isinstance(signal, COUNTS)}
        others = [signal for signal in signals if not isinstance(signal, COUNTS)]
        news = self._unsaid(session_id, others, at)
        self._held[session_id] = self._held.get(session_id, {}) | counts
        self._last.move_to_end(session_id)
        if len(self._last) > MOST_SESSIONS:
            gone, _ = self._last.popitem(last=False)
            self._held.pop(gone, None)
        return [*news, *self._counted(at)]

    def _unsaid(
        self, session_id: str, signals: Sequence[AnySignal], at: int
    ) -> Sequence[AnySignal]:
        said = [_timeless(signal) for signal in signals]
        last = self._last.get(session_id)
        if last is None:
            self._last[session_id] = _Last(at, said, at - COUNT_PAUSE_MS, {})
            return signals
        repeats = last.said == said
        if repeats and 0 <= at - last.at < PAUSE_MS:
            return []
        self._last[session_id] = last._replace(at=at, said=said)
        return [s for s in signals if isinstance(s, Alive)] if repeats else signals

    def _counted(self, now: int) -> list[AnySignal]:
        """What has changed of any session, and was not told so shortly before.

        What is held back is told with the next tick, whosever it is: without a clock of its own,
        the last of a burst may wait for that. Transcripts tell the same as soon as they are read.
        """
        news: list[AnySignal] = []
        for session_id, counts in list(self._held.items()):
            last = self._last[session_id]
            changed = {
                kind: count
                for kind, count in counts.items()
                if last.told.get(kind) != _timeless(count)
            }
            if changed and 0 <= now - last.counted_at < COUNT_PAUSE_MS:
                continue
            del self._held[session_id]
            if changed:
                told = {kind: _timeless(count) for kind, count in changed.items()}
                self._last[session_id] = last._replace(counted_at=now, told=last.told | told)
                news += changed.values()
        return news

    def forget(self, signals: Sequence[AnySignal]) -> None:
        """They could not be kept: the next tick says it again."""
        self.outcomes["not kept"] += 1
        for signal in signals:
            self._last.pop(signal.session_id, None)
            self._held.pop(signal.session_id, None)


def _timeless(signal: AnySignal) -> AnySignal:
    return msgspec.structs.replace(signal, at=0, seen=0)
