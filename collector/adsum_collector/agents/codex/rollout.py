"""Translates the lines of one rollout into signals. Pure and total.

A rollout tells of turns, calls and their ends some 10 ms after the fact. It never shows that an
approval is asked, and not that a session was closed.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePath
from typing import Any, Final, Literal

import msgspec

from adsum_collector.agents.codex import calls
from adsum_collector.agents.codex.hook_events import PROMPT_MAX, Common, Fields, asked, ends_of
from adsum_collector.agents.records import (
    NAME_MAX,
    NEVER,
    NUMBER_MAX,
    PATH_MAX,
    SESSION_ID,
    Lines,
    Past,
    Private,
    TranscriptFile,
    deliveries,
    delivers,
    name_of,
    one_line,
    past_of,
    payload,
    project_of,
    shorten,
    stamp_of,
    text_of,
)
from adsum_shared import signals as s
from adsum_shared.signals import KnownSignal, MetaChanged, PromptSubmitted, RequestKind, ToolRole

_FILE = re.compile(rf"(?:.*/)?rollout-[0-9T-]{{19}}-({SESSION_ID})\.jsonl", re.ASCII | re.DOTALL)
#: Ids of Codex begin with the time at which they were given, so the lesser one is the older.
_TIMED = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")
#: How a command's output says that it failed, where no item of its own does (0.145).
_EXIT = re.compile(r"(?:Exit code:|exited with code) (-?\d{1,6})")
_OUTPUT_HEAD: Final = 400
#: What a script says that has handed back before its end.
RUNNING: Final = "Script running"
LAST_WORDS_MAX: Final = 1_000
CALLS_MAX: Final = 32
#: By hours; versions differ by a minute.
WINDOWS: Final = {5: "five_hour", 24: "one_day", 168: "seven_day", 720: "thirty_day"}
SUBAGENT_OVER: Final = frozenset({"completed", "failed", "interrupted", "closed"})
KNOWN_TYPES: Final = frozenset(
    {
        *("session_meta", "turn_context", "event_msg", "response_item", "compacted"),
        *("world_state", "token_usage_record", "retained_context", "ghost_snapshot"),
        "inter_agent_communication_metadata",
    }
)
#: Of these a line's payload says what it is.
WITH_TYPE: Final = frozenset({"event_msg", "response_item"})


class Due(msgspec.Struct, omit_defaults=True):
    """What a human is asked once the turn is over: a plan to approve, a question to answer."""

    what: RequestKind
    summary: str | None = None
    payload: dict[str, Any] | None = None


class Thread(msgspec.Struct, omit_defaults=True):
    """What the lines so far leave to those that follow, in one file.

    kind: `session`, `child`, or `hidden`: a review of the client's own; "" before its first line.
    session: whose it is. copied: what stands here are its parent's lines. begin: the ordinal of its
    own first line, where it says. reviewed: permissions are asked of another model. told: digests of
    what was reported last of the session itself. calls: those that were not answered, to their tool.
    delivers: of these, and of earlier ones, those whose command may commit.
    """

    kind: Literal["", "session", "child", "hidden"] = ""
    session: str = ""
    copied: bool = False
    begin: int | None = None
    at: int = 0
    turn: str | None = None
    due: Due | None = None
    reviewed: bool = False
    used: int = 0
    calls: dict[str, str] = {}
    delivers: list[str] = []
    told: dict[str, str] = {}

    @classmethod
    def of(cls, text: str) -> Thread:
        """A text of another version, or none, begins anew."""
        try:
            return msgspec.json.decode(text, type=cls) if text else cls()
        except msgspec.DecodeError:
            return cls()

    @classmethod
    def head(cls, line: bytes, file: TranscriptFile) -> Thread:
        """After a file's first line."""
        return cls.of(signals_from_lines([line], file, "", NEVER).context)

    def encoded(self, private: Private) -> str:
        """private: it is kept on disk, so nothing is in it that no signal may say."""
        kept = msgspec.structs.replace(self, due=private(self.due) if self.due else None)
        return msgspec.json.encode(kept).decode()

    def news(self, values: Mapping[str, str | None]) -> dict[str, Any]:
        """Those that differ from what was reported last; None: not known."""
        news: dict[str, Any] = {}
        for name, value in values.items():
            mark = hashlib.blake2b((value or "").encode(), digest_size=8).hexdigest()
            if value and self.told.get(name) != mark:
                self.told[name], news[name] = mark, value
        return news


