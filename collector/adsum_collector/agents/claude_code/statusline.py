"""What Claude Code hands to a status line command, read into signals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from adsum_collector.agents.claude_code.bodies import NAME_MAX, TEXT_MAX, decode_fields, lenient
from adsum_collector.agents.claude_code.registry import TITLE_MAX
from adsum_collector.agents.claude_code.tools import one_line, project_of
from adsum_shared import signals as s
from adsum_shared.signals import AnySignal

Fields = Mapping[str, msgspec.Raw]


def signals_from_statusline(raw: bytes, seen: int) -> Sequence[AnySignal]:
    """A tick: a sign of life, and what it says of the session. Raises ValueError.

    Nothing in it tells of work: the CLI draws its status line at the start, after an answer, when
    the window or the mode changes, and by the clock. A field of the wrong type counts as missing.
    """
    fields = decode_fields(raw)
    session_id = _text(fields, "session_id")
    if session_id is None or len(session_id) > NAME_MAX:
        raise ValueError(f"`session_id` is no string of 1 to {NAME_MAX} characters")
    cwd = _text(_object(fields, "workspace"), "current_dir") or _text(fields, "cwd")
    alive = s.Alive(session_id=session_id, at=seen, seen=seen, source="statusline", event="tick")
    nothing = s.MetaChanged(session_id=session_id, at=seen, seen=seen, source="statusline")
    meta = msgspec.structs.replace(
        nothing,
        title=one_line(_text(fields, "session_name"), TITLE_MAX),
        cwd=cwd,
        project=project_of(cwd),
        model=_text(_object(fields, "model"), "id"),
        version=_text(fields, "version"),
        transcript=_text(fields, "transcript_path"),
    )
    return [alive] if meta == nothing else [alive, meta]


def _text(fields: Fields, name: str) -> str | None:
    raw = fields.get(name)
    return ((lenient(raw, str) or "")[:TEXT_MAX] or None) if raw is not None else None


def _object(fields: Fields, name: str) -> Fields:
    raw = fields.get(name)
    return (lenient(raw, dict[str, msgspec.Raw]) or {}) if raw is not None else {}
