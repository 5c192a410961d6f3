"""Reads the commands for this machine, out of Redis or through the hub, and checks who gave them."""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from redis.exceptions import ResponseError

from adsum_collector.control.remote import RemoteControl
from adsum_collector.delivery.transports import Transport, TransportConnection
from adsum_collector.errors import DeliveryError
from adsum_shared.commands import NotObeyedError, opened
from adsum_shared.connect import UNAVAILABLE, backoff, wanted
from adsum_shared.host_keys import FoundCommand, KeysRequest, OddReplyError
from adsum_shared.redis_errors import BrokerTooOldError

log = logging.getLogger(__name__)

#: Well within what is waited for any answer, by either way.
WAIT_S: Final = 3.0
#: Between two looks whether control is on; and at most between two tries.
LOOK_S: Final = 1.0
MOST_PAUSE_S: Final = 5.0
_PASSING = (*UNAVAILABLE, BrokerTooOldError, DeliveryError, OddReplyError, ResponseError)


class CommandFeed:
    """host_id: as it is at the moment. problem: why commands do not arrive."""

    def __init__(
        self, transport: Transport, host_id: Callable[[], str], control: RemoteControl
    ) -> None:
        self._transport, self._host_id, self._control = transport, host_id, control
        self.problem: str | None = None

    async def run(self) -> None:
        pauses = backoff(most_s=MOST_PAUSE_S)
        while wanted():
            if not self._control.is_on():
                self.problem = None
                await asyncio.sleep(LOOK_S)
                continue
            try:
                async with self._transport.open() as line:
                    await self._follow(line)
            except _PASSING as error:
                if self.problem is None:
                    log.warning("commands cannot be read: %s", error)
                    pauses = backoff(most_s=MOST_PAUSE_S)
                self.problem = str(error)
                waits = error.wait_s if isinstance(error, DeliveryError) else 0.0
                await asyncio.sleep(max(next(pauses), waits))

    async def _follow(self, line: TransportConnection) -> None:
        """From the stream's end at this moment on: what was said before is never obeyed.

        A connection that breaks is not mended: behind the new one there may be another Redis, whose
        stream ends elsewhere.
        """
        host_id = self._host_id()
        last = (await line.ask(host_id, KeysRequest(commands=""))).end
        if not last:
            raise OddReplyError("the hub is older and hands on no commands. Upgrade it")
        self.problem = None
        while wanted() and self._control.is_on() and self._host_id() == host_id:
            told = await line.ask(host_id, KeysRequest(commands=last, wait_s=WAIT_S))
            for each in told.commands or ():
                last = each.id
                await self._take(host_id, each, told.now_ms)

    async def _take(self, host_id: str, found: FoundCommand, now_ms: int) -> None:
        try:
            age_ms = now_ms - int(found.id.partition("-")[0])
            command = opened(found.fields, host_id, self._control.consent.keys, age_ms)
        except (NotObeyedError, ValueError) as error:
            self._control.refuse(str(error))
            return
        await self._control.obey(command)
