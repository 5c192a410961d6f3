"""What Gemini CLI writes of a chat, as signals and as what it used up."""

from __future__ import annotations

import json
from typing import Any

import pytest

from adsum_collector.agents.gemini.agent import (
    USAGE_LINES,
    ChatMeter,
    GeminiCli,
    history,
    is_gemini,
    signals_from_lines,
    transcript_file,
)
from adsum_collector.agents.records import TranscriptFile
from adsum_shared import signals as s
from adsum_shared.privacy import private_as

NOW = 1_795_704_400_000
MAIN, CHILD = TranscriptFile("c420cdf3"), TranscriptFile("c420cdf3", "helper")
CHATS = "boat/chats"
SPENT = {"input": 1200, "output": 30, "cached": 200, "thoughts": 5, "tool": 0, "total": 1235}
CALL = {"id": "c1", "name": "run_shell_command", "args": {"command": "ls"}, "status": "success"}


SURROUNDINGS = json.dumps(
    {
        "$set": {
            "messages": [
                {
                    "type": "user",
                    "content": [
                        {
                            "text": "<session_context>\n- **Workspace Directories:**\n  - /src/boat\n- more"
                        }
                    ],
                }
            ]
        }
    }
).encode()


def line(second: int, kind: str, content: Any = "", **fields: Any) -> bytes:
    stamp = f"2026-11-26T14:42:{second:02}.000Z"
    told = {"id": f"m{second}", "timestamp": stamp, "type": kind, "content": content, **fields}
    return json.dumps(told, separators=(",", ":")).encode()


def kinds(*lines: bytes, whose: TranscriptFile = MAIN) -> list[str]:
    told = signals_from_lines(lines, whose, "", NOW).signals
    found = [str(type(each).__struct_config__.tag) for each in told]
    return [each for each in found if each not in ("alive", "meta.changed")]


@pytest.mark.parametrize(
    ("path", "whose"),
    [
        (f"{CHATS}/session-2026-11-26T14-42-c420cdf3.jsonl", MAIN),
        (f"{CHATS}/c420cdf3-35f4-42d6-b3ea-035ddd607d0c/helper.jsonl", CHILD),
        ("boat/logs.jsonl", None),
        (f"{CHATS}/session-2026-11-26T14-42-c420cdf3.json", None),
    ],
)
def test_a_file_is_known_by_the_short_id_of_its_session(
    path: str, whose: TranscriptFile | None
) -> None:
    assert transcript_file(path) == whose


def test_a_call_is_told_when_it_has_ended_and_once() -> None:
    answer = line(3, "gemini", toolCalls=[CALL])

    assert kinds(line(1, "user", [{"text": "go"}]), answer, answer) == [
        *("prompt.submitted", "tool.started", "tool.finished")
    ]


def test_a_text_ends_the_turn_and_a_call_after_it_takes_it_up_again() -> None:
    text, call = line(2, "gemini", "I will."), line(2, "gemini", "I will.", toolCalls=[CALL])

    assert kinds(text, call) == ["turn.ended", "tool.started", "tool.finished"]


def test_what_is_cancelled_after_esc_is_no_work() -> None:
    cancelled = line(4, "gemini", toolCalls=[{**CALL, "status": "cancelled"}])
    returned = line(5, "user", [{"functionResponse": {"id": "c1"}}])
    told = signals_from_lines(
        [line(3, "info", "Request cancelled."), cancelled, returned], MAIN, "", NOW
    )

    assert [type(each) for each in told.signals] == [s.TurnInterrupted]


def test_an_error_fails_the_turn_and_what_the_client_adds_says_nothing() -> None:
    assert kinds(line(1, "error", "[API Error]"), line(2, "info", "Press F12")) == ["turn.failed"]


def test_the_clients_own_words_are_no_prompt_and_tell_the_directory() -> None:
    text = "<session_context>\n- **Workspace Directories:**\n  - /src/boat\n- more"
    message = {"type": "user", "content": [{"text": text}]}
    told = signals_from_lines(
        [json.dumps({"$set": {"messages": [message]}}).encode()], MAIN, "", NOW
    )

    (meta,) = told.signals
    assert isinstance(meta, s.MetaChanged)
    assert (meta.cwd, meta.project) == ("/src/boat", "boat")


def test_who_runs_it_is_looked_for_also_where_no_directory_may_be_kept() -> None:
    gemini = GeminiCli()
    gemini.read([SURROUNDINGS], MAIN, "", NOW, None, private_as("metadata", "salt"))

    gemini.read([line(3, "gemini", "done")], MAIN, "", NOW, None, private_as("metadata", "salt"))

    assert gemini.places["c420cdf3"].directory == "/src/boat"


def test_one_that_is_taken_up_again_says_so() -> None:
    head = json.dumps({"sessionId": "x", "startTime": "2026-11-26T14:42:00Z"}).encode()

    assert kinds(head, head, b'{"$set": {"sessionId": "x"}}') == ["session.started"] * 2


def test_a_subagents_answer_is_its_end_and_not_its_sessions() -> None:
    assert kinds(line(1, "gemini", "found"), whose=CHILD) == ["child.finished"]


def test_each_answer_counts_once_however_often_it_is_written() -> None:
    meter = ChatMeter()
    answer = line(3, "gemini", tokens=SPENT, model="gemini-2.5-flash")

    meter.take([answer, answer, line(4, "user"), b"{torn"])

    first, again = meter.records()
    assert first == again
    assert (first.input, first.output, first.cache_read) == (1000, 35, 200)
    assert first.model == "gemini-2.5-flash"
    assert USAGE_LINES.speaker + USAGE_LINES.follows[0] in answer


def test_a_past_is_called_by_its_first_prompt() -> None:
    lines = [line(1, "user", [{"text": "mend the boat"}]), line(9, "gemini", "mended")]
    past = history(lines, lines, MAIN)

    assert past is not None
    assert (past.first_prompt, past.last_answer) == ("mend the boat", "mended")
    assert past.ended - past.started == 8_000


@pytest.mark.parametrize(
    ("words", "ours"),
    [
        (["node", "/usr/local/bin/gemini", "--yolo"], True),
        (["/usr/bin/node", "--max-old-space-size=12052", "/usr/local/bin/gemini"], True),
        (["vim", "/src/gemini.md"], False),
        ([], False),
    ],
)
def test_its_process_is_known_by_its_script(words: list[str], ours: bool) -> None:
    assert is_gemini(words) is ours
