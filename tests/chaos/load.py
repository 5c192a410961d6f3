"""The load: agents on every machine that send hooks, one after the other, and remember the outcome."""

from __future__ import annotations

import asyncio
import json
import os
import random
import time

from tests.chaos import story
from tests.chaos.doors import HookDoor, say
from tests.chaos.fleet import Machine
from tests.chaos.ledger import Ledger, Outcome, Sent, Source

#: Signals of one session, so that its tape stays short.
SESSION_SIGNALS = 40
PAUSE_S = 0.07
BURST = 25
TRIES = 3
STORY_STEP_MS = 400


def settle(sent: list[Sent], outcome: Outcome, seq: int = 0) -> None:
    for each in sent:
        each.outcome, each.seq, each.done = outcome, seq, time.monotonic()


class Sender:
    """One agent: a session at a time, one hook after the other."""

    def __init__(self, machine: Machine, ledger: Ledger, rng: random.Random, label: str) -> None:
        self.machine = machine
        self.ledger = ledger
        self.rng = rng
        self.label = label
        self.port = machine.port
        self._door: HookDoor | None = None
        self._session = 0
        self._in_session = 0

    async def run(self) -> None:
        """For ever, now and then many at once."""
        while True:
            for _ in range(BURST if self.rng.random() < 0.02 else 1):
                await self.send()
            await asyncio.sleep(self.rng.expovariate(1 / PAUSE_S))

    async def send(self) -> list[Sent]:
        return await self.hook(self.session(), "hook")

    async def fresh(self, source: Source) -> str | None:
        """The id of one that was accepted."""
        sent = await self.hook(f"{self.machine.name}-{self.label}", source)
        return sent[0].id if sent[0].outcome == "ok" else None

    def session(self) -> str:
        self._in_session += 1
        if self._in_session > SESSION_SIGNALS:
            self._session, self._in_session = self._session + 1, 1
        return f"{self.machine.name}-{self.label}-{self._session}"

    async def hook(self, session: str, source: Source, padding: int = 0) -> list[Sent]:
        name = self.ledger.name(source)
        note = f"{name} {'.' * padding}" if padding else name
        body = json.dumps({"session_id": session, "note": note}).encode()
        return await self.post(body, [name], session, source)

    async def post(self, body: bytes, ids: list[str], session: str, source: Source) -> list[Sent]:
        sent = self.ledger.send(ids, session, source, self.machine.name, time.monotonic())
        self._door = self._door or HookDoor(self.port, self.machine.token, self.ledger.odd.append)
        settle(sent, *await self._door.post(body))
        if sent[0].outcome == "refused":
            await asyncio.sleep(0.1)
        return sent


class SocketSender(Sender):
    """Over the unix socket, every third message twice, and anew what had no answer."""

    async def send(self) -> list[Sent]:
        name, session = self.ledger.name("socket"), self.session()
        sent = self.ledger.send([name], session, "socket", self.machine.name, time.monotonic())
        message = _message(f"{name}-{self.rng.getrandbits(64):x}", 0, session, name)
        wanted = 1 + (self.rng.random() < 0.33)
        generation = self.machine.generation
        outcomes: list[Outcome] = []
        for _ in range(TRIES):
            # What knows the message's id may have gone with the state directory.
            if generation != self.machine.generation and outcomes:
                break
            outcome, seq = await say(
                self.machine.state / "collector.sock", message, self.ledger.odd.append
            )
            outcomes.append(outcome)
            if outcome == "ok":
                settle(sent, "ok", seq)
                wanted -= 1
            if not wanted:
                break
            await asyncio.sleep(0.02)
        if sent[0].outcome != "ok":
            settle(sent, "unknown" if "unknown" in outcomes else "refused")
            await asyncio.sleep(0.1)
        return sent


class StoryTeller(Sender):
    """Tells what the real agent once said, in a session that stays the same."""

    def __init__(self, machine: Machine, ledger: Ledger, rng: random.Random, label: str) -> None:
        super().__init__(machine, ledger, rng, label)
        self.session_id = f"{machine.name}-{label}"
        #: so that ids of different machines differ
        self._base = 1000 * (1 + ord(machine.name) - ord("A"))
        self._bodies = story.recorded(rng, 400)
        # Days ago: no state of it changes with time while hubs are compared, nor with a clock that
        # jumps, of which each hub makes its own estimate for a minute.
        self._began_ms = _now_ms() - 3 * 86_400_000
        self.told: list[bytes] = []
        self.known: set[str] = set()

    async def send(self) -> list[Sent]:
        place = len(self.told)
        recorded = self._bodies[place % len(self._bodies)]
        at_ms = self._began_ms + place * STORY_STEP_MS
        body = story.number(recorded, self.session_id, self._base + place, at_ms)
        ids = story.ids_of(body)
        self.told.append(body)
        self.known.update(ids)
        return await self.post(body, ids, self.session_id, "story")


async def introduce(machine: Machine, session: str) -> bool:
    """The session has a process: ours. A transcript of one that has none is history to its reader."""
    message = _message(f"{session}-{time.monotonic_ns()}", os.getpid(), session)
    outcome, _ = await say(machine.state / "collector.sock", message, print)
    return outcome == "ok"


def _message(name: str, pid: int, session: str, note: str | None = None) -> dict[str, object]:
    body = {"session_id": session, "note": note}
    return {"v": 1, "id": name, "at": _now_ms(), "pid": pid, "body": body}


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
