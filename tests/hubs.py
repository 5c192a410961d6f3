"""A stand-in hub for tests of the command line: the wire contract, and nothing behind it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import msgspec
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.datastructures import Headers
from websockets.http11 import Request, Response

from adsum_hub.views import rank
from adsum_shared.state import (
    ActivityEntry,
    AgentState,
    Group,
    History,
    HostView,
    HubTrouble,
    Reachability,
    SessionView,
    UsageReport,
    UsageRow,
    UsageView,
)

NOW = 1_764_000_000_000


def session(
    name: str,
    group: Group = Group.AUTONOMOUS,
    state: str = "acting",
    *,
    label: str | None = None,
    host: str = "laptop",
    reachability: Reachability = "live",
    title: str = "Fix the build",
    since: int = NOW - 65_000,
    **more: Any,
) -> SessionView:
    urgency = 1 if group is Group.NEEDS_YOU else None
    agent_state = AgentState(group, state, label or state, 1.0, "hook", since)
    return SessionView(
        id=f"{host}-id:{name}",
        host_id=f"{host}-id",
        host=host,
        session_id=name,
        agent="claude_code",
        state=agent_state,
        reachability=reachability,
        updated_at=since,
        rank=more.pop("rank", None) or rank(agent_state, reachability, urgency, since),
        urgency=urgency,
        title=title,
        project="adsum",
        **more,
    )


def host(label: str = "laptop", reachability: Reachability = "live", **more: Any) -> HostView:
    return HostView(f"{label}-id", label, reachability, NOW - 240_000, sessions=1, **more)


def report(by: Any = "day", *rows: UsageRow, total: UsageView | None = None) -> UsageReport:
    """total: of one row it is that row's."""
    whole = total or (rows[0].usage if rows else UsageView())
    return UsageReport(1, NOW, "2025-11-18", "2025-11-24", by, list(rows), whole, [])


