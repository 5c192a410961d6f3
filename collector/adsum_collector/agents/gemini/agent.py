"""Gemini CLI, as the collector knows it: from the chats it keeps, and from which processes run.

A line of a chat is a message as it is from then on, so one message may come several times; `$set` changes
what is known of the chat. A call is written once it has ended. Nothing shows that an approval is asked.
The functions that read lines are pure and total.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from typing import Annotated, Any, Final

import msgspec

from adsum_collector.agents.base import Agent, OwnWitness, Surroundings, Transcripts, UsageLines
from adsum_collector.agents.programs import RunnerWitness, Whereabouts, remember
from adsum_collector.agents.records import (
    NAME_MAX,
    NEVER,
    PATH_MAX,
    PRIME,
    Lines,
    Past,
    Private,
    TranscriptFile,
    UsageRecord,
    call_summary,
    model_name,
    name_of,
    one_line,
    past_of,
    project_of,
    shorten,
    stamp_of,
    text_of,
)
from adsum_shared import signals as s
from adsum_shared.signals import AnySignal, KnownSignal, MetaChanged, PromptSubmitted, ToolRole

#: A session's file bears the first letters of its id, a subagent's lies in a folder of its parent's id.
_MAIN: Final = re.compile(r"[^/]{1,255}/chats/session-[0-9T-]{10,19}-([0-9a-zA-Z]{1,8})\.jsonl")
_CHILD: Final = re.compile(
    r"[^/]{1,255}/chats/([0-9a-zA-Z]{8})[0-9a-zA-Z-]{0,120}/([0-9a-zA-Z_.-]{1,128})\.jsonl"
)
#: What the client itself says to the model at the begin, and where that tells of the directory.
CONTEXT: Final = "<session_context>"
_DIRECTORY: Final = re.compile(
    r"(?:Workspace Directories:\*\*\s*-|working in the (?:following )?director\w+:)\s*(/[^\n]{0,4095})"
)
CANCELLED: Final = "Request cancelled."
TEXT_MAX: Final = 2_000
LAST_WORDS_MAX: Final = 1_000
CALLS_MAX: Final = 64
ROLES: Final[dict[str, ToolRole]] = {
    "run_shell_command": "shell",
    "replace": "edit",
    "write_file": "write",
    "read_file": "read",
    "read_many_files": "read",
    "list_directory": "read",
    "glob": "search",
    "search_file_content": "search",
    "grep_search": "search",
    "web_fetch": "fetch",
    "google_web_search": "web_search",
    "write_todos": "todo",
}
Fields = dict[str, Any]
_decode = msgspec.json.Decoder(Fields).decode
_UNDECODABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class _Chat(msgspec.Struct, omit_defaults=True):
    """What the lines so far leave to those that follow. over: a turn's end was told; calls: those that were."""

    at: int = 0
    begun: bool = False
    over: bool = False
    turn: str | None = None
    directory: str = ""
    model: str = ""
    calls: list[str] = []

    @classmethod
    def of(cls, text: str) -> _Chat:
        try:
            return msgspec.json.decode(text, type=cls) if text else cls()
        except msgspec.DecodeError:
            return cls()


def transcript_file(path: str) -> TranscriptFile | None:
    """By its path below `tmp`. The id is the short one, by which Gemini CLI finds a session's files."""
    if found := _MAIN.fullmatch(path):
        return TranscriptFile(found[1])
    found = _CHILD.fullmatch(path)
    return TranscriptFile(found[1], found[2]) if found else None


def signals_from_lines(
    lines: Sequence[bytes],
    file: TranscriptFile,
    context: str,
    seen: int,
    _sidecar: bytes | None = None,
    private: Private = lambda struct: struct,
) -> Lines:
    """See `adsum_collector.agents.base.Transcripts`."""
    chat, faults = _Chat.of(context), Counter[str]()
    found: list[KnownSignal] = []
    for raw in lines:
        if not raw.strip():
            continue
        try:
            fields = _decode(raw)
        except _UNDECODABLE:
            faults["no line of a chat"] += 1
            continue
        found += _ChatLine(chat, file, seen).read(fields)
    kept = msgspec.json.encode(private(chat)).decode()
    return Lines(list[AnySignal](found), kept, dict(faults))


