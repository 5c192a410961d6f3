"""How a command speaks and ends: its way out, which makes text safe to show, its exit codes, its error."""

from __future__ import annotations

import errno
import io
import json
import os
import re
import sys
import textwrap
from enum import IntEnum
from typing import TYPE_CHECKING, Any, TextIO

from adsum_shared import AdsumError
from adsum_shared.redact import clean, safe, to_json

if TYPE_CHECKING:
    from adsum_shared.state import HubTrouble


class Exit(IntEnum):
    OK = 0
    ERROR = 1
    USAGE = 2
    UNREACHABLE = 3
    AUTH = 4
    PARTIAL = 5
    OVERRULED = 6
    TOO_LATE = 7
    NEEDS_YOU = 10
    INTERRUPTED = 130


class CommandError(AdsumError):
    """Ends the command. The text names the thing, the cause and the next step."""

    def __init__(self, text: str, code: Exit = Exit.ERROR) -> None:
        super().__init__(text)
        self.code = code


def require(holds: object, text: str) -> None:
    """Raises CommandError: the command line, a variable or the file says what cannot be."""
    if not holds:
        raise CommandError(text, Exit.USAGE)


#: A command stays whole: pasted from two lines it would be two.
_COMMAND = re.compile(r"`[^`\n]+`")
_GLUE = "\0"
#: What stands before a text: spaces, a mark, or a label and the spaces that set it apart.
_BEFORE = re.compile(r" *(?:[-!] |[^ ]+(?: [^ ]+)? {2,})?")


def say(text: str, to: TextIO | None = None) -> None:
    """to: standard error unless given. Where no terminal is, each line stays one: grep finds it whole."""
    stream = to or sys.stderr
    columns, text = columns_of(stream), safe(text)
    print(broken(text, columns) if columns else text, file=stream, flush=True)


def say_trouble(trouble: HubTrouble, now: int) -> None:
    """Beside the data, which is as true as it was."""
    from adsum.text.words import trouble_sentence

    say(f"adsum: {clean(trouble_sentence(trouble, now))}")


def agrees(question: str) -> bool:
    """Yes, no, or nothing at all, which is yes; anything else is asked again. Ended input is no."""
    while True:
        # Without a line break: it is answered on the same line.
        print(safe(question), end="", file=sys.stderr, flush=True)  # noqa: T201 - the way out
        line = sys.stdin.readline()
        answer = line.strip().lower()
        if answer in ("", "y", "yes") and line:
            return True
        if answer in ("n", "no") or not line:
            return False


def put(text: str, end: str = "\n", to: TextIO | None = None) -> None:
    """Data, and what is laid out already: no line of it is broken. to: standard output unless given."""
    print(safe(text), end=end, file=to or sys.stdout, flush=True)


def put_json(value: Any, indent: int | None = 2) -> None:
    """In escapes where a terminal without Unicode would show `?`: these are another value."""
    written = to_json(value, indent)
    try:
        written.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        written = json.dumps(value, indent=indent)
    print(written, flush=True)  # noqa: T201 - the way out


def open_output() -> None:
    """What a terminal without Unicode cannot show it shows as `?`.

    Where standard output is closed it fails once something is written to it, as a full disk does.
    """
    if sys.stdout is None:
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY), "w")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


def flush_output(probe: str = "") -> bool:
    """False: not all that was to be shown could be written, which is said. probe: is tried too."""
    try:
        sys.stdout.write(probe)
        sys.stdout.flush()
    except OSError as error:
        # Else Python would try again at its end, and end with 120.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if error.errno != errno.EPIPE:  # whoever stops reading is told nothing
            say(f"adsum: Standard output cannot be written ({error.strerror}): send it elsewhere.")
        return False
    return True


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
