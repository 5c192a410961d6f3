"""An invented agent, as a package of its own would bring it, and a collector that has it registered.

Quill has hooks of its own shape, writes a line of JSON for each step into `logs/DAY/THREAD.jsonl`, and
its processes are called `quill`. It has no registry and no status line.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import uvloop

from adsum_collector.agents import known_agents
from adsum_collector.agents.base import Agent, HookFile, Transcripts, UsageLines
from adsum_collector.agents.records import Lines, Past, Private, TranscriptFile, UsageRecord
from adsum_collector.app import run_collector
from adsum_collector.settings import CollectorSettings
from adsum_shared.signals import (
    AnySignal,
    MetaChanged,
    PromptSubmitted,
    RequestOpened,
    SessionEnded,
    SessionStarted,
    TurnEnded,
)

PROCESS = "quill"


class _Hook(msgspec.Struct):
    thread: str
    what: str
    folder: str | None = None
    wants: str | None = None


class _Step(msgspec.Struct):
    ms: int
    said: str | None = None
    title: str | None = None
    ink: int = 0


class InkMeter:
    """Quill counts what it writes in drops of ink, a step at a time."""

    def __init__(self) -> None:
        self.faults: Counter[str] = Counter()
        self._records: list[UsageRecord] = []

    def take(self, raws: Sequence[bytes | bytearray | memoryview], /) -> None:
        for step in (msgspec.json.decode(raw, type=_Step) for raw in raws):
            if step.ink:
                self._records.append(UsageRecord(step.ms, 0, step.ms, "ink-1", output=step.ink))

    def records(self) -> list[UsageRecord]:
        records, self._records = self._records, []
        return records


def _time(line: bytes | bytearray | memoryview) -> int:
    return msgspec.json.decode(line, type=_Step).ms


INK = UsageLines(
    speaker=b'"ink": ',
    initial=ord("0"),
    usage=b'"ink"',
    any_usage=b'"ink"',
    answer=b'"ink"',
    own=(b"{",),
    meter=InkMeter,
    has_usage=lambda line: bool(msgspec.json.decode(line, type=_Step).ink),
    own_time=_time,
    session_in=lambda _head: None,
    begun_in=lambda head: _time(head.split(b"\n")[0]),
    used_by=lambda _path: None,
)


class Quill(Agent):
    name = "quill"
    title = "Quill"
    resume = "quill reopen"
    usage = INK

    @property
    def transcripts(self) -> Transcripts:
        return Transcripts(file_of, read, lambda _head, _tail, _file: Past(), lambda _lines: 0)

    def directories(self, env: Mapping[str, str], home: Path) -> tuple[Path, ...]:
        return (Path(env.get("QUILL_HOME") or home / ".quill"),)

    def transcript_dirs(
        self, directories: Sequence[Path], env: Mapping[str, str], home: Path
    ) -> tuple[Path, ...]:
        return tuple(directory / "logs" for directory in directories)

    def hook(self, body: bytes, seen: int) -> Sequence[AnySignal]:
        hook = msgspec.json.decode(body, type=_Hook)
        about = {"session_id": hook.thread, "at": seen, "seen": seen}
        if hook.what == "open":
            about_it = MetaChanged(**about, cwd=hook.folder, version="3.1")
            return [SessionStarted(**about), about_it]
        if hook.what == "close":
            return [SessionEnded(**about)]
        if hook.what == "begin":
            return [PromptSubmitted(**about)]
        if hook.what == "may I":
            asked = RequestOpened(**about, request_kind="permission", tool="pen", request_id="1")
            return [msgspec.structs.replace(asked, summary=hook.wants)]
        return [TurnEnded(**about)]

    def hook_file(self, directory: Path) -> Path:
        return directory / "hooks.json"

    def look_at_hooks(self, path: Path, port: int) -> HookFile:
        stands = path.exists() and f":{port}/" in path.read_text()
        return HookFile("ok") if stands else HookFile("missing", f"{path} holds no hooks.")


def file_of(path: str) -> TranscriptFile | None:
    _day, _, name = path.partition("/")
    return TranscriptFile(name.removesuffix(".jsonl")) if name.endswith(".jsonl") else None


def read(
    lines: Sequence[bytes],
    file: TranscriptFile,
    context: str,
    now: int,
    _meta: bytes | None,
    _private: Private,
) -> Lines:
    told: list[AnySignal] = []
    for line in lines:
        step = msgspec.json.decode(line, type=_Step)
        about = {"session_id": file.session_id, "at": step.ms, "seen": now}
        told.append(
            MetaChanged(**about, source="transcript", title=step.title, last_answer=step.said)
        )
    return Lines(told, context)


def main() -> None:
    logging.basicConfig(level="INFO", format="%(levelname)s %(name)s: %(message)s")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run_collector(CollectorSettings(), [*known_agents(), Quill()]))


if __name__ == "__main__":
    main()
