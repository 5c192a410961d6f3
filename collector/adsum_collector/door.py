"""The hook door's connections: bounded in number, and idle ones give way to new ones."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

#: What bounds open connections, and with them descriptors, of which a process often has 1,024.
#: An agent keeps several idle ones, so their number alone must refuse nobody: any local user could
#: open that many. Requests under way are bounded by the receiver's slots and time-outs.
MOST_CONNECTIONS = 512


class DoorProtocol(HttpToolsProtocol):
    """uvicorn's own `limit_concurrency` would answer hooks with 503 while others sit idle."""

    opened = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as in the base
        super().connection_made(transport)
        self.opened = self.loop.time()
        if len(self.connections) > MOST_CONNECTIONS:
            self._let_one_go()

    def _let_one_go(self) -> None:
        """First who has never asked anything, however many bytes of a request it has sent."""
        others = [each for each in self.connections if isinstance(each, DoorProtocol)]
        idle = [each for each in others if each is not self and not each.is_asked]
        if idle:
            oldest = min(idle, key=lambda each: (each.has_asked, each.opened))
            oldest.transport.abort()

    @property
    def has_asked(self) -> bool:
        # uvicorn declares it as never None, and sets None until the first request's headers end
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None

    @property
    def is_asked(self) -> bool:
        """Whether a request is under way."""
        return self.has_asked and not self.cycle.response_complete
