"""The demo's fleet as a process of its own, under `adsum up --demo`: plays until it is ended."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import time
from pathlib import Path

from adsum.demo.player import play, story_clock
from adsum_collector.errors import SpoolUnavailable, StartError

#: Written once everything so far is in the broker.
READY = "ready"


async def _play(folder: Path, url: str) -> None:
    playing = asyncio.create_task(play(folder, url, story_clock(time.time), (folder / READY).touch))
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
    folder = Path(os.environ["ADSUM_STATE_DIR"]) / "fleet"
    try:
        asyncio.run(_play(folder, os.environ["ADSUM_REDIS_URL"]))
    except* (SpoolUnavailable, StartError) as group:
        # For people: without a traceback.
        print(*group.exceptions, sep="\n")  # noqa: T201 - the supervisor keeps it in a log
        sys.exit(1)
