"""A second source: transcripts written as no agent should, torn, cut, moved and begun anew."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from pathlib import Path

from tests.chaos.fleet import Machine
from tests.chaos.ledger import Ledger, Sent
from tests.chaos.load import SESSION_SIGNALS, introduce, settle
from tests.transcripts import line

PAUSE_S = 0.15
#: More than are read at once.
MANY = 130
NOISE = (
    b"\n",
    b"\r\n",
    b"{no json\n",
    b'{"kind":"silent","note":""}\n',
    b"\0\0\0\0\n",
    b"\xff\xfe\n",
)
FAULTS = ("many", "torn", "unfinished", "noise", "crlf", "move", "truncate", "recreate")


class Writer:
    """One agent's transcript at a time. is_shown: whether some hub has shown this id.

    A line counts as accepted once it is whole in its file; if the file is cut before anybody is
    known to have read it, nobody knows.
    """

    def __init__(
        self,
        machine: Machine,
        ledger: Ledger,
        rng: random.Random,
        is_shown: Callable[[str], bool],
    ) -> None:
        self.machine = machine
        self.ledger = ledger
        self.rng = rng
        self.is_shown = is_shown
        #: when, in which file, what
        self.faults: list[tuple[float, str, str]] = []
        self._count = 0
        self._in_file: list[Sent] = []
        self._unfinished: str | None = None
        self._introduced: dict[str, int] = {}
        self._session = ""
        self._project = "p"

    @property
    def _path(self) -> Path:
        return self.machine.claude / "projects" / self._project / f"{self._session}.jsonl"

    async def run(self) -> None:
        while True:
            await self._begin()
            while self._written < SESSION_SIGNALS:
                await self._step()
                await asyncio.sleep(self.rng.expovariate(1 / PAUSE_S))
            self._complete()

    async def finish(self) -> None:
        """The last line is whole, and every session is known to be alive."""
        self._complete()
        await self.introduce_all()

    async def introduce_all(self) -> None:
        for session in list(self._introduced):
            while self._introduced[session] != self.machine.generation:
                generation = self.machine.generation
                if await introduce(self.machine, session):
                    self._introduced[session] = generation
                else:
                    await asyncio.sleep(0.1)

    async def _begin(self) -> None:
        self._count += 1
        self._session = f"{self.machine.name}-l{self._count}"
        self._introduced[self._session] = -1
        self._in_file, self._written, self._project = [], 0, "p"
        # Before its first line: what nobody speaks for is history to its reader.
        await self.introduce_all()
        self._path.parent.mkdir(parents=True, exist_ok=True)
        if self.rng.random() < 0.3:
            self._add(b"\xef\xbb\xbf")

    async def _step(self) -> None:
        await self.introduce_all()
        if self.rng.random() > 0.25:
            self._write(self.rng.randint(1, 4))
            return
        fault = self.rng.choice(FAULTS)
        self.faults.append((time.monotonic(), str(self._path), fault))
        await self._break(fault)

    async def _break(self, fault: str) -> None:
        match fault:
            case "many":
                self._write(MANY)
            case "torn":
                name, raw = self._next()
                cut = self.rng.randint(1, len(raw) - 1)
                self._add(raw[:cut])
                await asyncio.sleep(self.rng.uniform(0.05, 0.5))
                self._add(raw[cut:])
                self._sent(name)
            case "unfinished":
                name, raw = self._next()
                self._add(raw[:-1])
                self._unfinished = name
            case "noise":
                self._complete()
                self._add(self.rng.choice(NOISE))
            case "crlf":
                name, raw = self._next()
                self._add(raw[:-1] + b"\r\n")
                self._sent(name)
            case "move":
                before, self._project = self._path, "q" if self._project == "p" else "p"
                self._path.parent.mkdir(exist_ok=True)
                if before.exists():
                    before.rename(self._path)
            case _:
                self._cut(anew=fault == "recreate")

    def _cut(self, *, anew: bool) -> None:
        """What no hub has shown yet may have been read, or never will be."""
        self._unfinished = None
        for sent in self._in_file:
            if not self.is_shown(sent.id):
                sent.outcome = "unknown"
        self._in_file = []
        if anew:
            self._path.unlink(missing_ok=True)
        elif self._path.exists():
            self._path.write_bytes(b"")
        self._write(2)

    def _write(self, count: int) -> None:
        lines = [self._next() for _ in range(count)]
        self._add(b"".join(raw for _, raw in lines))
        for name, _ in lines:
            self._sent(name)

    def _next(self) -> tuple[str, bytes]:
        self._complete()
        name = self.ledger.name("line")
        return name, line(name, padding="." * self.rng.choice((0, 0, 10, 200, 3000)))

    def _complete(self) -> None:
        if self._unfinished is not None:
            self._add(b"\n")
            self._sent(self._unfinished)
            self._unfinished = None

    def _add(self, raw: bytes) -> None:
        with self._path.open("ab") as file:
            file.write(raw)

    def _sent(self, name: str) -> None:
        sent = self.ledger.send([name], self._session, "line", self.machine.name, time.monotonic())
        settle(sent, "ok")
        self._written += 1
        self._in_file += sent
