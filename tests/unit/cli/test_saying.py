"""What is said breaks between words on a terminal, and not at all elsewhere."""

from __future__ import annotations

import fcntl
import os
import struct
import termios

import pytest

from adsum.outcome import broken, columns_of, say

SENTENCE = "No hub answers at http://127.0.0.1:47893. Start one on this machine with `adsum up`."


def test_no_word_is_broken_and_no_line_too_long() -> None:
    lines = broken(SENTENCE, 30).split("\n")
    assert " ".join(lines) == SENTENCE
    assert all(len(line) <= 30 for line in lines)


def test_a_command_stays_whole_and_so_does_a_word_longer_than_a_line() -> None:
    text = "Next: `adsum hub tokens create --join` at /a/path/that/is/longer/than/a/whole/line/here"
    assert broken(text, 34).split("\n") == [
        "Next:",
        "`adsum hub tokens create --join`",
        "at",
        "/a/path/that/is/longer/than/a/whole/line/here",
    ]


@pytest.mark.parametrize("before", ["collector  ", "  Sign in    ", "  ! ", "- ", "   "])
def test_what_stands_below_a_label_is_set_in(before: str) -> None:
    first, *others = broken(before + "word " * 30, 40).split("\n")
    assert first.startswith(before + "word")
    assert all(line.startswith(" " * len(before) + "word") for line in others)


def test_lines_that_fit_and_empty_ones_stay_as_they_are() -> None:
    text = "hub        http://a  b\n\n  two  spaces\n"
    assert broken(text, 80) == text


def test_in_a_pipe_a_sentence_stays_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    say(f"adsum: {SENTENCE}")
    assert capsys.readouterr().err == f"adsum: {SENTENCE}\n"


@pytest.mark.parametrize(("columns", "known"), [(60, 60), (0, None)])
def test_the_width_is_the_terminals_own(columns: int, known: int | None) -> None:
    end, inside = os.openpty()
    with os.fdopen(end, "rb"), os.fdopen(inside, "w") as terminal:
        fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        assert columns_of(terminal) == known
        say(SENTENCE, terminal)
        drawn = os.read(end, 1000).decode().split("\r\n")
    assert drawn[0] == (SENTENCE if known is None else broken(SENTENCE, known).split("\n")[0])
