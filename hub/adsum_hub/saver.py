"""The saver: persists what has changed, each host at most every INTERVAL_S."""

from __future__ import annotations

import asyncio
import logging

from redis.exceptions import ResponseError

from adsum_hub.host import Host
from adsum_hub.link import Link
from adsum_hub.roster import Roster
from adsum_hub.snapshots import load_applied, save_snapshot
from adsum_shared.connect import UNAVAILABLE, Redis, wanted

log = logging.getLogger(__name__)

INTERVAL_S = 0.25


class Saver:
    def __init__(self, roster: Roster, redis: Redis, link: Link) -> None:
        self._roster = roster
        self._redis = redis
        self._link = link

    async def run(self) -> None:
        while wanted():
            await asyncio.sleep(INTERVAL_S)
            try:
                await self.save_once()
            except UNAVAILABLE as error:
                self._link.down(error)

    async def save_once(self) -> None:
        for host in list(self._roster.hosts.values()):
            if not host.needs_saving():
                continue
            try:
                await self._save(host)
                host.troubles.pop("save", None)
            except ResponseError as error:
                # READONLY, OOM, MISCONF or a key of another type: said, and tried again. The
                # other hosts' snapshots are not held up by this one's.
                trouble = f"Its state cannot be saved ({error}); kept in memory."
                if host.troubles.get("save") != trouble:
                    log.warning("host %s: %s", host.id, trouble)
                host.troubles["save"] = trouble

    async def _save(self, host: Host) -> None:
        header, dirty, gone = host.take_dirty()
        saved = False
        try:
            version = await save_snapshot(self._redis, host.id, header, dirty, gone)
            if version is not None:
                saved = True
                host.saved_as(version, header)
        finally:
            if not saved:
                host.not_saved(set(dirty), gone)
        if not saved:
            host.lost_race(*await load_applied(self._redis, host.id))
            self._roster.counts["conflicts"] += 1
