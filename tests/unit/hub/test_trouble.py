"""When a hub counts as blind, and since when."""

from __future__ import annotations

from adsum_hub.trouble import KEPT, STALE_MS, Link
from adsum_shared.state import HubTrouble


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