class _Line(msgspec.Struct):
    type: str = ""
    timestamp: str = ""
    ordinal: int | None = None
    payload: msgspec.Raw = msgspec.Raw(b"{}")


_decode_line = msgspec.json.Decoder(_Line).decode
_decode_fields = msgspec.json.Decoder(dict[str, Any]).decode
_UNDECODABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def transcript_file(path: str) -> TranscriptFile | None:
    """Whose rollout this is, by its path below `sessions`.

    A subagent's and a review's look the same: whose those are only their first line says.
    """
    found = _FILE.fullmatch(path)
    return TranscriptFile(found[1]) if found else None


def signals_from_lines(
    lines: Sequence[bytes],
    file: TranscriptFile,
    context: str,
    seen: int,
    _sidecar: bytes | None = None,
    private: Private = lambda struct: struct,
) -> Lines:
    """See `adsum_collector.agents.base.Transcripts`.

    `at` is the line's own timestamp, never later than `seen`; a line that bears none is as old as
    the one before it.
    """
    known = Thread.of(context)
    found: list[KnownSignal] = []
    faults: Counter[str] = Counter()
    for raw in lines:
        if not raw.strip():
            continue
        try:
            line = _decode_line(raw)
            fields = _decode_fields(line.payload) if line.type in KNOWN_TYPES else {}
        except _UNDECODABLE:
            faults["no line of a rollout"] += 1
            continue
        if line.type not in KNOWN_TYPES:
            faults["unknown type of line"] += 1
            continue
        known.at = min(stamp_of(line.timestamp) or known.at or seen, seen)
        found += _Reader(known, file, seen, line.ordinal).read(line.type, fields)
    is_session = known.kind in ("", "session")
    return Lines(list(found), known.encoded(private), dict(faults), is_session=is_session)


