"""Names of those who decide: which a person may bear, and which two a reader may take for one."""

from __future__ import annotations

import functools
import tomllib
import unicodedata
from pathlib import Path
from typing import Final

from adsum_shared.cautions import script_of
from adsum_shared.characters import is_invisible, without_invisible

#: The name of the hub machine's own command line. It counts as no person, since nobody signed in.
MACHINE: Final = "this machine"
#: The prefix of the decider's name when a rule decided.
BY_RULE: Final = "rule:"
#: Who suspends where nobody did but a session's long rest.
BY_REST: Final = "auto-suspend"


def is_plain(name: str) -> bool:
    """Return whether its letters and marks are of one script, and all else is printable ASCII."""
    scripts: set[str | None] = set()
    for sign in unicodedata.normalize("NFC", name):
        if unicodedata.category(sign)[0] in "LM" and not is_invisible(sign):
            scripts.add(script_of(sign))
        elif not (sign.isascii() and sign.isprintable()):
            return False
    return len(scripts - {None}) <= 1


def is_reserved(name: str) -> bool:
    """Return whether the name is reserved for something that is no person."""
    begins = shapes(BY_RULE)
    return (
        is_alike(name, MACHINE)
        or is_alike(name, BY_REST)
        or any(each.startswith(tuple(begins)) for each in shapes(name))
    )


def is_alike(one: str, other: str) -> bool:
    """Return whether a reader would take both names for the same, in any letter case."""
    return bool(shapes(one) & shapes(other))


def shapes(name: str) -> frozenset[str]:
    """Return the skeletons (UTS 39) of a name as it is written, in small and in capital letters."""
    text = " ".join(without_invisible(unicodedata.normalize("NFKC", name)).split())
    table = _lookalikes()
    return frozenset(
        unicodedata.normalize("NFD", each).translate(table)
        for each in (text, text.casefold(), text.upper())
    )


@functools.cache
def _lookalikes() -> dict[int, str]:
    rows = tomllib.loads(Path(__file__).with_name("lookalikes.toml").read_text(encoding="utf-8"))
    return {ord(sign): shape for shape, signs in rows.items() for sign in signs}
