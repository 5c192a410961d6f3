"""What a hub measures of itself: lags, waits, gaps, and what Prometheus is told of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from adsum_hub.consumer.heartbeats import is_sound
from adsum_hub.host import Host
from adsum_hub.live.broadcast import Broadcast
from adsum_hub.metrics import (
    MOST_AGENTS,
    MOST_HOSTS,
    HubHealth,
    Unsaved,
    by_agent,
    families_of_hosts,
)
from adsum_hub.observed import LAG_S, Histogram, Measures
from adsum_hub.roster import Roster
from adsum_hub.snapshots import Snapshot
from adsum_hub.trouble import Link
from adsum_shared.envelope import Batch, Beat, Counts, Gap
from adsum_shared.signals import (
    Alive,
    AnySignal,
    ProcessGone,
    RequestClosed,
    RequestOpened,
    ToolFinished,
    ToolStarted,
)
from tests.scraping import Scraped, read_metrics, value

T = 1_764_000_000_000


class Time:
    def __init__(self) -> None:
        self.now = T

    def __call__(self) -> int:
        return self.now


class Rig:
    """A hub's roster and broadcast, with a client, and a clock that the test moves."""

    def __init__(self) -> None:
        self.clock = Time()
        self.roster = Roster()
        self.broadcast = Broadcast(self.roster, self.clock)
        self.measures = self.broadcast.measures
        self.seq = 0
        self.roster.add("h", Snapshot(), T)
        self.beat()

    def beat(self, offset_ms: int = 0, **more: Any) -> None:
        beat = Beat("h", "lab", self.clock.now + offset_ms, "n", "sp", **more)
        self.roster.hear("h", beat, 0, self.clock.now)

    def apply(self, *signals: AnySignal, gap: str | None = None, spool: str = "sp") -> None:
        first, self.seq = self.seq + 1, self.seq + max(1, len(signals))
        batch = Batch(spool, first, self.seq, "n", self.clock.now, tuple(signals), None)
        if gap is not None:
            batch = Batch(spool, first, self.seq, "n", self.clock.now, (), Gap(gap))
        self.roster.apply("h", batch, self.clock.now)

    async def oldest(self, state: str) -> float | None:
        return value(await self.scrape(), "adsum_needs_you_oldest_seconds", state=state)

    async def scrape(self) -> Scraped:
        text = await HubHealth(self.roster, self.broadcast, Link(), self.clock).exposition()
        return read_metrics(text.decode())


@pytest.fixture
async def rig() -> Rig:
    return Rig()


@pytest.fixture
async def client(rig: Rig) -> AsyncIterator[Any]:
    """Takes the next message when it is called, as soon as there is one."""
    messages = rig.broadcast.subscribe(None, None)
    await anext(messages)
    taking: list[asyncio.Task[bytes]] = []

    def take() -> asyncio.Task[bytes]:
        taking.append(asyncio.ensure_future(anext(messages)))
        return taking[-1]

    yield take
    for each in taking:
        each.cancel()
    await asyncio.gather(*taking, return_exceptions=True)
    await messages.aclose()


def tool(rig: Rig, ago_ms: int, session: str = "s1", **more: Any) -> ToolStarted:
    at = rig.clock.now - ago_ms
    told: dict[str, Any] = {"tool_use_id": f"t{rig.seq}", "tool": "Bash", "prompt_id": "p1"} | more
    return ToolStarted(session_id=session, at=at, seen=at, **told)


async def test_the_way_to_the_browser_ends_when_the_client_has_its_message(
    rig: Rig, client: Any
) -> None:
    rig.apply(tool(rig, 40))
    rig.broadcast.flush()
    assert rig.measures.to_browser.sum == 0
    await client()
    rig.clock.now += 60
    client()  # who asks for the next has handed this one on
    await asyncio.sleep(0)

    assert rig.measures.to_hub.sum == pytest.approx(0.04)
    assert rig.measures.to_browser.sum == pytest.approx(0.1)
    assert sum(rig.measures.to_browser.counts) == 1


async def test_a_machine_whose_clock_is_wrong_is_measured_by_ours(rig: Rig) -> None:
    for _ in range(3):
        rig.beat(offset_ms=3_600_000)
    at = rig.clock.now + 3_600_000 - 20
    rig.apply(ToolStarted(session_id="s1", at=at, seen=at, tool_use_id="t", tool="Bash"))

    assert rig.measures.to_hub.sum == pytest.approx(0.02)


async def test_what_changed_nothing_to_see_is_not_charged_to_a_later_change(
    rig: Rig, client: Any
) -> None:
    rig.apply(tool(rig, 0))
    rig.broadcast.flush()
    await client()
    later = client()
    await asyncio.sleep(0)
    rig.apply(Alive(session_id="s1", at=T, seen=T))
    rig.broadcast.flush()
    rig.clock.now += 600_000
    rig.beat()
    at = rig.clock.now
    rig.apply(
        ToolFinished(
            session_id="s1", at=at, seen=at, source="transcript", tool="Bash", tool_use_id="t0"
        )
    )
    rig.broadcast.flush()
    await later
    client()
    await asyncio.sleep(0)

    assert rig.measures.to_browser.sum < 1


async def test_a_replayed_batch_is_measured_once(rig: Rig) -> None:
    signals = (tool(rig, 5),)
    for _ in range(3):
        rig.roster.apply("h", Batch("sp", 1, 1, "n", T, signals), T)

    assert sum(rig.measures.to_hub.counts) == 1


async def test_only_hooks_count(rig: Rig) -> None:
    rig.apply(ProcessGone(session_id="s1", at=T, seen=T - 900, source="process", pid=1))

    assert sum(rig.measures.to_hub.counts) == 0


