"""What waits for a session, and which way a prompt would take, as hubs tell it."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest

from adsum_hub.facts import QUEUE_MAX
from adsum_hub.fold.fold import fold
from adsum_hub.views import prompt_way, queue_views
from adsum_shared import signals as s
from tests.story import T0, Story, working


def reported(at: int, *names: str, way: str | None = "terminal") -> s.QueueReported:
    items = [s.QueuedItem(name, f"say {name}", "ann", 1_000, 2_000) for name in names]
    return s.QueueReported(session_id="S", at=T0 + at, seen=T0 + at, items=items, way=way)


def way_of(story: Story, told: s.QueueReported, at: float = 3) -> str | None:
    story.facts = fold(story.told(), told)
    return prompt_way(story.told(), story.verdict(at))


@pytest.mark.parametrize("order", [*permutations(range(3))])
def test_the_latest_report_stands_in_whatever_order_they_come(order: tuple[int, ...]) -> None:
    told = [reported(5, "a"), reported(7, "b", "a"), reported(6, "b")]
    facts = working().told()
    for number in (*order, order[0]):
        facts = fold(facts, told[number])

    views = queue_views(facts, 500)

    assert [(each.id, each.text, each.at, each.until) for each in views] == [
        ("b", "say b", 500, 1_500),
        ("a", "say a", 500, 1_500),
    ]


def test_no_machine_fills_the_hub_with_what_waits() -> None:
    facts = fold(working().told(), reported(5, *map(str, range(QUEUE_MAX + 5))))

    assert len(queue_views(facts, 0)) == QUEUE_MAX


def test_it_is_no_sign_of_life() -> None:
    before = working().told()
    after = fold(before, reported(90_000, "a"))

    assert (after.updated_at, after.moved) == (before.updated_at, before.moved)


def test_nobody_types_where_something_runs_or_is_asked() -> None:
    asks: Any = {"request_id": "r1", "payload": {"command": "make"}}

    assert way_of(working().start(1), reported(5)) == "queue"
    assert way_of(working().start(1).ask(1.1, **asks), reported(5)) == "queue"
    assert way_of(working().stop(2), reported(5)) == "terminal"
    assert way_of(working().start(1), reported(5, way="inbox")) == "inbox"
    assert way_of(working().stop(2), reported(5, way=None)) is None
    assert way_of(working().tell(s.SessionEnded, 2), reported(5)) is None
