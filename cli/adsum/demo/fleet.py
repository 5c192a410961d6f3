"""The demo's fleet: forty sessions, each with its own plot, told in the order of time. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from heapq import heapify, heapreplace
from random import Random
from typing import NamedTuple
from uuid import UUID

from adsum.demo.cast import HOUR, MACHINES, MINUTE, ROLES, Machine
from adsum.demo.plots import PLOTS
from adsum.demo.scenes import Scene
from adsum.demo.voice import FIRST_CONTEXT, Voice
from adsum_shared.signals import AnySignal

#: What has been played before anybody looks. So long that with the first seed every state there is
#: is on the page at once: a change of a plot asks for another look at this number.
WARM_MS = 1_875_000
#: They do not all begin at once.
SPREAD_MS = 8 * MINUTE


class Said(NamedTuple):
    """at: true time, ms. The signals bear their machine's own time, which may be another."""

    at: int
    machine: Machine
    signals: list[AnySignal]


class Fleet:
    """start: true time, ms, at which the audience comes. The same seed and start: the same story."""

    def __init__(self, start: int, seed: int = 1) -> None:
        machines = {machine.label: machine for machine in MACHINES}
        #: due, number, voice, its plot; no two have one number
        self._stories: list[tuple[int, int, Voice, Scene]] = []
        jobs: Counter[str] = Counter()
        for number, role in enumerate(ROLES):
            rng = Random(f"{seed} {number}")  # noqa: S311 - a story needs no secrets
            due = start - WARM_MS + rng.randrange(SPREAD_MS)
            voice = Voice(
                role, machines[role.machine], rng, session_id_of(number, seed), jobs[role.project]
            )
            jobs[role.project] += 1
            _open(voice, due)
            self._stories.append((due, number, voice, PLOTS[role.plot](voice)))
        heapify(self._stories)

    @property
    def due(self) -> int:
        """When something happens next."""
        return self._stories[0][0]

    def until(self, now: int) -> Iterator[Said]:
        """All that has happened since it was asked last."""
        while self.due <= now:
            due, number, voice, scene = self._stories[0]
            voice.now = due + voice.machine.skew_ms
            wait = next(scene)
            heapreplace(self._stories, (due + max(50, int(wait * 1000)), number, voice, scene))
            if said := voice.take():
                yield Said(due, voice.machine, said)


def session_id_of(number: int, seed: int = 1) -> str:
    rng = Random(f"{seed} id {number}")  # noqa: S311 - as above
    return str(UUID(int=rng.getrandbits(128), version=4))


def budgets(seed: int = 1) -> list[dict[str, object]]:
    """The demo hub's: one session is over its own, again and again; the team stays below its."""
    spender = next(number for number, role in enumerate(ROLES) if role.plot == "spending")
    return [
        {"scope": "session", "name": session_id_of(spender, seed), "usd": 9, "per": "session"},
        {"scope": "host", "name": "atlas", "usd": 1_200, "per": "30 days"},
        {"scope": "team", "usd": 2_500, "per": "30 days"},
    ]


def _open(voice: Voice, due: int) -> None:
    """A session that was there before: it has used something up, and has a context."""
    rng = voice.rng
    voice.now = due + voice.machine.skew_ms
    ago = rng.randrange(HOUR // 2, 3 * HOUR)
    voice.begin(ago_ms=ago)
    if voice.role.plot != "fresh":
        voice.context = rng.randrange(FIRST_CONTEXT, 120_000)
        voice.count(rng.randrange(20, 90))
        voice.tell_usage(voice.now - ago // 2)
