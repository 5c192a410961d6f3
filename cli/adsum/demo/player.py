"""The demo's machines run a real collector's intake, spool and publisher, which the story feeds.

A process of its own under `adsum up --demo`, which plays at human pace and without an end.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from uuid import uuid5

from adsum.demo.story import AGENT_VERSION, IDS, MACHINES, MINUTE, Fleet, Machine, history
from adsum.text.saying import put
from adsum_collector.delivery.publisher import Publisher
from adsum_collector.delivery.transports import RedisTransport
from adsum_collector.errors import SpoolUnavailable, StartError
from adsum_collector.intake import Intake
from adsum_collector.spool.spool import Spool
from adsum_collector.spool.spool_file import SpoolLimits
from adsum_shared import __version__
from adsum_shared.beat import Beat
from adsum_shared.privacy import private_as
from adsum_shared.signals import AnySignal
from adsum_shared.state import HostWitness, ScanProgress

#: What a machine keeps on disk at most; it is deleted with the demo.
SPOOL_BYTES, KEPT_S = 32 << 20, 600.0
#: Signals that come this close to each other are told together: half as many wake-ups, for all.
#: LOOK_S: between two looks whether a machine is connected.
TOGETHER_S, LOOK_S = 1.0, 0.5
#: One machine reads its history, and begins anew some time after it is done. BEGUN_MS: where it is
#: when somebody comes to look.
READING_MS, READ_AGAIN_MS, BEGUN_MS = 34 * MINUTE, 40 * MINUTE, 11 * MINUTE
FILES, BYTES, BYTES_PER_S = 4_180, 6_300_000_000, 3_088_000


def host_id_of(machine: Machine) -> str:
    return str(uuid5(IDS, machine.label))


def is_connected(machine: Machine, played_ms: int) -> bool:
    """played_ms: since the audience came, in true time."""
    start, end, period = (each * 1000 for each in machine.up_s)
    return start <= played_ms % period < end


def progress(played_ms: int) -> ScanProgress | None:
    gone = (played_ms + BEGUN_MS) % READ_AGAIN_MS
    if gone >= READING_MS:
        return None
    done, left_s = gone / READING_MS, round((READING_MS - gone) / 1000)
    return ScanProgress(FILES, int(FILES * done), BYTES, int(BYTES * done), BYTES_PER_S, left_s)


def beat_of(machine: Machine, now: int, played_ms: int, **delivery: object) -> Beat:
    """now: true time, ms. delivery: the fields that only the one who publishes knows."""
    at = now + machine.skew_ms
    heard = ("transcript", "registry", "process", "statusline", "shim")
    note = machine.hooks_missing
    hooks = (
        HostWitness("hook", "missing", note=note) if note else HostWitness("hook", "ok", at - 900)
    )
    return Beat(
        host_id=host_id_of(machine),
        label=machine.label,
        at=at,
        version=__version__,
        agent_version=AGENT_VERSION,
        witnesses=(hooks, *(HostWitness(name, "ok", at - 1_700) for name in heard)),
        scan=progress(played_ms) if machine.reads else None,
        **delivery,  # type: ignore[arg-type]  # as Beat has them
    )


class Playing:
    """One machine. now: true time, ms. start: when the audience came."""

    def __init__(
        self, machine: Machine, spool: Spool, url: str, now: Callable[[], int], start: int
    ) -> None:
        self.machine, self.spool = machine, spool
        self.intake = Intake(spool, private_as("redacted", secrets.token_hex(16)))
        self._url, self._now, self._start = url, now, start
        #: all there is has been sent at least once
        self.told = asyncio.Event()

    async def run(self) -> None:
        """Until it is cancelled: publishes while it is connected, the first time until all is told."""
        while True:
            nonce = secrets.token_hex(8)
            publisher = Publisher(
                self.spool,
                RedisTransport(self._url),
                host_id_of(self.machine),
                nonce=nonce,
                beat=partial(self._beat, nonce),
                now=lambda: (self._now() + self.machine.skew_ms) / 1000,
            )
            await publisher.join()
            async with asyncio.TaskGroup() as tasks:
                work = tasks.create_task(publisher.run(), name=self.machine.label)
                while not self.told.is_set() or self._is_connected():
                    await asyncio.sleep(LOOK_S)
                    if self.spool.last_seq == publisher.sent:
                        self.told.set()
                if self.machine.says_goodbye:
                    publisher.drain()
                else:
                    work.cancel()
            while not self._is_connected():  # noqa: ASYNC110 - time goes by, nobody sets an event
                await asyncio.sleep(LOOK_S)

    def _is_connected(self) -> bool:
        return is_connected(self.machine, self._now() - self._start)

    def _beat(self, nonce: str, sent: int, stopping: bool) -> Beat:  # noqa: FBT001 - as publishers call it
        now, spool = self._now(), self.spool
        known = {"spool_id": spool.spool_id, "seq": spool.last_seq, "nonce": nonce, "sent": sent}
        return beat_of(self.machine, now, now - self._start, stopping=stopping, **known)


def story_clock(wall: Callable[[], float], speed: float = 1.0) -> Callable[[], int]:
    """True time in ms, as the story has it: at another speed it begins now and runs away."""
    start = wall()
    return lambda: int((start + (wall() - start) * speed) * 1000)


async def play(
    folder: Path, url: str, now: Callable[[], int], ready: Callable[[], None], speed: float = 1.0
) -> None:
    """Until it is cancelled. ready: called once everything so far is in the broker.

    now: see story_clock; speed: how many of its seconds pass in one. Raises StartError, and
    SpoolUnavailable where the disk is full.
    """
    start = now()
    async with contextlib.AsyncExitStack() as stack:
        machines = []
        for machine in MACHINES:
            where = folder / machine.label
            where.mkdir(mode=0o700, parents=True, exist_ok=True)
            spool = await Spool.open(where / "spool", SpoolLimits.of(SPOOL_BYTES, KEPT_S))
            stack.push_async_callback(spool.close)
            machines.append(Playing(machine, spool, url, now, start))
        fleet = Fleet(start)
        for each in machines:
            await each.intake.accept(list(history(each.machine, start)))

        async def tell(until: int) -> None:
            told: dict[str, list[AnySignal]] = defaultdict(list)
            for said in fleet.until(until):
                told[said.machine.label] += said.signals
            for each in machines:
                await each.intake.accept(told[each.machine.label])

        async def report() -> None:
            for each in machines:
                await each.told.wait()
            ready()

        await tell(start)
        async with asyncio.TaskGroup() as tasks:
            for each in machines:
                tasks.create_task(each.run(), name=each.machine.label)
            tasks.create_task(report(), name="ready")
            while True:
                await asyncio.sleep(max(TOGETHER_S, (fleet.due - now()) / 1000) / speed)
                await tell(now())


async def main(folder: Path, url: str) -> None:
    playing = asyncio.create_task(
        play(folder, url, story_clock(time.time), (folder / "ready").touch)
    )
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, playing.cancel)

    def closed() -> None:
        """Standard input is a pipe that closes when the supervisor is gone, however it went."""
        if not os.read(0, 1):
            loop.remove_reader(0)
            playing.cancel()

    loop.add_reader(0, closed)
    await asyncio.wait([playing])
    if not playing.cancelled():
        playing.result()


if __name__ == "__main__":
    logging.basicConfig(level="WARNING", format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        asyncio.run(
            main(Path(os.environ["ADSUM_STATE_DIR"]) / "fleet", os.environ["ADSUM_REDIS_URL"])
        )
    except* (SpoolUnavailable, StartError) as group:
        # For people: without a traceback.
        put("\n".join(map(str, group.exceptions)))
        sys.exit(1)
