"""What a session says of its own work: by `adsum report`, and at a hub with a token of its own."""

from __future__ import annotations

import asyncio
import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from adsum_shared import streams
from adsum_shared.connect import Redis
from tests.hub_processes import AgentCollector, HubProcess, started, tool_starts
from tests.integration.conftest import Run
from tests.signing_in import admin, asking, make_token
from tests.support import wait_until

pytestmark = pytest.mark.redis

SESSION, OTHER = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"


class Reporting:
    """A hub where one has to sign in, and a machine with two sessions; one of them reports."""

    def __init__(self, home: Path, redis_url: str) -> None:
        self.hub = HubProcess(home / "hub", redis_url, sign_in="on")
        self.collector = AgentCollector(home / "state", redis_url)

    @property
    def id(self) -> str:
        return f"{self.collector.host_id}:{SESSION}"

    def begin(self) -> None:
        async def both() -> None:
            async with httpx.AsyncClient() as client:
                for session in (SESSION, OTHER):
                    await self.collector.hook(client, tool_starts(session, 1))
            await wait_until(lambda: len(self.sessions()) == 2)

        asyncio.run(both())

    def sessions(self) -> dict[str, Any]:
        found = self.get("/api/v1/sessions").get("sessions", [])
        return {view["session_id"]: view for view in found}

    def get(self, path: str) -> Any:
        with admin(self.hub) as client:
            return client.get(path).json()

    def reported(self, session: str = SESSION) -> Any:
        view = self.sessions()[session].get("report")
        return view and {name: view[name] for name in view if name != "at"}

    def told(self, **report: Any) -> None:
        asyncio.run(wait_until(lambda: self.reported() == report))

    def post(self, path: str, body: Any, token: str | None, scheme: str = "Bearer") -> Any:
        headers = {"Authorization": f"{scheme} {token}"} if token else {}
        reply = httpx.post(f"{self.hub.url}{path}", json=body, headers=headers)
        return reply.status_code, reply.json()


@pytest.fixture
def there(home: Path, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reporting]:
    found = Reporting(home, redis_url)
    monkeypatch.setenv("CLAUDE_CODE_SESSION_ID", SESSION)
    monkeypatch.delenv("CODEX_THREAD_ID", raising=False)
    with started(found.hub, found.collector):
        found.begin()
        yield found


def token_of(run: Run, *words: str) -> str:
    code, out, _ = run("report", "--token", *words)
    assert code == 0
    return out.strip()


def test_what_a_session_says_at_the_socket_is_at_the_hub_and_survives_both(
    run: Run, there: Reporting
) -> None:
    secret = "sk-ant-api03-" + "a" * 90
    notes = f"Two tests fail,\nsee {secret}"
    words = ("--issue", "PAN-80", "--notes", notes, "--as", "review-agent")
    assert run("report", "blocked", *words)[0] == 0
    asyncio.run(wait_until(lambda: there.reported() is not None))
    told = there.reported()

    assert told | {"notes": ""} == {
        "status": "blocked", "issue": "PAN-80", "notes": "", "by": "review-agent",
    }  # fmt: skip
    assert told["notes"].startswith("Two tests fail,\nsee [redacted:")
    assert not (there.collector.state_dir / "report-key").exists()  # nobody asked for a token
    assert run("report", "passed", "--session", OTHER)[0] == 0
    asyncio.run(wait_until(lambda: there.reported(OTHER) == {"status": "passed"}))
    for part in (there.collector, there.hub):
        part.kill()
        part.start()
    there.told(**told)
    entries = there.get(f"/api/v1/sessions/{there.id}/activity?limit=1")["entries"]
    assert [(each["kind"], each["text"][:22]) for each in entries] == [
        ("work.reported", "blocked PAN-80: Two te")
    ]


def test_a_token_lets_its_session_report_at_the_hub_and_nothing_else(
    run: Run, there: Reporting
) -> None:
    token = token_of(run)
    path = f"/api/v1/sessions/{there.id}/report"

    async def heard() -> None:
        def known() -> bool:
            return there.post(path, {"status": "passed", "by": "ci"}, token)[0] == 200

        await wait_until(known)

    asyncio.run(heard())
    there.told(status="passed", by="ci")
    key = there.collector.state_dir / "report-key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    body = {"issueId": "PAN-80", "status": "failed", "notes": "No."}
    code, answer = there.post("/api/specialists/test-agent/report-status", body, token)
    assert (code, answer["report"]["status"]) == (200, "failed")
    there.told(status="failed", issue="PAN-80", notes="No.", by="test-agent")
    beat = {"state": "active", "tool": "Bash", "timestamp": "2026-01-23T10:30:00Z"}
    assert there.post(f"/api/agents/{SESSION}/heartbeat", beat, token)[0] == 202
    activity = f"/api/agents/{SESSION}/activity?limit=1"

    def alive() -> bool:
        return bool(there.get(activity)["entries"][0]["text"] == "heartbeat: active Bash")

    asyncio.run(wait_until(alive))
    others = f"/api/v1/sessions/{there.collector.host_id}:{OTHER}"
    assert there.post(f"{others}/report", {"status": "passed"}, token)[0] == 403
    assert there.post(f"{others}/dismiss", {}, token)[0] == 401
    assert there.post(f"/api/v1/sessions/{there.id}/dismiss", {}, token)[0] == 401
    with asking(there.hub, token=token) as client:
        assert client.get("/api/v1/sessions").status_code == 401
    assert there.reported(OTHER) is None