async def test_a_clock_that_is_ahead_makes_nothing_and_not_less() -> None:
    histogram = Histogram(LAG_S)
    histogram.observe(-3)

    assert (histogram.sum, histogram.counts[0]) == (0, 1)


def asks(rig: Rig) -> RequestOpened:
    now = rig.clock.now
    return RequestOpened(
        session_id="s1", at=now, seen=now, request_id="r1", request_kind="permission", tool="Bash"
    )


async def test_the_time_to_a_human_runs_from_the_question_to_its_answer(rig: Rig) -> None:
    rig.apply(tool(rig, 0), asks(rig))
    rig.broadcast.flush()
    asked = rig.clock.now
    rig.clock.now += 42_000
    rig.beat()
    assert await rig.oldest("needs_permission") == 42
    assert sum(rig.measures.to_human["needs_permission"].counts) == 0

    now = rig.clock.now
    rig.apply(RequestClosed(session_id="s1", at=now, seen=now, request_id="r1"))
    rig.broadcast.flush()

    assert rig.measures.to_human["needs_permission"].sum == pytest.approx((now - asked) / 1000)
    assert await rig.oldest("needs_permission") == 0


async def test_nobody_can_answer_on_a_machine_that_is_offline(rig: Rig) -> None:
    rig.apply(tool(rig, 0), asks(rig))
    rig.broadcast.flush()
    rig.beat(stopping=True)
    rig.broadcast.flush()

    rig.clock.now += 700_000

    assert await rig.oldest("needs_permission") == 0
    assert value(await rig.scrape(), "adsum_sessions", group="offline") == 1


async def test_sessions_are_counted_by_agent_and_of_so_many_agents_at_most(rig: Rig) -> None:
    rig.apply(tool(rig, 0))
    rig.broadcast.flush()
    found = await rig.scrape()
    many = by_agent({("autonomous", f"a{number}"): 1 for number in range(MOST_AGENTS + 5)})

    labels = {"group": "autonomous", "agent": "claude_code"}
    assert value(found, "adsum_sessions", **labels) == 1
    assert value(found, "adsum_sessions", **{**labels, "group": "needs_you"}) == 0
    assert len({agent for _, agent in many}) == MOST_AGENTS + 1
    assert (many["autonomous", "other"], sum(many.values())) == (5, MOST_AGENTS + 5)
    assert ("needs_you", "claude_code") in by_agent({})


async def test_gaps_are_counted_by_reason_and_unknown_reasons_together(rig: Rig) -> None:
    rig.apply(tool(rig, 0))
    for reason in ("cap", "cap", "martian"):
        rig.apply(gap=reason)
    found = await rig.scrape()

    assert value(found, "adsum_gaps_total", reason="cap") == 2
    assert value(found, "adsum_gaps_total", reason="other") == 1
    assert value(found, "adsum_gaps_total", reason="lost") == 0
    assert value(found, "adsum_host_gaps_total", host_id="h") == 3


async def test_a_fleet_of_any_size_makes_so_many_series_and_no_more(rig: Rig) -> None:
    for number in range(MOST_HOSTS + 20):
        rig.roster.add(f"x{number}", Snapshot(), T)
    found = await rig.scrape()

    names = {dict(labels).get("host_id") for name, labels in found if name == "adsum_host_up"}
    assert len(names) == MOST_HOSTS
    assert "h" in names  # heard last
    assert value(found, "adsum_hosts_unnamed") == 21
    assert value(found, "adsum_hosts", reachability="live") == 1


async def test_two_machines_of_one_name_are_told_apart(rig: Rig) -> None:
    rig.roster.add("g", Snapshot(), T)
    rig.roster.hear("g", Beat("g", "lab", T, "n", "sp"), 0, T)
    labels = [labels for name, labels in (await rig.scrape()) if name == "adsum_host_up"]

    assert len(set(labels)) == 2


async def test_a_name_with_quotes_and_lines_breaks_no_line(rig: Rig) -> None:
    rig.roster.hosts["h"].label = 'a"b\nc\\d'

    assert value(await rig.scrape(), "adsum_host_up", host='a"b\nc\\d') == 1


async def test_what_a_collector_counted_is_told_and_an_older_ones_is_missing(rig: Rig) -> None:
    assert value(await rig.scrape(), "adsum_collector_hooks_total", host_id="h") is None
    rig.beat(counts=Counts(hooks=7, spool_bytes=4096))
    found = await rig.scrape()

    assert value(found, "adsum_collector_hooks_total", host_id="h") == 7
    assert value(found, "adsum_collector_spool_bytes", host_id="h") == 4096


@pytest.mark.parametrize("counts", [Counts(hooks=-1), Counts(spool_bytes=2**70)])
def test_a_heartbeat_with_counts_that_are_none_makes_no_sense(counts: Counts) -> None:
    assert is_sound(Beat("h", "lab", T, "n", "sp", counts=Counts(hooks=3)))
    assert not is_sound(Beat("h", "lab", T, "n", "sp", counts=counts))


async def test_a_state_that_is_not_saved_ages_until_it_is(rig: Rig) -> None:
    unsaved, host = Unsaved(), rig.roster.hosts["h"]
    assert unsaved.look([host], T) == 0
    rig.apply(tool(rig, 0))
    assert unsaved.look([host], T) == 0
    assert unsaved.look([host], T + 9_000) == 9_000

    host.saved.written(host.saved.version + 1, host.header(), ())
    host.saved.change({"s1"})
    assert unsaved.look([host], T + 10_000) == 0


def test_nothing_is_kept_of_a_fleet_that_is_not_there() -> None:
    hosts: list[Host] = []

    assert [family.name for family in families_of_hosts(hosts, {})]
    assert sum(Measures().gaps.values()) == 0