class StandIn:
    """Answers REST from `sessions` and `hosts`; `tell` sends changes to every watcher."""

    def __init__(self) -> None:
        self.sessions: list[SessionView] = []
        self.hosts: list[HostView] = [host()]
        self.activity: list[ActivityEntry] = []
        self.signals: dict[str, Any] = {"since": NOW - 600_000, "held_since": 1, "signals": []}
        self.usage = report()
        self.usage_csv = b""
        self.csv_kind = "text/csv; charset=utf-8"
        self.over: list[SessionView] = []
        self.notes: list[str] = []
        self.asked: list[str] = []
        self.refusal: int | None = None
        self.problem: str | None = None
        self.trouble: HubTrouble | None = None
        self.page_most = 1000
        self.port = 0
        self.watchers: set[ServerConnection] = set()
        self.resumes: list[dict[str, Any]] = []
        self.offset = 0
        self.loop = asyncio.new_event_loop()
        self._server: Server | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def tell(self, *changed: SessionView, gone: tuple[str, ...] = ()) -> None:
        kept = {one.id: one for one in self.sessions if one.id not in gone}
        self.sessions = list((kept | {one.id: one for one in changed}).values())
        self.offset += 1
        asyncio.run_coroutine_threadsafe(
            self._send("deltas", changed, gone=list(gone), gone_hosts=[]), self.loop
        ).result(5)

    def own_up(self, trouble: HubTrouble | None) -> None:
        self.trouble = trouble
        asyncio.run_coroutine_threadsafe(self._send("tick"), self.loop).result(5)

    def drop_watchers(self) -> None:
        async def close() -> None:
            for watcher in list(self.watchers):
                await watcher.close()

        asyncio.run_coroutine_threadsafe(close(), self.loop).result(5)

    async def open(self) -> None:
        self._server = await serve(
            self._watch, "127.0.0.1", 0, process_request=self._answer, ping_interval=None
        )
        self.port = next(iter(self._server.sockets)).getsockname()[1]

    async def close(self) -> None:
        assert self._server is not None
        self._server.close()
        # From Python 3.12 on it waits for every client, also for one whose loop runs no more.
        try:
            await asyncio.wait_for(self._server.wait_closed(), 12)
        except TimeoutError:
            getattr(self._server.server, "abort_clients", lambda: None)()

    async def _watch(self, connection: ServerConnection) -> None:
        self.resumes.append(json.loads(await connection.recv()))
        self.watchers.add(connection)
        await self._send("snapshot", self.sessions)
        await connection.wait_closed()
        self.watchers.discard(connection)

    async def _send(self, kind: str, sessions: Any = None, **more: Any) -> None:
        message = {"type": kind, "epoch": "e", "offset": self.offset, "now": NOW, **more}
        if kind != "tick":
            message |= {"sessions": sessions, "hosts": self.hosts}
        if kind != "deltas" and self.trouble is not None:
            message["trouble"] = self.trouble
        for watcher in list(self.watchers):
            await watcher.send(msgspec.json.encode(message).decode())

    def _history(self, query: dict[str, str]) -> History:
        wanted = query.get("q", "")
        found = [one for one in self.over if wanted in f"{one.title}\n{one.session_id}"]
        start = int(query["offset"])
        page = found[start : start + min(self.page_most, int(query["limit"]))]
        return History(1, NOW, len(found), page, notes=self.notes)

    def _readiness(self) -> dict[str, Any]:
        return {"ready": self.problem is None, "lag_ms": 5, "problem": self.problem}

    def _answer(self, connection: ServerConnection, request: Request) -> Response | None:
        del connection
        parts = urlsplit(request.path)
        self.asked.append(request.path)
        if self.refusal:
            said = {"error": "The token is wrong.", "next": "Log in again."}
            return _json(self.refusal, said if self.refusal == 401 else None)
        if parts.path == "/ws":
            return None
        return self._rest(parts.path, {k: v[0] for k, v in parse_qs(parts.query).items()})

    def _rest(self, path: str, query: dict[str, str]) -> Response:
        head = {"schema": 1, "now": NOW, "trouble": self.trouble}
        if path == "/readyz":
            return _json(503 if self.problem else 200, self._readiness())
        if path == "/api/v1/me":
            return _json(200, {"schema": 1, "sign_in": False})
        if path == "/api/v1/hosts":
            return _json(200, {**head, "hosts": self.hosts})
        if path == "/api/v1/sessions":
            wanted = "needs_you" if "needs_you" in query else query.get("group")
            found = [one for one in self.sessions if wanted in (None, one.state.group)]
            start = int(query["offset"])
            page = found[start : start + min(self.page_most, int(query["limit"]))]
            return _json(200, {**head, "total": len(found), "sessions": page})
        if path == "/api/v1/usage":
            csv = _answer(200, self.csv_kind, self.usage_csv)
            return csv if query.get("format") == "csv" else _json(200, self.usage)
        if path == "/api/v1/history":
            return _json(200, self._history(query))
        return self._session(path)

    def _session(self, path: str) -> Response:
        head = {"schema": 1, "now": NOW, "trouble": self.trouble}
        name = unquote(path.removeprefix("/api/v1/sessions/"))
        for one in (*self.sessions, *self.over):
            if one.id == name:
                return _json(200, one)
            if f"{one.id}/signals" == name:
                return _json(200, {**head, **self.signals})
            if f"{one.id}/activity" == name:
                return _json(200, {**head, "entries": self.activity})
        return _json(404, {"error": "There is no such session.", "next": "List them."})


def _json(status: int, body: Any) -> Response:
    return _answer(status, "application/json", msgspec.json.encode(body))


def _answer(status: int, kind: str, raw: bytes) -> Response:
    headers = Headers({"Content-Type": kind, "Content-Length": str(len(raw))})
    return Response(status, HTTPStatus(status).phrase, headers, raw)


@contextlib.contextmanager
def stand_in_hub() -> Iterator[StandIn]:
    hub = StandIn()
    thread = threading.Thread(target=hub.loop.run_forever)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(hub.open(), hub.loop).result(5)
        yield hub
        asyncio.run_coroutine_threadsafe(hub.close(), hub.loop).result(15)
    finally:
        # Else the thread would go on, and keep pytest from ending.
        hub.loop.call_soon_threadsafe(hub.loop.stop)
        thread.join(5)
        hub.loop.close()
