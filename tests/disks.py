"""Collectors on one disk, its copies and its backups, one Redis and one hub: stepped, not run.

Each collector is a coroutine that stops before every command to Redis; whoever holds it decides who
goes on, what becomes of the answer, and when a command that was given up arrives after all. The
position, the runs and the hub's rule are the real ones.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Coroutine, Generator, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from adsum_collector.delivery.publisher import DeliveryProblem, StreamPosition
from adsum_collector.delivery.resume import EntryId, Head, HubProgress
from adsum_collector.delivery.transports import Inbox, StreamLook
from adsum_collector.errors import StreamMovedError
from adsum_collector.spool.spool import Rows, Spool, SpoolGap
from adsum_collector.spool.spool_file import left_of
from adsum_hub.inbox import Runs, admit, advance
from adsum_shared.envelope import Batch, decode_batch
from adsum_shared.signals import Alive, encode_signal

BATCH = 3
_ids = itertools.count()


class Entry(NamedTuple):
    id: EntryId
    batch: Batch


class Broker:
    """late: entries whose senders gave up, on their way still."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.head: Head | None = None
        self.want: bytes | None = None
        self.stored: dict[str, Any] = {}
        self.late: list[Entry] = []

    def add(self, entry: Entry) -> bool:
        if self.head is not None and entry.id <= self.head.id:
            return False
        self.entries.append(entry)
        self.head = Head(entry.id, entry.batch.spool_id, entry.batch.nonce)
        return True

    def arrive(self) -> None:
        if self.late:
            self.add(self.late.pop(0))


class ModelHub:
    """notes: what was applied, in order; with the numbers it is what a snapshot holds."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.notes: list[str] = []
        self.applied: dict[str, int] = {}
        self.runs: Runs = {}
        self.cursor = EntryId(0, 0)

    def read(self) -> bool:
        """One entry. False if there is none."""
        for entry in self._broker.entries:
            if entry.id > self.cursor:
                self._take(entry.batch)
                self.cursor = entry.id
                return True
        return False

    def _take(self, batch: Batch) -> None:
        admission = admit(self.applied, batch, self.runs)
        if admission.missing:
            self._broker.want = f"{batch.spool_id}:{admission.missing}".encode()
        if admission.applied is not None:
            self.notes += [str(said.note) for said in admission.signals if isinstance(said, Alive)]
            advance(self.applied, self.runs, batch)

    def save(self) -> None:
        self._broker.stored = copy.deepcopy(
            {"n": self.notes, "a": self.applied, "r": self.runs, "c": self.cursor}
        )
        kept = [entry for entry in self._broker.entries if entry.id >= self.cursor]
        self._broker.entries = kept

    def restart(self) -> None:
        stored = copy.deepcopy(self._broker.stored)
        self.notes, self.applied = stored.get("n", []), stored.get("a", {})
        self.runs, self.cursor = stored.get("r", {}), stored.get("c", EntryId(0, 0))


class _Command:
    """Stops the coroutine; it is sent what becomes of the command: `done`, `lost` or `late`."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __await__(self) -> Generator[str, str, str]:
        return (yield self._name)


class ModelInbox(Inbox):
    """tells_runs: of what cannot be read there is no word of runs."""

    tells_runs = True

    def __init__(self, broker: Broker) -> None:
        super().__init__(None, "h")  # type: ignore[arg-type] # no client: nothing of it is left
        self._broker = broker

    async def head(self) -> Head | None:
        await self._pause()
        return self._broker.head

    async def look(
        self, spool_id: str, after: EntryId | None, *, others: bool = True
    ) -> StreamLook:
        """One after the other, as Redis carries them out: others may come between."""
        other = await self._after(after) if others else None
        return StreamLook(other, await self.stored(spool_id), await self._want())

    async def _after(self, entry: EntryId | None) -> Head | None:
        await self._pause()
        found = (each for each in self._broker.entries if entry is None or each.id > entry)
        first = next(found, None)
        return first and Head(first.id, first.batch.spool_id, first.batch.nonce)

    async def stored(self, spool_id: str) -> HubProgress:
        await self._pause()
        stored = self._broker.stored
        if not stored:
            return HubProgress()
        runs = dict(stored["r"].get(spool_id, {})) if self.tells_runs else {}
        return HubProgress(stored["c"], stored["a"].get(spool_id, 0), runs)

    async def _want(self) -> bytes | None:
        await self._pause()
        want, self._broker.want = self._broker.want, None
        return want

    async def add(self, entry: EntryId, fields: Mapping[bytes, bytes]) -> None:
        outcome = await _Command("add")
        told = Entry(entry, decode_batch(fields))
        if outcome == "late":
            self._broker.late.append(told)
            raise TimeoutError
        taken = self._broker.add(told)
        if outcome == "lost":
            raise TimeoutError
        there = [each for each in self._broker.entries if each.id == entry]
        if not taken and [each.batch.nonce for each in there] != [told.batch.nonce]:
            raise StreamMovedError

    async def _pause(self) -> None:
        if await _Command("ask") != "done":
            raise TimeoutError


