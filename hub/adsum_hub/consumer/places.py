"""Where we stand in each host's stream, and whether that is a place at all."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from redis.exceptions import ResponseError

from adsum_hub import host_troubles
from adsum_hub.clock import Clock
from adsum_hub.host import Host
from adsum_hub.inbox.entries import is_poisoned, order
from adsum_shared import streams
from adsum_shared.connect import Redis

log = logging.getLogger(__name__)

#: A host whose keys are of another type is looked at again after this time.
SET_ASIDE_S = 30.0

#: Delete the stream only while its last id is the one that was looked at: another hub may have done
#: so already, and its collector have begun anew.
_DELETE = """
local info = redis.pcall('XINFO', 'STREAM', KEYS[1])
for i = 1, #info - 1, 2 do
  if info[i] == 'last-generated-id' and info[i + 1] == ARGV[1] then
    return redis.call('UNLINK', KEYS[1])
  end
end
return 0
"""


class Places:
    def __init__(self, redis: Redis, clock: Clock) -> None:
        self._redis = redis
        self._clock = clock
        self._aside: dict[str, float] = {}

    def is_aside(self, host: Host) -> bool:
        return self._aside.get(host.id, 0.0) > asyncio.get_running_loop().time()

    async def find(self, host: Host) -> None:
        """A stream that was deleted or rolled back restarts below our cursor: read it from 0.

        What it repeats is known by its numbers; what it lacks the collectors send again.
        """
        cursor = host.cursor  # of before: an entry that is added and read meanwhile lies beyond it
        head = await self._head(host)
        if head is not None and is_poisoned(head):
            head = await self._heal(host, head)
        if head is not None and order(head) < order(cursor):
            log.warning("the stream of %s went back from %s to %s", host.id, cursor, head)
            host.cursor = "0-0"

    async def set_aside_wrong_types(self, hosts: list[Host]) -> bool:
        """Whoever's stream is no stream must not blind us to all others. Whether there was one."""
        found = False
        for host in hosts:
            kind: Any = await self._redis.type(streams.inbox(host.id))
            if kind in (b"stream", b"none"):
                host.troubles.pop("stream", None)
            else:
                found = True
                trouble = (
                    f"Its stream is a {kind.decode()}: something else wrote there. "
                    f"Delete the key {streams.inbox(host.id)}; its collector sends again what it holds."
                )
                host.troubles["stream"] = trouble
                log.error("host %s: %s", host.id, trouble)
                self._aside[host.id] = asyncio.get_running_loop().time() + SET_ASIDE_S
        return found

    async def _head(self, host: Host) -> str | None:
        """The last id given in its stream; None if it is none, and it is set aside."""
        try:
            info: Any = await self._redis.xinfo_stream(streams.inbox(host.id))
        except ResponseError as error:
            if "no such key" in str(error):
                return "0-0"
            await self.set_aside_wrong_types([host])
            return None
        head = info["last-generated-id"]
        return head.decode() if isinstance(head, bytes) else str(head)

    async def _heal(self, host: Host, head: str) -> str:
        """Nothing could be added after this id, or hardly: take the whole stream away.

        What lies in it unread is still with the collector, which sees that the stream is gone.
        """
        text = host_troubles.poisoned_stream(head)
        try:
            await self._redis.eval(_DELETE, 1, streams.inbox(host.id), head)
        except ResponseError as error:
            # One host's stream that cannot be deleted is no reason to be blind to all others.
            text = f"Its stream has reached an id that nothing can follow ({head}): delete it ({error})."
            self._aside[host.id] = asyncio.get_running_loop().time() + SET_ASIDE_S
        log.error("host %s: %s", host.id, text)
        host.troubles.tell("poison", text, self._clock())
        return "0-0"
