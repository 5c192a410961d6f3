"""Transcript lines about the session itself: its title, mode, surroundings, and where it went on."""

from __future__ import annotations

import msgspec

from adsum_collector.agents.claude_code.bodies import NAME_MAX
from adsum_collector.agents.claude_code.line import Context, Line
from adsum_collector.agents.claude_code.tool_hooks import Common
from adsum_collector.agents.claude_code.tools import one_line, project_of
from adsum_shared import signals as s
from adsum_shared.signals import KnownSignal

TITLE_MAX = 120
#: What a directory that is no repository has for a branch, and a detached one.
NO_BRANCH = "HEAD"
#: The model of messages that the CLI itself made up.
SYNTHETIC = "<synthetic>"


def custom_title(line: Line, known: Context, common: Common) -> list[KnownSignal]:
    known.titled = True
    return _titled(line.text("customTitle"), known, common)


def ai_title(line: Line, known: Context, common: Common) -> list[KnownSignal]:
    return [] if known.titled else _titled(line.text("aiTitle"), known, common)


def _titled(title: str | None, known: Context, common: Common) -> list[KnownSignal]:
    return _changed({"title": one_line(title, TITLE_MAX)}, known, common)


def permission_mode(line: Line, known: Context, common: Common) -> list[KnownSignal]:
    return _changed({"mode": line.name("permissionMode")}, known, common)


def continued_in(_line: Line, _known: Context, common: Common) -> list[KnownSignal]:
    """Written by /clear: the process goes on under another session's name."""
    return [s.SessionEnded(**common, reason="clear")]


def cost_state(_line: Line, known: Context, common: Common) -> list[KnownSignal]:
    """The books are closed: the last thing written before the process lets go of the session.

    A headless run does that a little before it is over.
    """
    return [s.SessionEnded(**common, reason="run_over" if known.headless else "closed")]


def surroundings(line: Line, known: Context, common: Common) -> list[KnownSignal]:
    """Every line says where it was written, by which version; only what has changed is told."""
    entrypoint = line.text("entrypoint")
    if entrypoint is not None:
        known.headless = entrypoint.startswith("sdk")
    cwd = line.text("cwd")
    model = line.message("model") if line.type == "assistant" else None
    here = {
        "cwd": cwd,
        "project": project_of(cwd),
        "branch": branch if (branch := line.text("gitBranch")) != NO_BRANCH else None,
        "version": line.name("version"),
        "model": model[:NAME_MAX] if isinstance(model, str) and model != SYNTHETIC else None,
    }
    return _changed(here, known, common)


def _changed(values: dict[str, str | None], known: Context, common: Common) -> list[KnownSignal]:
    news = known.news(values)
    if not news:
        return []
    return [msgspec.structs.replace(s.MetaChanged(**common), **news)]
