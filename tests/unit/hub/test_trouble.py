"""Trouble with Redis in sentences, and the timekeeper: deadlines, silent hosts, a deaf hub."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from adsum_hub.live.broadcast import Broadcast
from adsum_hub.roster import Roster
from adsum_hub.snapshots import Snapshot
from adsum_hub.trouble import KEPT, LOOK_S, PATIENCE_MS, RETURN_MS, STALE_MS, Link, Timekeeper
from adsum_shared.envelope import Beat
from adsum_shared.state import HubTrouble
from tests.support import wait_until


class StillWrites:
    """Whether Redis takes writes, as a test says."""

    problem: str | None = None
    since = 0

    def refusal(self) -> HubTrouble | None:
        return HubTrouble(self.problem, self.since) if self.problem else None


class Said:
    def __init__(self, said: list[str]) -> None:
        self._said = said

    def notes(self) -> list[str]:
        return self._said


class Hub:
    """A timekeeper and what it works on; `at` is the hub's clock."""

    def __init__(self) -> None:
        self.at = 1_000_000
        self.roster, self.link, self.writes = Roster(), Link("redis://h:1"), StillWrites()
        self.broadcast = Broadcast(self.roster, lambda: self.at)
        self.keeper = Timekeeper(
            self.roster,
            self.broadcast,
            self.link,
            self.writes,  # type: ignore[arg-type]
            lambda: self.at,
        )
        for name in ("a", "b"):
            self.roster.add(name, Snapshot(), self.at)
            self.beat(name)

    def beat(self, name: str, *, seq: int = 0) -> None:
        beat = Beat(name, name, self.at, "n", "sp", seq, seq)
        self.roster.hear(name, beat, 0, self.at)

    def passes(self, ms: int, *, reading: bool) -> None:
        """Second by second, as the timekeeper looks."""
        until = self.at + ms
        while self.at < until:
            self.at += min(1_000, until - self.at)
            if reading:
                self.link.up(self.at)
            self.keeper.look()

    def reach(self) -> dict[str, str]:
        return {name: host.reachability for name, host in self.roster.hosts.items()}


@pytest.fixture
async def hub() -> Hub:
    """In a loop, which telling needs."""
    hub = Hub()
    hub.link.up(hub.at)
    hub.keeper.look()
    return hub


async def test_a_silent_host_goes_late_and_offline_while_the_hub_hears(hub: Hub) -> None:
    hub.passes(11_000, reading=True)
    assert hub.reach() == {"a": "late", "b": "late"}
    hub.passes(20_000, reading=True)
    assert hub.reach() == {"a": "offline", "b": "offline"}


async def test_nobody_goes_offline_because_the_hub_is_deaf(hub: Hub) -> None:
    hub.link.down(ConnectionRefusedError("refused"))
    hub.passes(120_000, reading=False)
    assert hub.reach() == {"a": "live", "b": "live"}


async def test_a_deaf_hub_says_so_with_cause_and_since_when(hub: Hub) -> None:
    last_read = hub.at
    hub.link.down(ConnectionRefusedError("refused"))
    hub.passes(PATIENCE_MS, reading=False)
    told = hub.broadcast.trouble
    assert told is not None
    assert told.problem.startswith("Redis at redis://h:1 cannot be reached (refused).")
    assert (told.since, told.blind) == (last_read, True)

    hub.passes(1_000, reading=True)
    assert hub.broadcast.trouble is None


async def test_a_moment_without_redis_is_told_to_nobody(hub: Hub) -> None:
    hub.link.down(ConnectionRefusedError("refused"))
    hub.passes(PATIENCE_MS - 1_000, reading=False)
    assert hub.broadcast.trouble is None


async def test_a_redis_that_hangs_without_an_error_is_told_too(hub: Hub) -> None:
    hub.passes(STALE_MS, reading=False)
    assert hub.broadcast.trouble is not None
    assert hub.broadcast.trouble.blind
    assert "does not answer" in hub.broadcast.trouble.problem


async def test_a_hub_that_never_read_is_deaf_since_its_start() -> None:
    hub = Hub()
    started = hub.at
    hub.passes(PATIENCE_MS, reading=False)
    problem = "Not connected to Redis at redis://h:1 yet."
    assert hub.broadcast.trouble == HubTrouble(problem, started, blind=True)


async def test_after_an_outage_hosts_have_time_to_come_back(hub: Hub) -> None:
    hub.link.down(ConnectionRefusedError("refused"))
    hub.passes(60_000, reading=False)
    hub.passes(RETURN_MS - 2_000, reading=True)
    hub.beat("a")
    hub.keeper.look()
    assert hub.reach() == {"a": "live", "b": "live"}

    hub.passes(4_000, reading=True)
    assert hub.reach() == {"a": "live", "b": "offline"}


async def test_once_all_are_back_time_passes_again(hub: Hub) -> None:
    """Else a host that dies just then, or a deadline, would wait for nothing."""
    hub.link.down(ConnectionRefusedError("refused"))
    hub.passes(60_000, reading=False)
    hub.passes(1_000, reading=True)
    hub.beat("a")
    hub.beat("b")
    ticks: list[int] = []
    hub.roster.tick = ticks.append  # type: ignore[method-assign]
    hub.passes(1_000, reading=True)
    assert ticks == [hub.at]


async def test_a_short_outage_gives_no_longer_grace_than_it_took(hub: Hub) -> None:
    hub.passes(9_500, reading=True)
    hub.link.down(ConnectionRefusedError("refused"))
    hub.passes(1_000, reading=False)
    hub.passes(3_000, reading=True)
    assert hub.reach() == {"a": "late", "b": "late"}


