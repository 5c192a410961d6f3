"""Keeps where the hub stands in each host's stream, and which numbers are missing.

A stream may be no place to stand in: deleted, set back, of another type, poisoned (Places). Numbers
may be missing: another hub may have stored them, else their collector is asked (Holes), again, or no
more (Replays).
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from redis.exceptions import ResponseError

from adsum_hub import host_troubles
from adsum_hub.clock import Clock
from adsum_hub.host import Host
from adsum_hub.inbox import covers, is_poisoned, order
from adsum_hub.roster import Roster
from adsum_hub.snapshots import load_header, load_snapshot
from adsum_shared import streams
from adsum_shared.connect import Redis
from adsum_shared.envelope import Batch

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
        self._redis, self._clock = redis, clock
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
            host.rewind()

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
        host.troubles.note("poison", text, self._clock())
        return "0-0"


#: The request itself expires after WANT_TTL_MS, unseen if its collector was away.
ASK_AGAIN_MS = 4_000
#: A collector that no longer has numbers says so with a gap record. This is for one that replays
#: and still leaves the hole.
FRUITLESS_REPLAYS = 3

NextStep = Literal["ask", "wait", "lost"]


class _Replay(NamedTuple):
    spool_id: str
    missing: int
    incarnation: int
    at: int
    replays: int


class Replays:
    def __init__(self) -> None:
        self._asked: dict[str, _Replay] = {}

    def hole(
        self, host_id: str, spool_id: str, missing: int, incarnation: int, now: int
    ) -> NextStep:
        """A batch of this incarnation begins after the number `missing`.

        Entries behind the hole that were in the stream before we asked teach nothing new: only one
        of a higher incarnation is an answer. (Rejected: counting every such entry. A long backlog
        behind a hole was then given up while its replay lay further on.)
        """
        asked = self._asked.get(host_id)
        if asked is None or (asked.spool_id, asked.missing) != (spool_id, missing):
            self._asked[host_id] = _Replay(spool_id, missing, incarnation, now, 0)
            return "ask"
        if incarnation > asked.incarnation:
            if asked.replays + 1 >= FRUITLESS_REPLAYS:
                del self._asked[host_id]
                return "lost"
            self._asked[host_id] = _Replay(spool_id, missing, incarnation, now, asked.replays + 1)
            return "ask"
        if now - asked.at >= ASK_AGAIN_MS:
            self._asked[host_id] = asked._replace(at=now)
            return "ask"
        return "wait"

    def filled(self, host_id: str) -> None:
        self._asked.pop(host_id, None)


class Holes:
    def __init__(self, roster: Roster, redis: Redis, clock: Clock) -> None:
        self._roster, self._redis, self._clock = roster, redis, clock
        self.places = Places(redis, clock)
        self._replays = Replays()
        #: per host, the spools in which it lay behind the stored snapshot, and where it stood
        self._behind: dict[str, dict[str, int]] = {}

    def filled(self, host: Host) -> None:
        self._replays.filled(host.id)

    async def fill(self, host: Host, batch: Batch, missing: int, entry_id: str) -> None:
        """The batch itself is dropped: the replay brings it once more, after what is missing."""
        incarnation, _ = order(entry_id)
        verdict = self._replays.hole(host.id, batch.spool_id, missing, incarnation, self._clock())
        if verdict == "wait":
            return
        if await self._reload_if_ahead(host, batch.spool_id, missing):
            missing = self._roster.apply(host.id, batch, self._clock())
            if not missing:
                self.filled(host)
                return
        if verdict == "lost":
            log.error("host %s: numbers %d to %d are lost", host.id, missing, batch.first - 1)
            self._roster.skip(host.id, batch, self._clock())
            self._roster.apply(host.id, batch, self._clock())
            return
        await self._ask(host, batch.spool_id, missing)

    async def fill_tail(self, host: Host, spool_id: str) -> None:
        """The heartbeat tells of more than we have, and nothing comes: no entry will show the hole."""
        missing = host.applied.get(spool_id, 0) + 1
        if await self._reload_if_ahead(host, spool_id, missing):
            return
        if "version" not in host.troubles:  # else it has come, and would come no better
            await self._ask(host, spool_id, missing)

    async def compare(self, host: Host) -> None:
        """The stored snapshot is another than the one we know. `host.saved` learns what it holds.

        To be behind it for a moment is usual: another hub has read more, and so shall we. Where we
        stay behind, its entries are trimmed and nothing more will come to show it.
        """
        known = host.saved.version
        stored = await load_header(self._redis, host.id)
        if host.saved.version != known:
            return  # we have saved meanwhile, and what was read is older
        host.overtaken(stored, self._clock())
        before = self._behind.pop(host.id, {})
        if covers(host.applied, stored.applied):
            return
        behind = _excess(stored.applied, host.applied)
        self._behind[host.id] = {key: host.applied.get(key, 0) for key in behind}
        stuck = {key for key in behind if before.get(key) == host.applied.get(key, 0)}
        if not stuck:
            return
        live = {host.beat.spool_id} if host.beat else set()
        if _excess(host.applied, stored.applied) <= live:
            # What we have beyond it comes once more: from the stream, or from the collector.
            await self._reload(host)
        elif not stuck <= live:  # what is missing of the live spool its collector is asked for
            host.troubles["save"] = (
                "This hub and its saved state each hold what the other cannot get any more, so "
                "nothing is saved here. To go on with the saved state, restart this hub."
            )

    async def _reload_if_ahead(self, host: Host, spool_id: str, missing: int) -> bool:
        stored = await load_header(self._redis, host.id)
        if stored.applied.get(spool_id, 0) < missing or not covers(stored.applied, host.applied):
            return False
        return await self._reload(host)

    async def _reload(self, host: Host) -> bool:
        judged = dict(host.applied)
        snapshot = await load_snapshot(self._redis, host.id)
        # Who has read on meanwhile is no more stuck than it is behind: what it shows would go back.
        if snapshot.problem is not None or host.applied != judged:
            return False
        log.info("host %s: going on from what another hub has stored", host.id)
        self._roster.reload(host.id, snapshot, self._clock())
        return True

    async def _ask(self, host: Host, spool_id: str, missing: int) -> None:
        want = f"{spool_id}:{missing}"
        key = streams.want(host.id)
        try:
            is_asked = await self._redis.set(key, want, nx=True, px=streams.WANT_TTL_MS)
        except ResponseError as error:
            # It takes no writes, which is told elsewhere; all others can be read and heard.
            log.debug("host %s: no replay can be asked for (%s)", host.id, error)
            return
        if is_asked:
            self._roster.counts["replays"] += 1
            log.warning("host %s: asking for a replay from %s", host.id, want)


def _excess(mine: Mapping[str, int], theirs: Mapping[str, int]) -> set[str]:
    """The spools in which `mine` has applied more."""
    return {key for key, seq in mine.items() if seq > theirs.get(key, 0)}
