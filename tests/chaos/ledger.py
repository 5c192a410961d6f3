"""What the load has sent, and what became of each piece as far as its sender knows."""

from __future__ import annotations

import itertools
from collections import defaultdict
from pathlib import Path
from typing import Literal

import msgspec

Outcome = Literal["ok", "unknown", "refused"]
#: `line`: of a transcript. `forged`: written by nobody of ours.
Source = Literal["hook", "story", "socket", "line", "probe", "forged"]


class Sent(msgspec.Struct):
    """One signal. piece: what it was sent in, applied whole or not at all. seq: the piece's number.

    at, done: when it was sent, and when its outcome was known, in seconds.
    """

    id: str
    session: str
    source: Source
    host: str
    piece: int
    at: float
    done: float = float("inf")
    outcome: Outcome = "unknown"
    seq: int = 0


class Ledger:
    """Sequential within one (session, source): the next is sent when the one before has its outcome."""

    def __init__(self) -> None:
        self.sent: list[Sent] = []
        #: answers that nobody should ever get
        self.odd: list[str] = []
        self.streams: defaultdict[tuple[str, str], list[Sent]] = defaultdict(list)
        self._ids = itertools.count(1)
        self._pieces = itertools.count(1)

    def name(self, source: Source) -> str:
        return f"{'x' if source == 'forged' else source[0]}{next(self._ids)}"

    def send(
        self, ids: list[str], session: str, source: Source, host: str, at: float
    ) -> list[Sent]:
        piece = next(self._pieces)
        found = [Sent(each, session, source, host, piece, at) for each in ids]
        self.sent += found
        self.streams[session, source] += found
        return found

    def told(self, outcome: Outcome) -> int:
        return sum(each.outcome == outcome for each in self.sent)

    def write(self, file: Path) -> None:
        lines = [msgspec.json.encode(each) for each in self.sent]
        file.write_bytes(b"\n".join([*lines, b""]))
