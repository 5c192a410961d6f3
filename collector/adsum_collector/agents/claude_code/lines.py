"""signals_from_lines: what the lines of one transcript say, as signals. Pure and total.

A transcript is written a tenth to a fifth of a second after the fact and never shows an open
permission dialog. But it tells of Esc, of No, of what was said, and of all that happened while
nobody listened.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from adsum_collector.agents.claude_code import line_cost, line_meta, line_turns
from adsum_collector.agents.claude_code.bodies import decode_fields
from adsum_collector.agents.claude_code.line import Context, Line
from adsum_collector.agents.claude_code.tool_hooks import Common
from adsum_collector.agents.transcript import Lines, Private
from adsum_collector.agents.transcript_file import SESSION_ID, TranscriptFile
from adsum_shared import signals as s
from adsum_shared.signals import KnownSignal

#: The client's own requests, of no meaning to anybody, and most of a file's bytes.
HEAVY = b'{"type":"api-request'
#: Subagents that do the CLI's own chores: a summary, a side question. No children of the session.
CHORES = ("acompact-", "aside_question-")

SUBAGENTS = "subagents"

#: 2020; the agent is younger.
EARLIEST_MS = 1_577_836_800_000
DAY_MS = 24 * 3600 * 1000

_SESSION = re.compile(SESSION_ID)
_UUID = re.compile(r"[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
_AGENT_FILE = re.compile(r"agent-([A-Za-z0-9_-]+)\.jsonl")

Step = Callable[[Line, Context, Common], list[KnownSignal]]


def transcript_file(path: str) -> TranscriptFile | None:
    """Whose transcript this is, by its path below `projects`; None for files that are none.

    Below the folder of a session stand its subagents, `subagents/agent-ID.jsonl`, and those of its
    workflows, `subagents/workflows/RUN/agent-ID.jsonl`. Whose subagent a file beside the sessions
    is (`agent-ID.jsonl`, long ago) only its lines say, so it is left out. Projects may be grouped in
    folders; that deep only what is named like a session is one.
    """
    parts = path.split("/")
    if len(parts) < 2 or not parts[-1].endswith(".jsonl"):
        return None
    agent = _AGENT_FILE.fullmatch(parts[-1])
    below = SUBAGENTS in parts[2:-1]
    name = parts[parts.index(SUBAGENTS, 2) - 1] if below else parts[-1].removesuffix(".jsonl")
    # a file's name need not be text, and a session's is told to others
    if not _SESSION.fullmatch(name) or (len(parts) > 2 and not below and not _UUID.fullmatch(name)):
        return None
    if not below:
        return None if agent else TranscriptFile(name)
    if agent is None or agent[1].startswith(CHORES):
        return None
    return TranscriptFile(name, agent[1])


def signals_from_lines(
    lines: Sequence[bytes],
    file: TranscriptFile,
    context: str,
    seen: int,
    sidecar: bytes | None,
    private: Private = lambda call: call,
) -> Lines:
    """See `adsum_collector.agent.Transcripts`.

    `at` is the line's own timestamp, never later than `seen`; a line that bears none is as old as
    the one before it.
    """
    known = Context.of(context)
    found: list[KnownSignal] = []
    faults: Counter[str] = Counter()
    for raw in lines:
        if raw.startswith(HEAVY) or not raw.strip():
            continue
        try:
            line = Line(decode_fields(_utf8(raw, faults)))
        except ValueError:
            faults["no JSON"] += 1
            continue
        if line.session_id not in (None, file.session_id):
            # A session resumed by an old CLI began its file with copies of the other's lines.
            faults["another session's line"] += 1
            continue
        found += _signals(line, file, known, seen, sidecar, faults)
    return Lines(list(found), known.encoded(private), dict(faults))


def _signals(
    line: Line,
    file: TranscriptFile,
    known: Context,
    seen: int,
    sidecar: bytes | None,
    faults: Counter[str],
) -> list[KnownSignal]:
    if at := _stamp(line.text("timestamp")):
        known.ahead = at > seen + DAY_MS
    known.at = min(at or known.at or seen, seen)
    known.prompt_id = line.name("promptId") or known.prompt_id
    common = Common(
        session_id=file.session_id,
        at=known.at,
        seen=seen,
        source="transcript",
        agent_id=file.agent_id,
        prompt_id=known.prompt_id,
    )
    step = STEPS.get(line.type)
    if step is None:
        if line.type not in IGNORED:
            faults["unknown type of line"] += 1
        return []
    found: list[KnownSignal] = []
    if file.agent_id is not None:
        found += line_turns.child_begins(line, known, common, sidecar)
    found += step(line, known, common)
    if file.agent_id is None:
        found += line_meta.surroundings(line, known, common, found)
        found += line_cost.context_used(line, known, common)
    faults.update(line.faults)
    return found


def written(lines: Sequence[bytes]) -> int:
    """See `adsum_collector.agent.Transcripts`."""
    for raw in reversed(lines):
        if raw.startswith(HEAVY):
            continue
        try:
            at = _stamp(Line(decode_fields(_utf8(raw, Counter()))).text("timestamp"))
        except ValueError:
            continue
        if at:
            return at
    return 0


def _utf8(raw: bytes, faults: Counter[str]) -> bytes:
    """Broken letters are replaced first: a decoder that keeps fields raw would pass them."""
    try:
        raw.decode()
    except UnicodeDecodeError:
        faults["not UTF-8"] += 1
        return raw.decode("utf-8", "replace").encode()
    return raw


def _stamp(text: str | None) -> int:
    """Milliseconds; 0 for none, or for what is no time."""
    if text is None:
        return 0
    try:
        at = int(datetime.fromisoformat(text).timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        return 0
    return at if at >= EARLIEST_MS else 0


def attachment(line: Line, _known: Context, common: Common) -> list[KnownSignal]:
    """A prompt typed while a turn ran has joined it; so may a background task's report."""
    held = line.get("attachment", dict[str, Any]) or {}
    if held.get("type") != "queued_command":
        return []
    prompt = held.get("prompt")
    told = line_turns.children_told(prompt, common) if isinstance(prompt, str) else []
    return [*told, s.PromptDequeued(**common)]