def test_what_is_not_sound_is_refused_with_its_reason(run: Run, there: Reporting) -> None:
    token, path = token_of(run), f"/api/v1/sessions/{there.id}/report"
    asyncio.run(wait_until(lambda: there.post(path, {"status": "passed"}, token)[0] == 200))
    forged = token[:-6] + ("AAAAAA" if token[-6:] != "AAAAAA" else "BBBBBB")
    other = token.replace(SESSION, OTHER)
    refused = {
        401: [
            ({"status": "passed"}, None, "not signed in"),
            ({"status": "passed"}, forged, "no session's"),
            ({"status": "passed"}, other, "no session's"),
            ({"status": "passed"}, "adsum_report.x", "no session's"),
        ],
        400: [
            ({"status": "splendid"}, token, "'splendid' is no status"),
            ({"status": "passed", "notes": "a\x1b[2Jb"}, token, "control characters in the notes"),
            ({"status": "passed", "issue": "a\nb"}, token, "control characters in the issue"),
            ({"status": "passed", "notes": "x" * 4_001}, token, "4,001 characters"),
            ({"status": "passed", "colour": "red"}, token, "cannot be read"),
        ],
    }
    for status, cases in refused.items():
        for body, shown, said in cases:
            code, answer = there.post(path, body, shown)
            assert (code, said in answer["error"]) == (status, True), (body, answer)
    # whatever the gate takes for a session's token, the endpoint does as well
    assert there.post(path, {"status": "failed"}, token, scheme="Basic")[0] == 401
    _, viewer = make_token(there.hub, "viewer")
    _, operator = make_token(there.hub, "operator", name="ann")
    assert there.post(path, {"status": "failed"}, viewer)[0] == 403
    assert there.reported() == {"status": "passed"}
    assert there.post(path, {"status": "failed"}, operator)[0] == 200
    there.told(status="failed", by="ann")
    gone = f"/api/v1/sessions/{there.collector.host_id}:nobody/report"
    assert there.post(gone, {"status": "passed"}, operator)[0] == 404
    assert there.post("/api/specialists/x/report-status", {}, operator)[0] in (400, 401)


def test_the_command_says_why_nothing_was_reported(
    run: Run, there: Reporting, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "No session 'nobody' is known" in run("report", "passed", "--session", "nobody")[2]
    assert run("report", "passed", "--notes", "a\x07b")[0] == 2
    monkeypatch.setenv("CODEX_THREAD_ID", OTHER)
    assert "One agent runs in another" in run("report", "passed")[2]
    monkeypatch.delenv("CODEX_THREAD_ID")
    monkeypatch.delenv("CLAUDE_CODE_SESSION_ID")
    assert "neither CLAUDE_CODE_SESSION_ID nor CODEX_THREAD_ID" in run("report", "passed")[2]
    there.collector.stop()
    code, _, err = run("report", "passed", "--session", SESSION)
    assert (code, "does not answer" in err) == (1, True)


async def test_a_machine_listens_for_reports_only_once_a_session_has_a_token(
    there: Reporting, redis: Redis
) -> None:
    """Also: what lies in the stream from before, or is no report, becomes nothing."""
    _, operator = make_token(there.hub, "operator")
    path = f"/api/v1/sessions/{there.id}/report"
    code, answer = await asyncio.to_thread(there.post, path, {"status": "passed"}, operator)
    assert (code, "adsum report --token" in answer["next"]) == (409, True)
    key = streams.commands(there.collector.host_id)
    assert await redis.exists(key) == 0

    lines = [{"v": 1, "kind": "report", "id": os.urandom(8).hex(), "session_id": SESSION}]
    reader, writer = await asyncio.open_unix_connection(
        there.collector.state_dir / "collector.sock"
    )
    for line in (*lines, {**lines[0], "v": 9}, {**lines[0], "report": {"status": "odd"}}):
        writer.write(json.dumps(line).encode() + b"\n")
    told = [json.loads(await reader.readline()) for _ in range(3)]
    writer.close()
    assert [each["ok"] for each in told] == [True, False, False]
    assert "version 9" in told[1]["error"]

    def taken() -> bool:
        return there.post(path, {"status": "passed"}, operator)[0] == 200

    await wait_until(taken)
    for odd in (
        b"{}",
        b"\xff",
        b'{"kind":"session.ended","session_id":"%s","at":1,"seen":1}' % (SESSION.encode()),
    ):
        await redis.xadd(key, {b"r": odd})
    await wait_until(taken)  # one session may report once a second
    assert there.sessions()[SESSION]["state"]["state"] != "session_ended"
