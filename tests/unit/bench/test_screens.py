"""What is read off the screens of Claude Code 2.1.330, which judge the states and never make them."""

from __future__ import annotations

import pytest

from bench import screens
from bench.screens import Look, Shown, labels, shown

RULE = "\u2500" * 60
SAID = "\u276f hi\n\u25cf One thing first.\n"


def boxed(above: str, typed: str = "", footer: str = "? for shortcuts") -> str:
    return f"{above}\n{RULE}\n\u276f {typed}\n{RULE}\n  {footer}\n"


def dialog(words: str) -> str:
    return f"{SAID}\n{RULE}\n{words}\n"


QUESTION = f" \u2610 Old files\nWhich?\n\u276f 1. Keep\n{RULE}\n  4. Chat\nEnter to select \u00b7 Esc to cancel"
WAITS = "\u273b Waiting for 2 background agents to finish"
FAILED = "  \u23bf  API Error: 400 no"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", screens.BLANK),
        (boxed(""), screens.UNPROMPTED),
        (boxed(SAID + "\u2722 Roosting\u2026 (3s)"), screens.SPINNER),
        (boxed(SAID + "\u2736 Compacting conversation\u2026 (0s)", typed="next"), screens.SPINNER),
        (boxed(SAID + "\u273b 529 no \u00b7 retrying in 9s \u00b7 attempt 5/10"), screens.SPINNER),
        (boxed(SAID, footer="esc to interrupt"), screens.SPINNER),
        (boxed(SAID + "\u273b Worked for 1s"), screens.INPUT),
        (boxed("\u2722 Roosting\u2026\n" + SAID), screens.INPUT),
        (boxed(SAID, typed="/mo"), screens.MENU),
        (boxed(SAID + "  \u23bf  Interrupted \u00b7 What should Claude do?"), screens.INTERRUPTED),
        (boxed(SAID + FAILED), screens.FAILED),
        (boxed(SAID + FAILED, footer="manual \u00b7 1 shell"), screens.FAILED),
        (boxed(SAID, footer="manual \u00b7 1 shell"), screens.COMMAND),
        (boxed(SAID + WAITS), screens.SUBAGENTS),
        (boxed(SAID + FAILED + "\n" + WAITS), screens.SUBAGENTS),
        (boxed(SAID + WAITS + "\n" + FAILED), screens.FAILED),
        (boxed(SAID + WAITS + "\n\u25cf Background agents stopped"), screens.INPUT),
        (boxed(SAID + WAITS + "\n\u25cf Back.\n\u273b Worked for 9s"), screens.INPUT),
        (
            boxed(SAID + "  \u23bf  Interrupted", footer="a\n  \u25ef it  Look  9s"),
            screens.SUBAGENTS,
        ),
        (boxed(SAID, footer="a\n  \u25ef it  Look  stopped \u00b7 9s"), screens.INPUT),
        (boxed(SAID + "  Waiting for permission\u2026"), screens.OPENING),
        (dialog(" Bash command\n Do you want to proceed?\n \u276f 1. Yes"), screens.PERMISSION),
        (dialog(" Ready to code?\n Would you like to proceed?"), screens.PLAN),
        (dialog(' MCP server "tiny" requests your input'), screens.QUESTION),
        (dialog(QUESTION), screens.QUESTION),
        (dialog("  The following will stop when you exit:"), screens.LEAVING),
        (dialog("  Select model"), screens.OWN),
        (f"{SAID}\u2722 Roosting\u2026\n{RULE}\n  Select model", screens.SPINNER),
    ],
)
def test_what_stands_there_is_read_from_below(text: str, what: Shown) -> None:
    assert shown(text) == what


def test_looks_become_spans_and_what_a_single_look_saw_is_not_scored() -> None:
    seen = [screens.INPUT, screens.INPUT, screens.SPINNER, screens.PERMISSION, screens.PERMISSION]
    looks = [Look(at * 100, "s", what) for at, what in enumerate(seen)]

    other = [screens.INPUT, screens.INPUT, screens.ENDED, screens.ENDED]
    found = labels([*looks, *(Look(at * 100, "t", what) for at, what in enumerate(other))], 900)

    assert [(each.session_id, each.from_ms, each.to_ms, each.states) for each in found] == [
        ("s", 0, 200, ["idle", "awaiting_input"]),
        ("s", 200, 300, None),
        ("s", 300, 900, ["needs_permission"]),
        ("t", 0, 200, ["idle", "awaiting_input"]),
        ("t", 200, 900, ["session_ended"]),
    ]
    groups = ["needs_you", None, "needs_you", "needs_you", "delivered"]
    assert [each.group for each in found] == groups
    assert {each.source for each in found} == {"screen"}


def test_nothing_of_a_session_is_scored_before_its_first_prompt() -> None:
    chooser = [screens.BLANK, screens.OWN, screens.OWN, screens.ENDED, screens.ENDED]

    found = labels([Look(at * 100, "s", what) for at, what in enumerate(chooser)], 900)

    assert {each.group for each in found} == {None}