class _ChatLine:
    """Reads one line. Fields of another type than expected count as missing."""

    def __init__(self, chat: _Chat, file: TranscriptFile, seen: int) -> None:
        self.chat, self.file, self.seen = chat, file, seen

    @property
    def common(self) -> Fields:
        child = self.file.agent_id
        return {
            "session_id": self.file.session_id,
            "at": self.chat.at or self.seen,
            "seen": self.seen,
            "source": "transcript",
            "agent_id": child,
            "prompt_id": None if child else self.chat.turn,
        }

    @property
    def _main(self) -> Fields:
        return {**self.common, "agent_id": None}

    def read(self, fields: Fields) -> list[KnownSignal]:
        chat, changed = self.chat, fields.get("$set")
        at = stamp_of(fields.get("timestamp") or fields.get("startTime"))
        chat.at = min(at or chat.at or self.seen, self.seen)
        if isinstance(changed, dict):
            return self._changes(changed)
        if "$rewindTo" in fields:
            return [s.TurnInterrupted(**self.common)] if not self.file.agent_id else []
        if "sessionId" in fields:
            return self._begins()
        key, kind = name_of(fields.get("id")), fields.get("type")
        if kind == "user":
            return self._said(text_of(fields.get("content")), key)
        if kind == "gemini":
            return self._answered(fields)
        if kind == "info" and fields.get("content") == CANCELLED:
            return self._over(s.TurnInterrupted(**self.common), "interrupted")
        if kind == "error":
            message = one_line(text_of(fields.get("content")), LAST_WORDS_MAX)
            failed = s.TurnFailed(**self.common, error="api_error", message=message)
            return self._over(failed, "failed")
        return []

    def _begins(self) -> list[KnownSignal]:
        is_new, self.chat.begun = not self.chat.begun, True
        if child := self.file.agent_id:
            return [s.ChildStarted(**self._main, child_id=child)] if is_new else []
        return [s.SessionStarted(**self.common)] if is_new else []

    def _changes(self, changed: Fields) -> list[KnownSignal]:
        """The session's id is set anew when it is taken up again."""
        found = list[KnownSignal]()
        if "sessionId" in changed and not self.file.agent_id:
            found.append(s.SessionStarted(**self.common, reason="resume"))
        messages = changed.get("messages")
        for each in messages[:2] if isinstance(messages, list) else ():
            text = text_of(each.get("content")) if isinstance(each, dict) else None
            if text and text.startswith(CONTEXT) and (where := _DIRECTORY.search(text)):
                found += self._meta(directory=where[1].strip())
        if title := one_line(changed.get("summary"), NAME_MAX):
            found += [MetaChanged(**self._main, ai_title=title)] if not self.file.agent_id else []
        return found

    def _meta(self, directory: str = "", model: str = "") -> list[KnownSignal]:
        chat, news = self.chat, dict[str, Any]()
        if directory and directory != chat.directory:
            chat.directory = directory[:PATH_MAX]
            news = {"cwd": chat.directory, "project": project_of(chat.directory)}
        if model and model != chat.model:
            chat.model = news["model"] = model
        return [MetaChanged(**self._main, **news)] if news and not self.file.agent_id else []

    def _said(self, text: str | None, key: str | None) -> list[KnownSignal]:
        """Answers of tools are written as if a human had said them."""
        if not text or not text.strip() or text.startswith(CONTEXT):
            return [] if self.chat.over else [s.Alive(**self.common, event=s.MESSAGE)]
        self.chat.over = False
        if self.file.agent_id:
            return []
        self.chat.turn = key
        prompt = PromptSubmitted(**self.common, text=shorten(text, TEXT_MAX))
        return [prompt, MetaChanged(**self._main, last_prompt=one_line(text, LAST_WORDS_MAX))]

    def _answered(self, fields: Fields) -> list[KnownSignal]:
        """With a text and no call it is over, as far as can be known: a call is written when it ended."""
        found = self._meta(model=name_of(fields.get("model")) or "")
        calls = fields.get("toolCalls")
        text = (text_of(fields.get("content")) or "").strip()
        if isinstance(calls, list) and calls:
            told = [each for each in calls if isinstance(each, dict)]
            return [*found, *(signal for each in told for signal in self._call(each))]
        if not text:
            return [*found, s.Alive(**self.common, event=s.MESSAGE)]
        said = MetaChanged(**self._main, last_answer=shorten(text, LAST_WORDS_MAX))
        ends = s.TurnEnded(**self.common, last_message=text[-TEXT_MAX:], final=True)
        return [*found, *self._over(ends, "completed"), *([] if self.file.agent_id else [said])]

    def _over(self, ends: KnownSignal, status: str) -> list[KnownSignal]:
        self.chat.over = True
        if child := self.file.agent_id:
            about = {**self._main, "child_id": child, "status": status, "notified": True}
            return [s.ChildFinished(**about)]
        return [ends]

    def _call(self, call: Fields) -> list[KnownSignal]:
        """It has ended when it is written. That a cancelled one has is told late, and is no news."""
        key, tool = name_of(call.get("id")), name_of(call.get("name")) or "tool"
        status, value = call.get("status"), call.get("args")
        if key is None or key in self.chat.calls or (status == "cancelled" and self.chat.over):
            return []
        self.chat.over = False
        self.chat.calls = [*self.chat.calls[1 - CALLS_MAX :], key]
        about: Fields = {"tool": tool, "role": ROLES.get(tool, "other"), "tool_use_id": key}
        ended = {
            **self.common,
            "at": min(stamp_of(call.get("timestamp")) or self.chat.at, self.seen),
        }
        summary = call_summary(value) if isinstance(value, dict) else None
        started = s.ToolStarted(**self.common, **about, summary=summary)
        if status == "cancelled":
            done = s.ToolFinished(**ended, **about, ok=False, error="cancelled", is_interrupt=True)
            return [started, done]
        error = None if status == "success" else "failed"
        finished = s.ToolFinished(**ended, **about, ok=error is None, error=error)
        after = s.Alive(**{**ended, "at": ended["at"] + 1}, event=s.MESSAGE)
        return [started, finished, after]


