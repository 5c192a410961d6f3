"""The demo's machines: intake, spool and publisher of a real collector, fed by a story."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

from adsum.demo.cast import Machine
from adsum.demo.line import beat_of, host_id_of, is_connected
from adsum_collector.delivery.publisher import Publisher
from adsum_collector.delivery.transport import RedisTransport
from adsum_collector.intake import Intake
from adsum_collector.spool.limits import limits_of
from adsum_collector.spool.spool import Spool
from adsum_shared.beat import Beat
from adsum_shared.privacy import private_as
from adsum_shared.signals import AnySignal

#: What a machine keeps on disk at most; it is deleted with the demo.
SPOOL_BYTES = 32 << 20
KEPT_S = 600.0
CHUNK = 500
#: Between two looks whether its line is up.
LOOK_S = 0.5


class Playing:
    """One machine. now: true time, ms. start: when the audience came."""

    def __init__(
        self, machine: Machine, spool: Spool, url: str, now: Callable[[], int], start: int
    ) -> None:
        self.machine = machine
        self.spool = spool
        self._intake = Intake(spool, private_as("redacted", secrets.token_hex(16)))
        self._url = url
        self._now = now
        self._start = start
        self._nonce = ""
        #: all there is has been sent at least once
        self.told = asyncio.Event()

    async def accept(self, signals: Sequence[AnySignal]) -> None:
        for first in range(0, len(signals), CHUNK):
            await self._intake.accept(signals[first : first + CHUNK])

    async def run(self) -> None:
        """Until it is cancelled: publishes while its line is up, and tells the broker goodbye."""
        publisher, work = await self._connect()
        try:
            while True:
                await asyncio.sleep(LOOK_S)
                if work.done():
                    work.result()
                if self.spool.last_seq == publisher.sent:
                    self.told.set()
                is_up = is_connected(self.machine.line, self._now() - self._start)
                if is_up and work.done():
                    publisher, work = await self._connect()
                elif not is_up and not work.done() and self.told.is_set():
                    await self._disconnect(publisher, work)
        finally:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)

    async def _connect(self) -> tuple[Publisher, asyncio.Task[None]]:
        self._nonce = secrets.token_hex(8)
        publisher = Publisher(
            self.spool,
            RedisTransport(self._url),
            host_id_of(self.machine),
            nonce=self._nonce,
            beat=self._beat,
            now=lambda: (self._now() + self.machine.skew_ms) / 1000,
        )
        await publisher.join()
        return publisher, asyncio.create_task(publisher.run(), name=self.machine.label)

    async def _disconnect(self, publisher: Publisher, work: asyncio.Task[None]) -> None:
        """A closed lid says goodbye; a train's tunnel does not."""
        if self.machine.line == "away":
            publisher.drain()
        else:
            work.cancel()
        await asyncio.gather(work, return_exceptions=True)

    def _beat(self, sent: int, stopping: bool) -> Beat:  # noqa: FBT001 - the publisher's callback
        now = self._now()
        return beat_of(
            self.machine,
            now,
            now - self._start,
            spool_id=self.spool.spool_id,
            nonce=self._nonce,
            seq=self.spool.last_seq,
            sent=sent,
            stopping=stopping,
        )


@contextlib.asynccontextmanager
async def open_machine(
    machine: Machine, folder: Path, url: str, now: Callable[[], int], start: int
) -> AsyncIterator[Playing]:
    """Raises StartError."""
    limits = limits_of(SPOOL_BYTES, KEPT_S)
    where = folder / machine.label
    where.mkdir(mode=0o700, parents=True, exist_ok=True)
    spool = await Spool.open(where / "spool", limits)
    try:
        yield Playing(machine, spool, url, now, start)
    finally:
        await spool.close()
