"""However much a witness says, what is made of it is small and sane."""

from __future__ import annotations

import json
import time
from typing import Any

import msgspec
import pytest

from adsum_collector.agents.claude_code.hooks import signals_from_hook
from adsum_collector.agents.claude_code.line_steps import CALLS_MAX, CONTEXT_MAX
from adsum_collector.agents.claude_code.lines import signals_from_lines, transcript_file
from adsum_collector.agents.claude_code.status import signals_from_registry, signals_from_statusline
from adsum_collector.agents.records import Lines, TranscriptFile
from adsum_collector.transcripts.files import MOST_EXPECTED, TranscriptFiles
from adsum_shared import signals as s
from adsum_shared.privacy import private_as

SEEN = 1_800_000_000_000
FILE = TranscriptFile("s1")
LONG = "x" * 200_000


def read(*lines: dict[str, Any], context: str = "", level: Any = "full") -> Lines:
    raw = [json.dumps(line).encode() for line in lines]
    return signals_from_lines(raw, FILE, context, SEEN, None, private_as(level, "salt"))


def assistant(*blocks: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"type": "assistant", "message": {"content": list(blocks)}, **fields}


def use(tool_use_id: str = "t1", **given: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": tool_use_id, "name": "Bash", "input": given}


def sizes(signals: Any) -> list[int]:
    return [len(msgspec.json.encode(signal)) for signal in signals]


NAMES = "cwd gitBranch version promptId permissionMode customTitle error subtype operation uuid"


@pytest.mark.parametrize("kind", ["user", "assistant", "system", "custom-title", "permission-mode"])
def test_a_long_line_makes_no_long_signal_and_no_long_context(kind: str) -> None:
    block = {"type": "tool_use", "id": LONG, "name": LONG, "input": {"subagent_type": LONG}}
    result = {"type": "tool_result", "tool_use_id": LONG, "content": LONG, "is_error": True}
    message = {"model": LONG, "content": [block, result, {"type": "text", "text": LONG}]}
    fields = dict.fromkeys(NAMES.split(), LONG) | {"isApiErrorMessage": kind == "assistant"}
    told = {"toolUseResult": {"agentId": LONG, "task": {"id": LONG}, "backgroundTaskId": LONG}}

    found = read({"type": kind, "message": message, **fields, **told}, assistant(block))

    assert found.signals
    assert max(sizes(found.signals)) < 20_000
    assert len(found.context) < 20_000


def test_a_line_of_very_many_blocks_makes_a_bounded_number_of_signals() -> None:
    assert len(read(assistant(*(use(f"t{n}") for n in range(5_000)))).signals) < 300


def test_a_context_that_grew_too_large_is_begun_anew_but_for_its_time() -> None:
    calls = [use(f"{n}" + "\x01" * 250, description="\x01" * 160) for n in range(CALLS_MAX)]

    found = read(assistant(*calls, timestamp="2026-01-01T00:00:00Z", cwd="/x"))

    assert len(found.context) < CONTEXT_MAX
    assert json.loads(found.context) == {"at": 1_767_225_600_000}


@pytest.mark.parametrize("stamp", ["1970-01-01T00:00:00Z", "0001-01-01T00:00:00", "2019-12-31", ""])
def test_a_time_before_there_was_any_agent_counts_as_none(stamp: str) -> None:
    assert read({"type": "progress", "timestamp": stamp}).signals[0].at == SEEN


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"retryAttempt": 10**30, "maxRetries": -5, "retryInMs": 1e308}, (1000, 0, 86_400_000)),
        ({"retryAttempt": 2, "maxRetries": 10, "retryInMs": 512.5}, (2, 10, 512)),
        ({"retryAttempt": -1, "retryInMs": -1}, (1, None, None)),
    ],
)
def test_numbers_of_a_retry_are_sane(given: dict[str, Any], told: tuple[Any, ...]) -> None:
    (retry,) = read({"type": "system", "subtype": "api_error", **given}).signals
    assert isinstance(retry, s.RetryScheduled)
    assert (retry.attempt, retry.max, retry.in_ms) == told


@pytest.mark.parametrize("level", ["metadata", "redacted"])
def test_a_context_holds_only_what_may_be_told(level: str) -> None:
    secret = "ghp_AbCdEf0123456789AbCdEf0123456789AbCd"
    lines = (
        {"type": "custom-title", "customTitle": "Zebra"},
        assistant(use(command=f"deploy {secret}"), cwd="/x/Zebra"),
    )

    first = read(*lines, level=level)
    again = read(*lines, context=first.context, level=level)

    assert secret not in first.context
    assert "Zebra" not in first.context
    assert ("deploy" in first.context) == (level == "redacted")
    assert not [x for x in again.signals if isinstance(x, s.MetaChanged)], "known by its digest"


