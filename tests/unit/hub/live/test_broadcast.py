"""Told once to everyone; whoever comes late gets the latest of each session, never a backlog."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import msgspec

from adsum_hub.live import broadcast as module
from adsum_hub.live.broadcast import Broadcast
from adsum_hub.observed import Measures
from adsum_hub.roster import Changes
from adsum_shared.state import AgentState, Group, HostView, HubTrouble, SessionView
from tests.support import wait_until


def view(key: str, state: str = "thinking") -> SessionView:
    agent_state = AgentState(Group.AUTONOMOUS, state, state, 1.0, "hook", 0)
    return SessionView(key, "h", "box", key, "claude_code", agent_state, "live", 0, 0)


class FakeRoster:
    """What broadcast needs of a roster; `queue` is what it will report next."""

    def __init__(self) -> None:
        self.queue: list[Changes] = []
        self.late: list[Changes] = []
        self.views: dict[str, SessionView] = {}
        self.measures = Measures()

    def take_changes(self, now: int) -> Changes:
        del now
        changes = self.queue.pop(0) if self.queue else Changes()
        self.views |= {each.id: each for each in changes.sessions}
        for key in changes.gone:
            self.views.pop(key, None)
        return changes

    def settle(self, now: int) -> bool:
        """Whether sums have shown more to tell, which the next changes hold."""
        del now
        self.queue += self.late
        settled, self.late = bool(self.late), []
        return settled

    def all_hosts(self, now: int = 0) -> Iterable[HostView]:
        return ()


class Tape:
    """A client that has read what it was sent."""

    def __init__(self, broadcast: Broadcast, epoch: str | None = None, offset: int | None = None):
        self._messages = broadcast.subscribe(epoch, offset)

    async def next(self) -> dict:
        return msgspec.json.decode(await asyncio.wait_for(anext(self._messages), 2))

    async def close(self) -> None:
        await self._messages.aclose()


def setup() -> tuple[FakeRoster, Broadcast]:
    roster = FakeRoster()
    return roster, Broadcast(roster, lambda: 7)  # type: ignore[arg-type]


def push(roster: FakeRoster, broadcast: Broadcast, *changes: Changes) -> None:
    for change in changes:
        roster.queue.append(change)
        broadcast.flush()


async def test_a_newcomer_gets_everything_then_what_changes():
    roster, broadcast = setup()
    push(roster, broadcast, Changes(sessions=(view("a"),)))
    tape = Tape(broadcast)

    first = await tape.next()
    push(roster, broadcast, Changes(sessions=(view("a", "acting"),)))
    second = await tape.next()

    assert (first["type"], first["offset"], len(first["sessions"])) == ("snapshot", 1, 1)
    assert (second["type"], second["offset"]) == ("deltas", 2)
    assert second["sessions"][0]["state"]["state"] == "acting"
    assert second["now"] == 7
    await tape.close()


async def test_a_client_resumes_where_it_was():
    roster, broadcast = setup()
    push(roster, broadcast, *(Changes(sessions=(view(key),)) for key in "abc"))
    tape = Tape(broadcast, broadcast.epoch, 1)

    message = await tape.next()

    assert (message["type"], message["offset"]) == ("deltas", 3)
    assert [each["id"] for each in message["sessions"]] == ["b", "c"]
    await tape.close()


async def test_what_was_missed_comes_as_the_latest_of_each_session():
    roster, broadcast = setup()
    push(
        roster,
        broadcast,
        Changes(sessions=(view("a"),)),
        Changes(sessions=(view("b"),)),
        Changes(sessions=(view("b", "acting"),)),
        Changes(gone=("a",)),
    )
    tape = Tape(broadcast, broadcast.epoch, 1)

    message = await tape.next()

    assert [each["state"]["state"] for each in message["sessions"]] == ["acting"]
    assert message["gone"] == ["a"]
    await tape.close()


async def test_an_unknown_epoch_gets_a_snapshot():
    roster, broadcast = setup()
    push(roster, broadcast, Changes(sessions=(view("a"),)))
    tape = Tape(broadcast, "another run", 1)

    assert (await tape.next())["type"] == "snapshot"
    await tape.close()


async def test_an_offset_from_the_future_gets_a_snapshot():
    roster, broadcast = setup()
    push(roster, broadcast, Changes(sessions=(view("a"),)))
    tape = Tape(broadcast, broadcast.epoch, 99)

    assert (await tape.next())["type"] == "snapshot"
    await tape.close()


async def test_a_negative_offset_gets_a_snapshot():
    _, broadcast = setup()
    tape = Tape(broadcast, broadcast.epoch, -3)

    assert (await tape.next())["type"] == "snapshot"
    await tape.close()


async def test_an_offset_older_than_the_ring_gets_a_snapshot(monkeypatch):
    monkeypatch.setattr(module, "RING_MESSAGES", 3)
    roster, broadcast = setup()
    push(roster, broadcast, *(Changes(sessions=(view("a", str(n)),)) for n in range(10)))

    kept = Tape(broadcast, broadcast.epoch, 7)
    lost = Tape(broadcast, broadcast.epoch, 6)

    assert (await kept.next())["type"] == "deltas"
    assert (await lost.next())["type"] == "snapshot"
    await kept.close()
    await lost.close()


async def test_the_ring_is_bounded_in_bytes(monkeypatch):
    monkeypatch.setattr(module, "RING_BYTES", 2_000)
    roster, broadcast = setup()
    push(roster, broadcast, *(Changes(sessions=(view("a", str(n)),)) for n in range(100)))

    assert sum(len(delta.message) for delta in broadcast._recent._deltas) <= 2_000


async def test_missing_too_much_to_merge_gets_a_snapshot(monkeypatch):
    monkeypatch.setattr(module, "MERGED_BYTES", 300)
    roster, broadcast = setup()
    push(roster, broadcast, *(Changes(sessions=(view("a", str(n)),)) for n in range(5)))
    tape = Tape(broadcast, broadcast.epoch, 1)

    assert (await tape.next())["type"] == "snapshot"
    await tape.close()


async def test_silence_is_broken_by_a_tick(monkeypatch):
    monkeypatch.setattr(module, "HEARTBEAT_S", 0.01)
    _, broadcast = setup()
    tape = Tape(broadcast)
    await tape.next()

    assert await tape.next() == {"type": "tick", "epoch": broadcast.epoch, "offset": 0, "now": 7}
    await tape.close()


TROUBLE = HubTrouble("Redis cannot be read.", 5, blind=True)


async def test_trouble_is_told_at_once_and_so_is_its_end():
    _, broadcast = setup()
    tape = Tape(broadcast)
    assert "trouble" not in await tape.next()

    waiting = asyncio.create_task(tape.next())
    await wait_until(lambda: len(broadcast._waiters) > 0)
    broadcast.set_trouble(TROUBLE)
    begun = await waiting
    broadcast.set_trouble(TROUBLE)
    broadcast.set_trouble(None)
    ended = await tape.next()

    assert (begun["type"], begun["offset"]) == ("tick", 0)
    assert begun["trouble"] == {"problem": "Redis cannot be read.", "since": 5, "blind": True}
    assert "trouble" not in ended
    await tape.close()


async def test_a_newcomer_learns_of_trouble_with_its_snapshot():
    roster, broadcast = setup()
    push(roster, broadcast, Changes(sessions=(view("a"),)))
    early = Tape(broadcast)
    await early.next()
    broadcast.set_trouble(TROUBLE)
    late = Tape(broadcast)

    assert (await late.next())["trouble"]["since"] == 5
    await early.close()
    await late.close()


async def test_a_client_that_comes_back_hears_whether_the_trouble_it_knew_is_over():
    roster, broadcast = setup()
    push(roster, broadcast, *(Changes(sessions=(view(key),)) for key in "ab"))
    nothing_missed = Tape(broadcast, broadcast.epoch, 2)
    something_missed = Tape(broadcast, broadcast.epoch, 1)

    assert (await nothing_missed.next())["type"] == "tick"
    assert (await something_missed.next())["type"] == "deltas"
    assert (await something_missed.next())["type"] == "tick"
    await nothing_missed.close()
    await something_missed.close()


async def test_nothing_to_tell_sends_nothing():
    roster, broadcast = setup()
    push(roster, broadcast, Changes())

    assert broadcast.offset == 0


async def test_changes_go_at_once_while_the_budget_lasts():
    roster, broadcast = setup()
    roster.queue = [Changes(sessions=(view("a", str(n)),)) for n in range(5)]

    for _ in range(5):
        broadcast.notify()

    assert broadcast.offset == 5


async def test_a_burst_beyond_the_budget_goes_in_ticks():
    roster, broadcast = setup()
    broadcast.clients = module.SENDS_SAVED
    roster.queue = [Changes(sessions=(view("a", str(n)),)) for n in range(9)]
    broadcast.notify()

    for _ in range(8):
        broadcast.notify()
    in_burst = broadcast.offset
    await wait_until(lambda: broadcast.offset > in_burst)

    assert (in_burst, broadcast.offset) == (1, 2)


async def test_a_client_that_leaves_is_forgotten():
    _, broadcast = setup()
    tape = Tape(broadcast)
    await tape.next()
    assert broadcast.clients == 1

    await tape.close()

    assert broadcast.clients == 0
    assert not broadcast._waiters


async def test_who_comes_in_one_moment_gets_one_snapshot_and_what_has_changed_since():
    roster, broadcast = setup()
    push(roster, broadcast, Changes(sessions=(view("a"),)))
    first, second = Tape(broadcast), Tape(broadcast)
    await first.next()
    push(roster, broadcast, Changes(sessions=(view("a", "acting"),)))

    shared, changed = await second.next(), await second.next()

    assert (shared["type"], shared["offset"]) == ("snapshot", 1)
    assert shared["sessions"][0]["state"]["state"] == "thinking"
    assert (changed["type"], changed["offset"]) == ("deltas", 2)
    assert changed["sessions"][0]["state"]["state"] == "acting"
    for tape in (first, second):
        await tape.close()


async def test_a_shared_snapshot_takes_nobody_back_in_time():
    roster, broadcast = setup()
    push(roster, broadcast, Changes(sessions=(view("a"),)))
    first = Tape(broadcast)
    await first.next()
    push(roster, broadcast, Changes(sessions=(view("a", "acting"),)))
    ahead = Tape(broadcast, broadcast.epoch, 99)

    told = await ahead.next()

    assert (told["type"], told["offset"]) == ("snapshot", 2)
    for tape in (first, ahead):
        await tape.close()


async def test_the_clock_in_a_snapshot_is_right_although_nothing_has_changed():
    now = 0
    broadcast = Broadcast(FakeRoster(), lambda: now)  # type: ignore[arg-type]
    early = Tape(broadcast)
    await early.next()
    now = module.SHARED_MS + 1
    late = Tape(broadcast)

    assert (await late.next())["now"] == now
    for tape in (early, late):
        await tape.close()


async def test_nobody_is_told_of_a_list_that_is_still_being_restored():
    roster, broadcast = setup()
    broadcast.begin_restoring()
    tape = Tape(broadcast)
    first = asyncio.create_task(tape.next())
    await wait_until(lambda: broadcast.clients == 1)
    push(roster, broadcast, Changes(sessions=(view("a"),)))
    roster.queue.append(Changes(sessions=(view("b"),), more=True))
    broadcast.restored()

    broadcast.flush()

    assert {each["id"] for each in (await first)["sessions"]} == {"a", "b"}
    await tape.close()


async def test_nobody_is_told_of_a_list_whose_sums_are_still_to_be_found():
    roster, broadcast = setup()
    broadcast.begin_restoring()
    tape = Tape(broadcast)
    first = asyncio.create_task(tape.next())
    await wait_until(lambda: broadcast.clients == 1)
    roster.late = [Changes(sessions=(view("a", "budget_exceeded"),))]
    push(roster, broadcast, Changes(sessions=(view("a"),)))
    broadcast.restored()
    assert broadcast.restoring

    assert [each["state"]["state"] for each in (await first)["sessions"]] == ["budget_exceeded"]
    await tape.close()


async def test_who_comes_while_redis_is_away_is_told_although_nothing_could_be_restored():
    _, broadcast = setup()
    broadcast.begin_restoring()
    tape = Tape(broadcast)
    first = asyncio.create_task(tape.next())
    await wait_until(lambda: broadcast.clients == 1)
    broadcast.set_trouble(TROUBLE)

    assert (await first)["trouble"]["problem"] == TROUBLE.problem
    await tape.close()


async def test_trouble_that_does_not_blind_the_hub_shows_nobody_half_a_list():
    """As a price file that cannot be read, which lasts."""
    roster, broadcast = setup()
    broadcast.begin_restoring()
    broadcast.set_trouble(HubTrouble("Your prices are not used.", 5))
    tape = Tape(broadcast)
    first = asyncio.create_task(tape.next())
    await wait_until(lambda: broadcast.clients == 1)
    push(roster, broadcast, Changes(sessions=(view("a"),)))
    broadcast.restored()

    broadcast.flush()

    assert [each["id"] for each in (await first)["sessions"]] == ["a"]
    await tape.close()


async def test_what_is_stored_is_resolved_once_all_of_it_is_read():
    roster, broadcast = setup()
    broadcast.begin_restoring()
    push(roster, broadcast, Changes(sessions=(view("a"),)))
    assert roster.queue  # not even taken yet: its host may not have been heard

    broadcast.restored()

    assert (roster.queue, broadcast.restoring) == ([], False)


async def test_a_list_that_is_whole_already_sends_nothing_when_a_read_is_over():
    """The budget is for what that read brought together with what came during the pause after it."""
    roster, broadcast = setup()
    roster.queue.append(Changes(sessions=(view("a"),)))

    broadcast.restored()

    assert (len(roster.queue), broadcast.offset) == (1, 0)


async def test_those_who_have_missed_the_same_get_the_same_message_made_once():
    roster, broadcast = setup()
    push(roster, broadcast, *(Changes(sessions=(view(key),)) for key in "abc"))

    first = broadcast.since(1)

    assert broadcast.since(1) is first
    assert broadcast.since(0) is not first
    push(roster, broadcast, Changes(sessions=(view("d"),)))
    assert {each["id"] for each in msgspec.json.decode(broadcast.since(1))["sessions"]} == set(
        "bcd"
    )
