"""Opening what joining needs: a connection to Redis of its own."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable

from adsum_hub.auth.tries import Tries
from adsum_hub.clock import Clock
from adsum_hub.join.hosts import JoinedHosts
from adsum_hub.join.joining import Joining
from adsum_hub.join.kept import KeptRoll
from adsum_hub.join.leaving import Leaving
from adsum_hub.join.machines import Machines
from adsum_hub.join.places import Addresses
from adsum_hub.join.rights import Rights
from adsum_hub.join.tokens import JoinTokenStore
from adsum_hub.join.vouching import vouched
from adsum_hub.join.watch import Watch
from adsum_hub.roster import Roster
from adsum_hub.settings import HubSettings
from adsum_shared.connect import open_redis


@contextlib.asynccontextmanager
async def joined_by(
    settings: HubSettings,
    redis_url: str,
    roster: Roster,
    clock: Clock,
    told: Callable[[], None],
) -> AsyncIterator[Joining]:
    redis = open_redis(redis_url)
    machines, rights = Machines(redis), Rights(redis)
    addresses = Addresses(
        settings.machine_redis_url or redis_url, settings.machine_shared_url, settings.public_url
    )
    watch = Watch(roster, machines, rights, clock, told, KeptRoll(settings.state_dir))
    tokens = JoinTokenStore(redis)
    hosts = JoinedHosts(roster, machines, rights, watch, tokens)
    try:
        yield Joining(
            roster,
            tokens,
            machines,
            rights,
            Tries(redis, "join:"),
            Tries(redis, "machine:"),
            watch,
            hosts,
            Leaving(tokens, machines, rights, watch, clock),
            addresses,
            vouched,
            clock,
        )
    finally:
        await redis.aclose()
