"""A hub with a session that asks, and a collector that reads what people decided, as a real one would."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import redis
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from fastapi import FastAPI

from adsum_hub.auth.gate import GRANT, Grant
from adsum_hub.command_keys import CommandKeys
from adsum_hub.control import Decisions, control_router
from adsum_hub.live.broadcast import Broadcast
from adsum_hub.rest.api import explain
from adsum_hub.rest.roster import api_router
from adsum_hub.session_endpoints import AgentEndpoints, agents_router
from adsum_shared import streams
from adsum_shared.commands import EXTEND, HOLD_VERSION, Command, Displayed, binding_of, opened
from adsum_shared.envelope import Beat, encode_batch, encode_beat
from adsum_shared.signals import (
    CommandReported,
    Hold,
    HoldEnded,
    PromptSubmitted,
    RequestOpened,
    Signal,
    encode_signal,
)
from tests.half_hubs import HOST as MACHINE
from tests.seals import seal
from tests.unit.hub.test_roster import AHEAD, HOST, Fleet

SHOWN = {"command": "make clean", "description": "Clean up"}
QUESTIONS = {
    "questions": [
        {"question": "Which colour?", "options": [{"label": "Red"}, {"label": "Blue"}]},
        {
            "question": "Which parts?",
            "options": [{"label": "a"}, {"label": "b"}],
            "multiSelect": True,
        },
    ]
}
FORM = {
    "message": "Which branch?",
    "requested_schema": {
        "type": "object",
        "properties": {"branch": {"type": "string"}, "force": {"type": "boolean"}},
        "required": ["branch"],
    },
}
BINDING = binding_of(Displayed("s", "/work", "permission", "Bash", "other", None, SHOWN, ()))
SESSION = f"/api/v1/sessions/{HOST}:s"
ALL = ["allow", "always", "deny", "answer", "plan", "elicit", "defer"]


class DecidingHub:
    """One hub, and a machine with one session that asks `r1`."""

    def __init__(self, client: Any, state_dir: Path, fleet: Fleet | None = None) -> None:
        self.redis = client
        self.fleet = fleet or Fleet()
        self.keys = CommandKeys(state_dir, client, seal())
        self.decisions = Decisions(self.fleet.roster, self.clock, client, self.keys)
        self.name, self.role = "ann", "operator"
        roster = self.fleet.roster
        app = FastAPI()
        app.include_router(control_router(self.decisions))
        app.include_router(agents_router(AgentEndpoints(self.decisions)))
        app.include_router(api_router(roster, Broadcast(roster, self.clock), self.clock))
        explain(app)
        self._app = app
        transport = httpx.ASGITransport(self._granted)
        self.http = httpx.AsyncClient(transport=transport, base_url="http://hub")
        self.fleet.beat(control="approve")

    async def _granted(self, scope: Any, receive: Any, send: Any) -> None:
        scope[GRANT] = Grant(self.name, "operator", "token")
        await self._app(scope, receive, send)

    def clock(self) -> int:
        return self.fleet.now

    def tell(self, kind: type[Signal], **data: Any) -> None:
        at = self.fleet.now + AHEAD
        self.fleet.happen(kind(session_id="s", at=at, seen=at, **data))
        while self.fleet.roster.take_changes(self.fleet.now):
            pass

    def asks(self, asked: str = "r1", verbs: list[str] | None = None, **data: Any) -> None:
        data = {"request_kind": "permission", "tool": "Bash", "payload": SHOWN} | data
        hold = Hold(BINDING, verbs or ALL, 60_000, cwd="/work", version=HOLD_VERSION)
        self.tell(PromptSubmitted, prompt_id="p")
        self.tell(RequestOpened, request_id=asked, hold=hold, **data)

    def ends(self, asked: str = "r1") -> None:
        self.tell(HoldEnded, request_id=asked)

    async def decide(self, verb: str = "allow", **more: Any) -> httpx.Response:
        view = self.fleet.roster.views.get(f"{HOST}:s")
        holds = {each.id: each.hold for each in view.requests} if view else {}
        hold = holds.get(more.get("request_id", "r1"))
        told = {
            "verb": verb,
            "request_id": "r1",
            "binding": hold.binding if hold else BINDING,
        } | more
        return await self.http.post(f"{SESSION}/commands", json=told)

    async def act(self, verb: str, **more: Any) -> httpx.Response:
        return await self.http.post(f"{SESSION}/commands", json={"verb": verb} | more)

    def report(self, command: str, outcome: str, **more: Any) -> None:
        about = {"command_id": command, "verb": "allow", "by": "ann", "request_id": "r1"}
        self.tell(CommandReported, outcome=outcome, **(about | more))

    async def commands(self) -> list[Command]:
        """All that a collector which has pinned the hub's keys obeys."""
        known = await self.keys.known()
        keys = {
            named: Ed25519PublicKey.from_public_bytes(bytes.fromhex(public))
            for named, public in known.items()
        }
        found: list[tuple[bytes, Mapping[bytes, bytes]]] = await self.redis.xrange(
            streams.commands(HOST)
        )
        return [opened(fields, HOST, keys, 0) for _, fields in found]


