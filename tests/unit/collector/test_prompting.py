"""What a screen of Claude Code shows of its input box, what is typed for a text, what its inbox takes."""

import json
from pathlib import Path
from typing import Any

import pytest

from adsum_collector.agents import known_agents
from adsum_collector.agents.claude_code.prompting import (
    as_typed,
    box_on,
    inbox_in,
    message_to_inbox,
)
from adsum_shared.commands import NotObeyedError

RULE = "─" * 60
MARK = "\u276f\u00a0"


def screen(*box: str, above: str = RULE) -> str:
    return "\n".join(["● All is well.", "", above, *box, RULE, "  ? for shortcuts", ""])


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (screen(MARK), ""),
        (screen(f"{MARK}half a thought"), "half a thought"),
        (screen(f"{MARK}one", "  two", "", "  four"), "one\ntwo\n\nfour"),
        (screen(f'{MARK}\x1b[2mTry "fix the tests"\x1b[0m'), ""),
        (screen(f"\x1b[1m{MARK}\x1b[22mbold\x1b[0m"), "bold"),
        (screen("the end", above=f"──── ↑ 12 more {RULE}"), "the end"),
        (screen("│ Do you want to proceed? │"), None),
        (screen("! ls"), None),
        ("\u276f 1. Yes\n  2. No", None),
        ("", None),
        (f"{RULE}\n{MARK}cut off", None),
    ],
)
def test_a_box_is_read_or_it_is_none(shown: str, text: str | None) -> None:
    assert box_on(shown) == text


@pytest.mark.parametrize("text", ["/clear", "  !ls", "#note", "\n/x"])
def test_what_the_terminal_takes_for_a_command_is_no_prompt(text: str) -> None:
    for take in (as_typed, lambda it: message_to_inbox(it, "ann")):
        with pytest.raises(NotObeyedError, match="commands are not sent"):
            take(text)


@pytest.mark.parametrize(
    ("text", "typed"),
    [
        ("go on", "go on"),
        ("see :smile", "see :smile "),
        ("ask @docs", "ask @docs "),
        ("in /tmp", "in /tmp "),
        ("a line\\", "a line\\ "),
        ("a\tb", "a    b"),
    ],
)
def test_enter_takes_no_completion_in_the_place_of_the_prompt(text: str, typed: str) -> None:
    assert as_typed(text) == typed


@pytest.mark.parametrize(
    ("entry", "path"),
    [
        ({"messagingSocketPath": "/run/x.sock"}, Path("/run/x.sock")),
        ({"messagingSocketPath": "x.sock"}, None),
        ({"messagingSocketPath": 7}, None),
        ({"messagingSocketPath": "/run/\0x.sock"}, None),
        ({}, None),
    ],
)
def test_its_inbox_is_where_its_own_entry_says(entry: Any, path: Path | None) -> None:
    assert inbox_in(json.dumps(entry).encode()) == path
    assert inbox_in(b"[") is None


def test_a_message_is_one_line_and_says_from_whom() -> None:
    raw = message_to_inbox("go on\nplease", "ann\n<b>")

    assert raw.count(b"\n") == 1
    assert json.loads(raw)["message"] == {
        "role": "user",
        "content": "From ann <b> with Adsum: go on\nplease",
    }


def test_other_agents_are_typed_nothing() -> None:
    others = known_agents()[1:]

    assert others
    assert not any(each.keyboard or each.inbox(b"{}") for each in others)
    assert "no background server" in (others[0].out_of_reach("a session of a terminal") or "")
