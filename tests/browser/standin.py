"""A stand-in for the hub: serves the page under its policy and speaks the wire to it, as scripted."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import uvicorn
from msgspec.structs import replace
from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect

from adsum_hub.app import WEB
from adsum_hub.join.tokens import JoinToken, JoinTokenAsked, JoinTokenMade, JoinTokens
from adsum_hub.request_guard import CONTENT_POLICY
from adsum_hub.web.assets import Assets
from adsum_shared.state import (
    ActivityEntry,
    Budgets,
    BudgetView,
    CommandView,
    Group,
    History,
    HostView,
    HubTrouble,
    SessionView,
    Summary,
    UsageReport,
)


def under_policy(app: ASGIApp) -> ASGIApp:
    """Every answer with the policy; files are cached, since none changes during a run."""

    async def wrapped(scope: Scope, receive: Receive, send: Send) -> None:
        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers["Content-Security-Policy"] = CONTENT_POLICY
                headers.setdefault("Cache-Control", "max-age=600")
            await send(message)

        await app(scope, receive, sending)

    return wrapped


class StandIn:
    """Holds a fleet, tells every page that asks; `hellos` keeps what each connection said first."""

    def __init__(self, now: Callable[[], int]) -> None:
        self.now = now
        self.hellos: list[dict[str, Any]] = []
        self.url = ""
        self.epoch_number = 0
        self.clients: set[WebSocket] = set()
        self.may_greet = asyncio.Event()
        self.may_follow = asyncio.Event()
        self.may_answer = asyncio.Event()
        self.held: dict[str, asyncio.Event] = {}
        self.load([], [])

    def load(self, sessions: Iterable[SessionView], hosts: Iterable[HostView]) -> None:
        """A new epoch with this fleet, reachable; nobody connected to the old one is told."""
        self.release()
        self.epoch_number += 1
        self.epoch = f"epoch-{self.epoch_number}"
        self.offset = 0
        self.down = False
        self.refuse_with: int | None = None
        #: cleared: connections are taken, as a frozen hub's machine does, and nobody answers
        self.may_greet = asyncio.Event()
        self.may_greet.set()
        self.trouble: HubTrouble | None = None
        self.sessions = {session.id: session for session in sessions}
        self.hosts = {host.id: host for host in hosts}
        self.ring: list[dict[str, Any]] = []
        self.hellos.clear()
        #: by session id; asked for: `asked`; instead of an answer: `fails_with`; held: `may_answer`
        self.activity: dict[str, list[ActivityEntry]] = {}
        self.asked: list[str] = []
        self.hosts_asked = 0
        self.summary = Summary()
        #: by what its rows stand for, some also by how many days, as "day 400"
        self.reports: dict[str, UsageReport] = {}
        self.budgets: list[BudgetView] = []
        #: those that are over, the latest first; searched for: `sought`
        self.past: list[SessionView] = []
        self.sought: list[tuple[str, int]] = []
        self.asked_of_history: list[dict[str, str]] = []
        #: how often it was asked how many those are
        self.counted = 0
        self.fails_with: int | None = None
        #: who uses the browser; where nobody has to sign in, this one
        self.me = {"name": "you", "role": "admin", "csrf": "", "sign_in": False}
        #: what was decided, by session's id; answered instead: body, status
        self.commands: list[tuple[str, dict[str, Any]]] = []
        self.refuses_commands: tuple[dict[str, str], int] | None = None
        #: by which machines may join; what is told with a new one; told instead: body, status
        self.tokens: dict[str, JoinToken] = {}
        self.note: str | None = None
        self.refuses_tokens: tuple[dict[str, str], int] | None = None
        #: how many sessions come in a snapshot's first part; the others once they `may_follow`
        self.first_part: int | None = None
        self.may_follow = asyncio.Event()
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        #: what is asked for, such as "host 7", and answered only once that is set
        self.held = {}

    def release(self) -> None:
        """Answers that a failed test left held would keep the stand-in from its end, for ever."""
        for event in (self.may_greet, self.may_follow, self.may_answer, *self.held.values()):
            event.set()

    def message(self, kind: str, **body: Any) -> dict[str, Any]:
        return {
            "type": kind,
            "epoch": self.epoch,
            "offset": self.offset,
            "now": self.now(),
            **({"trouble": self.trouble} if self.trouble and kind != "deltas" else {}),
            **body,
        }

    def snapshot(self) -> dict[str, Any]:
        sessions, hosts = list(self.sessions.values()), list(self.hosts.values())
        return self.message("snapshot", sessions=sessions, hosts=hosts)

    async def begin(self, client: WebSocket, whole: dict[str, Any], count: int) -> dict[str, Any]:
        """Sends the first part of it; the last one."""
        first, rest = whole["sessions"][:count], whole["sessions"][count:]
        groups = [view.state.group for view in rest]
        more = {group.value: groups.count(group) for group in Group}
        part = whole | {"sessions": first, "more": more}
        await client.send_text(msgspec.json.encode(part).decode())
        await self.may_follow.wait()
        del whole["hosts"]
        return whole | {"sessions": rest}

    async def change(
        self,
        *sessions: SessionView,
        gone: tuple[str, ...] = (),
        hosts: tuple[HostView, ...] = (),
    ) -> None:
        """Fold a change into the fleet and send it to whoever is connected."""
        self.sessions |= {session.id: session for session in sessions}
        self.hosts |= {host.id: host for host in hosts}
        for session_id in gone:
            del self.sessions[session_id]
        self.offset += 1
        deltas = self.message("deltas", sessions=sessions, gone=gone, hosts=hosts, gone_hosts=[])
        self.ring.append(deltas)
        await self.tell(deltas)

    async def own_up(self, trouble: HubTrouble | None) -> None:
        self.trouble = trouble
        await self.tell(self.message("tick"))

    async def tell(self, message: dict[str, Any]) -> None:
        for client in list(self.clients):
            await client.send_text(msgspec.json.encode(message).decode())

    async def cut(self) -> None:
        """End every connection, as a restart does."""
        for client in list(self.clients):
            await client.close(1012)

    async def live(self, client: WebSocket) -> None:
        if self.down:
            await client.close(1013)
            return
        await self.may_greet.wait()
        await client.accept()
        if self.refuse_with is not None:
            await client.close(self.refuse_with)
            return
        hello = await client.receive_json()
        self.hellos.append({key: hello[key] for key in ("epoch", "offset")})
        resumed = hello["epoch"] == self.epoch
        missed = [m for m in self.ring if m["offset"] > hello["offset"]] if resumed else []
        snapshot = self.snapshot()
        if not resumed and self.first_part is not None and hello["parts"]:
            snapshot = await self.begin(client, snapshot, self.first_part)
        for message in [*missed, self.message("tick")] if resumed else [snapshot]:
            await client.send_text(msgspec.json.encode(message).decode())
        self.clients.add(client)
        try:
            await client.receive_text()
        except WebSocketDisconnect:
            pass
        finally:
            self.clients.discard(client)

    async def tell_activity(self, request: Request) -> Response:
        name = request.path_params["id"]
        self.asked.append(name)
        await self.may_answer.wait()
        if self.fails_with is not None:
            return Response("no JSON", self.fails_with, {"Cache-Control": "no-cache"})
        if name not in {*self.sessions, *(view.id for view in self.past)}:
            return self.unknown()
        entries = self.activity.get(name, [])
        return _json({"schema": 1, "now": self.now(), "entries": entries})

    def unknown(self) -> Response:
        return _json({"error": "There is no such session.", "next": "List them."}, 404)

    async def tell_session(self, request: Request) -> Response:
        name = request.path_params["id"]
        known = {**{view.id: view for view in self.past}, **self.sessions}
        return _json(known[name]) if name in known else self.unknown()

    async def take_command(self, request: Request) -> Response:
        name, asked = request.path_params["id"], msgspec.json.decode(await request.body())
        if self.refuses_commands is not None:
            return _json(*self.refuses_commands)
        self.commands.append((name, asked))
        view = CommandView(
            f"c{len(self.commands)}",
            asked["verb"],
            str(self.me["name"]),
            self.now(),
            "given",
            request_id=asked.get("request_id"),
        )
        return _json({"schema": 1, "now": self.now(), "command": view, "final": False}, 202)

    async def report(self, number: int, outcome: str, **more: Any) -> None:
        """What its machine says of the command that was given as the `number`th, from 1 on."""
        name, asked = self.commands[number - 1]
        told = CommandView(
            f"c{number}",
            asked["verb"],
            str(self.me["name"]),
            self.now(),
            outcome,
            request_id=asked.get("request_id"),
            reason=more.pop("reason", None),
        )
        view = self.sessions[name]
        known = [each for each in view.commands if each.id != told.id]
        await self.change(replace(view, commands=(*known, told), **more))

    async def tell_summary(self, _: Request) -> Response:
        return _json(self.summary)

    async def tell_usage(self, request: Request) -> Response:
        said = request.query_params
        by, days = said["by"], said.get("days") or f"{said.get('since')}..{said.get('until')}"
        self.asked.append(f"{by} {days}")
        await self.held.get(f"{by} {days}", self.may_answer).wait()
        if self.fails_with is not None:
            return Response("no JSON", self.fails_with, {"Cache-Control": "no-cache"})
        if request.query_params.get("format") == "csv":
            headers = {"Content-Disposition": 'attachment; filename="usage.csv"'}
            return Response("key,label\n", 200, headers, "text/csv")
        return _json(self.reports.get(f"{by} {days}") or self.reports[by])

    async def tell_budgets(self, _: Request) -> Response:
        return _json(Budgets(1, self.now(), self.budgets))

    async def tell_history(self, request: Request) -> Response:
        wanted, offset = request.query_params.get("q"), int(request.query_params.get("offset", 0))
        if wanted is None:
            self.counted += 1
            return _json(History(1, self.now(), len(self.past), self.past[:1]))
        self.sought.append((wanted, offset))
        asked = {**request.query_params}
        self.asked_of_history.append({k: asked[k] for k in asked if k not in ("limit", "offset")})
        await self.held.get(wanted, self.may_answer).wait()
        if self.fails_with is not None:
            return Response("no JSON", self.fails_with, {"Cache-Control": "no-cache"})
        found = [view for view in self.past if wanted.lower() in (view.title or "").lower()]
        page = found[offset : offset + int(request.query_params["limit"])]
        return _json(History(1, self.now(), len(found), page))

    async def tell_me(self, _: Request) -> Response:
        return _json(self.me)

    async def join_tokens(self, request: Request) -> Response:
        if self.refuses_tokens is not None:
            return _json(*self.refuses_tokens)
        if request.method == "GET":
            return _json(JoinTokens(1, self.now(), list(self.tokens.values())))
        asked = msgspec.json.decode(await request.body(), type=JoinTokenAsked)
        name, now = f"t{len(self.tokens)}", self.now()
        until = now + asked.expires_s * 1000
        made = self.tokens[name] = JoinToken(name, now, until, asked.reusable, asked.label, 0)
        secret = f"adsum_join_{name}_{'k' * 40}"
        command = f"adsum join https://hub.example.net --token {secret}"
        return _json(JoinTokenMade(1, secret, command, made, self.note))

    async def revoke(self, request: Request) -> Response:
        return _json({"id": self.tokens.pop(request.path_params["id"]).id})

    async def tell_hosts(self, _: Request) -> Response:
        self.hosts_asked += 1
        return _json({"schema": 1, "now": self.now(), "hosts": list(self.hosts.values())})

    def app(self) -> ASGIApp:
        async def index(_: Any) -> FileResponse:
            return FileResponse(WEB / "index.html")

        routes = [
            *Assets(WEB).page_routes(index),
            # One that does nothing: what the real one keeps would reach from test to test.
            Route("/sw.js", lambda _: Response("", media_type="text/javascript")),
            Route("/api/v1/sessions/{id:path}/activity", self.tell_activity),
            Route("/api/v1/sessions/{id:path}/commands", self.take_command, methods=["POST"]),
            Route("/api/v1/sessions/{id:path}", self.tell_session),
            Route("/api/v1/hosts", self.tell_hosts),
            Route("/api/v1/me", self.tell_me),
            Route("/api/v1/summary", self.tell_summary),
            Route("/api/v1/usage", self.tell_usage),
            Route("/api/v1/budgets", self.tell_budgets),
            Route("/api/v1/history", self.tell_history),
            Route("/api/v1/join-tokens", self.join_tokens, methods=["GET", "POST"]),
            Route("/api/v1/join-tokens/{id}", self.revoke, methods=["DELETE"]),
            WebSocketRoute("/ws", self.live),
            Mount("/static", StaticFiles(directory=WEB)),
        ]
        return under_policy(Starlette(routes=routes))


def _json(body: Any, status: int = 200) -> Response:
    return Response(
        msgspec.json.encode(body), status, {"Cache-Control": "no-cache"}, "application/json"
    )


class Serving:
    """`async with Serving(standin)`: on loopback, on a free port, in the running loop."""

    def __init__(self, standin: StandIn, port: int = 0) -> None:
        self.standin = standin
        self.port = port
        config = uvicorn.Config(
            standin.app(),
            log_config=None,  # theirs would take the levels away that the hub gives its loggers
            lifespan="off",
            ws="websockets-sansio",
            timeout_graceful_shutdown=10,  # not for ever: no time limit of tests holds at their end
        )
        self.server = uvicorn.Server(config)

    async def __aenter__(self) -> StandIn:
        door = socket.create_server(("127.0.0.1", self.port))
        self.standin.url = f"http://127.0.0.1:{door.getsockname()[1]}"
        self.task = asyncio.create_task(self.server.serve(sockets=[door]))
        while not self.server.started:  # noqa: ASYNC110 - uvicorn offers a flag, no event
            await asyncio.sleep(0.01)
        return self.standin

    async def __aexit__(self, *_: object) -> None:
        self.standin.release()
        await self.standin.cut()
        self.server.should_exit = True
        await self.task
