"""What is said to people, broken between words at the width of their terminal."""

from __future__ import annotations

import os
import re
import sys
import textwrap
from typing import TextIO

#: A command stays whole: pasted from two lines it would be two.
_COMMAND = re.compile(r"`[^`\n]+`")
_GLUE = "\0"
#: What stands before a text: spaces, a mark, or a label and the spaces that set it apart.
_BEFORE = re.compile(r" *(?:[-!] |[^ ]+(?: [^ ]+)? {2,})?")


def say(text: str, to: TextIO | None = None) -> None:
    """to: standard error unless given. Where no terminal is, each line stays one: grep finds it whole."""
    stream = to or sys.stderr
    columns = columns_of(stream)
    print(broken(text, columns) if columns else text, file=stream, flush=True)


def columns_of(stream: TextIO) -> int | None:
    """None: nobody looks, or a terminal that does not know its size."""
    try:
        return os.get_terminal_size(stream.fileno()).columns or None
    except (OSError, ValueError):  # no terminal; no file at all
        return None


def broken(text: str, columns: int) -> str:
    """A word that is longer than a line stays whole as well: the terminal goes on below."""
    return "\n".join(_broken(line, columns) for line in text.split("\n"))


def _broken(line: str, columns: int) -> str:
    found = _BEFORE.match(line)
    indent = found.end() if found and found.end() < columns // 2 else 0
    glued = _COMMAND.sub(lambda command: command[0].replace(" ", _GLUE), line)
    lines = textwrap.wrap(
        glued,
        columns,
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return "\n".join(lines).replace(_GLUE, " ")
