"""What is drawn while nothing new can come: the last known state, as old as it was then."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
from collections.abc import AsyncIterator

import msgspec
import pytest
from msgspec.structs import replace
from rich.console import Console
from websockets.asyncio.server import ServerConnection, serve

from adsum.client import Filter
from adsum.watch import FollowedRoster, RosterChange, _picture, follow
from adsum_shared.state import HostAgent, HubTrouble
from tests.hubs import NOW, host, session

HOUR = 3_600_000


def drawn(
    *,
    away: bool,
    trouble: HubTrouble | None = None,
    only: str | None = None,
    agent: str | None = None,
) -> str:
    """An hour after the hub's last word."""
    sessions = [msgspec.to_builtins(session("a", since=NOW - 300_000))]
    hosts = [msgspec.to_builtins(replace(host(), agents=(HostAgent("codex", "Codex"),)))]
    roster = FollowedRoster()
    message = {"type": "snapshot", "epoch": "e", "offset": 0, "now": NOW, "trouble": trouble}
    roster.apply(message | {"sessions": sessions, "hosts": hosts}, 0)
    roster.ahead_ms += HOUR
    roster.away = away
    console = Console(file=io.StringIO(), width=80, height=24, highlight=False)
    with console.capture() as capture:
        console.print(_picture(roster, Filter(host=only, agent=agent), console))
    return capture.get()


@pytest.fixture(autouse=True)
def _still(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("adsum.watch._clock_ms", lambda: 0)


def test_ages_grow_while_the_hub_is_there() -> None:
    assert drawn(away=False).splitlines()[1].split()[-1] == "1h"


def test_ages_stand_still_while_the_hub_is_away() -> None:
    text = drawn(away=True)
    assert text.splitlines()[1].split()[-1] == "5m"
    assert "The hub is away" in text


def test_ages_stand_still_while_the_hub_is_blind() -> None:
    text = drawn(away=False, trouble=HubTrouble("Gone. Start it.", NOW - 60_000, blind=True))
    assert text.splitlines()[1].split()[-1] == "4m"
    assert "The list stands still since" in text


def test_a_host_that_is_none_is_said_with_those_there_are() -> None:
    assert "There is no host `nowhere`; there are: laptop" in drawn(away=False, only="nowhere")
    assert "There is no host" not in drawn(away=False, only="laptop")


def test_an_agent_that_is_none_is_said_with_those_there_are() -> None:
    assert "There is no agent `codx`; there are: codex." in drawn(away=False, agent="codx")
    assert "No session matches" in drawn(away=False, agent="codex")
    assert "1h" in drawn(away=False, agent="claude_code")


async def test_a_hub_that_is_restoring_its_list_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It holds a client that comes, and sends away who has waited for long, before anything is shown."""
    came = 0

    async def restoring(client: ServerConnection) -> None:
        nonlocal came
        came += 1
        if came == 1:
            await client.close(1013, "the list is being restored")
            return
        await asyncio.sleep(0.3)  # longer than the silence of a hub that has spoken
        message = {"type": "snapshot", "epoch": "e", "offset": 0, "now": NOW}
        await client.send(json.dumps(message | {"sessions": [{"id": "h:a"}], "hosts": []}))
        await client.wait_closed()

    monkeypatch.setattr("adsum.watch.SILENCE_S", 0.1)
    monkeypatch.setattr("adsum.watch.headers_for", lambda _url: {})
    roster = FollowedRoster()
    async with serve(restoring, "127.0.0.1", 0) as hub:
        address = f"http://127.0.0.1:{next(iter(hub.sockets)).getsockname()[1]}"
        async with contextlib.aclosing(follow(address, roster)) as changes:
            assert await anext(changes) is None
            assert await anext(changes) == RosterChange(["h:a"], [])


async def test_who_stops_following_leaves_no_connection_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    closed = []

    async def connection(url: str, roster: FollowedRoster) -> AsyncIterator[RosterChange]:
        try:
            while True:
                yield RosterChange([], [])
        finally:
            closed.append(url)

    monkeypatch.setattr("adsum.watch._one_connection", connection)
    changes = follow("http://hub", FollowedRoster())
    await anext(changes)

    await changes.aclose()

    assert closed == ["http://hub"]
