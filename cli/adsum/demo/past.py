"""The demo's last sixty days: sessions that are over, and what they used up."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from random import Random
from typing import Any

from adsum.demo.cast import DAY, HOUR, MINUTE, MODELS, ROLES, Machine
from adsum.demo.projects_more import PROJECTS
from adsum.demo.voice import day_of
from adsum_shared import signals as s

#: Twice what a report usually shows, so that it can be compared.
DAYS = 60
#: On a working day, all machines together; at weekends fewer.
A_DAY, AT_WEEKENDS = 13, 4
WEEKEND = 5


def history(machine: Machine, start: int, seed: int = 1) -> Iterator[s.AnySignal]:
    """What a reading of its transcripts would tell, oldest first. start: true time, ms."""
    rng = Random(f"{seed} past {machine.label}")  # noqa: S311 - a story needs no secrets
    now = start + machine.skew_ms
    roles = [role for role in ROLES if role.machine == machine.label]
    for back in range(DAYS, 0, -1):
        noon = now - back * DAY
        idle = date.fromisoformat(day_of(noon)).weekday() >= WEEKEND
        share = len(roles) / len(ROLES) * (AT_WEEKENDS if idle else A_DAY)
        # More and more of it, as it goes with such tools.
        grown = 0.6 + (DAYS - back) / DAYS
        for _ in range(int(share * grown + rng.random())):
            yield from _session(rng, machine, rng.choice(roles).project, noon, now)


def _session(
    rng: Random, machine: Machine, project_name: str, day: int, now: int
) -> Iterator[s.AnySignal]:
    project = PROJECTS[project_name]
    job, began = rng.choice(project.jobs), day - rng.randrange(6 * HOUR)
    ended = began + rng.randrange(5 * MINUTE, 4 * HOUR)
    about: dict[str, Any] = {
        "session_id": f"{rng.getrandbits(128):032x}",
        "source": "transcript",
        "seen": now,
    }
    model, messages = rng.choice(MODELS), rng.randrange(30, 260)
    yield s.MetaChanged(
        at=began,
        ai_title=job.title,
        last_prompt=job.prompt,
        last_answer=job.done,
        cwd=f"{machine.home}/src/{project.name}",
        project=project.name,
        branch=rng.choice(project.branches),
        model=model,
        **about,
    )
    yield s.UsageTotalled(
        at=ended,
        day=day_of(ended),
        model=model,
        messages=messages,
        input_tokens=messages * rng.randrange(20, 600),
        output_tokens=messages * rng.randrange(200, 900),
        cache_read_tokens=messages * rng.randrange(20_000, 90_000),
        cache_5m_tokens=messages * rng.randrange(800, 3_000),
        **about,
    )
    yield s.SessionEnded(at=ended, reason="process", **about)
