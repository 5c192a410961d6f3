"""Which faults happen when, drawn from a seed: nothing here knows a process."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal, NamedTuple

#: Done on entry, undone on leaving. Scene, target, its own dice.
Act = Callable[[Any, str, random.Random], AbstractAsyncContextManager[None]]
#: What a fault takes away for good, if anything. `hubs`: what a hub has in memory.
Loss = Literal["nothing", "broker's data", "machine's data", "hubs"]

HOSTS = ("A", "B", "C")
HUBS = ("hub1", "hub2")
#: Not all that are drawn find a place.
DRAWS_PER_S = 1.3
#: Between the end of one fault of a thing and the beginning of its next.
REST_S = 0.4


class Kind(NamedTuple):
    """touches: what two faults cannot have at the same time; {} is the target."""

    name: str
    act: Act
    weight: int
    targets: Sequence[str]
    lasts: tuple[float, float]
    touches: Collection[str]
    loses: Loss


class Fault(NamedTuple):
    """at: seconds after the load began. dice: a seed of its own."""

    at: float
    lasts: float
    kind: str
    target: str
    dice: int


KINDS: dict[str, Kind] = {}

#: A run loses two of the three. A spool that began anew no longer holds what hubs have confirmed;
#: where Redis then loses what they made of it, only a hub that lives still knows it.
LOSSES: tuple[tuple[Loss, Loss], ...] = (
    ("broker's data", "hubs"),
    ("machine's data", "hubs"),
    ("broker's data", "machine's data"),
)


def fault(
    name: str,
    *,
    weight: int,
    targets: Sequence[str],
    lasts: tuple[float, float],
    touches: Collection[str] = ("{}",),
    loses: Loss = "nothing",
) -> Callable[[Act], Act]:
    def register(act: Act) -> Act:
        KINDS[name] = Kind(name, act, weight, targets, lasts, touches, loses)
        return act

    return register


def draw(rng: random.Random, seconds: float, only: Collection[str] = ()) -> list[Fault]:
    """In order of their beginning; all are over when the time is. only: of these kinds, if any."""
    lost = ("nothing", *rng.choice(LOSSES))
    kinds = [kind for kind in KINDS.values() if kind.loses in lost]
    if only:
        kinds = [KINDS[name] for name in only]
    busy: dict[str, list[tuple[float, float]]] = {}
    drawn: list[Fault] = []
    for _ in range(round(seconds * DRAWS_PER_S)):
        kind = rng.choices(kinds, [each.weight for each in kinds])[0]
        target, lasts, dice = (
            rng.choice(kind.targets),
            rng.uniform(*kind.lasts),
            rng.getrandbits(32),
        )
        lasts = min(lasts, seconds - 1.0)
        at = rng.uniform(0.5, max(0.5, seconds - lasts))
        span = (at - REST_S, at + lasts + REST_S)
        touched = [each.format(target) for each in kind.touches]
        if any(_meets(span, busy.get(each, ())) for each in touched):
            continue
        for each in touched:
            busy.setdefault(each, []).append(span)
        drawn.append(Fault(at, lasts, kind.name, target, dice))
    return sorted(drawn)


def _meets(span: tuple[float, float], spans: Collection[tuple[float, float]]) -> bool:
    return any(span[0] < end and begin < span[1] for begin, end in spans)