class _Reader:
    """Reads one line. Fields of another type than expected count as missing."""

    def __init__(self, known: Thread, file: TranscriptFile, seen: int, ordinal: int | None) -> None:
        self.known, self.file, self.ordinal = known, file, ordinal
        self.seen = seen

    @property
    def common(self) -> Common:
        is_child = self.known.kind == "child"
        return {
            "session_id": self.known.session or self.file.session_id,
            "at": self.known.at,
            "seen": self.seen,
            "source": "transcript",
            "agent_id": self.file.session_id if is_child else None,
            # a child's turn is no turn of the session's
            "prompt_id": None if is_child else self.known.turn,
        }

    def read(self, kind: str, fields: Fields) -> list[KnownSignal]:
        what, known = fields.get("type"), self.known
        if kind == "session_meta":
            return self._begins(fields)
        if known.kind == "hidden" or (known.copied and not self._is_own(what, fields)):
            return []
        item = fields.get("item")
        if what == "item_completed" and isinstance(item, dict):
            what, fields = item.get("type"), {**fields, **item}
        step = STEPS.get(str(what) if kind in WITH_TYPE else kind)
        return step(self, fields) if step else []

    @property
    def _main(self) -> Common:
        return {**self.common, "agent_id": None}

    def _is_own(self, what: object, fields: Fields) -> bool:
        """Whether the copies of its parent's lines are over: with the first turn of its own.

        By its number, where the file says; else a turn that was begun before the thread was is no
        turn of it.
        """
        turn = fields.get("turn_id")
        if what != "task_started" or not isinstance(turn, str):
            return False
        if self.known.begin is not None and self.ordinal is not None:
            own = self.ordinal >= self.known.begin
        else:
            timed = _TIMED.fullmatch(turn) and _TIMED.fullmatch(self.file.session_id)
            own = not timed or turn > self.file.session_id
        self.known.copied = not own
        return own

    def _begins(self, fields: Fields) -> list[KnownSignal]:
        known, thread = self.known, self.file.session_id
        if fields.get("id", thread) != thread or known.kind in ("child", "hidden"):
            return []  # its parent's, copied
        source, said = fields.get("thread_source"), fields.get("source")
        spawned = said.get("subagent") if isinstance(said, dict) else None
        spawn = spawned.get("thread_spawn") if isinstance(spawned, dict) else None
        root = name_of(fields.get("session_id")) or name_of(fields.get("parent_thread_id"))
        forked = name_of(fields.get("forked_from_id"))
        if source in (None, "user") and not isinstance(said, dict):
            is_new = not known.kind
            known.kind, known.session = "session", thread
            # Since 0.169 a fork refers to its parent's lines, before it repeated them.
            known.copied = is_new and bool(forked) and not fields.get("history_base")
            started = s.SessionStarted(**self.common, reason="fork" if forked else "startup")
            git = fields.get("git")
            values = {
                "version": name_of(fields.get("cli_version")),
                "branch": name_of(git.get("branch")) if isinstance(git, dict) else None,
                "forked_from": forked,
            }
            return [*([started] if is_new else []), *self._meta(fields, **values)]
        is_child = bool(root) and root != thread and (source == "subagent" or spawn is not None)
        known.kind, known.session = "child" if is_child else "hidden", root or thread
        known.copied = is_child
        begin = fields.get("subagent_history_start_ordinal")
        known.begin = begin if isinstance(begin, int) else None
        if not is_child:
            return []
        about = spawn if isinstance(spawn, dict) else {}
        kind, words = name_of(about.get("agent_role")), _task(fields) or _task(about)
        return [s.ChildStarted(**self._main, child_id=thread, type=kind, description=words)]

    def surroundings(self, fields: Fields) -> list[KnownSignal]:
        """The turn's place and model, and who answers what it asks permission for."""
        self.known.reviewed = fields.get("approvals_reviewer") not in (None, "user")
        mode, never = fields.get("collaboration_mode"), fields.get("approval_policy") == "never"
        plans = isinstance(mode, dict) and mode.get("mode") == "plan"
        said = "plan" if plans else "bypassPermissions" if never else "default"
        return self._meta(fields, model=name_of(fields.get("model")), mode=said)

    def _meta(self, fields: Fields, **values: str | None) -> list[KnownSignal]:
        if self.known.kind == "child":
            return []
        cwd = name_of(fields.get("cwd"), PATH_MAX)
        news = self.known.news({**values, "cwd": cwd, "project": project_of(cwd)})
        return [MetaChanged(**self.common, **news)] if news else []

    def turn_begins(self, fields: Fields) -> list[KnownSignal]:
        known = self.known
        known.turn, known.due, known.calls = name_of(fields.get("turn_id")), None, {}
        if known.kind == "child":
            return [s.ChildStarted(**self._main, child_id=self.file.session_id)]
        told = fields.get("turn_attribution")
        trigger = told.get("turn_trigger") if isinstance(told, dict) else None
        by_user = trigger in (None, "user")
        return [PromptSubmitted(**self.common, origin="typed" if by_user else "system")]

    def turn_ends(self, fields: Fields) -> list[KnownSignal]:
        known, error = self.known, fields.get("error")
        due, known.due, known.calls = known.due, None, {}
        aborted = fields.get("type") == "turn_aborted"
        known.turn = name_of(fields.get("turn_id")) or known.turn
        if known.kind == "child":
            status = "interrupted" if aborted else "failed" if error else "completed"
            child = self.file.session_id
            return [s.ChildFinished(**self._main, child_id=child, status=status, notified=True)]
        if aborted:
            return [s.TurnInterrupted(**self.common)]
        if isinstance(error, dict):
            said = ends_of(error.get("message"))
            return [s.TurnFailed(**self.common, error=_cause(error), message=said)]
        answer = ends_of(fields.get("last_agent_message"))
        return [
            # it is written when the user's own hooks on the end have run
            s.TurnEnded(**self.common, last_message=answer, final=True),
            *self._meta({}, last_answer=answer.strip() if answer else None),
            *(self._asks(due) if due else []),
        ]

    def _asks(self, due: Due) -> list[KnownSignal]:
        """It is asked when the turn is over, so no end of that turn is an answer, however late heard.

        The next prompt is one. Under a name of its own, which is younger than the turn's, the request
        outlives that; of an Esc on the dialog no witness knows.
        """
        about = {**self.common, "prompt_id": f"{self.known.turn}/{due.what}"}
        told = {"request_id": about["prompt_id"], "summary": due.summary, "payload": due.payload}
        role: ToolRole = "plan" if due.what == "plan" else "question"
        return [s.RequestOpened(**about, **told, request_kind=due.what, role=role)]

    def _prompt(self, text: object) -> list[KnownSignal]:
        if self.known.kind == "child" or not isinstance(text, str) or not text.strip():
            return []
        self.known.due = None  # the answer to what was asked in this turn
        last = self._meta({}, last_prompt=one_line(text, LAST_WORDS_MAX))
        return [PromptSubmitted(**self.common, text=shorten(text, PROMPT_MAX)), *last]

    def gauges(self, fields: Fields) -> list[KnownSignal]:
        info = fields.get("info")
        used = info.get("last_token_usage") if isinstance(info, dict) else None
        tokens = _count(used.get("input_tokens")) if isinstance(used, dict) else None
        told: dict[str, Any] = {}
        if isinstance(info, dict) and tokens and tokens != self.known.used:
            self.known.used = tokens
            size = _count(info.get("model_context_window"))
            told = {"context_tokens": tokens, "context_size": size}
        if self.known.kind == "child":
            return []
        told |= self._limits(fields.get("rate_limits"))
        return [s.GaugesReported(**self.common, **told)] if told else []

    def _limits(self, rates: object) -> dict[str, Any]:
        """Of an account with a plan. With a key tokens are billed, and all of it is empty."""
        if not isinstance(rates, dict):
            return {}
        limits = [_limit(name, rates) for name in ("primary", "secondary")]
        found = [limit for limit in limits if limit is not None]
        plan = name_of(rates.get("plan_type")) or ("ChatGPT" if found else "")
        news = self.known.news({"plan": plan, "limits": repr(found) if found else None})
        if not plan and self.known.told.pop("plan", ""):
            news["plan"] = ""
        return {**news, "limits": found} if "limits" in news else news

    def compacted(self, _fields: Fields) -> list[KnownSignal]:
        return [s.CompactionFinished(**self.common)] if self.known.kind != "child" else []

    def user_said(self, fields: Fields) -> list[KnownSignal]:
        return self._prompt(text_of(fields.get("content")) or fields.get("message"))

    def agent_said(self, fields: Fields) -> list[KnownSignal]:
        is_agent = fields.get("role", "assistant") == "assistant"
        return [s.Alive(**self.common, event=s.MESSAGE)] if is_agent else []

    def planned(self, fields: Fields) -> list[KnownSignal]:
        text = shorten(text_of(fields.get("text")) or "", PROMPT_MAX)
        self.known.due = Due("plan", one_line(text.lstrip("# ")), {"plan": text})
        return []

    def asked(self, fields: Fields) -> list[KnownSignal]:
        """By a message, for which the turn does not wait."""
        if questions := fields.get("questions"):
            body = payload({"questions": questions})
            self.known.due = Due("question", calls.asked(questions), body)
        return []

    def patched(self, fields: Fields) -> list[KnownSignal]:
        ok = fields.get("success", True) is True and fields.get("status") in (None, "completed")
        key = fields.get("call_id") or fields.get("id")
        return self._finished(key, "apply_patch", None if ok else "not applied")

    def command(self, item: Fields) -> list[KnownSignal]:
        """It is told of when it has ended, be that after its turn: a command in the background."""
        key = name_of(item.get("id"))
        if key is None:
            return []
        turn = None if self.known.kind == "child" else name_of(item.get("turn_id"))
        about = {**self.common, "prompt_id": turn}
        began = _count(item.get("started_at_ms")) or self.known.at
        started = s.ToolStarted(
            **{**about, "at": min(began, self.known.at)},
            tool=calls.SHELL,
            role="shell",
            tool_use_id=key,
            summary=one_line(calls.shell_line(item.get("command"))),
        )
        code = item.get("exit_code")
        error = f"exit code {code}" if code not in (None, 0) else None
        return [started, *self._finished(key, calls.SHELL, error, about=about)]

    def activity(self, item: Fields) -> list[KnownSignal]:
        child, kind = name_of(item.get("agent_thread_id")), item.get("kind")
        if child is None:
            return []
        if kind in SUBAGENT_OVER:
            return [s.ChildFinished(**self._main, child_id=child, status=str(kind), notified=True)]
        if kind != "started":
            return [s.ChildChanged(**self._main, child_id=child)]
        return [s.ChildStarted(**self._main, child_id=child, description=_task(item))]

    def called(self, fields: Fields) -> list[KnownSignal]:
        key, known = name_of(fields.get("call_id")), self.known
        if key is None:
            return []
        tool = calls.tool_of(fields.get("name") or calls.SHELL)
        value = calls.input_of(fields.get("arguments") or fields.get("input"))
        known.calls[key] = tool
        while len(known.calls) > CALLS_MAX:
            del known.calls[next(iter(known.calls))]
        if delivers(calls.shell_line(value.get("command") or value.get("cmd"))):
            known.delivers = [*known.delivers[1 - CALLS_MAX :], key]
        about: Common = {"tool": tool, "role": calls.role_of(tool), "tool_use_id": key}
        started = s.ToolStarted(**self.common, **about, summary=calls.summary(tool, value))
        if tool != calls.QUESTION:
            return [started]
        return [started, asked(self.common, "question", about, value)]

    def returned(self, fields: Fields) -> list[KnownSignal]:
        """A call's answer. With the last one, nothing that this turn has asked for is open any more.

        Of a refusal that does not end the turn, and of a script's own calls, nothing else tells.
        Those of a script that has only handed back may still wait.
        """
        key, known = name_of(fields.get("call_id")), self.known
        text = text_of(fields.get("output")) or ""
        failed = _EXIT.search(text[:_OUTPUT_HEAD])
        error = f"exit code {failed[1]}" if failed and failed[1] != "0" else None
        made = deliveries(text) if error is None and key in known.delivers else None
        found = self._finished(key, known.calls.pop(key or "", "tool"), error, made=made)
        if not known.calls and not text.startswith(RUNNING) and known.turn:
            found.append(s.RequestClosed(**self.common, request_id=self.file.session_id))
        return found

    def _finished(
        self,
        key: object,
        tool: str,
        error: str | None = None,
        *,
        about: Common | None = None,
        made: list[s.Delivery] | None = None,
    ) -> list[KnownSignal]:
        """A call that failed is the model's to mend: a turn that fails says so itself.

        So its failure is followed by a word of the agent. (Rejected: to leave it at the failure. The
        model may think about it for minutes without a line, and that looked like an error.)
        """
        tool_use_id, common = name_of(key), about or self.common
        if tool_use_id is None:
            return []
        finished = s.ToolFinished(
            **common,
            tool=tool,
            role=calls.role_of(tool),
            tool_use_id=tool_use_id,
            ok=error is None,
            answered=tool == calls.QUESTION,
            error=error,
            delivered=made,
        )
        if error is None:
            return [finished]
        return [finished, s.Alive(**{**common, "at": common["at"] + 1}, event=s.MESSAGE)]


