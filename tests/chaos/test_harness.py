"""The parts of the harness that the oracle rests on: seeds, tapes, links, clients, recovery."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from typing import Any

import pytest

from adsum_hub.facts import Facts
from adsum_hub.fold.fold import fold
from adsum_shared.signals import Alive, MetaChanged, ToolStarted
from tests.chaos import story
from tests.chaos.faults import KINDS, draw
from tests.chaos.ledger import Ledger
from tests.chaos.links import GARBAGE, Link
from tests.chaos.ports import own_port
from tests.chaos.recovery import recoveries
from tests.chaos.scene import Done
from tests.chaos.tape import id_of, taped
from tests.chaos.watcher import BACK_WITHIN_S, Watcher
from tests.support import wait_until

# -- seeds ---------------------------------------------------------------------------------------


def test_a_seed_always_draws_the_same_faults_and_another_one_others() -> None:
    first, again, other = (draw(random.Random(seed), 20) for seed in (7, 7, 8))

    assert first == again != other
    assert len(first) > 8


def test_two_faults_of_one_thing_never_overlap_and_data_is_lost_on_one_side_only() -> None:
    for seed in range(200):
        spans: dict[str, float] = {}
        drawn = draw(random.Random(seed), 10)
        for each in drawn:
            assert 0 < each.at < each.at + each.lasts <= 10
            for thing in KINDS[each.kind].touches:
                thing = thing.format(each.target)  # noqa: PLW2901 - the template is of no use here
                assert spans.get(thing, 0.0) < each.at
                spans[thing] = each.at + each.lasts
        assert len({KINDS[each.kind].loses for each in drawn} - {"nothing"}) <= 2


def test_every_fault_is_drawn_sooner_or_later() -> None:
    drawn = {each.kind for seed in range(100) for each in draw(random.Random(seed), 10)}

    assert drawn == set(KINDS)


# -- tapes ---------------------------------------------------------------------------------------


def alive(note: str) -> Alive:
    return Alive(session_id="S", at=1, seen=1, note=note)


def tape_of(*signals: Any) -> str:
    facts: Facts | None = None
    for signal in signals:
        facts = taped(fold)(facts, signal)
    return (facts and facts.title) or ""


def test_a_tape_names_all_that_was_folded_in_its_order_and_what_came_twice_twice() -> None:
    titled = MetaChanged(session_id="S", at=1 << 50, seen=1, title="h9 is my title")

    assert tape_of(alive("h1"), alive("l2 .....")) == "h1 l2"
    assert tape_of(alive("l2"), titled, alive("h1"), alive("l2")) == "l2 h1 l2"
    assert tape_of(alive("h1"), Alive(session_id="S", at=2, seen=2)) == "h1"


def test_a_real_hooks_signals_bear_ids_that_no_fold_reads() -> None:
    body = story.number({"hook_event_name": "UserPromptSubmit", "prompt": "go"}, "S", 12, 1_000)
    signals = story.signals_of(body)

    assert story.ids_of(body) == [f"r{1200 + at}" for at in range(len(signals))]
    assert all(signal.at == 1_000 for signal in signals)
    started = ToolStarted(session_id="S", at=1, seen=1, tool="Bash", tool_use_id="t", v=700)
    assert id_of(started) == "r700"
    facts, plain = taped(fold)(None, started), fold(None, started)
    assert (facts.tools, facts.turns, facts.activity) == (plain.tools, plain.turns, plain.activity)


# -- links ---------------------------------------------------------------------------------------


@pytest.fixture
async def link() -> AsyncIterator[Link]:
    """To a server that answers each line with the same in capitals."""

    served: set[asyncio.StreamWriter] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.add(writer)
        with contextlib.suppress(OSError):
            while line := await reader.readline():
                writer.write(line.upper())
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
        served.discard(writer)

    port = own_port()
    server = await asyncio.start_server(serve, "127.0.0.1", port)
    link = Link(port)
    await link.accept()
    yield link
    await link.close()
    await wait_until(lambda: not served)
    server.close()


class Client:
    def __init__(self, link: Link) -> None:
        self.link = link

    async def __aenter__(self) -> Client:
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.link.port)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.writer.transport.abort()

    async def ask(self, word: str) -> bytes:
        self.writer.write(word.encode() + b"\n")
        return await asyncio.wait_for(self.reader.readline(), 2)


async def test_a_link_passes_what_is_asked_and_answered_until_it_is_told_otherwise(
    link: Link,
) -> None:
    async with Client(link) as client:
        assert await client.ask("hello") == b"HELLO\n"
        link.lose_reply_to = b"xadd"
        assert await client.ask("hello") == b"HELLO\n"
        assert await client.ask("xadd this") == b""  # and the line is cut
    assert link.lost == 1


async def test_a_garbled_reply_is_no_reply(link: Link) -> None:
    link.lose_reply_to, link.garble = b"xadd", True
    async with Client(link) as client:
        assert await client.ask("xadd this") == GARBAGE.splitlines(keepends=True)[0]


async def test_what_is_held_passes_later_and_nobody_is_refused(link: Link) -> None:
    async with Client(link) as client:
        link.answers.clear()
        asking = asyncio.create_task(client.ask("late"))
        async with Client(link):
            pass
        assert not asking.done()
        link.heal()
        assert await asking == b"LATE\n"


async def test_a_link_that_refuses_cuts_who_is_there_and_lets_nobody_in(link: Link) -> None:
    async with Client(link) as client:
        await client.ask("hello")
        link.refuse()
        with pytest.raises(ConnectionResetError):
            await client.ask("still there?")
    with pytest.raises(ConnectionRefusedError):
        await Client(link).__aenter__()
    await link.accept()
    async with Client(link) as client:
        assert await client.ask("again") == b"AGAIN\n"


# -- clients -------------------------------------------------------------------------------------


def message(kind: str, offset: int, tape: str | None, epoch: str = "e", **more: Any) -> Any:
    sessions = [] if tape is None else [{"id": "H:s", "title": tape}]
    head = {"type": kind, "epoch": epoch, "offset": offset, "now": 0}
    return head | {"sessions": sessions, "hosts": []} | more


def test_a_client_has_what_snapshots_and_deltas_leave_it_with() -> None:
    watcher = Watcher("hub", "http://nowhere")
    watcher.take(message("snapshot", 5, "h1"))
    watcher.take(message("deltas", 6, "h1 h2"))
    watcher.take(message("tick", 6, None))
    assert watcher.sessions == {"H:s": {"id": "H:s", "title": "h1 h2"}}
    assert watcher.seen.keys() == {"h1", "h2"}

    watcher.take(message("deltas", 7, None, gone=["H:s"]))
    assert not watcher.sessions
    assert not watcher.findings


@pytest.mark.parametrize(
    "second",
    [message("deltas", 4, "h1"), message("deltas", 1, "h1", epoch="another")],
    ids=["an offset goes back", "deltas of an epoch unknown"],
)
def test_what_a_hub_must_not_send_is_found(second: Any) -> None:
    watcher = Watcher("hub", "http://nowhere")
    watcher.take(message("snapshot", 5, "h1"))
    watcher.take(second)

    assert [finding.kind for finding in watcher.findings] == ["apart"]


async def test_what_was_shown_and_stays_away_is_found_when_it_comes_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 100.0
    monkeypatch.setattr("tests.chaos.watcher.time.monotonic", lambda: now)
    for away, kinds in ((BACK_WITHIN_S / 2, []), (BACK_WITHIN_S * 2, ["regressed"])):
        watcher = Watcher("hub", "http://nowhere")
        watcher.take(message("snapshot", 5, "h1 h2"))
        watcher.take(message("deltas", 6, "h1"))
        now += away
        watcher.take(message("deltas", 7, "h1 h2"))
        assert [finding.kind for finding in watcher.findings] == kinds


# -- recovery ------------------------------------------------------------------------------------


def test_recovery_lasts_until_every_host_is_on_every_hub_and_hidden_ones_do_not_count() -> None:
    ledger = Ledger()
    for host, at in (("A", 9.0), ("A", 11.0), ("B", 10.5), ("B", 12.0)):
        ledger.send([f"h{host}{at}"], "s", "hook", host, at)
    seen = {each.id: each.at + 0.5 for each in ledger.sent}
    late = {name: at + 1.0 for name, at in seen.items()}
    faults = [
        Done("alone", "x", 5.0, 10.0),
        Done("hidden", "x", 1.0, 8.0),
        Done("hiding", "x", 8.2, 8.9),
    ]

    found = recoveries(faults, ledger.sent, {"hub1": seen, "hub2": late})

    assert found["alone"] == [pytest.approx(11.0 + 1.5 - 10.0)]
    assert "hidden" not in found
    assert recoveries(faults, ledger.sent, {"hub1": {}}) == {}  # nothing was ever shown
