"""The web server, quiet: it sleeps until there is something to do."""

from __future__ import annotations

import asyncio
from types import FrameType
from typing import Any

import uvicorn

from adsum_shared.bounded_http import bounded_http

#: An agent keeps several idle ones, so their number alone must refuse nobody: any local user could
#: open that many. Requests under way are bounded by the receiver's slots and time-outs.
MOST_CONNECTIONS = 512
#: Descriptors for the spool, transcripts, the unix socket and the broker.
RESERVE = 256


def server_config(receiver: Any) -> uvicorn.Config:
    return uvicorn.Config(
        receiver,
        http=bounded_http(MOST_CONNECTIONS, RESERVE),
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        date_header=False,
        # Longer than the agent's own 5 s: it must be the one to close an idle connection, or a
        # hook sent in that moment fails in the user's terminal.
        timeout_keep_alive=75,
        timeout_graceful_shutdown=2,
    )


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
