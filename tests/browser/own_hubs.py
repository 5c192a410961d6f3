"""Hubs whose page is tested as it is delivered: served by themselves, stopped, upgraded, restarted."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import uvicorn
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from adsum_hub import app as hub_app
from adsum_hub.app import listen, server_config
from adsum_hub.live.broadcast import Broadcast
from adsum_hub.request_guard import known_hosts
from adsum_hub.roster import Roster
from adsum_hub.snapshots import Snapshot
from adsum_hub.trouble import Link
from adsum_shared import signals as s
from adsum_shared.envelope import Batch, Beat
from tests.browser.conftest import wall_ms
from tests.support import wait_until

#: Stands in for the maker's push service, which is all of it that is not the browser's own.
ELSEWHERE = """(subscription) => {
  const key = (text) => Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0)).buffer;
  const KEPT = "elsewhere";
  const found = () => {
    const made = localStorage.getItem(KEPT);
    return made && { endpoint: subscription.endpoint, options: { applicationServerKey: key(made) }, toJSON: () => subscription,
      unsubscribe: async () => { localStorage.removeItem(KEPT); window.unsubscribed = made; return true; } };
  };
  PushManager.prototype.getSubscription = async () => found();
  PushManager.prototype.subscribe = async ({ userVisibleOnly, applicationServerKey }) => {
    if (!userVisibleOnly) throw new DOMException("", "NotAllowedError");
    if (![null, applicationServerKey].includes(localStorage.getItem(KEPT))) throw new DOMException("", "InvalidStateError");
    if (window.refuses) throw new DOMException("", window.refuses);
    localStorage.setItem(KEPT, applicationServerKey);
    return found();
  };
}"""
#: Resolves once the worker has the page in its hands.
IN_CHARGE = """new Promise((resolve) => {
  if (navigator.serviceWorker.controller) return resolve(true);
  navigator.serviceWorker.addEventListener("controllerchange", () => resolve(true));
})"""
#: Run in the worker: from now on the device's sign-in is an operator's of other machines.
OF_OTHERS = """() => {
  const ask = self.fetch;
  self.fetch = async (...of) => new URL(new Request(...of).url).pathname === "/api/v1/me"
    ? Response.json({ role: "operator", csrf: "", hosts: ["h9"] }) : ask(...of);
}"""
#: As if another tab lay over it.
HIDE = """() => {
  Object.defineProperty(document, "visibilityState", { get: () => "hidden", configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
}"""


class OwnHub:
    """The hub's own app over a roster fed by hand; it keeps its port, also over an upgrade."""

    def __init__(self, web: Path | None = None) -> None:
        self.web = web or hub_app.WEB
        self.port = 0
        self.told = 0
        #: the paths of all requests
        self.asked: list[str] = []
        self.wants_sign_in = False
        self.task: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> OwnHub:
        self.roster = Roster()
        self.roster.add("box", Snapshot(), wall_ms())
        self.broadcast = Broadcast(self.roster, wall_ms)
        bound = listen("127.0.0.1", self.port)
        self.port = bound.getsockname()[1]
        hosts = known_hosts(self.port, ())
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(hub_app, "WEB", self.web)
            app = hub_app.build_app(self.roster, self.broadcast, Link(), wall_ms, hosts)

        async def noting(scope: Scope, receive: Receive, send: Send) -> None:
            self.asked.append(scope["path"])
            answer: ASGIApp = app
            if self.wants_sign_in and scope["path"] == "/":
                answer = RedirectResponse("/login", 302)
            elif self.wants_sign_in and scope["path"].startswith("/api/"):
                answer = Response(status_code=401)
            await answer(scope, receive, send)

        self.server = uvicorn.Server(server_config(noting))
        self.task = asyncio.create_task(self.server.serve(sockets=[bound]))
        await wait_until(lambda: self.server.started)
        self.told = 0
        beat = Beat("box", "box", wall_ms(), "n", "spool", 0, 0)
        self.roster.hear("box", beat, 0, wall_ms())
        self.broadcast.flush()
        return self

    async def stop(self) -> None:
        if self.task is not None:
            self.server.should_exit = True
            await self.task
            self.task = None

    def tell(self, *signals: s.AnySignal) -> None:
        first, self.told = self.told + 1, self.told + len(signals)
        now = wall_ms()
        self.roster.apply("box", Batch("spool", first, self.told, "n", now, signals), now)
        self.broadcast.flush()

    def work(self, *sessions: str) -> None:
        """Sessions at work on a first prompt."""
        now = wall_ms()
        for name in sessions:
            about = {"session_id": name, "at": now, "seen": now}
            self.tell(
                s.PromptSubmitted(prompt_id="p", text="go", **about),
                s.MetaChanged(title=f"Title of {name}", **about),
            )

    def answer(self, *sessions: str) -> None:
        """Somebody allowed it at their terminal."""
        now = wall_ms()
        for name in sessions:
            about = {"session_id": name, "at": now, "seen": now, "prompt_id": "p"}
            self.tell(s.RequestClosed(request_id=f"r-{name}", **about))

    def ask(self, *sessions: str) -> None:
        """They need a permission now."""
        self.tell(*[_request(name, wall_ms()) for name in sessions])


def _request(name: str, now: int) -> s.AnySignal:
    return s.RequestOpened(
        session_id=name,
        at=now,
        seen=now,
        prompt_id="p",
        request_id=f"r-{name}",
        request_kind="permission",
        tool="Bash",
    )
