"""Lines as Claude Code writes them into its transcripts, for tests."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

SESSION = "5366e4d5-cdda-4e20-a380-36e5f33b4fa1"
AT = 1_795_303_809_605


def stamp(at: int) -> str:
    return datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="milliseconds")[:-6] + "Z"


def line(kind: str, at: int | None = AT, **fields: Any) -> bytes:
    when = {} if at is None else {"timestamp": stamp(at)}
    return json.dumps({"type": kind, "sessionId": SESSION, **when, **fields}).encode()


def user(content: Any, **fields: Any) -> bytes:
    return line("user", message={"role": "user", "content": content}, **fields)


def assistant(*blocks: dict[str, Any], stop: str | None = None, **fields: Any) -> bytes:
    message = {"role": "assistant", "content": list(blocks), "stop_reason": stop}
    return line("assistant", message=message, **fields)


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def use(name: str, tool_use_id: str = "t1", **given: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": tool_use_id, "name": name, "input": given}
