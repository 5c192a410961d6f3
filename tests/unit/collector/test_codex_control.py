"""What people elsewhere decide in sessions of Codex's background server, and do there."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from websockets.asyncio.server import ServerConnection, unix_serve

from adsum_collector.agents.base import Asked, Surroundings
from adsum_collector.agents.codex import requests as shapes
from adsum_collector.agents.codex.agent import Codex
from adsum_collector.agents.codex.control_socket import connected
from adsum_collector.control.consent import Consent, LiveConsent, Trail, keep_consent
from adsum_collector.control.policy import LivePolicy
from adsum_collector.control.remote import HoldTimes, OwnersWord, Parties, RemoteControl
from adsum_collector.control.seats import Seats
from adsum_collector.intake import Intake
from adsum_collector.processes import AgentProcess, look_up
from adsum_collector.spool.spool import Rows, Spool
from adsum_collector.spool.spool_file import SpoolLimits
from adsum_shared.commands import NotObeyedError
from adsum_shared.privacy import private_as
from adsum_shared.signals import (
    CommandReported,
    HoldEnded,
    RequestClosed,
    RequestOpened,
    ToolFinished,
    TurnInterrupted,
    decode_signal,
)
from tests.control import binding_shown, command_for, consent_to
from tests.support import wait_until
from tests.unit.collector.test_codex_server import (
    APPROVAL,
    CHILD,
    QUESTION,
    ROOT,
    TURN,
    Server,
    changed,
    status,
    thread,
)

KEY = Ed25519PrivateKey.generate()
CALL = "exec-1"
#: As 0.169.0 asks; recorded.
COMMAND = {
    "kind": "command",
    "threadId": ROOT,
    "turnId": TURN,
    "itemId": CALL,
    "startedAtMs": 1_795_704_083_337,
    "environmentId": "local",
    "reason": "May a folder be made?",
    "command": "/bin/bash -lc 'mkdir -p sub && touch sub/f'",
    "cwd": "/work",
    "commandActions": [{"type": "unknown", "command": "mkdir -p sub && touch sub/f"}],
    "proposedExecpolicyAmendment": ["mkdir", "-p", "sub"],
    "availableDecisions": ["accept", {"acceptWithExecpolicyAmendment": {}}, "cancel"],
}
PATCH = {"threadId": ROOT, "turnId": TURN, "itemId": CALL, "reason": None, "grantRoot": None}
COLOUR = {"id": "colour", "header": "Colour", "question": "Which?", "isOther": True}
COLOUR |= {"isSecret": False, "options": [{"label": "Red", "description": ""}]}
ASK = {"threadId": ROOT, "turnId": TURN, "itemId": CALL, "isBlocking": True, "questions": [COLOUR]}
WHOSE = shapes.Whose(ROOT, None, "/work")


def request(method: str, told: dict[str, Any], **more: Any) -> shapes.ServerRequest | None:
    return shapes.request_in(method, msgspec.Raw(msgspec.json.encode(told | more)))


def asked(method: str, told: dict[str, Any], patch: str | None = None, **more: Any) -> Asked:
    found = request(method, told, **more)
    assert found is not None
    return shapes.asked_of(found, WHOSE, patch)


def answer(of: Asked, verb: str, **more: Any) -> Any:
    return msgspec.json.decode(shapes.answer_of(of, command_for(of, verb, **more)))


def test_a_command_is_shown_as_the_terminal_shows_it_and_whole() -> None:
    found = asked(shapes.COMMAND, COMMAND, additionalPermissions={"network": {"enabled": True}})

    assert found.given == {
        "command": "mkdir -p sub && touch sub/f",
        "shell": "/bin/bash -lc",
        "description": "May a folder be made?",
        "cwd": "/work",
        "additionalPermissions": {"network": {"enabled": True}},
    }
    assert found.verbs == ("allow", "deny", "defer")
    assert found.role is None  # it leaves the sandbox: no rule says so


def test_each_decision_is_what_the_server_takes_for_it() -> None:
    command = asked(shapes.COMMAND, COMMAND, availableDecisions=["accept", "acceptForSession"])
    patch = asked(shapes.PATCH, PATCH, "*** Begin Patch")

    assert answer(command, "allow") == {"decision": "accept"}
    assert answer(patch, "always") == {"decision": "acceptForSession"}
    assert answer(command, "deny", text="why not") == {"decision": "decline"}
    assert answer(command, "deny", stop=True) == {"decision": "cancel"}
    assert shapes.answer_of(command, command_for(command, "defer")) == b""


@pytest.mark.parametrize(
    ("method", "told", "more"),
    [
        (shapes.COMMAND, COMMAND, {"kind": "writeStdin"}),
        (shapes.COMMAND, COMMAND, {"networkApprovalContext": {"host": "x", "protocol": "http"}}),
        (shapes.COMMAND, COMMAND, {"command": None}),
        (shapes.QUESTIONS, ASK, {"isBlocking": False}),
        (shapes.QUESTIONS, ASK, {"questions": [COLOUR | {"isSecret": True}]}),
        (shapes.QUESTIONS, ASK, {"questions": [COLOUR, COLOUR]}),
        ("item/permissions/requestApproval", COMMAND, {}),
        ("mcpServer/elicitation/request", COMMAND, {}),
    ],
)
def test_what_is_asked_in_another_way_is_left_to_the_terminal(
    method: str, told: dict[str, Any], more: dict[str, Any]
) -> None:
    assert request(method, told, **more) is None


@pytest.mark.parametrize(
    ("patch", "more"),
    [(None, {}), ("x" * shapes.INPUT_MAX, {}), ("*** Begin Patch", {"grantRoot": "/"})],
)
def test_what_is_not_seen_whole_or_grants_more_can_only_be_denied(
    patch: str | None, more: dict[str, Any]
) -> None:
    found = request(shapes.PATCH, PATCH, **more)
    assert found is not None
    shown = shapes.asked_of(found, WHOSE, patch)

    assert shown.verbs == ("deny", "defer")
    if patch != "*** Begin Patch":  # a hook's own payload of it stays
        assert shapes.opened_by(found, shown, "own", 1).payload is None


def test_a_question_is_answered_as_the_terminal_answers_it() -> None:
    found = asked(shapes.QUESTIONS, ASK)

    label = answer(found, "answer", answers={"Which?": ["Red"]}, notes={"Which?": "dark"})
    words = answer(found, "answer", answers={"Which?": ["Neither"]})

    assert label == {"answers": {"colour": {"answers": ["Red", "user_note: dark"]}}}
    assert words == {"answers": {"colour": {"answers": ["user_note: Neither"]}}}
    for odd in (
        {},
        {"Which?": ["Red", "Blue"]},
        {"Which?": [" "]},
        {"Which?": ["Red"], "No?": ["x"]},
    ):
        with pytest.raises(NotObeyedError):
            answer(found, "answer", answers=odd)


# A server, and a collector at it.


class Asking(Server):
    """A server whose sessions ask. calls, answers: what guests sent, whole."""

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self.calls: list[tuple[str, Any]] = []
        self.answers: list[dict[str, Any]] = []
        self.turn = {"id": TURN, "status": "inProgress"}

    async def converse(self, guest: ServerConnection) -> None:
        async for frame in guest:
            said = json.loads(frame)
            if "method" not in said:
                self.answers.append(said)
                continue
            self.calls.append((said["method"], said.get("params")))
            if said["method"] == "initialize":
                self.guests.append(guest)
            if "id" in said:
                await guest.send(json.dumps({"id": said["id"], **self.answer(said)}))

    def answer(self, said: dict[str, Any]) -> dict[str, Any]:
        if said["method"] == "thread/resume":
            return {"result": {"cwd": "/work"}}
        if said["method"] == "thread/turns/list":
            return {"result": {"data": [self.turn]}}
        return super().answer(said)

    def called(self, method: str) -> list[Any]:
        return [params for each, params in self.calls if each == method]

    async def ask(self, method: str = shapes.COMMAND, number: int = 0, **told: Any) -> None:
        params = (COMMAND if method == shapes.COMMAND else PATCH) | told
        frame = {"id": number, "method": method, "params": params}
        for guest in self.guests:
            await guest.send(json.dumps(frame))

    async def resolve(self, number: int = 0, at: int | None = None) -> None:
        told = {"method": "serverRequest/resolved", "emittedAtMs": at or now()}
        told["params"] = {"threadId": ROOT, "requestId": number}
        for guest in self.guests:
            await guest.send(json.dumps(told))


def now() -> int:
    return time.time_ns() // 1_000_000


class Collector:
    """Its control and its witness, with a spool of its own."""

    def __init__(self, home: Path, state_dir: Path, spool: Spool) -> None:
        self.agent, self.spool, self.state_dir = Codex(), spool, state_dir
        intake = Intake(spool, private_as("redacted", "salt"), "codex")
        consent = LiveConsent(state_dir, wall=time.time, timer=time.monotonic)
        self.control = RemoteControl(
            Parties({"codex": self.agent}, {"codex": intake}),
            OwnersWord(consent, LivePolicy(state_dir / "config.toml")),
            Trail(state_dir),
            HoldTimes(100, 60, 5),
            now=now,
            timer=time.monotonic,
        )
        around = Surroundings(intake.accept, dict, lambda _pid: 1, now, self.control)
        self.witness = self.agent.own_witnesses([home], around)[0]

    async def said(self, kind: type[Any]) -> list[Any]:
        found = await self.spool.read(0, 1000, 1 << 20)
        all_of = [decode_signal(each) for each in found.bodies] if isinstance(found, Rows) else []
        return [each for each in all_of if isinstance(each, kind)]

    async def until(self, kind: type[Any], **wanted: Any) -> Any:
        for _ in range(500):
            for each in await self.said(kind):
                if all(getattr(each, name) == value for name, value in wanted.items()):
                    return each
            await asyncio.sleep(0.01)
        raise AssertionError(
            f"no {kind.__name__} with {wanted}: {await self.said(CommandReported)}"
        )

    async def held(self) -> RequestOpened:
        found: RequestOpened = await self.until(RequestOpened)
        assert found.hold
        return found

    async def decide(self, verb: str, **more: Any) -> None:
        """By what was shown, as a hub does."""
        opened = await self.held()
        asked = Asked("", ROOT, "/work", opened.tool or "", opened.payload or {}, ())
        about = {"request_id": opened.request_id, "binding": binding_shown(opened)}
        await self.control.obey(command_for(asked, verb, **about | more))


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Asking]:
    server = Asking(tmp_path)
    async with unix_serve(server.converse, str(server.path)):
        yield server


@pytest.fixture
async def collector(
    server: Asking, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Collector]:
    for name in ("LOOK_S", "AGAIN_S"):
        monkeypatch.setattr(f"adsum_collector.agents.codex.server_status.{name}", 0.02)
    monkeypatch.setattr(shapes, "SETTLE_S", 0.1)
    monkeypatch.setattr(shapes, "PATCH_S", 0.1)
    consent_to(tmp_path / "state", KEY, "full")
    spool = await Spool.open(tmp_path / "spool", SpoolLimits(min_free_bytes=0))
    collector = Collector(server.home, tmp_path / "state", spool)
    async with connected(str(server.path)):
        tasks = [asyncio.create_task(each.run()) for each in (collector.control, collector.witness)]
        yield collector
        for task in tasks:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
    await spool.close()


async def asks(server: Asking, method: str = shapes.COMMAND, **told: Any) -> None:
    await wait_until(lambda: len(server.guests) > 1)
    flag = QUESTION if method == shapes.QUESTIONS else APPROVAL
    await server.say(changed(ROOT, "active", flag))
    await wait_until(lambda: server.called("thread/resume"))
    await server.ask(method, **told)


async def test_a_session_that_asks_is_heard_while_it_asks_and_no_longer(
    server: Asking, collector: Collector
) -> None:
    await asks(server)
    await collector.decide("allow")
    await wait_until(lambda: server.answers)
    await server.resolve()
    await server.say(changed(ROOT, "active"))
    await wait_until(lambda: server.called("thread/unsubscribe"))

    assert server.answers == [{"id": 0, "result": {"decision": "accept"}}]
    assert server.called("thread/resume") == [{"threadId": ROOT, "excludeTurns": True}]
    told = await collector.until(CommandReported, outcome="took_effect")
    assert told.by == "ann"
    # Hubs know the request by that name.
    await collector.until(RequestClosed, request_id=(await collector.held()).request_id)


async def test_with_control_off_the_server_is_asked_what_it_always_was(
    server: Asking, collector: Collector
) -> None:
    keep_consent(collector.state_dir, Consent())
    await wait_until(lambda: len(server.guests) > 1)
    await server.say(changed(ROOT, "active", APPROVAL))
    await server.ask()
    await server.say(changed(ROOT, "active"))
    await collector.until(RequestClosed)

    allowed = {"initialize", "initialized", "thread/loaded/list", "thread/read"}
    assert {method for method, _ in server.calls} == allowed
    assert not server.answers
    assert not await collector.said(RequestOpened)


async def test_control_that_ends_takes_the_subscription_back(
    server: Asking, collector: Collector
) -> None:
    await asks(server)
    await collector.held()

    keep_consent(collector.state_dir, Consent())

    await wait_until(lambda: server.called("thread/unsubscribe"))
    await collector.until(HoldEnded)
    assert not server.answers


async def test_whoever_answered_at_the_terminal_was_first(
    server: Asking, collector: Collector
) -> None:
    await asks(server)
    await collector.held()
    await server.resolve()

    assert (await collector.until(HoldEnded)).reason == "answered"
    await collector.decide("allow")
    await collector.until(CommandReported, outcome="too_late")
    assert not server.answers


async def test_an_answer_after_the_terminals_is_overruled(
    server: Asking, collector: Collector
) -> None:
    await asks(server)
    before = now() - 1
    await collector.decide("allow")
    await wait_until(lambda: server.answers)
    await server.resolve(at=before)

    await collector.until(CommandReported, outcome="overruled")


@pytest.mark.parametrize(
    ("verb", "seen"),
    [
        ("deny", ToolFinished(session_id=ROOT, at=1, seen=1, tool="Bash", tool_use_id=CALL)),
        ("allow", TurnInterrupted(session_id=ROOT, at=1 << 50, seen=1)),
    ],
)
async def test_a_key_that_crosses_with_an_answer_is_known_by_what_comes_of_it(
    server: Asking, collector: Collector, verb: str, seen: Any
) -> None:
    await asks(server)
    await collector.decide(verb)
    await wait_until(lambda: server.answers)
    collector.agent.threads.note(ROOT, [seen])
    await server.resolve()

    await collector.until(CommandReported, outcome="overruled")


async def test_what_was_shown_is_what_is_decided(server: Asking, collector: Collector) -> None:
    await asks(server)
    opened = await collector.held()
    other = msgspec.structs.replace(opened, payload={"command": "ls"})

    await collector.decide("allow", binding=binding_shown(other))

    await collector.until(CommandReported, outcome="refused")
    assert not server.answers


async def test_a_request_that_is_asked_again_is_held_once(
    server: Asking, collector: Collector
) -> None:
    await asks(server)
    await collector.held()
    await server.ask()
    await server.ask(number=1, itemId="exec-2")
    await wait_until(lambda: len(collector.control._holds.open) == 2)

    assert len([each for each in await collector.said(RequestOpened) if each.hold]) == 2


async def test_a_patch_is_shown_as_its_hook_told_it(server: Asking, collector: Collector) -> None:
    call = {"session_id": ROOT, "hook_event_name": "PreToolUse", "tool_use_id": CALL}
    call |= {"tool_name": "apply_patch", "tool_input": {"command": "*** Begin Patch"}}
    await asks(server, shapes.PATCH)
    collector.agent.hook(json.dumps(call).encode(), now())

    opened = await collector.held()

    assert opened.payload == {"command": "*** Begin Patch"}
    assert opened.hold
    assert opened.hold.verbs == ["allow", "always", "deny", "defer"]


async def test_a_subagents_request_is_its_sessions(server: Asking, collector: Collector) -> None:
    server.threads[CHILD] = thread(CHILD, parentThreadId=ROOT, status=status("active", APPROVAL))
    await wait_until(lambda: len(server.guests) > 1)
    await server.say(changed(CHILD, "active", APPROVAL))
    await wait_until(lambda: server.called("thread/resume"))
    await server.ask(threadId=CHILD)

    opened = await collector.held()

    assert (opened.session_id, opened.agent_id) == (ROOT, CHILD)
    assert opened.hold
    assert opened.hold.for_ms == 100_000  # its dialog shows meanwhile


async def test_a_server_that_goes_has_decided_nothing(server: Asking, collector: Collector) -> None:
    await asks(server)
    await collector.held()

    await server.guests[-1].close()

    assert (await collector.until(HoldEnded)).reason == "gone"


async def test_a_prompt_is_said_with_no_setting_beside_it(
    server: Asking, collector: Collector
) -> None:
    await wait_until(lambda: collector.agent.line_to(ROOT))
    line = collector.agent.line_to(ROOT)
    assert line is not None

    await line.say(ROOT, "Now the tests")

    words = [{"type": "text", "text": "Now the tests"}]
    assert server.called("turn/start") == [{"threadId": ROOT, "input": words}]
    with pytest.raises(NotObeyedError):
        await line.say(ROOT, "/compact")
    server.refuses = "turn/start"
    with pytest.raises(NotObeyedError, match="not you"):
        await line.say(ROOT, "again")


async def test_the_turn_that_runs_is_interrupted_and_no_other(
    server: Asking, collector: Collector
) -> None:
    await wait_until(lambda: collector.agent.line_to(ROOT))
    line = collector.agent.line_to(ROOT)
    assert line is not None

    await line.interrupt(ROOT)
    server.turn["status"] = "completed"

    with pytest.raises(NotObeyedError):
        await line.interrupt(ROOT)
    assert server.called("turn/interrupt") == [{"threadId": ROOT, "turnId": TURN}]


async def test_a_session_is_reached_while_its_server_runs_it(
    server: Asking, collector: Collector
) -> None:
    agent, process = collector.agent, AgentProcess(os.getpid(), look_up(os.getpid()) or 0, "codex")
    seats = Seats({"codex": agent}, {}, SimpleNamespace(look=lambda: {ROOT: process}))
    assert seats.of(ROOT) is None
    with pytest.raises(NotObeyedError, match="no background server"):
        seats.require_reach(ROOT)
    await wait_until(lambda: agent.line_to(ROOT))

    def is_at(word: str) -> bool:
        seat = seats.of(ROOT)
        return seat is not None and seat.status == word

    for word, *kind in (("idle", "idle"), ("busy", "active"), ("waiting", "active", APPROVAL)):
        await server.say(changed(ROOT, *kind, at=now()))
        await wait_until(lambda word=word: is_at(word))  # type: ignore[misc] # bound for the loop
    await server.say(changed(ROOT, "notLoaded", at=now()))
    await wait_until(lambda: seats.of(ROOT) is None)
