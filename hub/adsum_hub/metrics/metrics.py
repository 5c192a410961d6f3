"""`/metrics`, for Prometheus: what this hub has measured, and what it knows when it is asked."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence

from fastapi import APIRouter, Response
from prometheus_client import CollectorRegistry, GCCollector, ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST as CONTENT
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from adsum_hub.metrics.hub import Asked, Sessions, Unsaved, families_of
from adsum_hub.metrics.measured import NEEDS
from adsum_hub.roster import Roster

__all__ = ["Asked", "Unsaved", "exposition", "families", "library", "metrics_router"]

#: Sessions counted in one go.
SLICE = 1_000


def metrics_router(asked: Asked) -> APIRouter:
    """Read by whoever may read the list: a token of the role viewer will do."""
    of_library, unsaved, one_at_a_time = library(), Unsaved(), asyncio.Lock()
    router = APIRouter(tags=["health"])

    @router.get("/metrics", summary="For Prometheus", response_class=Response)
    async def metrics() -> Response:
        async with one_at_a_time:
            return Response(await exposition(asked, unsaved, of_library), media_type=CONTENT)

    return router


async def exposition(asked: Asked, unsaved: Unsaved, of_library: CollectorRegistry) -> bytes:
    """The text is made in a thread, of what was found: nothing else may look at the roster there."""
    found = CollectorRegistry()
    found.register(_Found(await families(asked, unsaved, of_library)))
    return await asyncio.to_thread(generate_latest, found)


async def families(
    asked: Asked, unsaved: Unsaved, of_library: CollectorRegistry
) -> Sequence[Metric]:
    """With 100,000 sessions it takes 0.2 s: everybody else has a turn in between.

    unsaved: the caller's own, as it counts from one of its scrapes to the next.
    """
    sessions = await _sessions(asked.roster, asked.broadcast.measures.clock())
    found = list(of_library.collect())
    for family in families_of(asked, unsaved, sessions):
        found.append(family)
        await asyncio.sleep(0)
    return found


def library() -> CollectorRegistry:
    """What Prometheus's own library knows of this process."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    GCCollector(registry=registry)
    return registry


async def _sessions(roster: Roster, now: int) -> Sessions:
    found = Sessions(Counter(), dict.fromkeys(NEEDS, 0.0))
    views = list(roster.views.values())
    for start in range(0, len(views), SLICE):
        for view in views[start : start + SLICE]:
            found.add(view, now)
        await asyncio.sleep(0)
    return found


class _Found(Collector):
    def __init__(self, families: Sequence[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families

    def describe(self) -> Iterable[Metric]:
        return ()  # else it is collected once more, to learn the names
