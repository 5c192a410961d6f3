"""Dismissing and archiving: until when they hold, at every hub, and what a lost Redis changes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from redis.exceptions import ConnectionError

from adsum_hub.live.broadcast import Broadcast
from adsum_hub.past import Dismissal
from adsum_hub.rest import roster as module
from adsum_hub.rest.api import explain
from adsum_hub.rest.roster import Dismissals, api_router, dismissals_router
from adsum_hub.rest.totals import usage_router
from adsum_shared import streams
from adsum_shared.connect import UNAVAILABLE
from adsum_shared.signals import (
    Alive,
    PromptSubmitted,
    SessionEnded,
    Signal,
    StatusReported,
    TurnEnded,
)
from tests.half_hubs import FakeCollector
from tests.hub_processes import HubProcess
from tests.integration.conftest import Run
from tests.support import wait_until
from tests.unit.hub.test_roster import AHEAD, HOST, Fleet

pytestmark = pytest.mark.redis

WAITS, DISMISSED = [("idle", "needs_you")], [("archived", "delivered")]
SESSION = f"/api/v1/sessions/{HOST}:s"


class OneHub:
    """A hub with one session, which waits for its next prompt."""

    def __init__(self, redis: Any) -> None:
        self.fleet = Fleet()
        self.roster = self.fleet.roster
        self.dismissals = Dismissals(
            self.roster, Broadcast(self.roster, self.clock), self.clock, redis
        )
        app = FastAPI()
        app.include_router(dismissals_router(self.dismissals))
        app.include_router(api_router(self.roster, self.dismissals.broadcast, self.clock))
        app.include_router(usage_router(self.roster, self.clock))
        explain(app)
        transport = httpx.ASGITransport(app)
        self.http = httpx.AsyncClient(transport=transport, base_url="http://hub")
        self.turn()
        assert self.listed() == WAITS

    def clock(self) -> int:
        return self.fleet.now

    def tell(self, kind: type[Signal], **data: Any) -> None:
        at = self.fleet.now + AHEAD
        self.fleet.happen(kind(session_id="s", at=at, seen=at, **data))

    def turn(self) -> None:
        self.tell(PromptSubmitted, prompt_id=f"p{self.fleet.seq}")
        self.fleet.later(1_000)
        self.tell(TurnEnded, prompt_id=f"p{self.fleet.seq - 1}")
        self.fleet.later(1_000)

    async def ask(self, verb: str) -> httpx.Response:
        return await self.http.post(f"{SESSION}/{verb}", json={})

    def listed(self) -> list[tuple[str, str]]:
        while self.roster.take_changes(self.fleet.now):
            pass
        return [(view.state.state, view.state.group.value) for view in self.roster.views.values()]

    async def history(self) -> list[str]:
        self.listed()
        answer = (await self.http.get("/api/v1/history")).json()
        return [each["state"]["label"] for each in answer["sessions"]]


@pytest.fixture
def hub(redis: Any) -> OneHub:
    return OneHub(redis)


async def test_a_dismissed_session_needs_nobody_and_is_read(hub: OneHub) -> None:
    assert next(iter(hub.roster.views.values())).unread

    answer = await hub.ask("dismiss")

    assert answer.json() == {"schema": 1, "id": f"{HOST}:s", "kind": "dismissed"}
    assert hub.listed() == DISMISSED
    (view,) = hub.roster.views.values()
    assert (view.state.label, view.unread, view.state.since) == ("Dismissed", False, hub.clock())


async def test_it_needs_somebody_again_once_something_happens_there(hub: OneHub) -> None:
    await hub.ask("dismiss")
    hub.tell(Alive, event="tick")
    assert hub.listed() == DISMISSED

    hub.turn()

    assert hub.listed() == WAITS
    await hub.dismissals.look()
    assert hub.roster.hosts[HOST].dismissals == {}
    assert await hub.dismissals.redis.hlen(streams.DISMISSALS) == 0


async def test_what_happened_before_the_decision_and_comes_after_it_has_been_seen_by_nobody(
    hub: OneHub,
) -> None:
    at = hub.fleet.now + AHEAD
    hub.fleet.later(500)
    await hub.ask("dismiss")

    hub.fleet.happen(PromptSubmitted(session_id="s", at=at, seen=at, prompt_id="late"))

    assert hub.listed() != DISMISSED


async def test_a_dialog_that_only_the_registry_knows_ends_it(hub: OneHub) -> None:
    await hub.ask("dismiss")
    hub.fleet.later(1_000)

    waits = {"status": "waiting", "waiting_for": "permission prompt", "pid": 7}
    hub.tell(StatusReported, source="registry", **waits)

    assert hub.listed() != DISMISSED


async def test_an_archived_session_is_in_the_history_although_it_lives(hub: OneHub) -> None:
    await hub.ask("archive")

    assert (hub.listed(), await hub.history()) == ([], ["Archived"])
    hub.roster.expire(hub.fleet.now + 10**12)
    assert hub.roster.hosts[HOST].facts["s"].lived  # nothing of it is stripped

    hub.turn()
    assert (hub.listed(), await hub.history()) == (WAITS, [])


async def test_its_end_does_not_bring_an_archived_session_back(hub: OneHub) -> None:
    await hub.ask("archive")
    hub.fleet.later(1_000)
    hub.tell(SessionEnded, reason="prompt_input_exit")
    assert hub.listed() == []

    hub.fleet.later(1_000)
    hub.turn()
    hub.tell(SessionEnded, reason="prompt_input_exit")
    assert hub.listed() == [("session_ended", "delivered")]


@pytest.mark.parametrize("verb", ["dismiss", "archive"])
async def test_either_is_taken_back(hub: OneHub, verb: str) -> None:
    await hub.ask(verb)
    hub.listed()

    assert (await hub.ask("restore")).json()["kind"] == "restored"
    assert hub.listed() == WAITS

    assert (await hub.ask("restore")).status_code == 409
    await hub.ask(verb)
    assert hub.listed() != WAITS


async def test_another_hub_learns_of_each_decision(redis: Any) -> None:
    one, other = OneHub(redis), OneHub(redis)
    for verb, expected in (("dismiss", DISMISSED), ("archive", []), ("restore", WAITS)):
        await one.ask(verb)
        await other.dismissals.look()
        assert other.listed() == expected
    # Of a host that it does not follow yet as well.
    await one.ask("dismiss")
    late = OneHub(redis)
    late.roster.hosts.let_go(HOST)
    await late.dismissals.look()
    assert late.roster.dismissals[HOST]["s"].kind == "dismissed"


async def test_the_later_of_two_decisions_holds_wherever_it_was_made(redis: Any) -> None:
    one, other = OneHub(redis), OneHub(redis)
    await one.ask("dismiss")
    await other.ask("restore")  # within the same millisecond

    await one.dismissals.look()

    assert one.listed() == other.listed() == WAITS


async def test_a_redis_that_was_wiped_is_told_anew(redis: Any) -> None:
    hub = OneHub(redis)
    await hub.ask("dismiss")
    await redis.flushall()

    await hub.dismissals.look()

    late = OneHub(redis)
    await late.dismissals.look()
    assert late.listed() == DISMISSED


async def test_a_redis_that_does_not_answer_changes_nothing(hub: OneHub) -> None:
    class Away:
        async def hgetall(self, _key: str) -> None:
            raise ConnectionError("away")

    away = Dismissals(hub.roster, hub.dismissals.broadcast, hub.clock, Away())  # type: ignore[arg-type] # as far as it is asked
    with pytest.raises(UNAVAILABLE):
        await away.dismiss(f"{HOST}:s")
    assert hub.listed() == WAITS


async def test_what_cannot_be_done_is_refused_in_words(hub: OneHub) -> None:
    unknown = await hub.http.post(f"/api/v1/sessions/{HOST}:x/dismiss", json={})
    other_page = await hub.http.post(f"{SESSION}/dismiss", content="x")

    assert (unknown.status_code, other_page.status_code) == (404, 415)
    assert "no session" in unknown.json()["error"]
    assert hub.listed() == WAITS


@pytest.mark.parametrize("raw", [b"x", b"{}", b'{"kind":"dismissed","at":-1,"seen":0}', b"\xff"])
async def test_what_makes_no_sense_there_is_taken_away(hub: OneHub, raw: bytes) -> None:
    await hub.dismissals.redis.hset(streams.DISMISSALS, f"{HOST}:s", raw)

    await hub.dismissals.look()

    assert await hub.dismissals.redis.hlen(streams.DISMISSALS) == 0
    assert hub.listed() == WAITS


async def test_a_host_that_is_forgotten_leaves_none(hub: OneHub) -> None:
    await hub.ask("dismiss")
    hub.roster.hosts.let_go(HOST)
    hub.roster.hosts.barred = frozenset({HOST})

    await hub.dismissals.look()

    assert await hub.dismissals.redis.hlen(streams.DISMISSALS) == 0


async def test_no_more_than_the_latest_are_kept(
    hub: OneHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_PUT_ASIDE", 2)
    for at in range(5):
        hub.roster.dismiss(HOST, f"old{at}", Dismissal("dismissed", at, 0))

    await hub.dismissals.look()
    await hub.dismissals.look()

    kept = await hub.dismissals.redis.hkeys(streams.DISMISSALS)
    assert sorted(kept) == [f"{HOST}:old{at}".encode() for at in (3, 4)]


@pytest.fixture
def hubs(tmp_path: Path, redis_url: str) -> Iterator[list[HubProcess]]:
    hubs = [HubProcess(tmp_path / name, redis_url) for name in ("one", "other")]
    yield hubs
    for hub in hubs:
        hub.kill()


@pytest.mark.slow
async def test_by_the_command_line_at_two_hubs_and_over_a_wipe_of_redis(
    hubs: list[HubProcess], collector: FakeCollector, run: Run, redis: Any
) -> None:
    one, other = (hub.start() for hub in hubs)
    collector.happen(3)
    await collector.publish(1, 3)

    def listed(hub: HubProcess) -> dict[str, str]:
        sessions = hub.get("/api/v1/sessions")["sessions"]
        return {each["session_id"]: each["state"]["state"] for each in sessions}

    async def both(expected: dict[str, str]) -> None:
        await wait_until(lambda: listed(one) == listed(other) == expected, timeout=15)

    working = dict.fromkeys(("s1", "s2", "s3"), "thinking")
    await both(working)
    code, out, err = run("dismiss", "s1", "s2", "--hub", one.url)
    assert (code, out, len(err.splitlines())) == (0, "", 2)
    code, out, _ = run("archive", "s3", "nowhere", "--json", "--hub", other.url)
    told = json.loads(out)
    assert (code, [each["kind"] for each in told["sessions"]]) == (1, ["archived"])
    assert [each["id"] for each in told["failed"]] == ["nowhere"]
    aside = {"s1": "archived", "s2": "archived"}
    await both(aside)

    await redis.flushall()
    await collector.join()
    one.kill()
    await wait_until(lambda: redis.hlen(streams.DISMISSALS))
    one.start()
    await both(aside)

    assert run("dismiss", "s1", "--undo", "--hub", one.url)[0] == 0
    assert run("archive", "s3", "--undo", "--hub", one.url)[0] == 0
    assert run("archive", "s3", "--undo", "--hub", one.url)[0] == 1
    await both({**working, "s2": "archived"})