def _opening(head: Sequence[bytes], whose: TranscriptFile) -> str:
    """See `adsum_collector.agents.base.Transcripts`."""
    return signals_from_lines(head, whose, "", NEVER).context


def written(lines: Sequence[bytes]) -> int:
    """See `adsum_collector.agents.base.Transcripts`."""
    for raw in reversed(lines):
        try:
            fields = _decode(raw)
        except _UNDECODABLE:
            continue
        changed = fields.get("$set")
        told = changed.get("lastUpdated") if isinstance(changed, dict) else None
        if at := stamp_of(fields.get("timestamp") or told or fields.get("startTime")):
            return at
    return 0


def history(head: Sequence[bytes], tail: Sequence[bytes], whose: TranscriptFile) -> Past | None:
    """See `adsum_collector.agents.base.Transcripts`."""
    first = signals_from_lines(head, whose, "", NEVER)
    signals = first.signals
    if tail != head:
        signals = [*signals, *signals_from_lines(tail, whose, first.context, NEVER).signals]
    return past_of(signals)


Bytes = bytes | bytearray | memoryview
ODD: Final = "odd usage"
#: As seconds it fits into four bytes.
LAST: Final = 2**32 * 1000
Tokens = Annotated[int, msgspec.Meta(ge=0, le=10**8)]


class _GeminiTokens(msgspec.Struct, gc=False):
    """input: with those from the cache. output: without the thoughts. tool: of a tool's own prompt."""

    input: Tokens = 0
    output: Tokens = 0
    cached: Tokens = 0
    thoughts: Tokens = 0
    tool: Tokens = 0


class _GeminiAnswer(msgspec.Struct, gc=False):
    type: str = ""
    id: str = ""
    timestamp: str = ""
    startTime: str = ""  # noqa: N815 - the file's name of it
    model: str = ""
    tokens: _GeminiTokens | None = None


_decode_answer = msgspec.json.Decoder(_GeminiAnswer).decode