async def test_a_deadline_that_comes_while_the_hub_is_deaf_does_not_keep_it_busy(hub: Hub) -> None:
    hub.roster.next_deadline = lambda: hub.at - 5_000  # type: ignore[method-assign]
    assert hub.keeper.look() == 0.001
    hub.link.down(ConnectionRefusedError("refused"))
    assert hub.keeper.look() == 1.0


async def test_refused_writes_are_told_though_the_list_is_read(hub: Hub) -> None:
    hub.writes.problem, hub.writes.since = "Redis is out of memory.", hub.at
    hub.passes(PATIENCE_MS, reading=True)
    assert hub.broadcast.trouble == HubTrouble("Redis is out of memory.", hub.at - PATIENCE_MS)

    hub.writes.problem = None
    hub.passes(1_000, reading=True)
    assert hub.broadcast.trouble is None


async def test_being_deaf_is_told_before_refused_writes(hub: Hub) -> None:
    hub.writes.problem, hub.writes.since = "Redis is out of memory.", hub.at
    hub.link.down(ConnectionRefusedError("refused"))
    hub.passes(PATIENCE_MS, reading=False)
    assert hub.broadcast.trouble is not None
    assert hub.broadcast.trouble.blind


async def test_a_backlog_is_the_hosts_trouble_until_it_is_gone(hub: Hub) -> None:
    for _ in range(6):
        hub.beat("a", seq=50_000)
        hub.beat("b")
        hub.passes(1_000, reading=True)
    assert "50,000 of its signals" in hub.roster.hosts["a"].troubles["backlog"]
    assert "backlog" not in hub.roster.hosts["b"].troubles
    assert "50,000 of its signals" in (hub.roster.hosts["a"].view().problem or "")

    hub.roster.hosts["a"].applied["sp"] = 50_000
    hub.passes(4_000, reading=True)
    assert "backlog" not in hub.roster.hosts["a"].troubles


async def test_of_a_host_that_is_not_heard_no_backlog_is_told(hub: Hub) -> None:
    for _ in range(6):
        hub.beat("a", seq=50_000)
        hub.passes(1_000, reading=True)
    hub.passes(12_000, reading=True)
    assert hub.reach()["a"] == "late"
    assert "backlog" not in hub.roster.hosts["a"].troubles


async def test_what_was_wrong_at_the_start_is_told_unless_there_is_worse(hub: Hub) -> None:
    writes: Any = hub.writes
    hub.keeper = Timekeeper(
        hub.roster, hub.broadcast, hub.link, writes, lambda: hub.at, others=[Said(["No prices."])]
    )
    hub.passes(1_000, reading=True)
    told = hub.broadcast.trouble
    assert told is not None
    assert (told.problem, told.blind) == ("No prices.", False)

    hub.link.down(ConnectionRefusedError("refused"))
    hub.passes(PATIENCE_MS, reading=False)
    assert "refused" in (hub.broadcast.trouble.problem if hub.broadcast.trouble else "")

    hub.passes(1_000, reading=True)
    assert hub.broadcast.trouble == told


async def test_what_goes_wrong_beside_the_list_is_told_as_long_as_it_does(hub: Hub) -> None:
    writes: Any = hub.writes
    said: list[str] = []
    hub.keeper = Timekeeper(
        hub.roster, hub.broadcast, hub.link, writes, lambda: hub.at, others=[Said(said)]
    )
    hub.passes(1_000, reading=True)
    assert hub.broadcast.trouble is None

    said += ["a.", "b."]
    hub.passes(1_000, reading=True)
    since = hub.at
    hub.passes(5_000, reading=True)
    assert hub.broadcast.trouble == HubTrouble("a. b.", since)

    said += ["c.", "d."]
    hub.passes(1_000, reading=True)
    assert hub.broadcast.trouble == HubTrouble("a. b. c. And 1 more.", since)

    said.clear()
    hub.passes(1_000, reading=True)
    assert hub.broadcast.trouble is None


async def test_however_often_something_arrives_it_looks_no_more_often_than_it_may():
    hub = Hub()
    looks: list[float] = []
    loop = asyncio.get_running_loop()

    def look() -> float:
        looks.append(loop.time())
        return 1.0

    def arrives() -> bool:
        hub.broadcast.flushed.set()
        return len(looks) > 3

    hub.keeper.look = look  # type: ignore[method-assign] # counts only
    running = asyncio.create_task(hub.keeper.run())
    await wait_until(arrives)
    running.cancel()

    assert looks[3] - looks[0] >= 2.9 * LOOK_S
    assert looks[3] - looks[0] < 3.0  # and does not wait until something is due


def test_a_link_that_never_was_up_is_blind_since_the_start() -> None:
    problem = "Not connected to Redis at redis://h:1 yet."
    assert Link("redis://h:1").blindness(5, 3) == HubTrouble(problem, 3, blind=True)


def test_a_link_that_fails_is_blind_since_it_last_read() -> None:
    link = Link("redis://h:1")
    link.up(1_000)
    link.down(ConnectionRefusedError("refused"))
    told = link.blindness(1_001, 3)
    assert told is not None
    assert (told.since, told.blind) == (1_000, True)
    assert told.problem.startswith("Redis at redis://h:1 cannot be reached (refused). Start it")
    assert told.problem.endswith(KEPT)


def test_a_link_that_is_up_is_blind_only_when_it_has_not_read_for_long() -> None:
    link = Link("redis://h:1")
    link.up(1_000)
    assert link.blindness(1_000 + STALE_MS - 1, 3) is None
    silent = link.blindness(1_000 + STALE_MS, 3)
    assert silent is not None
    assert (silent.since, silent.blind) == (1_000, True)
    assert "does not answer" in silent.problem
