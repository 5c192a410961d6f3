"""Decodes one line of a transcript lazily, and keeps what is carried from line to line."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from adsum_collector.agents.claude_code.bodies import NAME_MAX, TEXT_MAX, lenient
from adsum_collector.agents.records import Private

T = TypeVar("T")

#: Calls whose results are awaited; a turn of more parallel calls was never seen.
CALLS_MAX = 32
#: Of what is carried, in characters; and of the blocks that one line holds.
CONTEXT_MAX = 64 << 10
BLOCKS_MAX = 256


class PendingCall(msgspec.Struct, omit_defaults=True):
    """A tool call of which the result will only give the id. target: what a stopping call stops."""

    tool: str
    summary: str | None = None
    type: str | None = None
    target: str | None = None


class Context(msgspec.Struct, omit_defaults=True):
    """What the lines so far leave to those that follow, in one file.

    at: the latest timestamp, ms. told: digests of what was reported last of the session itself.
    used: tokens of the last prompt. begun: of a subagent's file, that it has begun. ahead: the last
    timestamp is of a day that has not come.
    """

    at: int = 0
    prompt_id: str | None = None
    calls: dict[str, PendingCall] = {}
    told: dict[str, str] = {}
    used: int = 0
    headless: bool = False
    begun: bool = False
    ahead: bool = False

    @classmethod
    def of(cls, text: str) -> Context:
        """A text of another version, or none, begins anew."""
        try:
            return msgspec.json.decode(text, type=cls) if text else cls()
        except msgspec.DecodeError:
            return cls()

    def encoded(self, private: Private) -> str:
        """private: it is kept on disk, so nothing is in it that no signal may say."""
        calls = {name: private(call) for name, call in self.calls.items()}
        text = msgspec.json.encode(msgspec.structs.replace(self, calls=calls)).decode()
        if len(text) <= CONTEXT_MAX:
            return text
        return msgspec.json.encode(msgspec.structs.replace(self, calls={}, told={})).decode()

    def news(self, values: Mapping[str, str | None]) -> dict[str, str]:
        """Those that differ from what was reported last; from now on they are that.

        None: not known. An empty text: it is no more, which is news if it once was.
        """
        news: dict[str, str] = {}
        for name, value in values.items():
            if value is None or (not value and name not in self.told):
                continue
            mark = _digest(value)
            if self.told.get(name) != mark:
                self.told[name] = mark
                news[name] = value
        return news

    def remember(self, tool_use_id: str, call: PendingCall) -> None:
        self.calls[tool_use_id] = call
        while len(self.calls) > CALLS_MAX:
            del self.calls[next(iter(self.calls))]


class TranscriptLine:
    """Fields of another type than expected count as missing: the CLI changes them at will.

    faults: what should say something and does not.
    """

    def __init__(self, fields: dict[str, msgspec.Raw]) -> None:
        self._fields = fields
        self._message: dict[str, Any] | None = None
        self.faults: list[str] = []
        self.type = self.name("type") or ""
        self.session_id = self.text("sessionId")

    def get(self, name: str, kind: type[T]) -> T | None:
        raw = self._fields.get(name)
        return None if raw is None else lenient(raw, kind)

    def text(self, name: str) -> str | None:
        return (self.get(name, str) or "")[:TEXT_MAX] or None

    def name(self, name: str) -> str | None:
        return (self.get(name, str) or "")[:NAME_MAX] or None

    def flag(self, name: str) -> bool:
        return self.get(name, bool) is True

    def raw(self, name: str) -> bytes | None:
        """The field of whatever type, None if there is none."""
        return bytes(self._fields[name]) if name in self._fields else None

    def blocks(self) -> list[dict[str, Any]]:
        """The message's content; a plain text is one block of text."""
        content = self.message("content")
        if isinstance(content, str):
            return [{"type": "text", "text": content}]
        return (
            [each for each in content[:BLOCKS_MAX] if isinstance(each, dict)]
            if isinstance(content, list)
            else []
        )

    def message(self, name: str) -> Any:
        if self._message is None:  # it can be megabytes, and is asked for several times
            self._message = self.get("message", dict[str, Any]) or {}
        return self._message.get(name)


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
