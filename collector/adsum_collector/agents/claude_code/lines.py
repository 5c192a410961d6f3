"""Translates the lines of one transcript into signals. Pure and total.

A transcript is written a tenth to a fifth of a second after the fact and never shows an open
permission dialog. But it tells of Esc, of No, of what was said, and of all that happened while
nobody listened.
"""

import re
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from adsum_collector.agents.claude_code.bodies import decode_fields
from adsum_collector.agents.claude_code.hooks import Common
from adsum_collector.agents.claude_code.line_steps import (
    IGNORED,
    LAST_WORDS_MAX,
    STEPS,
    Context,
    TranscriptLine,
    child_begins,
    context_used,
    surroundings,
)
from adsum_collector.agents.records import (
    SESSION_ID,
    Lines,
    Past,
    Private,
    TranscriptFile,
    one_line,
)
from adsum_shared.signals import AnySignal, CostReported, KnownSignal, MetaChanged, PromptSubmitted

#: The client's own requests, of no meaning to anybody, and most of a file's bytes.
HEAVY = b'{"type":"api-request'
#: Subagents that do the CLI's own side requests, such as a summary. No children of the session.
SIDE_REQUESTS = ("acompact-", "aside_question-")

SUBAGENTS = "subagents"

#: 2020; the agent is younger.
EARLIEST_MS = 1_577_836_800_000
DAY_MS = 24 * 3600 * 1000

_SESSION = re.compile(SESSION_ID)
_UUID = re.compile(r"[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
_AGENT_FILE = re.compile(r"agent-([A-Za-z0-9_-]+)\.jsonl")

#: Later than any time a line may bear: what is as late bears none.
NEVER: Final = 1 << 53
#: Said by the tail or not at all: the head's last is not the session's.
LAST: Final = ("last_prompt", "last_answer")
#: What both tell of a session.
META: Final = tuple(set(Past.__struct_fields__) & set(MetaChanged.__struct_fields__))


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
    if agent is None or agent[1].startswith(SIDE_REQUESTS):
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
    """See `adsum_collector.agents.base.Transcripts`.

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
            line = TranscriptLine(decode_fields(_utf8(raw, faults)))
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
    line: TranscriptLine,
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
        found += child_begins(line, known, common, sidecar)
    found += step(line, known, common)
    if file.agent_id is None:
        found += surroundings(line, known, common, found)
        found += context_used(line, known, common)
    faults.update(line.faults)
    return found


def written(lines: Sequence[bytes]) -> int:
    """See `adsum_collector.agents.base.Transcripts`."""
    for raw in reversed(lines):
        if raw.startswith(HEAVY):
            continue
        try:
            at = _stamp(TranscriptLine(decode_fields(_utf8(raw, Counter()))).text("timestamp"))
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


def history(head: Sequence[bytes], tail: Sequence[bytes], whose: TranscriptFile) -> Past | None:
    """See `adsum_collector.agents.base.Transcripts`. Of a field told in both, the tail's word counts."""
    first = signals_from_lines(head, whose, "", NEVER, None)
    between = Context.of(first.context)
    told = _meta(first.signals)
    if tail != head:
        # also if these are the only prompt and answer all over again
        between.told = {name: mark for name, mark in between.told.items() if name not in LAST}
        told = {name: value for name, value in told.items() if name not in LAST}
    last = signals_from_lines(tail, whose, between.encoded(lambda call: call), NEVER, None)
    told |= _meta(last.signals)
    cost_report = [
        each for each in (*first.signals, *last.signals) if isinstance(each, CostReported)
    ]
    times = [each.at for each in (*first.signals, *last.signals)] + [Context.of(last.context).at]
    times = [at for at in times if 0 < at < NEVER]
    past = Past(
        **{name: value or None for name, value in told.items()},
        first_prompt=_first_prompt(first.signals),
        # without the prompt before it, which would tell of a turn
        cost=replace(cost_report[-1], prompt_id=None) if cost_report else None,
        started=times[0] if times else 0,
        ended=max(times, default=0),
    )
    return past if past != Past() else None


def _meta(signals: Sequence[AnySignal]) -> dict[str, Any]:
    """Field by field, the last that was told; an empty text means that it is no more."""
    found: dict[str, Any] = {}
    for signal in signals:
        if isinstance(signal, MetaChanged):
            fields = msgspec.structs.asdict(signal)
            found |= {name: fields[name] for name in META if fields[name] is not None}
    return found


def _first_prompt(signals: Sequence[AnySignal]) -> str | None:
    prompts = [
        signal.text
        for signal in signals
        if isinstance(signal, PromptSubmitted) and signal.origin == "typed"
    ]
    return one_line(prompts[0], LAST_WORDS_MAX) if prompts else None
