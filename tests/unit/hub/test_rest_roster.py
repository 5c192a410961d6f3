"""REST v1: filters, order, paging, ETag, and an OpenAPI document that matches the answers."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator

import httpx
import msgspec
import pytest
from fastapi import FastAPI

from adsum_hub.consumer.consumer import Link
from adsum_hub.facts import ActivityNote, Facts
from adsum_hub.live.broadcast import Broadcast
from adsum_hub.metrics import HubHealth
from adsum_hub.rest.api import describe, explain
from adsum_hub.rest.roster import api_router
from adsum_hub.roster import Roster
from adsum_hub.snapshots import HostRecord, Snapshot
from adsum_hub.views import rank, urgency
from adsum_shared.envelope import Beat
from adsum_shared.state import GROUP_OF, AgentState, Group, HubTrouble, SessionView


def view(
    key: str, state: str = "thinking", *, host: str = "box", since: int = 0, **more: object
) -> SessionView:
    agent_state = AgentState(GROUP_OF.get(state, Group.NEEDS_YOU), state, state, 1.0, "hook", since)
    needed, reachability = urgency(agent_state), more.pop("reachability", "live")
    fields = {"updated_at": since, "urgency": needed} | more
    return SessionView(
        id=f"{host}-id:{key}",
        host_id=f"{host}-id",
        host=host,
        session_id=key,
        agent="claude_code",
        state=agent_state,
        reachability=reachability,  # type: ignore[arg-type]
        rank=rank(agent_state, reachability, needed, since),  # type: ignore[arg-type]
        **fields,  # type: ignore[arg-type]
    )


FLEET = (
    view("calm", "thinking", since=50),
    view("asks", "awaiting_input", since=90, title="Fix the Login", project="web"),
    view("perm-late", "needs_permission", since=80),
    view("perm-early", "needs_permission", since=10, host="lab"),
    view("new-kind", "awaiting_review", since=1),
    view("done", "session_ended", since=99),
    view("away", "needs_permission", since=0, host="gone", reachability="offline"),
)


@pytest.fixture
def roster() -> Roster:
    roster = Roster()
    roster.views = {each.id: each for each in FLEET}
    return roster


@pytest.fixture
def broadcast(roster: Roster) -> Broadcast:
    return Broadcast(roster, lambda: 1_000)


@pytest.fixture
async def client(roster: Roster, broadcast: Broadcast) -> AsyncIterator[httpx.AsyncClient]:
    link = Link()
    app = FastAPI()
    app.include_router(api_router(roster, broadcast, lambda: 1_000))
    app.include_router(HubHealth(roster, broadcast, link, lambda: 1_000).router())
    describe(app)
    explain(app)
    app.state.link = link
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app), base_url="http://hub"
    ) as client:
        client.headers["x-link"] = ""
        client.link = link  # type: ignore[attr-defined]
        yield client


async def keys(client: httpx.AsyncClient, query: str) -> list[str]:
    answer = (await client.get(f"/api/v1/sessions?{query}")).json()
    return [each["session_id"] for each in answer["sessions"]]


async def test_who_needs_a_human_first_comes_first(client: httpx.AsyncClient):
    assert await keys(client, "") == [
        "perm-early",
        "perm-late",
        "asks",
        "new-kind",
        "calm",
        "done",
        "away",
    ]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("needs_you=1&host=box", ["perm-late", "asks", "new-kind"]),
        ("group=autonomous", ["calm"]),
        ("group=delivered", ["done"]),
        ("state=awaiting_input", ["asks"]),
        ("host=lab", ["perm-early"]),
        ("host=lab-id", ["perm-early"]),
        ("project=web", ["asks"]),
        ("q=LOGIN", ["asks"]),
        ("q=nothing-like-it", []),
        ("limit=2&offset=1", ["perm-late", "asks"]),
        ("sort=since&limit=2", ["away", "new-kind"]),
        ("sort=updated&limit=1", ["done"]),
    ],
)
async def test_filters_and_paging(client: httpx.AsyncClient, query: str, expected: list[str]):
    assert await keys(client, query) == expected


async def test_the_total_counts_what_matches_not_what_is_shown(client: httpx.AsyncClient):
    answer = (await client.get("/api/v1/sessions?needs_you=1&limit=1")).json()

    assert (answer["schema"], answer["now"], answer["total"]) == (1, 1_000, 5)


@pytest.mark.parametrize("query", ["limit=0", "limit=2000", "offset=-1", "group=nobody", "sort=x"])
async def test_an_absurd_query_is_refused_by_name(client: httpx.AsyncClient, query: str):
    response = await client.get(f"/api/v1/sessions?{query}")

    assert response.status_code == 422
    assert query.partition("=")[0] in response.text


async def test_unchanged_costs_a_304(client: httpx.AsyncClient, roster: Roster):
    tag = (await client.get("/api/v1/sessions")).headers["etag"]
    same = await client.get("/api/v1/sessions", headers={"if-none-match": tag})
    roster.revision += 1
    changed = await client.get("/api/v1/sessions", headers={"if-none-match": tag})

    assert (same.status_code, changed.status_code) == (304, 200)


async def test_one_session_by_its_id(client: httpx.AsyncClient):
    answer = (await client.get("/api/v1/sessions/box-id:asks")).json()

    assert answer["title"] == "Fix the Login"


async def test_an_unknown_session_is_named_with_the_next_step(client: httpx.AsyncClient):
    response = await client.get("/api/v1/sessions/box-id:nobody")

    assert response.status_code == 404
    assert "box-id:nobody" in response.json()["error"]
    assert "/api/v1/sessions" in response.json()["next"]


async def test_what_a_session_did_is_told_newest_last_in_the_hubs_time(
    client: httpx.AsyncClient, roster: Roster
):
    held = (
        ActivityNote(5_000, "prompt.submitted", "go on"),
        ActivityNote(5_400, "tool.started", "Bash", "a1"),
    )
    host = roster.add("box-id", Snapshot(host=HostRecord(clock_offset_ms=4_500)), 1_000)
    host.facts["asks"] = Facts("asks", activity=held)

    answer = (await client.get("/api/v1/sessions/box-id:asks/activity")).json()

    assert answer == {
        "schema": 1,
        "now": 1_000,
        "entries": [
            {"at": 500, "kind": "prompt.submitted", "text": "go on"},
            {"at": 900, "kind": "tool.started", "text": "Bash", "agent_id": "a1"},
        ],
    }


@pytest.mark.parametrize("known", [False, True])
async def test_the_activity_of_an_unknown_session_is_a_404(
    client: httpx.AsyncClient, roster: Roster, known: bool
):
    if known:  # facts that are not listed are nobody's session
        roster.add("box-id", Snapshot(sessions={"nobody": Facts("nobody")}), 1_000)

    response = await client.get("/api/v1/sessions/box-id:nobody/activity")

    assert response.status_code == 404
    assert "'box-id:nobody'" in response.json()["error"]


async def test_the_summary_leaves_out_who_cannot_be_reached(client: httpx.AsyncClient):
    answer = (await client.get("/api/v1/summary")).json()

    assert answer["needsYouCount"] == 4
    assert answer["autonomousCount"] == 1
    assert answer["deliveredCount"] == 1
    assert answer["offlineCount"] == 1


async def test_it_is_not_ready_before_redis_was_read(client: httpx.AsyncClient):
    response = await client.get("/readyz")

    assert response.status_code == 503
    assert "Redis" in response.json()["problem"]


async def test_it_is_ready_while_redis_is_read_and_not_when_that_stops(client: httpx.AsyncClient):
    client.link.up(900)  # type: ignore[attr-defined]
    ready = await client.get("/readyz")
    client.link.read_at = 1_000 - 60_000  # type: ignore[attr-defined]
    stuck = await client.get("/readyz")

    assert (ready.status_code, stuck.status_code) == (200, 503)
    assert stuck.json()["lag_ms"] == 60_000


async def test_readiness_sums_up_what_all_machines_still_have(
    client: httpx.AsyncClient, roster: Roster
):
    client.link.up(900)  # type: ignore[attr-defined]
    for name, seq in (("a", 5), ("b", 37)):
        roster.add(name, Snapshot(), 900)
        roster.hear(name, Beat(name, name, 900, "n", "sp", seq), 0, 900)

    assert (await client.get("/readyz")).json()["backlog"] == 42


async def test_trouble_is_in_every_list_and_makes_it_another_answer(
    client: httpx.AsyncClient, broadcast: Broadcast
):
    well = await client.get("/api/v1/sessions")
    broadcast.set_trouble(HubTrouble("Redis takes no writes.", 700))
    tag = well.headers["etag"]
    sessions = await client.get("/api/v1/sessions", headers={"if-none-match": tag})
    hosts = await client.get("/api/v1/hosts")

    assert well.json()["trouble"] is None
    told = {"problem": "Redis takes no writes.", "since": 700}
    assert (sessions.json()["trouble"], hosts.json()["trouble"]) == (told, told)


async def test_what_was_told_of_reading_is_not_repeated_once_it_is_over(
    client: httpx.AsyncClient, broadcast: Broadcast
):
    """Who waits for readiness asks between two looks of the timekeeper."""
    broadcast.set_trouble(HubTrouble("Redis cannot be reached.", 700, blind=True))
    client.link.up(900)  # type: ignore[attr-defined]
    over = await client.get("/readyz")
    broadcast.set_trouble(HubTrouble("Redis takes no writes.", 700))
    refusing = await client.get("/readyz")

    assert (over.status_code, over.json()["problem"]) == (200, None)
    assert (refusing.status_code, refusing.json()["problem"]) == (200, "Redis takes no writes.")


def test_no_endpoint_runs_in_a_thread_beside_the_roster(roster: Roster):
    broadcast = Broadcast(roster, lambda: 1_000)
    routers = (
        api_router(roster, broadcast, lambda: 1_000),
        HubHealth(roster, broadcast, Link(), lambda: 1_000).router(),
    )
    endpoints = [route.endpoint for router in routers for route in router.routes]  # type: ignore[attr-defined]

    assert len(endpoints) == 9
    assert all(inspect.iscoroutinefunction(each) for each in endpoints)


async def test_the_document_describes_every_answer(client: httpx.AsyncClient):
    document = (await client.get("/openapi.json")).json()
    names = set(document["components"]["schemas"])
    used = set(msgspec.json.encode(document).decode().split("#/components/schemas/")[1:])

    assert {
        "SessionView",
        "AgentState",
        "SessionActivity",
        "HostView",
        "Summary",
        "Problem",
    } <= names
    assert {each.partition('"')[0] for each in used} <= names
