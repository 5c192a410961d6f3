"""Transcript lines about the session itself: its title, mode, surroundings, and where it went on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from adsum_collector.agents.claude_code.amounts import SYNTHETIC, web_address
from adsum_collector.agents.claude_code.bodies import NAME_MAX
from adsum_collector.agents.claude_code.line import Context, Line
from adsum_collector.agents.claude_code.tool_hooks import Common
from adsum_collector.agents.claude_code.tools import one_line, project_of
from adsum_shared import signals as s
from adsum_shared.signals import KnownSignal

TITLE_MAX = 120
#: Longer than what leaves a machine by default, since a secret is masked before a text is cut.
PROMPT_MAX = 1_000
#: What a directory that is no repository has for a branch, and a detached one.
NO_BRANCH = "HEAD"


def custom_title(line: Line, known: Context, common: Common) -> list[KnownSignal]:
    return _changed({"title": one_line(line.text("customTitle"), TITLE_MAX)}, known, common)


def ai_title(line: Line, known: Context, common: Common) -> list[KnownSignal]:
    return _changed({"ai_title": one_line(line.text("aiTitle"), TITLE_MAX)}, known, common)


def permission_mode(line: Line, known: Context, common: Common) -> list[KnownSignal]:
    return _changed({"mode": line.name("permissionMode")}, known, common)


def pr_link(line: Line, known: Context, common: Common) -> list[KnownSignal]:
    return _changed({"pr": web_address(line.text("prUrl"))}, known, common)


def worktree_state(line: Line, known: Context, common: Common) -> list[KnownSignal]:
    return _changed({"worktree": worktree_of(line)}, known, common)


def worktree_of(line: Line) -> str | None:
    """Its name; "" once the session has left it, None if the line does not say."""
    if line.raw("worktreeSession") == b"null":
        return ""
    name = (line.get("worktreeSession", dict[str, Any]) or {}).get("worktreeName")
    return one_line(name, NAME_MAX)


def continued_in(_line: Line, _known: Context, common: Common) -> list[KnownSignal]:
    """Written by /clear: the process goes on under another session's name."""
    return [s.SessionEnded(**common, reason="clear")]


def surroundings(
    line: Line, known: Context, common: Common, said: Sequence[KnownSignal]
) -> list[KnownSignal]:
    """Every line says where it was written, by which version; only what has changed is told.

    said: by this line, of the turn.
    """
    entrypoint = line.text("entrypoint")
    if entrypoint is not None:
        known.headless = entrypoint.startswith("sdk")
    return _changed(here(line) | words(said), known, common)


def here(line: Line) -> dict[str, str | None]:
    cwd = line.text("cwd")
    model = line.message("model") if line.type == "assistant" else None
    return {
        "cwd": cwd,
        "project": project_of(cwd),
        "branch": branch if (branch := line.text("gitBranch")) != NO_BRANCH else None,
        "version": line.name("version"),
        "model": model[:NAME_MAX] if isinstance(model, str) and model != SYNTHETIC else None,
    }


def words(said: Sequence[KnownSignal]) -> dict[str, str | None]:
    """What a human has asked, and how a turn was answered."""
    found: dict[str, str | None] = {}
    for signal in said:
        if isinstance(signal, s.PromptSubmitted):  # only a human's has a text
            found["last_prompt"] = one_line(signal.text, PROMPT_MAX)
        elif isinstance(signal, s.TurnEnded) and signal.last_message:
            found["last_answer"] = signal.last_message.strip() or None
    return found


def _changed(values: dict[str, str | None], known: Context, common: Common) -> list[KnownSignal]:
    news = known.news(values)
    if not news:
        return []
    return [msgspec.structs.replace(s.MetaChanged(**common), **news)]
