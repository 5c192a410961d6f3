"""Sends what `/metrics` shows by OTLP as well, where somebody has named an OTLP receiver."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import logging
import os
import socket
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import TypeVar

from prometheus_client.core import Metric

from adsum_hub.metrics.metrics import Asked, Unsaved, families, library
from adsum_hub.settings import HubSettings, receiver_of
from adsum_shared.settings import SettingsError

log = logging.getLogger(__name__)

T = TypeVar("T")
Run = Callable[[], Coroutine[None, None, None]]
Gather = Callable[[], Awaitable[Sequence[Metric]]]
#: Blocks. Given what to send and when it was so (ns); returns why it was not taken, None if it was.
Export = Callable[[Sequence[Metric], int], str | None]

#: In ms, and its preset, as the SDK has them.
INTERVAL = "OTEL_METRIC_EXPORT_INTERVAL"
PRESET_MS = 60_000
#: One export with all its tries; the hub's end waits for the last one no longer than that.
MOST_S = 10.0
LAST_S = 2.0
#: Longer than the library's own limit, which holds for each byte, not for the whole answer.
WAITED_S = MOST_S + 1


class Sender:
    """Each export is the whole state since the start, so one that is missed is told by the next.

    One at a time: nothing piles up at an OTLP receiver that hangs.
    """

    def __init__(self, gather: Gather, export: Export, address: str, every_s: float) -> None:
        self._gather = gather
        self._export = export
        self._address = address
        self._every_s = every_s
        self._under_way: asyncio.Future[str | None] | None = None
        self._failing = False

    async def run(self) -> None:
        while True:
            await self.send()
            await asyncio.sleep(self._every_s)

    async def send(self) -> None:
        """Once the one before is over, if it still goes on."""
        if self._under_way is not None:
            await asyncio.wait({self._under_way})
        found, now = await self._gather(), time.time_ns()
        self._under_way = under_way = _beside(lambda: self._export(found, now))
        done, _ = await asyncio.wait({under_way}, timeout=WAITED_S)
        self._tell(under_way.result() if done else "no answer in time.")

    async def last(self) -> None:
        """What happened since the export before; given up if it takes long."""
        try:
            async with asyncio.timeout(LAST_S):
                await self.send()
        except TimeoutError:
            self._tell("no answer in time, as the hub ended.")

    def _tell(self, problem: str | None) -> None:
        if problem is not None and not self._failing:
            log.warning("metrics do not reach %s: %s", self._address, problem)
        elif problem is None and self._failing:
            log.info("metrics reach %s again", self._address)
        self._failing = problem is not None


@contextlib.asynccontextmanager
async def sending(settings: HubSettings, asked: Asked, port: int) -> AsyncIterator[Run]:
    """What is to run beside the hub; it ends at once where no OTLP receiver is named. Raises SettingsError."""
    if settings.otlp_endpoint is None:
        yield _nothing
        return
    every_s = interval_s(os.environ)
    # The same after a restart, so that its series go on.
    instance = f"{socket.gethostname()}:{port}"
    export = _open(settings.otlp_endpoint, instance, min(MOST_S, every_s))
    unsaved, of_library = Unsaved(), library()
    address = receiver_of(settings.otlp_endpoint)
    sender = Sender(lambda: families(asked, unsaved, of_library), export, address, every_s)
    log.info("metrics go to %s every %g s", address, every_s)
    try:
        yield sender.run
    finally:
        await sender.last()


async def _nothing() -> None:
    pass


def _open(endpoint: str, instance: str, timeout_s: float) -> Export:
    try:
        # 9 MB and 0.2 s, for those alone who want it.
        from adsum_hub.metrics.otlp_export import open_export
    except ImportError as error:
        raise SettingsError(
            "otlp_endpoint (ADSUM_OTLP_ENDPOINT) is set, and what sends by OTLP is not installed "
            f"({error}): add opentelemetry-exporter-otlp-proto-http to its environment, which is "
            "what the extra [otel] brings, or take the setting out."
        ) from error
    return open_export(endpoint, instance, timeout_s)


def interval_s(environ: Mapping[str, str]) -> float:
    """Of the SDK's own variable; no setting of ours has to say the same."""
    given = environ.get(INTERVAL) or PRESET_MS
    try:
        return max(1.0, float(given) / 1000)
    except ValueError:
        log.warning("%s is no number of milliseconds; %d holds", INTERVAL, PRESET_MS)
        return PRESET_MS / 1000


def _beside(work: Callable[[], T]) -> asyncio.Future[T]:
    """asyncio.to_thread's threads have to end before the process can."""
    ended: concurrent.futures.Future[T] = concurrent.futures.Future()

    def run() -> None:
        try:
            ended.set_result(work())
        except BaseException as error:  # noqa: BLE001 - raised where the future is awaited
            ended.set_exception(error)

    threading.Thread(target=run, name="otlp", daemon=True).start()
    return asyncio.wrap_future(ended)
