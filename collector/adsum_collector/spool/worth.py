"""Which signals may go when the spool is full, so that the others can stay. Pure.

Kept always: a session's and a process's beginning and end, prompts, turn ends, requests and what
closes them, children, tasks, compactions, and every kind that this version does not know.

| may go | because |
|---|---|
| `alive`, `status.reported`, `retry.scheduled`, `child.changed` | a later one says it anew: of each \
sort the newest of a session stays |
| `meta.changed` | field by field the last counts, so what holds no field's last value may go |
| `usage.totalled` | totals: the largest holds the others |
| `tool.started`, `tool.finished` | a call that began and ended leaves nothing behind, unless a \
human was asked about it or it launched a child; the newest call of each agent stays |
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterator
from typing import Any

import msgspec

from adsum_shared import signals as s

#: Numbers looked at between two signs of life.
STEP = 100

Key = tuple[Any, ...]
#: What a signal could be the last word on, and how late it is: equal keys have ranks of one type.
Claim = tuple[Key, Any]


#: What is known of a call.
_STARTED, _HOOKED, _FINISHED, _KEPT = 1, 2, 4, 8


class _Calls:
    """A file's tool calls, by index: numbers in arrays, and hashes for what names them.

    An object for each, of a hundred thousand, would hold hooks up when all of them are freed.
    """

    def __init__(self) -> None:
        self._index: dict[int, int] = {}
        self.known = bytearray()
        self.sessions: list[str] = []
        self.digests = array("q")

    def of(self, session_id: str, tool_use_id: str) -> int:
        key = hash((session_id, tool_use_id))
        found = self._index.get(key)
        if found is None:
            found = self._index[key] = len(self.known)
            self.known.append(0)
            self.sessions.append(sys.intern(session_id))
            self.digests.append(0)
        return found


class Worth:
    """Is shown one file's signals in their order, and then says which of them may go.

    first: the number of the file's first signal; size: how many numbers it spans.
    """

    def __init__(self, first: int, size: int) -> None:
        self._first = first
        self._spare = bytearray(size)
        self._newest: dict[Key, tuple[Any, int]] = {}
        self._held: dict[int, int] = {}
        self._calls = _Calls()
        #: Of each number the call it belongs to, plus one.
        self._call_of = array("I", bytes(4 * size))
        self._latest_call: dict[tuple[str, str | None], int] = {}
        self._asked: set[tuple[str, int]] = set()
        self._hooked: set[str] = set()

    def is_spare(self, seq: int) -> bool:
        """Only to be asked when `judge_calls` has come to its end."""
        return self._spare[seq - self._first] == 1

    def consider(self, seq: int, body: bytes) -> None:
        try:
            signal = s.decode_signal(body)
        except (msgspec.DecodeError, RecursionError):
            return  # whoever reads it says so
        if isinstance(signal, s.UnknownSignal):
            return
        if signal.source == "hook":
            self._hooked.add(signal.session_id)
        match signal:
            case s.ToolStarted() | s.ToolFinished():
                self._consider_call(seq, signal)
            case s.RequestOpened() | s.RequestClosed():
                if signal.tool_use_id:
                    call = self._calls.of(signal.session_id, signal.tool_use_id)
                    self._calls.known[call] |= _KEPT
                if isinstance(signal, s.RequestOpened) and signal.digest:
                    self._asked.add((signal.session_id, hash(signal.digest)))
            case _:
                self._supersede(seq, _claims(signal))

    def judge_calls(self) -> Iterator[None]:
        """Bit by bit. A call's first sign may lie in an earlier file and its end here."""
        newest = set(self._latest_call.values())
        for at, call in enumerate(self._call_of):
            if call and call - 1 not in newest and self._is_over(call - 1):
                self._spare[at] = 1
            if at % STEP == 0:
                yield

    def _is_over(self, call: int) -> bool:
        """And no human was asked about it, and it launched nothing."""
        known, session_id = self._calls.known[call], self._calls.sessions[call]
        # Requests are made after the hook of the call they belong to, so they lie here too.
        begun = known & _HOOKED or (known & _STARTED and session_id not in self._hooked)
        asked = known & _KEPT or (session_id, self._calls.digests[call]) in self._asked
        return bool(begun and known & _FINISHED and not asked)

    def _consider_call(self, seq: int, signal: s.ToolStarted | s.ToolFinished) -> None:
        calls = self._calls
        call = calls.of(signal.session_id, signal.tool_use_id)
        self._call_of[seq - self._first] = call + 1
        # other witnesses may tell another input than the one the human is asked about
        if signal.digest and (signal.source == "hook" or not calls.digests[call]):
            calls.digests[call] = hash(signal.digest)
        if isinstance(signal, s.ToolStarted):
            calls.known[call] |= _STARTED | (_HOOKED if signal.source == "hook" else 0)
        else:
            human = signal.denied or signal.answered or signal.is_interrupt
            launched = signal.background or signal.child_id is not None
            calls.known[call] |= _FINISHED | (_KEPT if human or launched else 0)
        self._latest_call[signal.session_id, signal.agent_id] = call

    def _supersede(self, seq: int, claims: list[Claim]) -> None:
        """Of each key the row of the highest rank stays, the later one of two equals."""
        if not claims:
            return
        held = 0
        for key, rank in claims:
            best = self._newest.get(key)
            if best is not None and rank < best[0]:
                continue
            if best is not None:
                self._release(best[1])
            self._newest[key] = (rank, seq)
            held += 1
        if held:
            self._held[seq] = held
        else:
            self._spare[seq - self._first] = 1

    def _release(self, seq: int) -> None:
        self._held[seq] -= 1
        if not self._held[seq]:
            del self._held[seq]
            self._spare[seq - self._first] = 1


_META = tuple(
    field.name
    for field in msgspec.structs.fields(s.MetaChanged)
    if field.name not in s.Signal.__struct_fields__
)


def _claims(signal: s.KnownSignal) -> list[Claim]:
    """Nothing for what stays anyway."""
    of, who, at = signal.session_id, signal.agent_id, signal.at
    match signal:
        case s.Alive():
            return [((s.Alive, of, who, signal.source, signal.event), at)]
        case s.StatusReported():
            # of each status, as fold remembers when the session was last busy, and last waiting
            return [((s.StatusReported, of, signal.status), at)]
        case s.RetryScheduled():
            return [((s.RetryScheduled, of, who), at)]
        case s.ChildChanged():
            return [((s.ChildChanged, of, signal.child_id), at)]
        case s.UsageTotalled():
            kind = (signal.day, signal.model, signal.fast, signal.geo, signal.long)
            return [((s.UsageTotalled, of, *kind), 0)]  # fold takes the last that comes
        case s.CostReported() | s.GaugesReported():
            return [((type(signal), of, signal.source), at)]
        case s.MetaChanged():
            # a title of the registry counts for less than any other, so its source matters
            return [
                ((s.MetaChanged, of, name, signal.source), (at, value))
                for name in _META
                if (value := getattr(signal, name)) is not None
            ]
        case _:
            return []