class ModelSpool(Spool):
    """A disk: what `copy.deepcopy` takes of it is what a clone or a backup would."""

    def __init__(self) -> None:
        self.spool_id = f"s{next(_ids)}"
        self.incarnation = self.acked = self.last_seq = 0
        self.state: dict[str, bytes] = {}
        self.held: dict[int, str] = {}
        #: all that was promised on this disk, whatever became of it since
        self.promised: list[str] = []
        self.reasons: list[str] = []

    def accept(self) -> None:
        self.last_seq += 1
        self.held[self.last_seq] = f"n{next(_ids)}"
        self.promised.append(self.held[self.last_seq])

    def unconfirmed(self) -> Iterator[str]:
        return (note for seq, note in self.held.items() if seq > self.acked)

    async def append(
        self,
        signals: Sequence[bytes],
        *,
        message_id: str | None = None,
        state: Mapping[str, bytes | None] | None = None,
    ) -> int:
        assert not signals
        self.state = {**self.state, **{k: v for k, v in (state or {}).items() if v is not None}}
        return self.last_seq

    async def read(self, after: int, limit: int, limit_bytes: int) -> Rows | SpoolGap | None:
        first = after + 1
        if first not in self.held:
            return SpoolGap(first, first, "retention")
        most = range(first, first + min(limit, BATCH))
        notes = [self.held[seq] for seq in itertools.takewhile(self.held.__contains__, most)]
        said = [Alive(session_id="s", at=1, seen=1, note=note) for note in notes]
        return Rows(first, [encode_signal(each) for each in said])

    async def acknowledge(self, seq: int) -> None:
        self.acked = max(self.acked, min(seq, self.last_seq))

    async def set_incarnation(self, incarnation: int) -> None:
        self.incarnation = incarnation

    async def begin_anew(self, reason: str, incarnation: int, **more: Any) -> None:
        self.reasons.append(reason)
        kept = [
            self.held[seq]
            for first, last in left_of(self.acked, more["without"], self.last_seq)
            for seq in range(first, last + 1)
            if seq in self.held
        ]
        self.spool_id, self.incarnation, self.acked = more["spool_id"], incarnation, 0
        self.state = {k: v for k, v in {**self.state, **more["state"]}.items() if v is not None}
        self.held = dict(enumerate(kept, 2))
        self.last_seq = 1 + len(kept)


class Collector:
    """One process on a disk."""

    def __init__(self, spool: ModelSpool, broker: Broker) -> None:
        self.spool = spool
        self.problem = DeliveryProblem("Redis at redis://h", lambda: 0.0)
        self.problem.publishing()
        self.position = StreamPosition(spool, f"r{next(_ids)}", self.problem, lambda: 0.0)
        self.inbox = ModelInbox(broker)
        self._life: Coroutine[str, str | None, None] = self._run()
        self.next: str = self._life.send(None)

    def step(self, outcome: str = "done") -> None:
        """Carries out the command that is next."""
        self.next = self._life.send(outcome)

    def until_it_adds(self) -> None:
        while self.next != "add":
            self.step()

    def close(self) -> None:
        self._life.close()

    async def _run(self) -> None:
        await self.position.join()
        while True:
            try:
                await self.position.find(self.inbox)
                while True:
                    await self._publish()
            except (TimeoutError, StreamMovedError):
                continue

    async def _publish(self) -> None:
        """As `Publisher._publish` does it."""
        position, spool = self.position, self.spool
        await position.look(self.inbox)
        for _ in range(3):
            if not position.free or position.sent >= spool.last_seq:
                return
            if position.moved:
                await position.find(self.inbox)
                continue
            found = await position.read()
            assert found is not None
            await position.send(self.inbox, found)
