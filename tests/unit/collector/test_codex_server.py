"""What the background server of Codex says of its threads, and how a guest behaves there."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from websockets.asyncio.server import ServerConnection, unix_serve

from adsum_collector.agents.base import Surroundings
from adsum_collector.agents.codex import server_status
from adsum_collector.agents.codex.agent import Codex
from adsum_collector.agents.codex.control_socket import (
    ControlSocketError,
    ServerMessage,
    connected,
)
from adsum_collector.agents.codex.known_threads import KnownThreads
from adsum_collector.agents.codex.server_status import Broadcasts, ServerStatus, has_clients
from adsum_collector.agents.codex.trust import SOCKET
from adsum_collector.errors import SpoolUnavailable
from adsum_hub.facts import Facts
from adsum_hub.fold.fold import fold
from adsum_hub.verdict.judge import judge
from adsum_shared import signals as s
from adsum_shared.signals import AnySignal
from tests.support import wait_until

NOW = 1_795_426_566_000
ROOT, CHILD, TITLE, TURN = (f"01a207c3-0000-7000-8000-00000000000{number}" for number in range(4))
APPROVAL, QUESTION = "waitingOnApproval", "waitingOnUserInput"


def message(method: str, at: int = NOW, **params: Any) -> ServerMessage:
    return ServerMessage(method, msgspec.Raw(json.dumps(params).encode()), None, at)


def status(kind: str, *flags: str) -> dict[str, Any]:
    return {"type": kind, "activeFlags": list(flags)} if kind == "active" else {"type": kind}


def changed(thread: str, kind: str, *flags: str, at: int = NOW) -> ServerMessage:
    return message("thread/status/changed", at, threadId=thread, status=status(kind, *flags))


def thread(thread: str = ROOT, session: str = ROOT, **fields: Any) -> dict[str, Any]:
    about = {"id": thread, "sessionId": session, "status": status("idle"), "ephemeral": False}
    return {**about, "preview": "do it", "threadSource": "user", "cwd": "/", **fields}


@pytest.fixture
def known() -> KnownThreads:
    threads = KnownThreads()
    threads.learn(ROOT)
    threads.learn(CHILD, "child", ROOT)
    return threads


@pytest.fixture
def heard(known: KnownThreads) -> Broadcasts:
    return Broadcasts(known)


def told(heard: Broadcasts, *messages: ServerMessage) -> list[AnySignal]:
    return [signal for each in messages for signal in heard.read(each, NOW + 60_000)]


def words(signals: Sequence[AnySignal]) -> list[tuple[str | None, str | None]]:
    return [(it.status, it.waiting_for) for it in signals if isinstance(it, s.StatusReported)]


def state(signals: Sequence[AnySignal], at: int) -> str:
    facts: Facts | None = None
    for signal in signals:
        facts = fold(facts, signal)
    assert facts is not None
    return judge(facts, at).state.state


def test_a_threads_status_is_its_sessions_word(heard: Broadcasts) -> None:
    found = told(
        heard,
        changed(ROOT, "active"),
        changed(ROOT, "active", APPROVAL),
        changed(ROOT, "active", QUESTION),
        changed(ROOT, "idle"),
    )

    asked = [("waiting", "permission prompt"), ("waiting", "input needed")]
    assert words(found) == [("busy", None), *asked, ("idle", None)]
    assert {(each.session_id, each.source) for each in found} == {(ROOT, "registry")}


def test_what_is_asked_is_answered_when_the_flag_goes(heard: Broadcasts) -> None:
    codex = Codex()
    asks = {
        "session_id": ROOT,
        "turn_id": TURN,
        "tool_name": "Bash",
        "tool_input": {"command": "x"},
    }
    body = json.dumps({**asks, "hook_event_name": "PermissionRequest"}).encode()
    opened = codex.hook(body, NOW)

    found = told(heard, changed(ROOT, "active", APPROVAL, at=NOW + 20))
    answered = told(heard, changed(ROOT, "active", at=NOW + 900))

    assert state([*opened, *found], NOW + 800) == "needs_permission"
    assert state([*opened, *found, *answered], NOW + 901) != "needs_permission"


def test_an_approval_is_seen_without_any_hook(heard: Broadcasts) -> None:
    turn = s.PromptSubmitted(session_id=ROOT, at=NOW - 500, seen=NOW, source="transcript")

    found = told(heard, changed(ROOT, "active"), changed(ROOT, "active", APPROVAL, at=NOW + 9))

    assert state([turn, *found], NOW + 400) == "needs_permission"


def test_a_session_works_while_its_subagent_does_and_waits_while_that_asks(
    heard: Broadcasts,
) -> None:
    first = told(heard, changed(ROOT, "active"), changed(CHILD, "active"), changed(ROOT, "idle"))
    asks = told(heard, changed(CHILD, "active", APPROVAL))
    over = told(heard, changed(CHILD, "active"), changed(CHILD, "idle"))

    assert words(first) == [("busy", None)]
    assert words(asks) == [("waiting", "permission prompt")]
    assert words(over) == [("busy", None), ("idle", None)]
    assert [it.request_id for it in over if isinstance(it, s.RequestClosed)] == [CHILD]


@pytest.mark.parametrize(
    "hidden",
    [{"ephemeral": True}, {"threadSource": "thread_title"}, {"threadSource": "guardian_review"}],
)
def test_threads_that_invent_titles_or_review_are_no_sessions(
    heard: Broadcasts, hidden: dict[str, Any]
) -> None:
    begun = message("thread/started", thread=thread(TITLE, TITLE, **hidden))

    assert told(heard, begun, changed(TITLE, "active"), changed(TITLE, "notLoaded")) == []


def test_a_thread_that_nobody_knows_waits_until_somebody_says_what_it_is(
    heard: Broadcasts, known: KnownThreads
) -> None:
    before = told(heard, changed(TITLE, "active"))
    asked = heard.unknown()
    known.learn(TITLE)

    assert (before, asked) == ([], [TITLE])
    assert words(heard.settle(NOW)) == [("busy", None)]
    assert heard.settle(NOW) == []


def test_a_session_is_not_listed_before_its_first_prompt(heard: Broadcasts) -> None:
    opened = told(heard, message("thread/started", thread=thread(TITLE, TITLE, preview="")))
    closed = told(heard, changed(TITLE, "notLoaded"))
    typed = told(
        heard,
        message("thread/started", thread=thread(TURN, TURN, preview="")),
        changed(TURN, "active"),
    )

    assert (opened, closed) == ([], [])
    assert words(typed) == [("busy", None)]


def test_an_unloaded_session_is_closed_and_one_that_is_taken_up_again_waits_for_a_prompt(
    heard: Broadcasts,
) -> None:
    lived = told(heard, changed(ROOT, "active"), changed(ROOT, "idle", at=NOW + 1_000))
    gone = told(heard, changed(ROOT, "notLoaded", at=NOW + 61_000))
    ended = s.SessionEnded(session_id=ROOT, at=NOW + 60_990, seen=NOW + 60_990)
    back = heard.read(changed(ROOT, "idle", at=NOW + 70_000), NOW + 70_001)

    assert state([*lived, *gone, ended], NOW + 62_000) == "session_ended"
    assert state([*lived, *gone, ended, *back], NOW + 71_000) == "idle"


def test_a_failure_is_told_where_the_rollout_tells_no_cause(
    heard: Broadcasts, known: KnownThreads
) -> None:
    failed = told(heard, changed(ROOT, "active"), changed(ROOT, "systemError"))
    read = known.learn(CHILD, "session")
    read.kind, read.session, read.turn = "session", CHILD, TURN

    assert [type(each) for each in failed][-2:] == [s.TurnFailed, s.StatusReported]
    assert not any(
        isinstance(it, s.TurnFailed) for it in told(heard, changed(CHILD, "systemError"))
    )


def test_a_name_is_a_title(heard: Broadcasts) -> None:
    (found,) = told(heard, message("thread/name/updated", threadId=ROOT, threadName="Tidy up"))

    assert isinstance(found, s.MetaChanged)
    assert found.ai_title == "Tidy up"


def test_a_plan_is_ready_though_its_server_calls_it_idle(heard: Broadcasts) -> None:
    prompt = s.PromptSubmitted(
        session_id=ROOT, at=NOW, seen=NOW, source="transcript", prompt_id=TURN
    )
    about = {"session_id": ROOT, "at": NOW + 900, "seen": NOW + 910, "source": "transcript"}
    plan = s.RequestOpened(**about, prompt_id=f"{TURN}/plan", request_id="p", request_kind="plan")
    ends = [s.TurnEnded(**about, prompt_id=TURN, final=True), plan]

    found = told(heard, changed(ROOT, "active"), changed(ROOT, "idle", at=NOW + 930))

    assert state([prompt, *ends, *found], NOW + 5_000) == "awaiting_approval"


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        (changed(ROOT, "asleep"), "status asleep"),
        (changed(ROOT, "active", "waitingOnMoon"), "flag waitingOnMoon"),
        (message("thread/status/changed", thread=ROOT), "thread/status/changed"),
        (message("thread/started", thread=[]), "thread/started"),
        (ServerMessage("thread/started", msgspec.Raw(b"[" * 5_000)), "thread/started"),
    ],
)
def test_what_is_said_in_another_way_is_counted(
    heard: Broadcasts, said: ServerMessage, cause: str
) -> None:
    heard.read(said, NOW)

    assert dict(heard.moved) == {cause: 1}


def test_a_request_and_what_is_of_no_thread_mean_nothing(heard: Broadcasts) -> None:
    asked = ServerMessage("thread/status/changed", changed(ROOT, "idle").params, 12)

    assert told(heard, asked, message("configWarning", summary="x")) == []
    assert not heard.moved


# A guest at a server.


class Server:
    """Stands for the background server: answers what a guest may ask, and keeps what it was asked."""

    def __init__(self, home: Path) -> None:
        self.home, self.path = home, home / "real.sock"
        self.threads: dict[str, dict[str, Any]] = {ROOT: thread()}
        self.refuses = ""
        self.asked: list[str] = []
        self.names: list[str] = []
        self.guests: list[ServerConnection] = []
        folder = (home / SOCKET).parent
        folder.mkdir(parents=True)
        (home / SOCKET).symlink_to(self.path)
        (home / "app-server-daemon").mkdir()
        pid = home / "app-server-daemon" / "daemon.pid"
        pid.write_text(json.dumps({"pid": os.getpid(), "processIdentity": {"startTicks": 1}}))

    async def converse(self, guest: ServerConnection) -> None:
        async for frame in guest:
            said = json.loads(frame)
            self.asked.append(said["method"])
            if said["method"] == "initialize":
                self.names.append(said["params"]["clientInfo"]["name"])
                self.guests.append(guest)
            if "id" in said:
                await guest.send(json.dumps({"id": said["id"], **self.answer(said)}))

    def answer(self, said: dict[str, Any]) -> dict[str, Any]:
        method = said["method"]
        if method == self.refuses:
            return {"error": {"code": -1, "message": "not you"}}
        if method == "thread/loaded/list":
            return {"result": {"data": list(self.threads), "nextCursor": None}}
        if method == "thread/read":
            return {"result": {"thread": self.threads[said["params"]["threadId"]]}}
        return {"result": {}}

    async def say(self, message: ServerMessage) -> None:
        told = {"method": message.method, "params": json.loads(bytes(message.params))}
        for guest in self.guests:
            await guest.send(json.dumps({**told, "emittedAtMs": message.emitted}))


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    server = Server(tmp_path)
    async with unix_serve(server.converse, str(server.path)):
        yield server


class Collector:
    def __init__(self, home: Path) -> None:
        self.signals: list[AnySignal] = []
        self.full = False
        around = Surroundings(self.accept, dict, lambda _pid: NOW - 9_000, lambda: NOW)
        self.witness = ServerStatus(home, KnownThreads(), around)

    async def accept(self, signals: Sequence[AnySignal]) -> int:
        if self.full:
            raise SpoolUnavailable("full")
        self.signals += signals
        return len(self.signals)

    def has(self, kind: type[AnySignal]) -> Callable[[], bool]:
        return lambda: any(isinstance(each, kind) for each in self.signals)


@pytest.fixture
async def collector(server: Server, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Collector]:
    for name in ("LOOK_S", "AGAIN_S"):
        monkeypatch.setattr(f"adsum_collector.agents.codex.server_status.{name}", 0.02)
    collector = Collector(server.home)
    task = asyncio.create_task(collector.witness.run())
    yield collector
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


@contextlib.asynccontextmanager
async def another_client(server: Server) -> AsyncIterator[None]:
    async with connected(str(server.path)):
        yield


async def test_a_guest_comes_after_others_and_tells_how_things_stand(
    server: Server, collector: Collector
) -> None:
    await asyncio.sleep(0.2)  # the time in which it could come, and must not
    assert server.names == []

    async with another_client(server):
        await wait_until(collector.has(s.StatusReported))

    assert [type(each) for each in collector.signals] == [s.ProcessSeen, s.StatusReported]
    assert words(collector.signals) == [("idle", None)]
    assert collector.witness.health(NOW).state == "ok"


async def test_a_guest_subscribes_to_nothing_and_answers_nothing(
    server: Server, collector: Collector
) -> None:
    async with another_client(server):
        await wait_until(collector.has(s.StatusReported))
        await server.guests[-1].send('{"id":7,"method":"item/commandExecution/requestApproval"}')
        await server.say(changed(ROOT, "active"))
        await wait_until(lambda: ("busy", None) in words(collector.signals))

    allowed = {"initialize", "initialized", "thread/loaded/list", "thread/read"}
    assert set(server.asked) == allowed
    assert set(server.names) == {"codex-tui"}


async def test_a_thread_nobody_has_spoken_of_is_asked_for(
    server: Server, collector: Collector
) -> None:
    async with another_client(server):
        await wait_until(collector.has(s.StatusReported))
        server.threads[CHILD] = thread(CHILD)
        await server.say(changed(CHILD, "active"))
        await wait_until(lambda: ("busy", None) in words(collector.signals))

    assert collector.signals[-1].session_id == ROOT


async def test_a_server_that_goes_and_comes_back_is_listened_to_again(
    server: Server, collector: Collector
) -> None:
    async with another_client(server):
        await wait_until(collector.has(s.StatusReported))
        await server.guests[-1].close()
        await wait_until(lambda: len(server.guests) > 2)
        await wait_until(lambda: len(words(collector.signals)) > 1)


async def test_what_could_not_be_kept_is_told_again(server: Server, collector: Collector) -> None:
    collector.full = True
    async with another_client(server):
        await wait_until(lambda: collector.witness.faults["not accepted"] > 0)
        collector.full = False
        await wait_until(collector.has(s.StatusReported))


async def test_a_server_that_refuses_is_told_of_with_its_reason(
    server: Server, collector: Collector
) -> None:
    async with another_client(server):
        server.refuses = "initialize"
        await wait_until(lambda: collector.witness.faults["refused"] > 0)

    told = collector.witness.health(NOW)
    assert told.state == "trouble"
    assert "not you" in (told.note or "")
    assert "hooks and files" in (told.note or "")


async def test_a_protocol_that_has_moved_is_told_and_disturbs_nothing(
    server: Server, collector: Collector
) -> None:
    async with another_client(server):
        await wait_until(collector.has(s.StatusReported))
        await server.say(changed(ROOT, "asleep"))
        await server.say(changed(ROOT, "active"))
        await wait_until(lambda: ("busy", None) in words(collector.signals))

    told = collector.witness.health(NOW)
    assert told.counts == {"status asleep": 1}
    assert "update Adsum" in (told.note or "")


class DeepServer:
    """One of its answers is nested deeper than anybody reads."""

    def __init__(self, method: str) -> None:
        self.deep = method

    async def call(self, method: str, _params: Any) -> bytes:
        if method == self.deep:
            return b'{"x":' + b"[" * 3_000 + b"]" * 3_000 + b"}"
        return json.dumps({"data": [ROOT]}).encode()

    async def next(self) -> ServerMessage:
        return await asyncio.Future()


@pytest.mark.parametrize("method", ["thread/read", "thread/loaded/list"])
async def test_an_answer_that_is_nested_without_end_disturbs_nothing(
    server: Server, collector: Collector, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    @contextlib.asynccontextmanager
    async def deep(_path: str) -> AsyncIterator[DeepServer]:
        yield DeepServer(method)

    async with another_client(server):
        monkeypatch.setattr(server_status, "connected", deep)
        await wait_until(lambda: collector.witness.health(NOW).counts.get(method, 0) > 0)


async def test_who_is_at_the_server_is_asked_beside_the_loop(
    server: Server, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A home on a mount that hangs must not keep every hook of the machine waiting."""
    threads: dict[str, set[int]] = {"has_clients": set(), "server_pid": set(), "socket_of": set()}

    def noted(name: str, asked: Callable[..., Any]) -> Callable[..., Any]:
        def ask(*given: Any) -> Any:
            threads[name].add(threading.get_ident())
            return asked(*given)

        return ask

    for name in threads:
        monkeypatch.setattr(server_status, name, noted(name, getattr(server_status, name)))
    async with another_client(server):
        await wait_until(collector.has(s.StatusReported))

    assert all(threads.values())
    assert threading.get_ident() not in set().union(*threads.values())


async def test_a_client_of_the_socket_is_told_why_it_is_refused(server: Server) -> None:
    async with connected(str(server.path)) as socket:
        server.refuses = "thread/read"
        with pytest.raises(ControlSocketError, match="not you"):
            await socket.call("thread/read", {"threadId": ROOT})


async def test_who_waits_for_an_answer_hears_that_the_server_has_gone(server: Server) -> None:
    async with connected(str(server.path)) as socket:
        await server.guests[-1].close()
        with pytest.raises(ControlSocketError):
            await socket.next()


async def test_nobody_is_connected_to_a_socket_on_which_only_its_server_listens(
    server: Server,
) -> None:
    path = str(server.path)
    assert not has_clients(os.getpid(), path)

    async with another_client(server):
        assert has_clients(os.getpid(), path)
