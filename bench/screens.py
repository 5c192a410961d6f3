"""Reads what a terminal shows of a session of Claude Code: one look at a pane, and labels of many.

No part of the product does this: states are never read off a screen. It is the judge of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from bench.traces import Label


class Shown(NamedTuple):
    """group: None where the screen is ambiguous, which is not scored. states: None if any of the group."""

    group: str | None
    states: tuple[str, ...] | None
    why: str


BLANK = Shown(None, None, "blank screen")
UNPROMPTED = Shown(None, None, "input box, before its first prompt")
ELSEWHERE = Shown(None, None, "in no pane of tmux")
MENU = Shown(None, None, "a menu of commands has the place of the spinner")
REREAD = Shown(None, None, "the transcript, in place of what runs")
LEAVING = Shown(None, None, "a dialog of leaving")
OPENING = Shown(None, None, "it says that it waits for a permission, no dialog yet")
SPINNER = Shown("autonomous", None, "spinner")
SUBAGENTS = Shown("autonomous", ("waiting_for_agent", "delegating"), "input box, subagents at work")
COMMAND = Shown("autonomous", ("waiting_for_agent",), "input box, background command alive")
INTERRUPTED = Shown("needs_you", ("idle",), "input box after an interruption")
FAILED = Shown("needs_you", ("error",), "input box after an API error")
INPUT = Shown("needs_you", ("idle", "awaiting_input"), "input box")
PERMISSION = Shown("needs_you", ("needs_permission",), "permission dialog")
PLAN = Shown("needs_you", ("awaiting_approval",), "plan dialog")
QUESTION = Shown("needs_you", ("awaiting_input",), "question or form dialog")
OWN = Shown("needs_you", None, "the user's own dialog")
ENDED = Shown("delivered", ("session_ended",), "the process is gone, or shows another session")

#: A dialog has the place of the input box, below a rule of its own.
_RULE = re.compile(r"\s*[─▔]{20,}")
_PROMPT, _COMMAND = re.compile(r"\u276f"), re.compile(r"\u276f\s*/")
#: Of one word or several, and that of an API error, which is tried again.
_SPINNER = re.compile(r"[·✢✳✶✻✽*] (\S+…|[^…]{1,60}… \(|.* retrying in \d+s)")
_STILL_RUN = re.compile(
    r"· \d+ (shell|monitor|task|workflow)s?\b|\d+ (shell|monitor)s? still running"
)
#: A subagent below the input box; one that is over may stand there for a while.
_AT_WORK = re.compile(r"^ *◯ (?!.*\b(failed|stopped) ·)", re.MULTILINE)
#: What stands there for good once a turn is over, or subagents are.
_MARKS = ("✻", "● Background agents stopped")
_DIALOGS = (
    (LEAVING, re.compile(r"will stop when you exit|Moving to background|Resume this session with")),
    (REREAD, re.compile(r"Showing detailed transcript")),
    (PLAN, re.compile(r"Ready to code\?|written up a plan")),
    (QUESTION, re.compile(r"requests your input|Enter to select ·|Submit answers")),
    (PERMISSION, re.compile(r"Do you want to |Would you like to ")),
)


def shown(text: str) -> Shown:
    """What these lines of a pane say, the last of them first."""
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    rules = [at for at, line in enumerate(lines) if _RULE.match(line)]
    if not rules:
        return SPINNER if any(map(_SPINNER.match, lines)) else BLANK
    boxes = [at for at in rules if any(map(_PROMPT.match, lines[at + 1 : at + 2]))]
    box = boxes[-1] if boxes else len(lines)
    # Of a question the options stand between rules as the input box does.
    if rules[-1] < box or "▔" in lines[rules[-1]] or any("☐" in line for line in lines[box:]):
        return _dialog(lines, rules)
    above, footer = lines[:box], "\n".join(lines[rules[-1] + 1 :])
    found = _at_rest(above, footer)
    return MENU if found is not SPINNER and _COMMAND.match(lines[box + 1]) else found


def _dialog(lines: list[str], rules: list[int]) -> Shown:
    first = min((at for at in rules if at >= rules[-1] - 40), default=rules[-1])
    below = "\n".join(lines[first:])
    for kind, words in _DIALOGS:
        if words.search(below):
            return kind
    return SPINNER if any(map(_SPINNER.match, lines[:first])) else OWN


def _at_rest(above: list[str], footer: str) -> Shown:
    turn = _last_turn(above)
    if any("Waiting for permission…" in line for line in turn):
        return OPENING
    if "esc to interrupt" in footer or any(map(_SPINNER.match, turn)):
        return SPINNER
    marks = [at for at, line in enumerate(above) if line.startswith(_MARKS)]
    mark, since = (above[marks[-1]], above[marks[-1] :]) if marks else ("", [])
    # A turn that failed leaves no mark of its own.
    if "agent" in mark and "to finish" in mark and not any("API Error" in it for it in since):
        return SUBAGENTS
    said = next((line for line in reversed(turn) if line.startswith(("●", "  ⎿"))), "")
    if "API Error" in said:
        return FAILED
    if _STILL_RUN.search(footer):
        return COMMAND
    if not any(line.startswith(("●", "✻", "  ⎿")) for line in above):
        return UNPROMPTED
    if _AT_WORK.search(footer):
        return SUBAGENTS
    return INTERRUPTED if "Interrupted" in said else INPUT


def _last_turn(above: list[str]) -> list[str]:
    begins = [at for at, line in enumerate(above) if _PROMPT.match(line)]
    return above[begins[-1] :] if begins else above


class Look(NamedTuple):
    """at: ms since the recording began."""

    at: int
    session_id: str
    shown: Shown


def labels(looks: Iterable[Look], until: int) -> list[Label]:
    """Of each session the spans in which the same stood there; one that a single look saw is not scored.

    Nor what stands there before its first prompt, a dialog of the user's own as little: the chooser
    of `--resume` bears a session's name that never comes to be. And its end is none of a session.
    """
    spans: dict[str, list[tuple[int, Shown, int]]] = {}
    for at, session_id, what in looks:
        held = spans.setdefault(session_id, [])
        if held and held[-1][1] == what:
            begun, _, count = held[-1]
            held[-1] = begun, what, count + 1
        else:
            held.append((at, what, 1))
    found: list[Label] = []
    for session_id, held in spans.items():
        ends = [begun for begun, _, _ in held[1:]] + [until]
        prompted = False
        for (begun, what, count), end in zip(held, ends, strict=True):
            prompted = prompted or (what.group is not None and what not in (OWN, ENDED))
            scored = count > 1 and prompted
            group, states = (what.group, what.states) if scored else (None, None)
            found.append(
                Label(
                    session_id,
                    begun,
                    end,
                    group,
                    list(states) if states else None,
                    what.why,
                    source="screen",
                )
            )
    return found