STEPS: Final[dict[str, Callable[[_Reader, Fields], list[KnownSignal]]]] = {
    "turn_context": _Reader.surroundings,
    **dict.fromkeys(("compacted", "context_compacted", "ContextCompaction"), _Reader.compacted),
    "task_started": _Reader.turn_begins,
    **dict.fromkeys(("task_complete", "turn_aborted"), _Reader.turn_ends),
    **dict.fromkeys(("user_message", "UserMessage"), _Reader.user_said),
    "token_count": _Reader.gauges,
    "CommandExecution": _Reader.command,
    **dict.fromkeys(("FileChange", "patch_apply_end"), _Reader.patched),
    "Plan": _Reader.planned,
    "AgentMessage": _Reader.asked,
    "SubAgentActivity": _Reader.activity,
    **dict.fromkeys(("message", "reasoning"), _Reader.agent_said),
    **dict.fromkeys(("function_call", "custom_tool_call", "local_shell_call"), _Reader.called),
    **dict.fromkeys(("function_call_output", "custom_tool_call_output"), _Reader.returned),
}


def _limit(which: str, rates: Fields) -> s.RateLimit | None:
    """Named by its window, as other agents name theirs; and by what it limits, if that is not all."""
    told = rates.get(which)
    used = told.get("used_percent") if isinstance(told, dict) else None
    if not isinstance(told, dict) or not isinstance(used, int | float) or not 0 <= used <= 10_000:
        return None
    hours = round((_count(told.get("window_minutes")) or 0) / 60)
    window = WINDOWS.get(hours) or (f"{hours}_hour" if hours else which)
    limited = name_of(rates.get("limit_id")) or "codex"
    name = window if limited == "codex" else f"{window}_{limited}"
    return s.RateLimit(name[:NAME_MAX], float(used), (_count(told.get("resets_at")) or 0) * 1000)


