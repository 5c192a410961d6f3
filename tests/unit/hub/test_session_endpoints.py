"""Whose reports a hub takes, and what it hands to their machine; with a real Redis."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from fastapi import FastAPI

from adsum_hub.auth.gate import _reports
from adsum_hub.rest.api import BadRequestError, explain
from adsum_hub.session_endpoints import BURST, EACH_S, ReportEndpoints, reports_router
from adsum_shared import streams
from adsum_shared.commands import REPORT_FIELD, make_token, read_token
from adsum_shared.connect import Redis, open_redis, wanted
from adsum_shared.signals import Alive, PromptSubmitted, WorkReported, decode_signal
from tests.unit.hub.test_roster import HOST, Fleet

pytestmark = pytest.mark.redis

KEY = Ed25519PrivateKey.generate()
PATH = f"/api/v1/sessions/{HOST}:s/report"


class Taking:
    """A hub's endpoints, and a machine that makes what is handed to it a signal again."""

    def __init__(self, redis: Redis) -> None:
        self.redis, self.fleet = redis, Fleet()
        app = FastAPI()
        endpoints = ReportEndpoints(self.fleet.roster, lambda: self.fleet.now, redis)
        app.include_router(reports_router(endpoints))
        explain(app)
        transport = httpx.ASGITransport(app)
        self.http = httpx.AsyncClient(transport=transport, base_url="http://hub")
        self.beat(KEY)
        for session in ("s", "t"):
            self.tell(PromptSubmitted(session_id=session, at=self.now, seen=self.now))

    @property
    def now(self) -> int:
        return self.fleet.now

    def beat(self, key: Ed25519PrivateKey | None) -> None:
        public = None if key is None else key.public_key().public_bytes_raw().hex()
        self.fleet.beat(report_key=public)

    def tell(self, signal: Any) -> None:
        self.fleet.happen(signal)
        while self.fleet.roster.take_changes(self.now):
            pass

    async def machine(self) -> None:
        """Until cancelled."""
        last = "0-0"
        while wanted():
            found: Any = await self.redis.xread({streams.commands(HOST): last}, block=100)
            for name, fields in found[0][1] if found else ():
                last, signal = name.decode(), decode_signal(fields[REPORT_FIELD])
                self.fleet.now += 1
                self.tell(type(signal)(**{**fields_of(signal), "at": self.now, "seen": self.now}))

    async def post(self, path: str, body: Any, token: str | None = None) -> httpx.Response:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        return await self.http.post(path, json=body, headers=headers)


def fields_of(signal: Any) -> dict[str, Any]:
    return {name: getattr(signal, name) for name in signal.__struct_fields__}


@pytest.fixture
async def taking(redis_url: str) -> AsyncIterator[Taking]:
    redis = open_redis(redis_url)
    found = Taking(redis)
    machine = asyncio.create_task(found.machine())
    yield found
    while not machine.done():  # Python 3.11 may lose a cancellation that meets an answer
        machine.cancel()
        await asyncio.wait([machine], timeout=1.0)
    await found.http.aclose()
    await redis.aclose()


async def test_a_report_is_answered_once_its_machine_has_told_of_it(taking: Taking) -> None:
    token = make_token(KEY, HOST, "s")
    notes = "x sk-ant-api03-" + "a" * 90
    body = {"status": "blocked", "issue": "PAN-80", "notes": notes, "by": "ci"}
    reply = await taking.post(PATH, body, token)

    assert reply.status_code == 200
    told = reply.json()["report"]
    assert (told["status"], told["issue"], told["by"]) == ("blocked", "PAN-80", "ci")
    assert told["notes"].startswith("x [redacted:")  # no secret lies in Redis either
    raw: Any = await taking.redis.xrange(streams.commands(HOST))
    assert b"aaaaaaaa" not in raw[0][1][REPORT_FIELD]
    assert taking.fleet.roster.views[f"{HOST}:s"].report is not None
    status = "/api/specialists/review-agent/report-status"
    reply = await taking.post(status, {"issueId": "PAN-81", "status": "passed"}, token)
    assert reply.json()["report"] | {"at": 0} == {
        "status": "passed", "issue": "PAN-81", "by": "review-agent", "at": 0,
    }  # fmt: skip


