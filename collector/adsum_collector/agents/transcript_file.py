"""Whose a transcript is. Apart from all else of transcripts: the scan starts with little to import."""

from __future__ import annotations

import msgspec

#: What names a session; it is told to others.
SESSION_ID = r"[A-Za-z0-9_.-]{1,128}"


class TranscriptFile(msgspec.Struct, frozen=True):
    """Whose lines a transcript holds. agent_id: a subagent's, None for the main agent's."""

    session_id: str
    agent_id: str | None = None