@pytest.mark.parametrize(
    "path", ["p/.jsonl", "p/a b.jsonl", "p/\udcff.jsonl", "p/" + "x" * 200 + ".jsonl"]
)
def test_a_file_whose_name_can_be_no_sessions_is_left_alone(path: str) -> None:
    assert transcript_file(path) is None
    assert transcript_file(f"p/{path[2:-6]}/subagents/agent-a.jsonl") is None


def test_a_long_hook_makes_no_long_signal() -> None:
    fields = [
        "cwd",
        "session_title",
        "model",
        "permission_mode",
        "transcript_path",
        "prompt_id",
        "agent_id",
        "agent_type",
        "tool_name",
        "tool_use_id",
        "source",
        "reason",
        "trigger",
        "error",
        "error_details",
        "prompt",
        "last_assistant_message",
        "message",
        "mcp_server_name",
        "action",
        "to_model",
        "new_cwd",
        "task_id",
        "task_subject",
        "notification_type",
    ]
    task = {"id": LONG, "status": LONG, "description": LONG}
    lists = {
        "background_tasks": [task] * 2,
        "tool_calls": [{"tool_use_id": LONG, "tool_name": LONG}],
        "permission_suggestions": [LONG],
        "tool_input": {"command": LONG, "subagent_type": LONG, LONG: 1},
        "tool_response": {"agentId": LONG, "status": "async_launched"},
    }
    from adsum_collector.agents.claude_code.hooks import EVENTS

    for event in [*EVENTS, "Unheard"]:
        body = {"session_id": "s", "hook_event_name": event} | dict.fromkeys(fields, LONG) | lists
        found = signals_from_hook(json.dumps(body).encode(), SEEN)
        assert max(sizes(found)) < 40_000, event


def test_a_prompt_of_very_many_reports_names_a_bounded_number_of_children() -> None:
    report = "<task-notification><task-id>a</task-id><status>completed</status>"
    body = {"session_id": "s", "hook_event_name": "UserPromptSubmit", "prompt": report * 50_000}
    assert len(signals_from_hook(json.dumps(body).encode(), SEEN)) < 300


def test_a_requests_payload_is_neither_deep_nor_has_numbers_that_others_cannot_read() -> None:
    deep: Any = "end"
    for _ in range(200):
        deep = [deep]
    given = {"deep": deep, "number": 10**40, "plain": {"a": [1, None, True, 0.5, "b"]}}
    body = {"session_id": "s", "hook_event_name": "PermissionRequest", "tool_input": given}
    (opened, *_) = signals_from_hook(json.dumps(body).encode(), SEEN)

    assert isinstance(opened, s.RequestOpened)
    assert opened.payload is not None
    assert json.dumps(opened.payload["deep"]).count("[") < 20
    assert opened.payload["number"] == "1" + "0" * 30 + "…"
    assert opened.payload["plain"] == given["plain"]


def test_a_long_registry_file_and_status_line_make_no_long_signal() -> None:
    names = "status waitingFor cwd version name entrypoint session_name transcript_path"
    fields = dict.fromkeys(names.split(), LONG) | {"model": {"id": LONG}, "pid": 10**30}
    raw = json.dumps({"sessionId": "s", "session_id": "s", **fields}).encode()

    found = [*signals_from_registry(raw, SEEN), *signals_from_statusline(raw, SEEN)]

    assert max(sizes(found)) < 25_000
    for adapt in (signals_from_registry, signals_from_statusline):
        with pytest.raises(ValueError, match="256"):
            adapt(json.dumps({"sessionId": LONG, "session_id": LONG}).encode(), SEEN)


@pytest.mark.parametrize("number", ["-1", "0", "1e308", "9" * 300, "true", '"5"'])
def test_numbers_of_a_registry_file_are_sane(number: str) -> None:
    raw = f'{{"sessionId":"s","pid":{number},"startedAt":{number},"statusUpdatedAt":{number}}}'

    for signal in signals_from_registry(raw.encode(), SEEN):
        assert signal.at == SEEN
        assert getattr(signal, "pid", None) is None
        assert getattr(signal, "started", 0) == 0


def test_a_large_line_takes_time_in_proportion() -> None:
    started = time.process_time()
    read(assistant(use(command=LONG), {"type": "text", "text": LONG * 4}))
    assert time.process_time() - started < 1.0


def test_a_session_whose_hooks_name_ever_new_files_is_looked_for_in_few_places() -> None:
    known = TranscriptFiles(["/p"], lambda path: TranscriptFile("s1"), 0)
    for number in range(100):
        known.expect("s1", f"/p/d/{number}.jsonl")
    assert len([path for path in known.places("s1") if path.endswith(".jsonl")]) <= MOST_EXPECTED
