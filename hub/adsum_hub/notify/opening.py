"""Opening notifications beside a hub, with a connection to Redis of their own."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from adsum_hub.clock import Clock
from adsum_hub.live.broadcast import Broadcast
from adsum_hub.notify.notifications import Notifications, Told
from adsum_hub.roster import Roster
from adsum_shared.connect import open_redis


@contextlib.asynccontextmanager
async def notifying(
    told: Told, redis_url: str, roster: Roster, broadcast: Broadcast, clock: Clock
) -> AsyncIterator[Notifications]:
    """Hears what the page is told. Raises NotifyConfigError, PushKeyError."""
    redis = open_redis(redis_url)  # what the list is kept by waits for no notification

    def ready() -> bool:
        blind = broadcast.trouble is not None and broadcast.trouble.blind
        return not broadcast.restoring and not blind

    try:
        notifications = Notifications(told, roster, redis, clock, ready)
        broadcast.listeners.append(notifications.heard)
        yield notifications
    finally:
        await redis.aclose()
