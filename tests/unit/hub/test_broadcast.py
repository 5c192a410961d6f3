"""Told once to everyone; whoever comes late gets the latest of each session, never a backlog."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import msgspec

from adsum_hub import broadcast as module
from adsum_hub.broadcast import Broadcast
from adsum_hub.roster import Changes
from adsum_shared.state import AgentState, Group, HostView, SessionView
from tests.support import wait_until


def view(key: str, state: str = "thinking") -> SessionView:
    agent_state = AgentState(Group.AUTONOMOUS, state, state, 1.0, "hook", 0)
    return SessionView(key, "h", "box", key, "claude_code", agent_state, "live", 0)


class FakeRoster:
    """What broadcast needs of a roster; `queue` is what it will report next."""

    def __init__(self) -> None:
        self.queue: list[Changes] = []
        self.views: dict[str, SessionView] = {}

    def take_changes(self, now: int) -> Changes:
        del now
        changes = self.queue.pop(0) if self.queue else Changes()
        self.views |= {each.id: each for each in changes.sessions}
        for key in changes.gone:
            self.views.pop(key, None)
        return changes

    def all_hosts(self) -> Iterable[HostView]:
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

    assert sum(len(delta.message) for delta in broadcast._ring) <= 2_000


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


async def test_nothing_to_tell_sends_nothing():
    roster, broadcast = setup()
    push(roster, broadcast, Changes())

    assert broadcast.offset == 0


async def test_changes_go_at_once_while_the_budget_lasts():
    roster, broadcast = setup()
    roster.queue = [Changes(sessions=(view("a", str(n)),)) for n in range(5)]

    for _ in range(5):
        broadcast.tell()

    assert broadcast.offset == 5


async def test_a_burst_beyond_the_budget_goes_in_ticks():
    roster, broadcast = setup()
    broadcast.clients = module.SENDS_SAVED
    roster.queue = [Changes(sessions=(view("a", str(n)),)) for n in range(9)]
    broadcast.tell()

    for _ in range(8):
        broadcast.tell()
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
    assert not broadcast._wakers