class FakeMachine(threading.Thread):
    """A machine that can be decided for from elsewhere, without a collector: a beat, one session.

    outcomes: what it reports of each command, one after the other. reason: why, of each.
    """

    def __init__(self, redis_url: str, *outcomes: str, control: str = "approve") -> None:
        super().__init__(daemon=True)
        self.redis = redis.Redis.from_url(redis_url)
        self.outcomes = outcomes or ("sent", "took_effect")
        self.control = control
        self.reason: str | None = None
        self.obeyed: list[Command] = []
        self.seq = 0
        self._ended = threading.Event()
        self._telling = threading.Lock()
        self.redis.sadd(streams.HOSTS, MACHINE)
        self._beat()

    def run(self) -> None:
        last = "0-0"
        while not self._ended.is_set():
            self._beat()
            read: Any = self.redis.xread({streams.commands(MACHINE): last}, block=100)
            for entry, fields in read[0][1] if read else ():
                last = entry.decode()
                self._obey(fields)

    def stop(self) -> None:
        self._ended.set()
        self.join(5)
        self.redis.close()

    def go_away(self) -> None:
        self.stop()
        self.redis.delete(streams.beat(MACHINE))

    def _beat(self) -> None:
        beat = Beat(MACHINE, "lab", wall_ms(), "n", "sp", seq=self.seq, control=self.control)  # type: ignore[arg-type]
        self.redis.set(streams.beat(MACHINE), encode_beat(beat), px=streams.BEAT_TTL_MS)

    def _obey(self, fields: Mapping[bytes, bytes]) -> None:
        known: Any = self.redis.hgetall(streams.COMMAND_KEYS)
        keys = {
            named.decode(): Ed25519PublicKey.from_public_bytes(
                bytes.fromhex(json.loads(public)["key"])
            )
            for named, public in known.items()
        }
        command = opened(fields, MACHINE, keys, 0)
        self.obeyed.append(command)
        if command.verb == EXTEND:
            return
        about = {"command_id": command.id, "verb": command.verb, "by": command.by}
        about["reason"] = self.reason
        for outcome in self.outcomes:
            told = {**about, "request_id": command.request_id, "outcome": outcome}
            self.tell(command.session_id, CommandReported, **told)
        self.tell(command.session_id, HoldEnded, request_id=command.request_id, reason="decided")

    def tell(self, session: str, kind: type[Signal], **data: Any) -> None:
        with self._telling:
            now, self.seq = wall_ms(), self.seq + 1
            body = encode_signal(kind(session_id=session, at=now, seen=now, **data))
            entry: Any = encode_batch(
                spool_id="sp", first=self.seq, nonce="n", sent_at=now, signals=[body]
            )
            self.redis.xadd(streams.inbox(MACHINE), entry, id=f"1-{self.seq}")

    def asks(self, session: str = "s", asked: str = "r1", *verbs: str, **data: Any) -> None:
        about = {"request_kind": "permission", "tool": "Bash", "payload": SHOWN, "role": "shell"}
        always = data.pop("always", ["Bash(make:*)"])
        hold = Hold(BINDING, list(verbs) or ALL, 60_000, always, cwd="/work", version=HOLD_VERSION)
        self.tell(session, PromptSubmitted, prompt_id="p", text=f"work of {session}")
        self.tell(session, RequestOpened, request_id=asked, hold=hold, **(about | data))


def wall_ms() -> int:
    return int(time.time() * 1000)
