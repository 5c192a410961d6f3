"""The saver persists what has changed, each host every INTERVAL_S, or less often under load."""

import asyncio
import logging

from redis.exceptions import ResponseError

from adsum_hub.host import Host
from adsum_hub.roster import Roster
from adsum_hub.snapshots import MOST_AT_ONCE, NewerSchemaError, load_header, save_snapshot
from adsum_hub.trouble import Link
from adsum_shared.connect import UNAVAILABLE, Redis, wanted
from adsum_shared.redis_errors import describe

log = logging.getLogger(__name__)

INTERVAL_S = 0.25
#: Where many hosts are to be saved: a round takes a tenth of the time, or comes this often.
LONGEST_S = 1.0
REST = 10


class Saver:
    def __init__(self, roster: Roster, redis: Redis, link: Link) -> None:
        self._roster, self._redis, self._link = roster, redis, link

    async def run(self) -> None:
        took, loop = 0.0, asyncio.get_running_loop()
        while wanted():
            await asyncio.sleep(min(LONGEST_S, max(INTERVAL_S, REST * took)))
            began = loop.time()
            try:
                await self.save_once()
            except UNAVAILABLE as error:
                self._link.down(error)
            took = loop.time() - began

    async def save_once(self) -> None:
        for host in list(self._roster.hosts.values()):
            if not host.saved.is_due(host.applied, host.cursor):
                continue
            try:
                await self._save(host)
                host.troubles.pop("save", None)
            except ResponseError as error:
                # READONLY, OOM, MISCONF or a key of another type: said, and tried again. The
                # other hosts' snapshots are not held up by this one's.
                cause = describe(error, self._link.address, "The state is kept in memory.")
                trouble = f"Its state cannot be saved: {cause}"
                if host.troubles.get("save") != trouble:
                    log.warning("host %s: %s", host.id, trouble)
                host.troubles["save"] = trouble

    async def _save(self, host: Host) -> None:
        header, dirty, gone = host.take_dirty()
        # of the same moment, whatever is folded while it is written
        whole = dict(host.facts) if len(dirty) > MOST_AT_ONCE else None
        keep = host.saved.keep(dirty)
        stored, seen = None, header.version
        try:
            stored = await save_snapshot(
                self._redis, host.id, header, dirty, gone, keep=keep, whole=whole
            )
        except NewerSchemaError as error:
            log.warning("host %s: stored by a newer version, schema %d", host.id, error.schema)
        finally:
            if stored is None:
                host.saved.refused(dirty, gone, host.facts)
        if stored is not None:
            host.saved.written(stored.version, header, keep.aside)
            if stored.behind:
                log.warning("the stream of %s begins anew below %s", host.id, host.cursor)
                host.rewind()
            return
        self._roster.counts["conflicts"] += 1
        found = await load_header(self._redis, host.id)
        if host.saved.version == seen:  # else it has been looked at meanwhile, and later than this
            host.overtaken(found, self._link.read_at)
