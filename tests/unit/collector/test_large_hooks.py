"""Large bodies of hooks are read only as far as somebody asks, and tell the same as small ones."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from adsum_collector.agents.claude_code.bodies import LARGE, HookError, decode_hook, lenient_part
from adsum_collector.agents.claude_code.hooks import signals_from_hook
from adsum_shared.signals import RequestOpened, ToolStarted, TurnEnded

PAD = "x" * (LARGE + 1)
TRACES = sorted((Path(__file__).parents[2] / "data" / "traces").rglob("*.jsonl"))


def hook(event: str, **fields: Any) -> bytes:
    return json.dumps({"session_id": "s", "hook_event_name": event, **fields}).encode()


def bodies(found: Any) -> list[dict[str, Any]]:
    """Every hook's body in a recorded trace, however deep."""
    if isinstance(found, dict):
        if "hook_event_name" in found and "session_id" in found:
            return [found]
        return [body for value in found.values() for body in bodies(value)]
    if isinstance(found, list):
        return [body for value in found for body in bodies(value)]
    return []


def recorded() -> list[dict[str, Any]]:
    lines = [line for path in TRACES for line in path.read_text().splitlines() if line.strip()]
    return [body for line in lines for body in bodies(json.loads(line))]


def test_every_recorded_hook_tells_the_same_when_it_is_large() -> None:
    found = recorded()
    assert len({body["hook_event_name"] for body in found}) > 10
    for body in found[::5]:
        small, large = json.dumps(body).encode(), json.dumps({**body, "pad": PAD}).encode()
        assert signals_from_hook(large, 1) == signals_from_hook(small, 1), body["hook_event_name"]


def test_recorded_answers_and_inputs_tell_the_same_when_they_are_large() -> None:
    for body in recorded()[::5]:
        large = dict(body)
        for name in ("tool_response", "tool_input"):
            if isinstance(body.get(name), dict):
                large[name] = {**body[name], "pad": PAD}
        told = [signals_from_hook(json.dumps(each).encode(), 1) for each in (body, large)]
        assert [_shown(signal) for signal in told[0]] == [_shown(signal) for signal in told[1]]


def _shown(signal: Any) -> Any:
    shown = msgspec.to_builtins(signal)
    return {key: value for key, value in shown.items() if key not in {"digest", "payload"}}


def test_a_large_write_is_asked_about_with_its_path_and_its_beginning() -> None:
    given = {"content": "line\n" * 200_000, "file_path": "/a/b.py"}
    started = signals_from_hook(hook("PreToolUse", tool_name="Write", tool_input=given), 1)[0]
    given = dict(reversed(given.items()))
    opened = signals_from_hook(hook("PermissionRequest", tool_name="Write", tool_input=given), 1)[0]

    assert isinstance(started, ToolStarted)
    assert isinstance(opened, RequestOpened)
    assert started.summary == opened.summary == "b.py"
    assert started.digest == opened.digest  # whatever the order of its keys
    assert opened.payload is not None
    assert opened.payload["file_path"] == "/a/b.py"
    assert opened.payload["content"].startswith("line\nline")


@pytest.mark.parametrize("half", ["\\ud83d", "\\uDE00", "\\ud83d\\ud83d"])
def test_a_half_of_a_character_does_not_lose_a_large_hook(half: str) -> None:
    raw = hook("Stop", last_assistant_message="HERE \\ud83d \U0001f600", x=PAD)
    told = signals_from_hook(raw.replace(b"HERE", half.encode()), 1)[0]

    assert isinstance(told, TurnEnded)
    assert told.last_message is not None
    assert told.last_message.startswith("\ufffd")
    assert told.last_message.endswith(" \\ud83d \U0001f600")


@pytest.mark.parametrize(
    "raw", [b"[" * 200_000, b"{" * 200_000, b'{"a":' * 50_000, b"\xff" * 99_999]
)
def test_a_large_body_that_is_none_is_a_hook_error(raw: bytes) -> None:
    with pytest.raises(HookError):
        decode_hook(raw)


HOSTILE = {
    "keys": b"{" + b",".join(b'"k%d":1' % at for at in range(400_000)) + b"}",
    "lists": b'{"command":[' + b",".join([b"[]"] * 1_500_000) + b"]}",
    "nested": b'{"command":{' + b",".join(b'"k%d":1' % at for at in range(400_000)) + b"}}",
}


@pytest.mark.parametrize("kind", HOSTILE)
@pytest.mark.parametrize("event", ["PreToolUse", "PermissionRequest", "PostToolUse"])
def test_a_tool_input_of_countless_parts_is_passed_over(kind: str, event: str) -> None:
    raw = HOSTILE[kind]
    body = b'{"session_id":"s","hook_event_name":"%s","tool_name":"X","tool_input":%s}'
    body %= event.encode(), raw
    whole = _cpu(lambda: msgspec.json.encode(msgspec.json.decode(raw), order="sorted"))
    told = _cpu(lambda: signals_from_hook(body, 1))

    assert told < whole / 2


def _cpu(work: Any) -> float:
    started = time.thread_time()
    work()
    return time.thread_time() - started


def test_of_a_large_list_the_beginning_is_read() -> None:
    raw = b"[" + b",".join(b'{"tool_use_id":"t%d"}' % at for at in range(20_000)) + b"]"
    items = lenient_part(raw, list[msgspec.Raw])

    assert items is not None
    assert len(items) == 256
    assert bytes(items[255]) == b'{"tool_use_id":"t255"}'
    assert lenient_part(raw, list[Any]) is None
