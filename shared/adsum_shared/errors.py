"""The one root of all errors whose text is for people, and the words of a text that names what there is."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final


class AdsumError(Exception):
    """Ends a command or a part without a traceback.

    The text is for people: it names the thing, the cause and the next step.
    """


#: Named in a sentence, the most alike first; and of each name so many characters.
NAMED: Final = 8
NAME_MAX: Final = 60


def unknown(kind: str, name: str | None, known: Iterable[str]) -> str:
    """A sentence; "" if there is such a name. "" is a name as well: of sessions without a project."""
    names = set(known)
    if name is None or name in names:
        return ""
    names.discard("")
    near = get_close_matches(name, sorted(names), n=NAMED, cutoff=0.5)
    order = [*near, *sorted(names - set(near))]
    more = f" and {len(order) - NAMED} more" if len(order) > NAMED else ""
    listed = ", ".join(each[:NAME_MAX] for each in order[:NAMED])
    there = f"; there are: {listed}{more}" if listed else ", nor any other yet"
    return f"There is no {kind} `{name[:NAME_MAX]}`{there}."
