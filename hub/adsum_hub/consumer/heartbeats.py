"""Reads heartbeats: who can be reached, what time it is there, and which numbers are missing from its stream.

A stream may be no place to stand in: deleted, set back, of another type, poisoned (Places). Numbers
may be missing: another hub may have stored them, else their collector is asked (_Holes), again, or no
more (Replays).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from msgspec.structs import astuple
from redis.exceptions import ResponseError

from adsum_hub import host_troubles
from adsum_hub.clock import ABSURD_MS, Clock
from adsum_hub.host import Host
from adsum_hub.inbox import MOST_MS, covers, is_poisoned, order
from adsum_hub.live.broadcast import Broadcast
from adsum_hub.redis_access import Room
from adsum_hub.roster import Roster
from adsum_hub.snapshots import count_of, load_header, load_snapshot
from adsum_hub.trouble import Link
from adsum_shared import streams
from adsum_shared.connect import UNAVAILABLE, Redis, wanted
from adsum_shared.envelope import Batch, Beat, decode_beat

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


class _Holes:
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


INTERVAL_S = 1.0
#: A host of which nothing is read for so long, though its stream is said to hold more, has lost it.
QUIET_MS = 2_000
#: Of a heartbeat; ours have one or two thousand.
MOST_BYTES = 256 << 10
#: As Redis answers of a key that never expires.
_STAYS = -1


class Heartbeats:
    def __init__(
        self,
        roster: Roster,
        redis: Redis,
        clock: Clock,
        link: Link,
        broadcast: Broadcast,
        room: Room,
    ) -> None:
        self._roster, self._room, self._redis, self._clock = roster, room, redis, clock
        self._link, self._broadcast = link, broadcast
        self.holes = _Holes(roster, redis, clock)

    async def listen(self) -> None:
        while wanted():
            try:
                await self.hear()
            except UNAVAILABLE as error:
                self._link.down(error)
            await asyncio.sleep(INTERVAL_S)

    async def hear(self) -> None:
        await self.greet(list(self._roster.hosts.values()))

    async def greet(self, hosts: Sequence[Host]) -> None:
        """Of these alone."""
        if not hosts:
            return
        pipeline = self._redis.pipeline(transaction=False)
        for host in hosts:
            # However long it is: no more of it comes here than shows that it is too long.
            pipeline.getrange(streams.beat(host.id), 0, MOST_BYTES)
            pipeline.pttl(streams.beat(host.id))
            pipeline.hmget(streams.snapshot(host.id), [streams.VERSION, streams.SCHEMA])
        # One host's key of another type must not silence the others.
        replies = await pipeline.execute(raise_on_error=False)
        now = self._clock()
        for number, host in enumerate(hosts):
            raw, ttl, stored = replies[3 * number : 3 * number + 3]
            if is_absurd(raw, ttl):
                await self._room.clear_beat(host, now)
                continue
            # The broker may begin to refuse between the two: a password, LOADING, BUSY.
            beat = self._read(host, ttl if isinstance(ttl, ResponseError) else raw, now)
            if beat is not None:
                age = max(0, streams.BEAT_TTL_MS - int(ttl))
                self._roster.hear(host.id, beat, age, now)
                await self._look_for_lost_tail(host, beat, now)
            if not isinstance(stored, ResponseError) and is_other(stored, host):
                await self.holes.compare(host)
        self._broadcast.notify()

    @staticmethod
    def _read(host: Host, raw: Any, now: int) -> Beat | None:
        cause = str(raw) if isinstance(raw, ResponseError) else None
        beat = decode_beat(raw) if isinstance(raw, bytes) and raw else None
        if cause is None and raw and (beat is None or not is_sound(beat)):
            cause, beat = "it makes no sense", None
        if beat is not None and beat.at - now > ABSURD_MS:
            # By such a clock whatever it tells would be the latest for ever.
            cause, beat = "it comes from over a year ahead: set that machine's clock", None
        if cause is None:
            host.troubles.pop("heartbeat", None)
        else:
            host.troubles["heartbeat"] = f"Its heartbeat cannot be read ({cause})."
        return beat

    async def _look_for_lost_tail(self, host: Host, beat: Beat, now: int) -> None:
        """No entry behind the hole will come to show it: the host may stay quiet for hours."""
        applied = host.applied.get(beat.spool_id, 0)
        if applied >= beat.sent or now - host.read_at < QUIET_MS:
            return
        await self.holes.places.find(host)
        await self.holes.fill_tail(host, beat.spool_id)


def is_absurd(raw: Any, ttl: Any) -> bool:
    """No collector writes one so long, nor one that stays."""
    if isinstance(raw, ResponseError) or isinstance(ttl, ResponseError) or not raw:
        return False
    return len(raw) > MOST_BYTES or ttl == _STAYS or ttl > streams.BEAT_TTL_MS


def is_sound(beat: Beat) -> bool:
    """Whether its numbers are times and counts: with others no sum and no date would come out."""
    times = (beat.at, *(each.heard_at for each in beat.witnesses))
    numbers = (beat.seq, beat.sent, *(astuple(beat.counts) if beat.counts else ()))
    return all(0 <= at <= MOST_MS for at in times) and all(
        0 <= number <= streams.MOST_ID for number in numbers
    )


def is_other(stored: list[bytes | None], host: Host) -> bool:
    """Whether the stored snapshot is another than the one we know, or we are not where it is."""
    version, schema = map(count_of, stored)
    newer = schema if schema > streams.SCHEMA_NUMBER else 0
    saved = host.saved
    return (version, newer) != (saved.version, saved.newer) or not covers(
        host.applied, saved.applied
    )
