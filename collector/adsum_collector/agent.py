"""What the collector needs of an agent's adapter: its files and hooks, as signals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from adsum_collector.agents.records import TranscriptFile
from adsum_collector.agents.transcript import Lines, Past, Private
from adsum_shared.signals import AnySignal

#: What a witness said and when we learned of it (ms) -> signals; none, if it means nothing to us.
#: Raises ValueError or msgspec.DecodeError for what the agent would never say.
Adapt = Callable[[bytes, int], Sequence[AnySignal]]


class Transcripts(NamedTuple):
    """file_of: by the file's path below `projects`, parts joined with "/"; None for other files.

    read: (whole lines, whose file, context of the lines before or "", ms now, content of the file
    `NAME.meta.json` beside a subagent's or None, what of a struct may be kept in the context)
    -> Lines. Pure and total: nothing raises.
    history: (whole lines of a main file's head, and of its tail, which may be the same ones, whose)
    -> what they tell of the session as a whole; None if nothing. Pure and total as well.
    written: when the last of these lines that bears a time was written, ms; 0 if none does. The same.
    """

    file_of: Callable[[str], TranscriptFile | None]
    read: Callable[[Sequence[bytes], TranscriptFile, str, int, bytes | None, Private], Lines]
    history: Callable[[Sequence[bytes], Sequence[bytes], TranscriptFile], Past | None]
    written: Callable[[Sequence[bytes]], int]


class Agent(NamedTuple):
    """hook: a hook's body. registry: a file in which the agent tells of its own sessions.

    statusline: what the agent hands to a status line command.
    """

    hook: Adapt
    registry: Adapt
    transcripts: Transcripts
    statusline: Adapt


def claude_code() -> Agent:
    from adsum_collector.agents.claude_code.bodies import decode_hook
    from adsum_collector.agents.claude_code.hooks import signals_from_hook
    from adsum_collector.agents.claude_code.lines import (
        history,
        signals_from_lines,
        transcript_file,
        written,
    )
    from adsum_collector.agents.claude_code.registry import signals_from_registry
    from adsum_collector.agents.claude_code.statusline import signals_from_statusline

    return Agent(
        hook=lambda body, seen: signals_from_hook(decode_hook(body), seen),
        registry=signals_from_registry,
        transcripts=Transcripts(transcript_file, signals_from_lines, history, written),
        statusline=signals_from_statusline,
    )
