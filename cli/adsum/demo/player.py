"""Plays the demo: the story goes into the machines as time passes, at human pace, without an end."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path

from adsum.demo.cast import MACHINES
from adsum.demo.fleet import Fleet
from adsum.demo.machines import Playing, open_machine
from adsum.demo.past import history
from adsum_shared.signals import AnySignal

#: Signals that come this close to each other are told together: half as many wake-ups, for all.
TOGETHER_S = 1.0


def story_clock(wall: Callable[[], float], speed: float = 1.0) -> Callable[[], int]:
    """True time in ms, as the story has it: at another speed it begins now and runs away."""
    start = wall()
    return lambda: int((start + (wall() - start) * speed) * 1000)


async def play(
    folder: Path,
    url: str,
    now: Callable[[], int],
    ready: Callable[[], None],
    *,
    seed: int = 1,
    speed: float = 1.0,
) -> None:
    """Until it is cancelled. ready: called once everything so far is in the broker.

    now: see story_clock; speed: how many of its seconds pass in one. Raises StartError, and
    SpoolUnavailable where the disk is full.
    """
    start = now()
    async with contextlib.AsyncExitStack() as stack:
        machines = {
            machine.label: await stack.enter_async_context(
                open_machine(machine, folder, url, now, start)
            )
            for machine in MACHINES
        }
        fleet = Fleet(start, seed)
        await _tell_past(fleet, machines, start, seed)
        async with asyncio.TaskGroup() as tasks:
            for machine in machines.values():
                tasks.create_task(machine.run(), name=machine.machine.label)
            tasks.create_task(_report(list(machines.values()), ready), name="ready")
            while True:
                await asyncio.sleep(max(TOGETHER_S, (fleet.due - now()) / 1000) / speed)
                await _tell(fleet, machines, now())


async def _tell_past(fleet: Fleet, machines: dict[str, Playing], start: int, seed: int) -> None:
    for machine in machines.values():
        await machine.accept(list(history(machine.machine, start, seed)))
    await _tell(fleet, machines, start)


async def _tell(fleet: Fleet, machines: dict[str, Playing], until: int) -> None:
    told: dict[str, list[AnySignal]] = {}
    for said in fleet.until(until):
        told.setdefault(said.machine.label, []).extend(said.signals)
    for label, signals in told.items():
        await machines[label].accept(signals)


async def _report(machines: list[Playing], ready: Callable[[], None]) -> None:
    for machine in machines:
        await machine.told.wait()
    ready()
