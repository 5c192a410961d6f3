"""The process that reads the history, as its parent sees it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from adsum_collector.usage.reading import WorkerReport
from adsum_collector.usage.witness import HistoryTask


class EndingChild:
    """A process that has said all it has to say, and is about to end."""

    pid = 0  # nobody's

    def __init__(self) -> None:
        self.stdin = self.stdout = self
        self.asked, self.gone = asyncio.Event(), asyncio.Event()

    def write(self, _: bytes) -> None: ...

    async def drain(self) -> None: ...

    async def readline(self) -> bytes:
        return msgspec.json.encode(WorkerReport(over=True)) + b"\n"

    def kill(self) -> None: ...

    async def wait(self) -> int:
        self.asked.set()
        await self.gone.wait()
        return 0


async def test_a_stop_at_the_very_end_of_a_process_waits_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = EndingChild()

    async def spawn(*_: str, **__: int) -> EndingChild:
        return child

    monkeypatch.setattr(asyncio, "create_subprocess_exec", spawn)
    history = HistoryTask("claude_code", tmp_path, asyncio.Event())
    history.begin([], 0)
    await child.asked.wait()

    stopping = asyncio.create_task(history.stop())
    for _ in range(5):
        await asyncio.sleep(0)
    assert not stopping.done()
    child.gone.set()
    await stopping
