"""Reads heartbeats: who can be reached, what time it is there, what is missing."""

import asyncio
from collections.abc import Sequence
from typing import Any

from msgspec.structs import astuple
from redis.exceptions import ResponseError

from adsum_hub.clock import ABSURD_MS, Clock
from adsum_hub.consumer.holes import Holes
from adsum_hub.host import Host
from adsum_hub.inbox import MOST_MS, covers
from adsum_hub.live.broadcast import Broadcast
from adsum_hub.room import Room
from adsum_hub.roster import Roster
from adsum_hub.snapshots import count_of
from adsum_hub.trouble import Link
from adsum_shared import streams
from adsum_shared.beat import Beat, decode_beat
from adsum_shared.connect import UNAVAILABLE, Redis, wanted

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
        self.holes = Holes(roster, redis, clock)

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
