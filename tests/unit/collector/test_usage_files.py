"""Whose a file is that only usage is read of, and how old a file is by its own lines."""

from __future__ import annotations

import json

import pytest

from adsum_collector.agents.claude_code.usage_lines import begun_in, session_in, used_by
from adsum_collector.agents.records import TranscriptFile

NOON = 1_795_262_400_000  # 2026-11-21T12:00Z


def own(kind: str, second: int | None = None) -> bytes:
    stamp = {} if second is None else {"timestamp": f"2026-11-21T12:00:{second:02}Z"}
    return json.dumps({"type": kind, **stamp}, separators=(",", ":")).encode() + b"\n"


def repeatable(second: int) -> bytes:
    line = {"parentUuid": None, "type": "user", "timestamp": f"2026-11-21T12:00:{second:02}Z"}
    return json.dumps(line, separators=(",", ":")).encode() + b"\n"


@pytest.mark.parametrize(
    ("path", "whose"),
    [
        ("/c/projects/X/agent-ghi.jsonl", TranscriptFile("", "ghi")),
        ("/c/projects/group/X/agent-ghi.jsonl", TranscriptFile("", "ghi")),
        ("/c/projects/X/S/subagents/agent-acompact-1.jsonl", TranscriptFile("S", "acompact-1")),
        ("/c/projects/X/S/subagents/agent-ghi.jsonl", None),
        ("/c/projects/X/S/tool-results/agent-ghi.jsonl", None),
        # above `projects` anything may be called anything
        ("/subagents/.claude/projects/X/agent-ghi.jsonl", TranscriptFile("", "ghi")),
        ("/home/tool-results/projects/X/agent-ghi.jsonl", TranscriptFile("", "ghi")),
        ("/subagents/projects/X/S/subagents/agent-ghi.jsonl", None),
        ("/c/projects/X/S/subagents/workflows/r/agent-ghi.jsonl", None),
        ("/c/projects/X/S.jsonl", None),
        ("/c/projects/X/agent-\udcff.jsonl", None),
    ],
)
def test_an_old_subagents_file_lies_beside_the_sessions(
    path: str, whose: TranscriptFile | None
) -> None:
    assert used_by(path) == whose


@pytest.mark.parametrize(
    ("head", "session"),
    [
        (b'{"type":"user","sessionId":"S"}\n', "S"),
        (b'\n{"type":"mode"}\n{"sessionId":3}\nnoise "sessionId":"\n{"sessionId":"S"}\n', "S"),
        (b'{"sessionId":"S"}', None),  # no whole line yet
        (b'{"sessionId":""}\n', None),
        (b'{"sessionId":"%b"}\n' % (b"S" * 5000), None),
        (b'{"sessionId":"%b"}\n' % (b"S" * 129), None),
        (b'{"sessionId":"../../etc"}\n{"sessionId":" "}\n{"sessionId":"S"}\n', "S"),
        (b'{"sessionId":"S\\n"}\n{"sessionId":"\\u0000"}\n', None),
        (b"", None),
    ],
)
def test_it_is_whose_its_first_whole_line_says(head: bytes, session: str | None) -> None:
    assert session_in(head) == session


@pytest.mark.parametrize(
    ("lines", "begun"),
    [
        # it says so itself, before anything that a fork may have repeated
        ([own("mode"), own("queue-operation", 5), repeatable(6)], NOON + 5000),
        # it was there when it wrote a line of its own between others
        ([own("mode"), repeatable(1), repeatable(2), own("mode"), repeatable(9)], -NOON - 2000),
        ([repeatable(1), own("queue-operation", 5)], -NOON - 1000),
        # all of it may have been repeated
        ([own("mode"), repeatable(1), repeatable(2)], None),
        ([b"noise\n", b"[]\n", own("queue-operation")], None),
        ([own("queue-operation", 5).rstrip()], None),
        ([], None),
    ],
)
def test_a_file_is_as_old_as_its_own_lines_tell(lines: list[bytes], begun: int | None) -> None:
    assert begun_in(b"".join(lines)) == begun
