"""What the status lines of this machine say, without their repetitions, and how they fare."""

from __future__ import annotations

import re
from collections import Counter, OrderedDict
from collections.abc import Sequence
from typing import Annotated, Literal, NamedTuple

import msgspec

from adsum_collector.agent import Adapt
from adsum_shared.signals import Alive, AnySignal

#: Between two ticks of a session that say the same. A status line is drawn several times a second
#: while its session works.
PAUSE_MS = 10_000
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
    at: int
    said: list[AnySignal]


def is_statusline(line: bytes) -> bool:
    return _OURS.match(line) is not None


class Ticks:
    """heard_at: when the last came, ms. outcomes: what went wrong, also with the user's command."""

    def __init__(self, adapt: Adapt) -> None:
        self._adapt = adapt
        self._last: OrderedDict[str, _Last] = OrderedDict()
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
        said = [msgspec.structs.replace(signal, at=0, seen=0) for signal in signals]
        session_id = signals[0].session_id
        last = self._last.get(session_id)
        repeats = last is not None and last.said == said
        if last is not None and repeats and 0 <= at - last.at < PAUSE_MS:
            return []
        self._last[session_id] = _Last(at, said)
        self._last.move_to_end(session_id)
        if len(self._last) > MOST_SESSIONS:
            self._last.popitem(last=False)
        return [s for s in signals if isinstance(s, Alive)] if repeats else signals

    def forget(self, signals: Sequence[AnySignal]) -> None:
        """They could not be kept: the next tick says it again."""
        self.outcomes["not kept"] += 1
        for signal in signals:
            self._last.pop(signal.session_id, None)
