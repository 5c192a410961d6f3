"""Numbers that are missing: another hub may have stored them; else their collector is asked."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from redis.exceptions import ResponseError

from adsum_hub.clock import Clock
from adsum_hub.consumer.replays import Replays
from adsum_hub.host import Host
from adsum_hub.inbox.entries import order
from adsum_hub.inbox.sequence import covers
from adsum_hub.roster import Roster
from adsum_hub.snapshots.fields import Snapshot
from adsum_hub.snapshots.snapshots import load_header, load_snapshot
from adsum_shared import streams
from adsum_shared.connect import Redis
from adsum_shared.envelope import Batch

log = logging.getLogger(__name__)


class Holes:
    def __init__(self, roster: Roster, redis: Redis, clock: Clock) -> None:
        self._roster = roster
        self._redis = redis
        self._clock = clock
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
        snapshot: Snapshot = await load_snapshot(self._redis, host.id)
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
