"""The saver: what it writes is of one moment, and it believes the later of two things it hears."""

from __future__ import annotations

from typing import Any

import pytest

from adsum_hub import snapshots as snapshots_module
from adsum_hub.consumer import consumer as saver_module
from adsum_hub.snapshots import Snapshot, load_snapshot, save_snapshot
from adsum_shared import streams
from adsum_shared.envelope import Batch
from adsum_shared.signals import PromptSubmitted
from tests.half_hubs import HOST, Hub, clock, stored
from tests.support import wait_until

pytestmark = pytest.mark.redis


def fold_one_more(hub: Hub, number: int) -> None:
    at = clock()
    prompt = PromptSubmitted(session_id=f"s{number}", at=at, seen=at, prompt_id="p")
    hub.roster.apply(HOST, Batch("sp", number, number, "n", at, (prompt,)), at)


@pytest.fixture
async def still(collector, hub_at) -> Hub:
    """A hub that has read ten signals, and has stopped by itself: the test drives it."""
    hub: Hub = hub_at(saving=False)
    collector.happen(20)
    await collector.publish(1, 10)
    await wait_until(lambda: hub.applied() == 10)
    for task in hub._tasks:
        task.cancel()
    return hub


async def test_a_big_snapshot_is_of_the_moment_it_was_begun_at(
    still, redis, monkeypatch: pytest.MonkeyPatch
):
    draw_up = snapshots_module._draw_up
    drafts = 0

    async def meanwhile(*words: Any) -> None:
        nonlocal drafts
        drafts += 1
        fold_one_more(still, 11)
        await draw_up(*words)

    monkeypatch.setattr(saver_module, "MOST_AT_ONCE", 5)
    monkeypatch.setattr(snapshots_module, "_draw_up", meanwhile)

    await still.saver.save_once()

    snapshot = await load_snapshot(redis, HOST)
    assert drafts == 1
    assert (snapshot.applied, len(snapshot.sessions)) == ({"sp": 10}, 10)
    await still.saver.save_once()
    assert len((await load_snapshot(redis, HOST)).sessions) == 11


async def test_a_save_notices_that_the_stream_went_back_below_its_cursor(still, collector, redis):
    host = still.roster.hosts[HOST]
    host.cursor = "9-10"
    await redis.delete(streams.inbox(HOST))
    await collector.publish(1, 10)

    await still.saver.save_once()

    assert host.cursor == "0-0"
    assert await redis.xlen(streams.inbox(HOST)) == 1
    assert await stored(redis, 10)


async def test_what_was_heard_of_the_store_meanwhile_is_later_than_what_a_conflict_tells(
    still, redis, monkeypatch: pytest.MonkeyPatch
):
    host = still.roster.hosts[HOST]
    await save_snapshot(redis, HOST, Snapshot(0, "1-5", {"sp": 5}), {}, ())
    load_header = saver_module.load_header

    async def late(*words: Any) -> Snapshot:
        older = await load_header(*words)
        host.overtaken(Snapshot(older.version + 1, "1-9", {"sp": 9}), clock())
        return older

    monkeypatch.setattr(saver_module, "load_header", late)
    host.saved.dirty.clear()
    host.saved.change({"s10"})

    await still.saver.save_once()

    assert still.roster.counts["conflicts"] == 1
    assert host.saved.dirty == {"s10"}  # Redis was not set back: nothing else is to be written
    assert host.saved.applied == {"sp": 9}