class ChatMeter:
    """See `adsum_collector.agents.base.UsageMeter`. An answer comes again with its calls, under its id."""

    context = ""
    whose = None

    def __init__(self, _context: str = "") -> None:
        self.faults: Counter[str] = Counter()
        self._records: list[UsageRecord] = []

    def take(self, raws: Sequence[Bytes], /) -> None:
        for raw in raws:
            try:
                line = _decode_answer(raw)
            except _UNDECODABLE:
                self.faults[ODD] += b'"tokens"' in bytes(raw)
                continue
            if line.type == "gemini" and line.tokens is not None:
                self._add(line, line.tokens)

    def _add(self, line: _GeminiAnswer, tokens: _GeminiTokens) -> None:
        at = stamp_of(line.timestamp)
        if not 0 < at < LAST or not line.id:
            self.faults[ODD] += 1
            return
        key = int.from_bytes(line.id.encode(), "big") % PRIME
        read = min(tokens.cached, tokens.input)
        told = (tokens.input - read + tokens.tool, tokens.output + tokens.thoughts, read)
        named, plain = model_name(line.model), (False, "", False)
        self._records.append(UsageRecord(key, 0, at, named, *plain, *told))

    def records(self) -> list[UsageRecord]:
        records, self._records = self._records, []
        return records


def has_usage(raw: Bytes) -> bool:
    try:
        return _decode_answer(raw).tokens is not None
    except _UNDECODABLE:
        return False


def line_time(raw: Bytes) -> int | None:
    """When a line was written, ms."""
    try:
        line = _decode_answer(raw)
    except _UNDECODABLE:
        return None
    return stamp_of(line.timestamp or line.startTime) or None


USAGE_LINES: Final = UsageLines(
    speaker=b'"type":"',
    follows=(b'gemini"',),
    usage=b'"tokens":{',
    any_usage=b'"tokens"',
    answer=b'"gemini"',
    own=(),
    meter=ChatMeter,
    has_usage=has_usage,
    own_time=line_time,
    begun_in=lambda head: line_time(head[: max(head.find(b"\n"), 0)]),
)


def is_gemini(words: Sequence[str]) -> bool:
    """A script that node runs, which starts itself anew with more memory."""
    names = [PurePath(word).name for word in words[:4] if not word.startswith("-")]
    return bool({"gemini", "gemini.js"} & set(names[:2]))


class GeminiCli(Agent):
    """A session bears the first eight letters of its id: its file's name has no more of it."""

    name = "gemini"
    title = "Gemini CLI"
    variable = "GEMINI_CLI_HOME"
    setting = "gemini_dirs"
    usage = USAGE_LINES
    limits = (
        "Known from its files alone: a call is told when it has ended, so who waits for an approval "
        "looks as if it worked, and an answer before a call looks like the end."
    )

    def __init__(self) -> None:
        self.places: dict[str, Whereabouts] = {}

    def directories(self, env: Mapping[str, str], home: Path) -> tuple[Path, ...]:
        told = env.get(self.variable)
        return ((Path(told).expanduser() if told else home) / ".gemini",)

    @property
    def transcripts(self) -> Transcripts:
        return Transcripts(transcript_file, self.read, history, written, _opening)

    def transcript_dirs(
        self,
        directories: Sequence[Path],
        env: Mapping[str, str],  # noqa: ARG002 - for those who look elsewhere too
        home: Path,  # noqa: ARG002 - as env
    ) -> tuple[Path, ...]:
        return tuple(each / "tmp" for each in directories)

    def own_witnesses(
        self, directories: Sequence[Path], around: Surroundings
    ) -> Sequence[OwnWitness]:
        return [RunnerWitness(directories, is_gemini, self.places, around)]

    def read(
        self,
        lines: Sequence[bytes],
        file: TranscriptFile,
        context: str,
        now: int,
        meta: bytes | None,
        private: Private,
    ) -> Lines:
        said = signals_from_lines(lines, file, context, now, meta, private)
        chat = _Chat.of(said.context)
        # the context may hold none: what may be kept on disk is less than what is told here
        told = [each.cwd for each in said.signals if isinstance(each, MetaChanged) and each.cwd]
        if not file.agent_id:
            place = Whereabouts(told[-1] if told else chat.directory, chat.at)
            remember(self.places, file.session_id, place)
        return said
