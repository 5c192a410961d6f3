"""What sessions used up, for tests: a ledger, and a witness with real files and a real spool."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Any

import msgspec

from adsum_collector.agents import known_agents
from adsum_collector.agents.records import TranscriptFile, UsageRecord
from adsum_collector.spool.spool import Spool
from adsum_collector.spool.spool_file import SpoolLimits
from adsum_collector.transcripts.cursors import Stamp
from adsum_collector.usage.ledger import FileTurn, Ledger, Total
from adsum_collector.usage.merge import UsageSource
from adsum_collector.usage.scan import Scanned, ScanPlace
from adsum_collector.usage.witness import UsageWitness
from adsum_shared.signals import AnySignal, MetaChanged, UsageTotalled
from tests.support import wait_until
from tests.tailers import SpyIntake

CLAUDE = known_agents()[0]
AGENT = CLAUDE.transcripts
NOON_S = 1_763_726_400  # 2025-11-21T12:00Z
DAY_S = 24 * 3600


class Totals:
    """A ledger as whoever is told of changes sees it."""

    def __init__(self, zone: tzinfo | None, limit: Callable[[str], int | None]) -> None:
        self.ledger = Ledger.in_memory(limit, zone)

    def add(self, source: UsageSource, records: Sequence[UsageRecord]) -> list[Total]:
        return self.add_all([(source, records)])

    def add_all(self, told: Sequence[tuple[UsageSource, Sequence[UsageRecord]]]) -> list[Total]:
        """All at once."""
        self.ledger.take([_turn(source, records) for source, records in told], 2**62)
        changed = self.ledger.untold(1 << 30)
        self.ledger.mark_told(changed, ())
        return [_timeless(each.total) for each in changed]

    def __iter__(self) -> Iterator[Total]:
        return map(_timeless, self.ledger)

    def __len__(self) -> int:
        return len(self.ledger)


def _turn(source: UsageSource, records: Sequence[UsageRecord]) -> FileTurn:
    place = ScanPlace(begun=source.begun or None)
    scanned = Scanned([*records], place, more=False, faults={})
    return FileTurn(b"f", TranscriptFile(source.session_id), Stamp(0, 0, 0, 0), scanned)


def _timeless(total: Total) -> Total:
    return msgspec.structs.replace(total, latest=0)


def begin(at: float = NOON_S) -> bytes:
    """How a main file begins, and says when."""
    return _line(type="queue-operation", operation="enqueue", timestamp=_stamp(at), content="go")


def said(
    name: str, output: int = 1, at: float = NOON_S, model: str = "claude-opus-4-6", **usage: Any
) -> bytes:
    """An assistant's line of the message of that name."""
    return _line(
        isSidechain=False,
        message={
            "id": f"msg_{name}",
            "role": "assistant",
            "model": model,
            "content": [{"type": "text", "text": f"said {name}"}],
            "usage": {"input_tokens": 1, "output_tokens": output} | usage,
        },
        requestId=f"req_{name}",
        type="assistant",
        uuid=str(uuid.uuid5(uuid.NAMESPACE_OID, name)),
        timestamp=_stamp(at),
    )


def _line(**fields: Any) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode() + b"\n"


def _stamp(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")[:-6] + "Z"


class UsageRig:
    """alive: sessions that live."""

    def __init__(self, spool: Spool, directory: Path) -> None:
        self.spool = spool
        self.state = directory / "state"
        self.projects = directory / "claude" / "projects"
        self.intake = SpyIntake(spool)
        self.alive: set[str] = set()
        self.reader = "one"
        self.running: asyncio.Task[None] | None = None
        self.witness = self._made()

    def _made(self) -> UsageWitness:
        return UsageWitness(
            self.intake,
            CLAUDE,
            directory=self.state,
            lives=lambda session_id: session_id in self.alive,
            reader=lambda: self.reader,
            now=lambda: time.time_ns() // 1_000_000,
        )

    def main(self, session: str, project: str = "p") -> Path:
        path = self.projects / project / f"{session}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def child(self, session: str, name: str, *folders: str) -> Path:
        path = self.projects / "p" / session / "subagents" / Path(*folders) / f"agent-{name}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def write(self, path: Path, *lines: bytes, age: float = 3600) -> None:
        path.write_bytes(b"".join(lines))
        self.age(path, age)

    def append(self, path: Path, *lines: bytes) -> None:
        with path.open("ab") as file:
            file.write(b"".join(lines))

    def age(self, path: Path, seconds: float) -> None:
        at = time.time() - seconds
        os.utime(path, (at, at))

    def walk(self) -> None:
        """As the tailer does: tells of every file there is."""
        for path in sorted(self.projects.rglob("*.jsonl")):
            whose = AGENT.file_of(path.relative_to(self.projects).as_posix())
            if path.is_file():
                self.witness.noticed(str(path), whose, Stamp.of(path.stat()))

    def start(self) -> None:
        self.walk()
        self.witness.walked()
        self.running = asyncio.create_task(self.witness.run())

    async def stop(self) -> None:
        if self.running is not None:
            self.running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self.running
            self.running = None

    async def restart(self) -> None:
        await self.stop()
        self.intake.taken.clear()
        self.witness = self._made()
        self.start()

    async def settled(self, timeout: float = 15) -> None:
        """All that was noticed has been read and told."""
        witness = self.witness

        def is_settled() -> bool:
            if self.running is not None and self.running.done():
                self.running.result()
            return (
                witness.idle
                and not len(witness._stale)
                and witness._worker.is_free()
                and not witness._wake.is_set()
                and not witness._pasts
            )

        await wait_until(is_settled, timeout)

    def told(self) -> dict[tuple[str, str], UsageTotalled]:
        """By session and day, of what was told last; nothing of what was told as nothing."""
        found: dict[tuple[str, str], UsageTotalled] = {}
        for signal in self.of(UsageTotalled):
            found[signal.session_id, signal.day] = signal
        return {key: each for key, each in found.items() if each.messages}

    def outputs(self) -> dict[str, int]:
        """By session, of what was told last of each of its totals."""
        last: dict[tuple[Any, ...], UsageTotalled] = {}
        for each in self.of(UsageTotalled):
            key = (each.session_id, each.day, each.model, each.fast, each.geo, each.long)
            last[key] = each
        sums: dict[str, int] = {}
        for each in last.values():
            sums[each.session_id] = sums.get(each.session_id, 0) + each.output_tokens
        return {session: output for session, output in sums.items() if output}

    def forks(self) -> list[tuple[str, str]]:
        return [
            (each.session_id, each.forked_from) for each in self.of(MetaChanged) if each.forked_from
        ]

    def of(self, kind: type[AnySignal]) -> list[Any]:
        return [signal for signal in self.intake.taken if isinstance(signal, kind)]


@contextlib.asynccontextmanager
async def open_usage(directory: Path) -> AsyncIterator[UsageRig]:
    spool = await Spool.open(directory / "spool", SpoolLimits(min_free_bytes=0))
    (directory / "state").mkdir()
    rig = UsageRig(spool, directory)
    rig.projects.mkdir(parents=True)
    try:
        yield rig
    finally:
        await rig.stop()
        await spool.close()
