"""Translates the events of OpenCode's own log into signals. Total: what it does not know says nothing.

Each event is one row of the table `event`, which is only ever added to: a session, a message or a part of
one as it is from then on. Of a request for permission and of retries nothing is written there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from adsum_collector.agents.words import (
    NAME_MAX,
    NUMBER_MAX,
    call_summary,
    name_of,
    one_line,
    payload,
    project_of,
    shorten,
)
from adsum_shared import signals as s
from adsum_shared.signals import AnySignal, ToolRole

#: Of a prompt, or of an answer's end, in characters.
TEXT_MAX: Final = 4_000
LAST_WORDS_MAX: Final = 1_000
#: Messages and calls of one session that are kept in mind; the oldest goes.
MOST: Final = 256
ROLES: Final[dict[str, ToolRole]] = {
    "bash": "shell",
    "edit": "edit",
    "apply_patch": "edit",
    "write": "write",
    "read": "read",
    "list": "read",
    "glob": "search",
    "grep": "search",
    "webfetch": "fetch",
    "websearch": "web_search",
    "task": "agent",
    "question": "question",
    "todowrite": "todo",
    "todoread": "todo",
}
#: A title that nobody gave.
UNTITLED: Final = ("New session - ", "Child session - ")
#: Why an answer stopped that is followed by another one of the same turn.
GOES_ON: Final = frozenset({"tool-calls", "unknown"})
ABORTED: Final = "MessageAbortedError"
MADE: Final = "session.created"

Fields = dict[str, Any]
_decode = msgspec.json.Decoder(Fields).decode


class SessionLog:
    """What the events of one session mean, in their order.

    parent: the session whose subagent it is. directory: where it runs. begun, at: when it was begun and
    when its last event was, ms.
    """

    def __init__(self, session_id: str) -> None:
        self.id, self.parent = session_id, ""
        self.directory, self.begun, self.at = "", 0, 0
        #: Of those that a human wrote: id -> when.
        self._prompts: dict[str, int] = {}
        self._calls: dict[str, str] = {}
        self._told: Fields = {}
        self._answer = ""

    def read(self, kind: str, data: bytes, seen: int) -> list[AnySignal]:
        """kind: as `message.updated.1`. Raises msgspec.DecodeError, UnicodeDecodeError, RecursionError."""
        fields, step = _decode(data), kind.rpartition(".")[0]
        if step in (MADE, "session.updated"):
            return self._session(_dict(fields, "info"), seen)
        if step == "session.deleted":
            return self._ended(seen)
        if step == "message.updated":
            return self._message(_dict(fields, "info"), seen)
        if step == "message.part.updated":
            return self._part(_dict(fields, "part"), _time(fields, "time"), seen)
        return []

    def _about(self, at: int, seen: int, turn: object = None) -> Fields:
        """at: 0: as its last event. turn: the message that began it."""
        self.at = max(self.at, min(at, seen)) if at else self.at or seen
        return {
            "session_id": self.parent or self.id,
            "at": min(at or self.at, seen),
            "seen": seen,
            "source": "transcript",
            "agent_id": self.id if self.parent else None,
            "prompt_id": name_of(turn) if not self.parent else None,
        }

    def _main(self, seen: int, at: int = 0) -> Fields:
        return {**self._about(at, seen), "agent_id": None}

    def _session(self, info: Fields, seen: int) -> list[AnySignal]:
        times = _dict(info, "time")
        self.begun = self.begun or _time(times, "created")
        self.directory = name_of(info.get("directory"), 4_096) or self.directory
        is_new = not self._told
        title = one_line(info.get("title"), NAME_MAX) or ""
        if (parent := name_of(info.get("parentID"))) and parent != self.id:
            self.parent, self._told = parent, {"title": title}
            about = {**self._main(seen, self.begun), "child_id": self.id, "description": title}
            return [s.ChildStarted(**about)] if is_new else []
        told = {
            "cwd": self.directory,
            "project": project_of(self.directory),
            "version": name_of(info.get("version")),
            "ai_title": given_title(title),
            "model": name_of(_dict(info, "model").get("id")),
            "mode": name_of(info.get("agent")),
        }
        started = [s.SessionStarted(**self._about(self.begun, seen))] if is_new else []
        return [*started, *self._news(told, _time(times, "updated"), seen)]

    def _news(self, told: Fields, at: int, seen: int) -> list[AnySignal]:
        news = {name: each for name, each in told.items() if each and self._told.get(name) != each}
        self._told |= news
        return [s.MetaChanged(**self._main(seen, at), **news)] if news else []

    def _ended(self, seen: int) -> list[AnySignal]:
        return [] if self.parent else [s.SessionEnded(**self._main(seen, seen), reason="deleted")]

    def _message(self, info: Fields, seen: int) -> list[AnySignal]:
        key, times = name_of(info.get("id")), _dict(info, "time")
        made, turn = _time(times, "created"), info.get("parentID")
        if key is None:
            return []
        if info.get("role") == "user":
            if key in self._prompts:
                return []
            _keep(self._prompts, key, made)
            self._answer = ""
            if self.parent:
                return []
            return [s.PromptSubmitted(**self._about(made, seen, key))]
        done, error = _time(times, "completed"), _dict(info, "error")
        if error:
            return self._failed(error, self._about(done, seen, turn))
        about = self._about(done or made, seen, turn)
        if not done or name_of(info.get("finish")) in GOES_ON or not info.get("finish"):
            return [s.Alive(**about, event=s.MESSAGE)]
        if self.parent:
            return self._child_over("completed", seen, done)
        ends = s.TurnEnded(**about, final=True, last_message=self._answer or None)
        said = {"last_answer": shorten(self._answer, LAST_WORDS_MAX)}
        return [ends, *self._news(said, done, seen)]

    def _failed(self, error: Fields, about: Fields) -> list[AnySignal]:
        aborted = error.get("name") == ABORTED
        if self.parent:
            return self._child_over("interrupted" if aborted else "failed", about["seen"])
        if aborted:
            return [s.TurnInterrupted(**about)]
        said = one_line(_dict(error, "data").get("message"), LAST_WORDS_MAX)
        return [s.TurnFailed(**about, error=name_of(error.get("name")) or "unknown", message=said)]

    def _child_over(self, status: str, seen: int, at: int = 0) -> list[AnySignal]:
        about = {**self._main(seen, at), "child_id": self.id, "status": status, "notified": True}
        return [s.ChildFinished(**about)]

    def _part(self, part: Fields, at: int, seen: int) -> list[AnySignal]:
        message, what = name_of(part.get("messageID")), part.get("type")
        if what == "tool":
            return self._call(part, _dict(part, "state"), at, seen)
        text = part.get("text")
        if what == "text" and isinstance(text, str) and not part.get("synthetic"):
            if message not in self._prompts:
                self._answer = text[-TEXT_MAX:].strip()
            elif not self.parent:
                about = self._about(self._prompts[message], seen, message)
                said = {"last_prompt": one_line(text, LAST_WORDS_MAX)}
                prompt = s.PromptSubmitted(**about, text=shorten(text, TEXT_MAX))
                return [prompt, *self._news(said, at, seen)]
        if what == "compaction":
            return [] if self.parent else [s.CompactionStarted(**self._main(seen, at))]
        return [s.Alive(**self._about(at, seen), event=s.MESSAGE)] if at else []

    def _call(self, part: Fields, state: Fields, at: int, seen: int) -> list[AnySignal]:
        key, tool = name_of(part.get("callID")), name_of(part.get("tool")) or "tool"
        status, times = state.get("status"), _dict(state, "time")
        if key is None or status == "pending":
            return []
        role, value = ROLES.get(tool, "other"), _dict(state, "input")
        call: Fields = {"tool": tool, "role": role, "tool_use_id": key}
        found: list[AnySignal] = []
        if key not in self._calls:
            _keep(self._calls, key, tool)
            about = self._about(_time(times, "start") or at, seen)
            found.append(s.ToolStarted(**about, **call, summary=call_summary(value)))
            if role == "question":
                asked: Fields = {"summary": call_summary(value), "payload": payload(value)}
                found.append(s.RequestOpened(**about, **call, request_kind="question", **asked))
        if status == "running":
            return found
        ok, about = status == "completed", self._about(_time(times, "end") or at, seen)
        error = None if ok else one_line(state.get("error")) or "failed"
        done = s.ToolFinished(
            **about, **call, ok=ok, error=error, answered=role == "question" and ok
        )
        return [*found, done]


def given_title(title: object) -> str | None:
    """None for what it is called until a title has been made up."""
    told = one_line(title, NAME_MAX)
    return None if told is None or told.startswith(UNTITLED) else told


def _keep(held: dict[str, Any], key: str, value: Any) -> None:
    held[key] = value
    if len(held) > MOST:
        del held[next(iter(held))]


def _dict(fields: Mapping[str, Any], name: str) -> Fields:
    value = fields.get(name)
    return value if isinstance(value, dict) else {}


def _time(fields: Mapping[str, Any], name: str) -> int:
    value = fields.get(name)
    return int(value) if isinstance(value, int | float) and 0 < value < NUMBER_MAX else 0
