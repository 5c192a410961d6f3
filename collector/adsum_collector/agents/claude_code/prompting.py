"""How a session of Claude Code is given a prompt: its input box on a screen, its keys, its inbox. Pure.

The screen and the keys are those of 2.1.330, where each was seen to work; what looks otherwise is no
input box, and nothing is typed.
"""

import re
from itertools import pairwise
from pathlib import Path

import msgspec

from adsum_collector.agents.base import Keyboard
from adsum_collector.agents.claude_code.bodies import decode_fields, lenient
from adsum_shared.commands import NotObeyedError

#: What is dim in the box is a placeholder or a suggestion, which nobody has typed.
_DIM = re.compile(r"\x1b\[2m.*?(\x1b\[(?:0|22)m|$)")
_SGR = re.compile(r"\x1b\[[0-9;]*m")
#: The box stands between two of these; a text that is higher than the box scrolls inside.
_RULE = re.compile(r"─+( ↑ \d+ more )?─{20,}")
_MARK = "\u276f"
MOST_ROWS = 45
#: Enter would take a completion behind these, or begin a new line.
_COMPLETES = re.compile(r"(\\|:\w*|@\S*|/\S*)$")
_NAME_MAX = 80


def box_on(screen: str) -> str | None:
    """The text in the input box; None where no box is: a dialog, a menu, the transcript's viewer."""
    raw = screen.splitlines()
    shown = [_SGR.sub("", _DIM.sub("", line)) for line in raw]
    plain = [_SGR.sub("", line) for line in raw]
    rules = [row for row, line in enumerate(plain) if _RULE.match(line)]
    for above, below in pairwise(rules):
        scrolled, first = "↑" in plain[above], shown[above + 1].lstrip()
        if below - above < MOST_ROWS and (scrolled or first.startswith(_MARK)):
            lines = [first if scrolled else first[len(_MARK) :], *shown[above + 2 : below]]
            return "\n".join(line.strip("\u00a0 ") for line in lines).strip()
    return None


def as_typed(text: str) -> str:
    """What is typed for it. Raises NotObeyedError: it would be a command, not a prompt."""
    require_prompt(text)
    # a tab is a key that completes
    typed = text.replace("\t", "    ")
    return f"{typed} " if _COMPLETES.search(typed) else typed


def require_prompt(text: str) -> None:
    if text.lstrip()[:1] in ("/", "!", "#"):
        raise NotObeyedError("it begins as a command, with / or ! or #: commands are not sent")


def inbox_in(entry: bytes) -> Path | None:
    """Where a process takes messages of other sessions, by its own entry in the registry."""
    try:
        raw = decode_fields(entry).get("messagingSocketPath")
    except ValueError:
        return None
    path = lenient(raw, str) if raw is not None else None
    return Path(path) if path and path.startswith("/") and "\0" not in path else None


def message_to_inbox(text: str, by: str) -> bytes:
    """One line. The CLI tells the model that it comes from another session, so it says from whom."""
    require_prompt(text)
    name = " ".join(by.split())[:_NAME_MAX] or "somebody"
    content = f"From {name} with Adsum: {text}"
    told = {"type": "user", "message": {"role": "user", "content": content}}
    return msgspec.json.encode(told) + b"\n"


KEYBOARD = Keyboard(
    newline="C-j",
    submit="Enter",
    stash="C-s",
    interrupt="Escape",
    box=box_on,
    typed=as_typed,
)