async def test_a_token_is_good_for_its_own_session_alone(taking: Taking) -> None:
    other = make_token(KEY, HOST, "t")
    stranger = make_token(Ed25519PrivateKey.generate(), HOST, "s")
    elsewhere = make_token(KEY, "0000", "s")
    forged = other.replace(".t.", ".s.")
    body = {"status": "passed"}
    shown = (
        other,
        stranger,
        elsewhere,
        forged,
        "adsum_report.",
        "adsum_report.h.s.%%%",
    )
    codes = [(await taking.post(PATH, body, each)).status_code for each in shown]

    assert codes == [403, 401, 401, 401, 401, 401]
    taking.beat(None)  # its collector has another key, or none
    assert (await taking.post(PATH, body, make_token(KEY, HOST, "s"))).status_code == 401
    assert await taking.redis.exists(streams.commands(HOST)) == 0
    reply = await taking.post(
        "/api/specialists/x/report-status", {"issueId": "", "status": "passed"}
    )
    assert (reply.status_code, "its token" in reply.json()["error"]) == (401, True)


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "Basic", "", "Bearer\t"])
def test_the_gate_takes_for_a_sessions_token_what_the_endpoint_does_as_well(scheme: str) -> None:
    """What it lets through unseen, the endpoint must not take for what it has seen."""
    token = make_token(KEY, HOST, "s")
    headers = [(b"authorization", f"{scheme} {token}".encode())]
    scope = {"type": "http", "method": "POST", "path": PATH, "headers": headers}
    assert _reports(scope) is (scheme.lower() == "bearer")
    assert not _reports({**scope, "path": f"/api/v1/sessions/{HOST}:s/dismiss"})
    assert not _reports({**scope, "method": "GET"})
    assert not _reports({**scope, "type": "websocket"})


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"status": "splendid"}, "'splendid' is no status of a report."),
        ({"status": "passed", "issue": "x" * 201}, "The issue has 201 characters."),
        ({"status": "passed", "by": "a\nb"}, "There are control characters in the name."),
        ({"status": "passed", "notes": "a\u202eb"}, "There are control characters in the notes."),
    ],
)
async def test_what_is_not_sound_is_refused(taking: Taking, body: Any, said: str) -> None:
    reply = await taking.post(PATH, body, make_token(KEY, HOST, "s"))
    assert (reply.status_code, reply.json()["error"]) == (400, said)


async def test_a_heartbeat_is_a_sign_of_life_and_no_state(taking: Taking) -> None:
    before = taking.fleet.roster.views[f"{HOST}:s"].state.label
    token, path = make_token(KEY, HOST, "s"), "/api/agents/s/heartbeat"
    reply = await taking.post(path, {"state": "idle", "timestamp": "x"}, token)
    assert reply.status_code == 202
    assert taking.fleet.roster.views[f"{HOST}:s"].state.label == before
    raw: Any = await taking.redis.xrange(streams.commands(HOST))
    signal = decode_signal(raw[-1][1][REPORT_FIELD])
    assert isinstance(signal, Alive)
    assert (signal.event, signal.note) == ("heartbeat", "idle")
    assert (await taking.post(path, {"state": "dancing"}, token)).status_code == 400
    entries = (await taking.http.get("/api/agents/s/activity?limit=1")).json()["entries"]
    assert len(entries) == 1
    assert (await taking.http.get("/api/agents/nobody/activity")).status_code == 404


async def test_a_session_that_reports_in_a_loop_pushes_no_command_out_of_its_machines_stream(
    taking: Taking,
) -> None:
    path, idle = "/api/agents/{}/heartbeat", {"state": "idle"}
    sent = [
        await taking.post(path.format("s"), idle, make_token(KEY, HOST, "s"))
        for _ in range(BURST + 1)
    ]
    assert [reply.status_code for reply in sent] == [202] * BURST + [429]
    assert sent[-1].headers["retry-after"] == "1"
    assert await taking.redis.xlen(streams.commands(HOST)) == BURST
    other = await taking.post(path.format("t"), idle, make_token(KEY, HOST, "t"))
    assert other.status_code == 202  # another session is not to blame


def test_a_session_that_has_paused_may_report_again_and_is_forgotten() -> None:
    redis: Any = None
    ends = ReportEndpoints(Fleet().roster, lambda: 0, redis)
    for _ in range(BURST):
        ends._count("s", 100.0)
    with pytest.raises(BadRequestError, match="too often"):
        ends._count("s", 100.0 + EACH_S / 2)
    ends._count("s", 100.0 + EACH_S)
    with pytest.raises(BadRequestError, match="too often"):
        ends._count("s", 100.0 + EACH_S)
    ends._count("t", 100.0 + (BURST + 1) * EACH_S)
    assert list(ends.paid) == ["t"]


async def test_a_machine_that_does_not_take_it_is_said_to_not_have_taken_it(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("adsum_hub.session_endpoints.MOST_WAIT_S", 0.1)
    redis = open_redis(redis_url)
    taking = Taking(redis)  # nobody reads
    asked = [taking.post(PATH, {"status": "passed"}, make_token(KEY, HOST, "s")) for _ in range(5)]
    codes = sorted(reply.status_code for reply in await asyncio.gather(*asked))
    assert codes == [429, 503, 503, 503, 503]
    await redis.aclose()


def test_a_token_says_what_it_is_for() -> None:
    told = read_token(make_token(KEY, HOST, "a.b"))
    assert told is not None
    assert (told.host_id, told.session_id) == (HOST, "a.b")
    assert WorkReported.__struct_config__.tag == "work.reported"
