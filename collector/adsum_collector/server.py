"""The web server, quiet: it sleeps until there is something to do."""

from __future__ import annotations

import asyncio
from types import FrameType

import uvicorn


class Server(uvicorn.Server):
    """uvicorn's own loop wakes ten times a second: most of what an idle collector cost.

    It looks whether it is to stop, and renews the Date header, which we do not send.
    """

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._asked_to_stop = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def _ask_to_stop(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        self._loop.call_soon_threadsafe(self._asked_to_stop.set)

    handle_exit = _ask_to_stop  # what uvicorn calls when a signal comes

    async def main_loop(self) -> None:
        if not self.should_exit:
            await self._asked_to_stop.wait()
