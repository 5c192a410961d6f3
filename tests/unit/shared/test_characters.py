"""The table of invisible characters, and what code and prose show in their place."""

from __future__ import annotations

import unicodedata

import pytest

from adsum_shared.characters import (
    escape_code,
    fold_blank_lines,
    is_invisible,
    replace_invisible,
)
from scripts import characters

NAMED = (
    "\u00ad\u061c\u034f\u115f\u1160\u17b4\u180e\u2028\u2029\u206a\u206f\u2800\u3164\ufe0f\uffa0\ufff9\ufffc\U0001d173"
    "\U000e0041\U000e0100"
)


def test_the_table_holds_every_assigned_character_that_the_rule_names() -> None:
    rule = {chr(point) for point in range(0x110000) if characters.is_invisible(point)}
    rule |= {sign for sign in map(chr, range(0x110000)) if unicodedata.category(sign) == "Cn"}
    rule |= set(NAMED)

    assert {sign for sign in map(chr, range(0x110000)) if is_invisible(sign)} == rule


@pytest.mark.parametrize("sign", "\t\n aé漢א\u0301🙂")
def test_what_is_seen_or_lays_out_text_is_not_in_it(sign: str) -> None:
    assert not is_invisible(sign)
    assert replace_invisible(sign, "?") == sign


def test_code_shows_an_escape_for_what_is_hidden_or_turns_a_terminals_line() -> None:
    assert escape_code("a\x1b[2Jb\u202ec\n\td\r\ne\rf") == (
        "a\\u{1b}[2Jb\\u{202e}c\n\td\r\ne\\u{d}f"
    )
    assert escape_code(": \u05d0; é 漢 \U000e0041") == ": \\u{5d0}; é 漢 \\u{e0041}"


@pytest.mark.parametrize("text", ["👨‍👩‍👧", "❤️", "1️⃣", "می‌خواهم", "葛\U000e0100"])
def test_prose_keeps_joiners_and_selectors_that_belong_to_a_character(text: str) -> None:
    assert replace_invisible(text, "?") == text


@pytest.mark.parametrize(
    "text", ["a\u200db", " \ufe0f", "\ufe0fa", "a\ufe0f\ufe0f", "a\u115f", "a\u2800"]
)
def test_prose_marks_those_that_belong_to_none(text: str) -> None:
    assert replace_invisible(text, "?").count("?") == 1


def test_more_than_three_blank_lines_become_a_line_that_counts_them() -> None:
    assert fold_blank_lines("a" + "\n \t" * 400 + "\nb") == "a\n[400 blank lines]\nb"
    assert fold_blank_lines("a" + "\r\n" * 401 + "b") == "a\r\n[400 blank lines]\nb"
    assert fold_blank_lines("a\n\n\n\nb") == "a\n\n\n\nb"
