"""What a witness could not read or had to leave out, in sentences for people. Pure."""

from __future__ import annotations

import re

from adsum.text.plain import clean

#: By what a collector calls it: of one, and of several.
_SENTENCES = {
    "date in the future": (
        "message dated in the future was not counted",
        "messages dated in the future were not counted",
    ),
    "odd usage": (
        "message with impossible numbers was not counted",
        "messages with impossible numbers were not counted",
    ),
    "usage in a line left out": (
        "file was read again, as a line left out told of usage",
        "files were read again, as lines left out told of usage",
    ),
    "huge line": ("overlong line was left out", "overlong lines were left out"),
    "no JSON": ("line could not be read", "lines could not be read"),
    "truncated": (
        "transcript was cut short and read anew",
        "transcripts were cut short and read anew",
    ),
    "replaced": (
        "transcript was replaced and read anew",
        "transcripts were replaced and read anew",
    ),
    "rewritten": (
        "transcript was rewritten and read anew",
        "transcripts were rewritten and read anew",
    ),
    "unreadable": ("file could not be read", "files could not be read"),
    "not accepted": (
        "report had to wait for room in the spool",
        "reports had to wait for room in the spool",
    ),
    "no such process": (
        "entry named a process that had ended already",
        "entries named processes that had ended already",
    ),
    "too long": ("message was too long and was refused", "messages were too long and were refused"),
    "malformed": ("message could not be understood", "messages could not be understood"),
    "spool": (
        "message was refused, as the spool had no room",
        "messages were refused, as the spool had no room",
    ),
    "hung": ("run of your command took too long", "runs of your command took too long"),
}
_EXIT = re.compile(r"exit code (-?\d+)")
_HTTP = re.compile(r"HTTP (\d+)")


def sentence(cause: str, times: int) -> str:
    """Of a word that this version does not know, the word and how often."""
    number = f"{times:,}"
    if cause in _SENTENCES:
        return f"{number} {_SENTENCES[cause][times != 1]}"
    if ended := _EXIT.fullmatch(cause):
        return (
            f"{number} {'run' if times == 1 else 'runs'} of your command ended with code {ended[1]}"
        )
    if refused := _HTTP.fullmatch(cause):
        was = "message was" if times == 1 else "messages were"
        return f"{number} {was} refused (HTTP {refused[1]})"
    return f"{clean(cause)}: {number} {'time' if times == 1 else 'times'}"
