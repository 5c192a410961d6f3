"""The tape: in tests each session carries the ids of all that was applied to it, in order."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable

from msgspec.structs import replace

from adsum_hub.facts import Facts
from adsum_shared.signals import Alive, AnySignal, UnknownSignal

Fold = Callable[[Facts | None, AnySignal], Facts]

#: Later than any event: nothing that is said of a title overwrites the tape.
FAR = 1 << 52
_ID = re.compile(r"[a-z]\d+")


def id_of(signal: AnySignal) -> str | None:
    """A note's first word; a real hook's signals bear theirs as their version, which no fold reads."""
    if isinstance(signal, UnknownSignal):
        return None
    if signal.v > 1:
        return f"r{signal.v}"
    found = _ID.match(signal.note or "") if isinstance(signal, Alive) else None
    return found[0] if found else None


def taped(fold: Fold) -> Fold:
    """`fold`, and the id at the end of the session's title, which is saved and shown like any other."""

    def step(facts: Facts | None, signal: AnySignal) -> Facts:
        after = fold(facts, signal)
        name = id_of(signal)
        if name is None:
            return after
        before = facts.meta.get("title", (0, "")) if facts else (0, "")
        tape = f"{before[1]} {name}" if before[0] == FAR else name
        # A session of which only signs of life are known would not be listed at all.
        seen = after.transcript_at or int(name[0] != "r")
        return replace(after, transcript_at=seen, meta={**after.meta, "title": (FAR, tape)})

    return step


def install() -> None:
    """In every module of the hub that folds."""
    from adsum_hub.fold.fold import fold

    ours = taped(fold)
    for name, module in list(sys.modules.items()):
        if name.startswith("adsum_hub.") and getattr(module, "fold", None) is fold:
            module.fold = ours  # type: ignore[attr-defined]