def _task(fields: Fields) -> str | None:
    """A subagent's task, which is the end of its path."""
    path = name_of(fields.get("agent_path"), PATH_MAX)
    return one_line(PurePath(path).name) if path else None


def _cause(error: Fields) -> str:
    """The client's class of error: a word, or an object with that word for its only field."""
    info = error.get("codex_error_info")
    if isinstance(info, dict):
        info = next(iter(info), None)
    return name_of(info) or "unknown"


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and 0 <= value < NUMBER_MAX else None


def opening(head: Sequence[bytes], whose: TranscriptFile) -> str:
    """See `adsum_collector.agents.base.Transcripts`."""
    known = Thread.head(b"".join(head[:1]), whose)
    # What stands between is not read. Copies stand at the beginning.
    known.at, known.copied, known.told = 0, False, {}
    return known.encoded(lambda struct: struct) if known.kind else ""


def written(lines: Sequence[bytes]) -> int:
    """See `adsum_collector.agents.base.Transcripts`."""
    for raw in reversed(lines):
        try:
            if at := stamp_of(_decode_line(raw).timestamp):
                return at
        except _UNDECODABLE:
            continue
    return 0


def history(head: Sequence[bytes], tail: Sequence[bytes], whose: TranscriptFile) -> Past | None:
    """See `adsum_collector.agents.base.Transcripts`. None of what is no session."""
    first = signals_from_lines(head, whose, "", NEVER)
    if Thread.of(first.context).kind != "session":
        return None
    signals = first.signals
    if tail != head:
        signals = [*signals, *signals_from_lines(tail, whose, first.context, NEVER).signals]
    return past_of(signals)
