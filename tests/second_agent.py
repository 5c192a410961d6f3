"""An invented agent, as a package of its own would bring it, and a collector that has it registered.

Quill has hooks of its own shape, writes a line of JSON for each step into `logs/DAY/THREAD.jsonl`, and
its processes are called `quill`. It has no registry and no status line.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
import uvloop

from adsum_collector.agents import known_agents
from adsum_collector.agents.base import Agent, HookFile, Transcripts, UsageLines
from adsum_collector.agents.installer import (
    SHIM_NAME,
    Change,
    Installation,
    Installer,
    Report,
    SettingsFiles,
    Version,
)
from adsum_collector.agents.records import Lines, Past, Private, TranscriptFile, UsageRecord
from adsum_collector.agents.settings_file import edit_settings, read_settings
from adsum_collector.app import run_collector
from adsum_collector.settings import CollectorSettings
from adsum_shared.signals import (
    Alive,
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

    context = ""
    whose = None

    def __init__(self, _context: str) -> None:
        self.faults: Counter[str] = Counter()
        self._records: list[UsageRecord] = []

    def take(self, raws: Sequence[bytes | bytearray | memoryview], /) -> None:
        for step in _steps(raws):
            if step.ink:
                self._records.append(UsageRecord(step.ms, 0, step.ms, "ink-1", output=step.ink))

    def records(self) -> list[UsageRecord]:
        records, self._records = self._records, []
        return records


def _steps(lines: Sequence[bytes | bytearray | memoryview]) -> Iterator[_Step]:
    for line in lines:
        with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            yield msgspec.json.decode(line, type=_Step)


def _time(line: bytes | bytearray | memoryview) -> int | None:
    return next((step.ms for step in _steps([line])), None)


INK = UsageLines(
    speaker=b'"ink": ',
    follows=(b"0",),
    usage=b'"ink"',
    any_usage=b'"ink"',
    answer=b'"ink"',
    own=(b"{",),
    meter=InkMeter,
    has_usage=lambda line: any(step.ink for step in _steps([line])),
    own_time=_time,
    session_in=lambda _head: None,
    begun_in=lambda head: _time(head.split(b"\n")[0]),
    used_by=lambda _path: None,
)


EVENTS = ("open", "begin", "may I", "rest", "close")


class QuillReport(Report):
    def wanted(self, version: Version) -> list[str]:
        taken = {
            event
            for event, words in _entries(read_settings(self.path)).items()
            if not _is_ours(words)
        }
        return [event for event in EVENTS if event not in taken]


class QuillInstaller(Installer):
    """Its hooks stand in `hooks.json`: event -> the command's words. The file is its owner's else."""

    probe = b'{"thread": "probe", "what": "probe"}'

    def files(self, directory: Path, cwd: Path) -> SettingsFiles:
        path = directory / "hooks.json"
        return SettingsFiles(path, (path,))

    def program(
        self, chosen: Path | None, env: Mapping[str, str], home: Path
    ) -> tuple[Version | None, Path | None]:
        found = chosen or shutil.which("quill", path=env.get("PATH", ""))
        return ((3, 1), Path(found)) if found else (None, None)

    def inspect(self, path: Path) -> Report:
        raw = read_settings(path)
        ours = {event: words for event, words in _entries(raw).items() if _is_ours(words)}
        words = next(iter(ours.values()), None)
        return QuillReport(
            path,
            raw is not None,
            dict.fromkeys(ours, 1),
            sockets=frozenset(words[4] for words in ours.values()),
            command=tuple(words) if words else None,
        )

    def install(self, wanted: Installation) -> Change:
        target = wanted.target
        words = [target.python, "-I", "-S", str(target.shim), str(target.socket)]
        ours = {key: [*words, Quill.name, "-", PROCESS] for key in EVENTS}

        def edited(base: str | None) -> str:
            return json.dumps(ours | _entries((base or "").encode()))

        return self._edit(wanted.path, wanted.state_dir, edited, dry_run=wanted.dry_run)

    def remove(self, path: Path, state_dir: Path, *, dry_run: bool) -> Change:
        return self._edit(path, state_dir, lambda base: base, dry_run=dry_run)

    def _edit(
        self,
        path: Path,
        state_dir: Path,
        edited: Callable[[str | None], str | None],
        *,
        dry_run: bool,
    ) -> Change:
        return edit_settings(
            path, state_dir, edited, stripped=_stripped, tokens=_no_tokens, dry_run=dry_run
        )


def _entries(raw: bytes | None) -> dict[str, list[str]]:
    return dict(json.loads(raw)) if raw else {}


def _is_ours(words: list[str]) -> bool:
    return any(SHIM_NAME in word for word in words)


def _stripped(text: str) -> str:
    entries = _entries(text.encode())
    left = {event: words for event, words in entries.items() if not _is_ours(words)}
    return text if left == entries else json.dumps(left)


def _no_tokens(text: str) -> frozenset[str]:
    _entries(text.encode())
    return frozenset()


class Quill(Agent):
    name = "quill"
    installer = QuillInstaller()
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
        if hook.what == "probe":
            return [Alive(**about)]
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
    for step in _steps(lines):
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
