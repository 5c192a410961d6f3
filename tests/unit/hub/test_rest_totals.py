"""REST of usage and history: sums, days, CSV, search, paging, and errors with a next step."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import msgspec
import pytest
from fastapi import FastAPI

from adsum_hub.facts import Facts
from adsum_hub.live.broadcast import Broadcast
from adsum_hub.rest.api import describe, explain
from adsum_hub.rest.roster import api_router
from adsum_hub.rest.totals import usage_router
from adsum_hub.roster import Accounts, Roster
from adsum_hub.snapshots import HostRecord, Snapshot
from adsum_shared import MOST_DAYS
from adsum_shared import signals as s
from adsum_shared.envelope import Beat
from adsum_shared.state import (
    COMPRESSED,
    COMPRESSED_MB,
    History,
    HostAgent,
    HostWitness,
    ScanProgress,
    UsageReport,
)
from tests.spenders import HOUR, NOON, TODAY, Spender, spending


def sessions() -> dict[str, list[Facts]]:
    web = Spender("web").about(title="=Fix the Login", project="web").use(100).end(-2 * HOUR)
    api = Spender("api").about(title="Add a field", project="api").use(50, model="odd").end(-HOUR)
    live = Spender("live").about(title="Login again", project="web").use(7, day="2026-11-19")
    live.prompt(0)
    over = Spender("over").about(title="Just ended").prompt(-HOUR)
    over.tell(s.SessionEnded, -1_000, source="hook")
    other = msgspec.structs.replace(api.facts, agent="codex")
    return {"lab": [web.facts, live.facts, over.facts], "box": [other]}


@pytest.fixture
def roster() -> Roster:
    roster = Roster(Accounts(spending()))
    for label, found in sessions().items():
        facts = {each.session_id: each for each in found}
        roster.add(f"{label}-id", Snapshot(host=HostRecord(label=label), sessions=facts), NOON)
        beat = Beat(f"{label}-id", label, NOON, "n", "sp", agents=(HostAgent("codex", "Codex"),))
        roster.hear(f"{label}-id", beat, 0, NOON)
    roster.take_changes(NOON)
    return roster


@pytest.fixture
async def client(roster: Roster) -> AsyncIterator[httpx.AsyncClient]:
    app = FastAPI()
    app.include_router(api_router(roster, Broadcast(roster, lambda: NOON), lambda: NOON))
    app.include_router(usage_router(roster, lambda: NOON, ["Prices are odd."]))
    describe(app)
    explain(app)
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://hub") as client:
        yield client


async def report(client: httpx.AsyncClient, query: str = "") -> UsageReport:
    answer = await client.get(f"/api/v1/usage?{query}")
    assert answer.status_code == 200
    return msgspec.json.decode(answer.content, type=UsageReport)


async def history(client: httpx.AsyncClient, query: str = "") -> History:
    answer = await client.get(f"/api/v1/history?{query}")
    assert answer.status_code == 200
    return msgspec.json.decode(answer.content, type=History)


async def test_a_week_is_asked_for_where_nothing_else_is(client: httpx.AsyncClient):
    found = await report(client)

    assert (found.since, found.until, found.by) == ("2026-11-14", TODAY, "day")
    assert [row.key for row in found.rows] == ["2026-11-19", TODAY]
    assert found.total.input_tokens == 157


@pytest.mark.parametrize(
    ("query", "since", "until"),
    [
        ("days=1", TODAY, TODAY),
        ("until=2026-11-19&days=3", "2026-11-17", "2026-11-19"),
        ("since=2026-01-01", "2026-01-01", TODAY),
        ("since=2026-11-19&until=2026-11-19", "2026-11-19", "2026-11-19"),
        ("until=0001-01-02", "0001-01-01", "0001-01-02"),
    ],
)
async def test_days(client: httpx.AsyncClient, query: str, since: str, until: str):
    found = await report(client, query)

    assert (found.since, found.until) == (since, until)


async def test_every_way_to_break_it_down_sums_up_to_the_same(client: httpx.AsyncClient):
    totals = [
        (await report(client, f"by={by}")).total
        for by in ("day", "host", "project", "model", "agent", "session")
    ]

    assert totals == [totals[0]] * 6


async def test_filters_of_usage(client: httpx.AsyncClient):
    assert (await report(client, "host=lab")).total.input_tokens == 107
    assert (await report(client, "host=box-id")).total.input_tokens == 50
    assert (await report(client, "project=web&model=m&days=1")).total.input_tokens == 100
    assert (await report(client, "agent=codex")).total.input_tokens == 50


async def test_agents_are_told_apart_everywhere(client: httpx.AsyncClient):
    rows = (await report(client, "by=agent&split=agent")).rows
    listed = (await client.get("/api/v1/sessions?agent=claude_code")).json()["sessions"]

    assert {row.key: row.label for row in rows} == {"claude_code": "claude_code", "codex": "Codex"}
    assert [each.title for each in (await history(client, "agent=codex")).sessions] == [
        "Add a field"
    ]
    assert listed
    assert {each["agent"] for each in listed} == {"claude_code"}
    assert (await client.get("/api/v1/sessions?agent=codx")).json()["sessions"] == []


async def test_days_are_split_and_compared_where_that_is_asked_for(client: httpx.AsyncClient):
    found = await report(client, "by=model&days=1&split=project&compare=true")

    assert {each.key: each.points[0].tokens for each in found.series} == {"web": 100, "api": 50}
    assert found.before is not None
    assert found.before.input_tokens == 7
    assert found.sessions == 2


async def test_nothing_is_before_the_first_day_there_is(client: httpx.AsyncClient):
    found = await report(client, "since=0001-01-01&until=0001-01-02&compare=true")

    assert found.before is not None
    assert found.before.input_tokens == 0


async def test_a_split_that_there_is_none_of_is_refused(client: httpx.AsyncClient):
    answer = await client.get("/api/v1/usage?split=colour")

    assert answer.status_code == 422
    assert "split" in answer.json()["error"]


async def test_notes_say_what_keeps_it_from_being_right(client: httpx.AsyncClient, roster: Roster):
    scan = ScanProgress(files=4, files_done=1, bytes=200, bytes_done=50)
    unread = HostWitness("threads (Codex)", counts={COMPRESSED: 3, COMPRESSED_MB: 12})
    beat = Beat("lab-id", "lab", NOON, "n", "sp", scan=scan, witnesses=(unread,))
    roster.hear("lab-id", beat, 0, NOON)
    roster.counts["history_dropped"] = 3

    notes = (await report(client)).notes
    assert len(notes) == 5
    assert "odd" in notes[0]
    assert notes[1:4] == [
        "lab still reads its history: 25 % so far.",
        "lab: 3 compressed files (12 MB) of threads (Codex) are not read, and in no sum.",
        "3 sessions are too old or too many to be kept, and are in no sum any more.",
    ]
    assert notes[4] == "Prices are odd."


@pytest.mark.parametrize(
    ("scan", "share"), [(ScanProgress(0, 0, 0, 0), 0), (ScanProgress(4, 4, 200, 200), 99)]
)
async def test_it_says_that_a_machine_looks_for_its_history_and_that_it_still_reports_it(
    client: httpx.AsyncClient, roster: Roster, scan: ScanProgress, share: int
):
    roster.hear("lab-id", Beat("lab-id", "lab", NOON, "n", "sp", scan=scan), 0, NOON)

    assert f"lab still reads its history: {share} % so far." in (await report(client)).notes


async def test_csv(client: httpx.AsyncClient):
    answer = await client.get("/api/v1/usage?by=session&days=1&format=csv")

    assert answer.headers["content-type"].startswith("text/csv; charset=utf-8")
    assert f'filename="usage-{TODAY}-{TODAY}.csv"' in answer.headers["content-disposition"]
    assert "session,lab-id:web,'=Fix the Login,1,100," in answer.text
    assert answer.text.endswith("\r\n")


@pytest.mark.parametrize(
    "query",
    [
        "since=yesterday",
        "since=20261101",
        "until=2026-02-30",
        "since=2026-11-20&until=2026-11-19",
        "days=3&since=2026-11-19",
    ],
)
async def test_days_that_cannot_be_are_refused_with_a_next_step(
    client: httpx.AsyncClient, query: str
):
    answer = await client.get(f"/api/v1/usage?{query}")

    assert answer.status_code == 400
    assert set(answer.json()) == {"error", "next"}


async def test_as_many_days_as_the_command_line_offers_are_answered(
    client: httpx.AsyncClient,
) -> None:
    assert (await client.get(f"/api/v1/usage?days={MOST_DAYS}")).status_code == 200
    assert (await client.get(f"/api/v1/usage?days={MOST_DAYS + 1}")).status_code == 422


@pytest.mark.parametrize(
    "path",
    [
        "usage?by=user",
        "usage?days=0",
        "usage?days=401",
        "usage?days=x",
        "usage?format=xls",
        "history?limit=0",
        "history?limit=1001",
        "history?offset=-1",
        f"history?q={'x' * 501}",
    ],
)
async def test_other_parameters_that_cannot_be_are_refused(client: httpx.AsyncClient, path: str):
    answer = await client.get(f"/api/v1/{path}")

    assert answer.status_code == 422
    assert set(answer.json()) == {"error", "next"}
    name = path.partition("?")[2].partition("=")[0]
    assert f"{name}: " in answer.json()["error"]


async def test_history_is_what_is_over_the_latest_first(client: httpx.AsyncClient):
    found = await history(client)

    assert [each.session_id for each in found.sessions] == ["over", "api", "web"]
    assert [each.ended_at for each in found.sessions] == [
        NOON - 1_000,
        NOON - HOUR,
        NOON - 2 * HOUR,
    ]
    assert {each.state.group for each in found.sessions} == {"delivered"}
    assert found.sessions[2].usage is not None
    assert found.sessions[2].usage.cost_usd == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("q=LOGIN", ["web"]),
        ("q=fix+login", ["web"]),
        ("q=login+field", []),
        ("host=box", ["api"]),
        ("host=lab-id", ["over", "web"]),
        ("project=web", ["web"]),
        ("q=lab&project=api", []),
    ],
)
async def test_history_is_searched(client: httpx.AsyncClient, query: str, found: list[str]):
    assert [each.session_id for each in (await history(client, query)).sessions] == found


async def test_history_is_paged(client: httpx.AsyncClient):
    page = await history(client, "limit=1&offset=1")

    assert (page.total, [each.session_id for each in page.sessions]) == (3, ["api"])
    assert (await history(client, "offset=9")).sessions == []


async def test_a_session_of_history_is_found_by_its_id(client: httpx.AsyncClient):
    view = (await client.get("/api/v1/sessions/lab-id:web")).json()
    activity = await client.get("/api/v1/sessions/lab-id:over/activity")

    assert (view["title"], view["state"]["state"]) == ("=Fix the Login", "session_ended")
    assert [each["kind"] for each in activity.json()["entries"]] == [
        "prompt.submitted",
        "session.ended",
    ]
    assert (await client.get("/api/v1/sessions/lab-id:web/activity")).status_code == 200
    assert (await client.get("/api/v1/sessions/lab-id:nobody")).status_code == 404
    listed = (await client.get("/api/v1/sessions")).json()["sessions"]
    assert {each["session_id"] for each in listed} == {"live", "over"}


async def test_the_summary_has_todays_sums(client: httpx.AsyncClient):
    summary = (await client.get("/api/v1/summary")).json()

    assert (summary["totalCostTodayUsd"], summary["totalTokensToday"]) == (pytest.approx(1.0), 150)


async def test_openapi_holds_the_answers(client: httpx.AsyncClient):
    document = (await client.get("/openapi.json")).json()
    usage = document["paths"]["/api/v1/usage"]["get"]["responses"]["200"]["content"]

    assert usage["application/json"]["schema"] == {"$ref": "#/components/schemas/UsageReport"}
    assert "text/csv" in usage
    assert {"UsageReport", "UsageRow", "UsageView", "History"} <= set(
        document["components"]["schemas"]
    )


async def test_an_empty_project_is_none_in_sums_and_in_history(client: httpx.AsyncClient):
    sums, found = await report(client, "by=project&project="), await history(client, "project=")

    assert [row.key for row in sums.rows] == []
    assert [each.title for each in found.sessions] == ["Just ended"]


@pytest.mark.parametrize(
    ("query", "note"),
    [
        ("host=labb", "There is no host `labb`; there are: lab, box."),
        ("project=wep", "There is no project `wep`; there are: web, api."),
        ("model=n", "There is no model `n`; there are: m, odd."),
        ("agent=codx", "There is no agent `codx`; there are: codex, claude_code."),
    ],
)
async def test_a_name_that_nothing_bears_is_noted_with_those_there_are(
    client: httpx.AsyncClient, query: str, note: str
) -> None:
    assert note in (await report(client, query)).notes
    if "model" not in query:
        assert (await history(client, query)).notes == [note]


async def test_a_name_that_is_borne_outside_the_days_asked_for_is_no_fault(
    client: httpx.AsyncClient,
) -> None:
    found = await report(
        client, "project=web&host=lab-id&model=m&since=2020-01-01&until=2020-01-02"
    )

    assert (found.rows, found.notes) == ([], ["Prices are odd."])
    assert (await history(client, "q=nowhere")).notes == []


async def test_days_that_cannot_be_are_refused_in_words_that_suit_any_client(
    client: httpx.AsyncClient,
) -> None:
    answer = await client.get("/api/v1/usage?since=2030-01-01")

    assert answer.status_code == 400
    assert "?" not in answer.json()["next"]