def queue_operation(line: Line, _known: Context, common: Common) -> list[KnownSignal]:
    if line.text("operation") != "enqueue":
        return [s.PromptDequeued(**common)]
    content = line.get("content", str) or ""
    if content.lstrip().startswith("<task-notification>"):
        return line_turns.children_ended(content, common)
    return [s.PromptSubmitted(**common, origin="queued")]


def progress(_line: Line, _known: Context, common: Common) -> list[KnownSignal]:
    return [s.Alive(**common, event="progress")]


STEPS: dict[str, Step] = {
    "user": line_turns.user,
    "assistant": line_turns.assistant,
    "system": line_turns.system,
    "attachment": attachment,
    "queue-operation": queue_operation,
    "progress": progress,
    "custom-title": line_meta.custom_title,
    "ai-title": line_meta.ai_title,
    "permission-mode": line_meta.permission_mode,
    "continued-in": line_meta.continued_in,
    "pr-link": line_meta.pr_link,
    "worktree-state": line_meta.worktree_state,
    "cost-state": line_cost.cost_state,
}

#: Types of line that mean nothing to us; others are counted, so that a new one is noticed.
IGNORED = frozenset(
    {
        "agent-name",
        "agent-setting",
        "api-request",
        "api-request-blob",
        "api-request-shape",
        "atis-latch",
        "bridge-session",
        "file-history-delta",
        "file-history-snapshot",
        "frame-link",
        "last-prompt",
        "mode",  # not of permissions: `normal`, of which nobody knows another
        "summary",
        "tag",
        "tools-used",
    }
)
