"""What the first part of a snapshot holds, and that all parts together are the whole."""

from __future__ import annotations

import asyncio

import msgspec

from adsum_hub.live.broadcast import FEW, FIRST, FIRST_AWAY, LEAST, MOST, Broadcast, bodies
from adsum_hub.roster import Changes
from adsum_hub.views import rank, with_display
from adsum_shared.state import AgentState, DisplayView, Group, SessionView
from tests.unit.hub.live.test_broadcast import FakeRoster, push


def view(
    number: int, group: Group = Group.AUTONOMOUS, *, urgency: int | None = None, away: bool = False
) -> SessionView:
    state = AgentState(group, "thinking", "thinking", 1.0, "hook", number)
    reach = "offline" if away else "live"
    name = f"s{number:05}"
    place = rank(state, reach, urgency, number)
    return SessionView(
        name, "h", "box", name, "claude_code", state, reach, 0, place, urgency=urgency
    )


def test_a_few_sessions_make_one_message():
    (whole,) = bodies([view(n) for n in range(FEW)], [], in_parts=True)

    assert (len(whole["sessions"]), "more" in whole) == (FEW, False)


def test_whoever_asks_for_no_parts_gets_one_message():
    (whole,) = bodies([view(n) for n in range(FEW + 1)], [], in_parts=False)

    assert (len(whole["sessions"]), "more" in whole) == (FEW + 1, False)


def test_the_first_part_holds_the_first_of_each_section():
    needing = [view(n, Group.NEEDS_YOU, urgency=3 - n % 3) for n in range(60)]
    working = [view(n) for n in range(100, 160)]
    away = [view(n, Group.NEEDS_YOU, urgency=0, away=True) for n in range(200, 260)]

    first = bodies([*working, *away, *needing], [], in_parts=True)[0]["sessions"]

    assert len(first) == 2 * FIRST + FIRST_AWAY
    named = {each.id for each in first}
    assert {n for n in range(60) if f"s{n:05}" in named} == set(range(2, 2 + 3 * FIRST, 3))
    assert {n for n in range(100, 160) if f"s{n:05}" in named} == set(range(160 - FIRST, 160))


def test_a_display_s_urgency_comes_before_the_state_s():
    needing = [view(n, Group.NEEDS_YOU, urgency=2) for n in range(FEW)]
    hinted = with_display(view(FEW, Group.NEEDS_YOU, urgency=3), DisplayView(urgency_hint=1))

    first = bodies([*needing, hinted], [], in_parts=True)[0]["sessions"]

    assert first[0].id == hinted.id


def test_parts_make_up_the_whole_and_say_what_is_to_come():
    views = [
        view(n, Group.DELIVERED if n % 2 else Group.AUTONOMOUS, away=n < 10) for n in range(9_000)
    ]

    parts = bodies(views, [], in_parts=True)

    assert len(parts) == 1 + MOST
    assert sorted(each.id for part in parts for each in part["sessions"]) == [
        each.id for each in views
    ]
    assert ["hosts" in part for part in parts] == [True] + [False] * MOST
    assert ["more" in part for part in parts] == [True] * MOST + [False]
    left = 4_495 - FIRST
    assert parts[0]["more"] == {"needs_you": 0, "autonomous": left, "delivered": left}


def test_no_later_part_is_a_small_one():
    parts = bodies([view(n) for n in range(FIRST + LEAST)], [], in_parts=True)

    assert [len(part["sessions"]) for part in parts] == [FIRST, LEAST]


async def test_what_changes_comes_after_the_last_part():
    roster = FakeRoster()
    broadcast = Broadcast(roster, lambda: 7)  # type: ignore[arg-type]
    push(roster, broadcast, Changes(sessions=tuple(view(n) for n in range(FEW + 1))))
    messages = broadcast.subscribe(None, None, in_parts=True)

    async def told() -> dict:
        return msgspec.json.decode(await asyncio.wait_for(anext(messages), 2))

    first = await told()
    push(roster, broadcast, Changes(sessions=(view(0),)))
    second, third = await told(), await told()

    assert [each["type"] for each in (first, second, third)] == ["snapshot", "snapshot", "deltas"]
    assert [each["offset"] for each in (first, second, third)] == [1, 1, 2]
    assert ("more" in first, "more" in second) == (True, False)
    await messages.aclose()
