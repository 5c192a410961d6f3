"""The requests of a background server of Codex: which decisions one takes, and how people elsewhere give them.

The shapes are those of 0.169.0. What asks in another way is not held: the terminal decides it. Never
answered: rules that Codex would write into a file, and permissions beyond the one call.

To hear a request one must be subscribed to its thread, and a thread is kept loaded by whoever is. So
that is done while control is on and the thread asks, and taken back as soon as either is over.
"""

from __future__ import annotations

import asyncio
import contextlib
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any, Final, NamedTuple

import msgspec

from adsum_collector.agents.base import Asked, HeardRequest, Surroundings
from adsum_collector.agents.codex import calls
from adsum_collector.agents.codex.control_socket import (
    ControlSocket,
    ControlSocketError,
    ServerMessage,
    ServerRefusedError,
)
from adsum_collector.agents.codex.known_threads import KnownThreads
from adsum_collector.agents.records import require_text
from adsum_collector.errors import SpoolUnavailable
from adsum_shared import WallClock
from adsum_shared.characters import without_invisible
from adsum_shared.commands import Command, Decision, NotObeyedError
from adsum_shared.signals import RequestClosed, RequestOpened

COMMAND: Final = "item/commandExecution/requestApproval"
PATCH: Final = "item/fileChange/requestApproval"
QUESTIONS: Final = "item/tool/requestUserInput"
TOOLS: Final = {COMMAND: calls.SHELL, PATCH: calls.PATCHER, QUESTIONS: calls.QUESTION}
#: Of an input, in bytes of JSON. What is longer nobody reads before they allow it.
INPUT_MAX: Final = 64 << 10
#: What of a request is not what it asks for: names, times, and what a terminal may offer.
ASIDE: Final = frozenset(
    {"threadId", "turnId", "itemId", "startedAtMs", "kind", "approvalId", "availableDecisions"}
    | {"proposedExecpolicyAmendment", "proposedNetworkPolicyAmendments", "commandActions", "reason"}
)
SHELLS: Final = frozenset({"bash", "sh", "zsh"})
#: The terminal writes so before what was typed in place of a label, or beside it.
NOTE: Final = "user_note: "
NAME_MAX: Final = 80
VERBS: Final[dict[str, str]] = {"allow": "accept", "always": "acceptForSession"}
REFUSALS: Final = frozenset({"decline", "cancel"})


class _Request(msgspec.Struct, rename="camel"):
    thread_id: str
    turn_id: str
    item_id: str
    started_at_ms: int = 0
    kind: str = "command"
    reason: str | None = None
    command: str | None = None
    available_decisions: list[Any] | None = None
    network_approval_context: Any = None
    grant_root: Any = None
    is_blocking: bool = True
    questions: list[dict[str, Any]] = []


class Whose(NamedTuple):
    """session: of the thread that asks; child: that thread, if it is a subagent's. cwd: where it works."""

    session: str
    child: str | None
    cwd: str


class ServerRequest(NamedTuple):
    """method: one of TOOLS. told: all of it, as it came."""

    method: str
    about: _Request
    told: dict[str, Any]

    @property
    def thread(self) -> str:
        return self.about.thread_id

    @property
    def call(self) -> str:
        """By the name that hooks and rollout have for it."""
        return self.about.item_id


def request_in(method: str, params: msgspec.Raw) -> ServerRequest | None:
    """None, if only a terminal can answer it. Raises DecodeError for what Codex would never ask."""
    if method not in TOOLS:
        return None
    about, told = msgspec.json.decode(params, type=_Request), msgspec.json.decode(params)
    odd = about.kind != "command" or about.network_approval_context is not None
    if odd or (method == COMMAND and not about.command) or not about.is_blocking:
        return None
    return (
        None if method == QUESTIONS and not _questions(told) else ServerRequest(method, about, told)
    )


def asked_of(request: ServerRequest, whose: Whose, patch: str | None) -> Asked:
    """patch: what is to be changed, of PATCH, which the server does not repeat; None: nobody knows."""
    given, verbs = _given(request, patch), ["answer"]
    whole = given is not None and len(msgspec.json.encode(given)) <= INPUT_MAX
    if request.method != QUESTIONS:
        offered = request.about.available_decisions
        usual = ["accept", "acceptForSession"] if request.method == PATCH else ["accept"]
        offered = usual if offered is None else offered
        verbs = [verb for verb, word in VERBS.items() if word in offered]
        if not whole or request.about.grant_root is not None:
            verbs = []
        verbs.append("deny")
    always = "these files" if request.method == PATCH else "this very command"
    return Asked(
        event=request.method,
        session_id=whose.session,
        cwd=whose.cwd,
        tool=TOOLS[request.method],
        given=given if whole and given is not None else {"item": request.call},
        verbs=msgspec.convert((*verbs, "defer"), tuple[Decision, ...]),
        agent_id=whose.child,
        always=(f"{always}, as long as the session lasts",) if "always" in verbs else (),
        whole=whole,
        in_sight=True,
    )


def opened_by(request: ServerRequest, asked: Asked, own_id: str, now: int) -> RequestOpened:
    started = request.about.started_at_ms
    return RequestOpened(
        session_id=asked.session_id,
        at=min(started or now, now),
        seen=now,
        source="registry",
        agent_id=asked.agent_id,
        prompt_id=None if asked.agent_id else request.about.turn_id,
        request_kind="question" if request.method == QUESTIONS else "permission",
        tool=asked.tool,
        role=calls.role_of(asked.tool),
        tool_use_id=request.call,
        request_id=own_id,
        summary=calls.summary(asked.tool, asked.given),
        payload=asked.given if asked.whole else None,  # what else is known of the call stands
    )


def _given(request: ServerRequest, patch: str | None) -> dict[str, Any] | None:
    """All that is asked for, so also what a later version adds to it."""
    told = {k: v for k, v in request.told.items() if k not in ASIDE and v is not None}
    if request.method == QUESTIONS:
        return {"questions": request.told["questions"]}
    if told.get("environmentId") == "local":
        del told["environmentId"]
    reason = request.about.reason
    described = {"description": reason} if reason else {}
    if request.method == PATCH:
        return None if patch is None else {"command": patch, **described, **told}
    return {**_unwrapped(told.pop("command")), **described, **told}


def _unwrapped(command: str) -> dict[str, str]:
    """A command without the shell that runs it, as the terminal shows it."""
    try:
        words = shlex.split(command)
    except ValueError:
        words = []
    if len(words) == 3 and PurePath(words[0]).name in SHELLS and words[1] in ("-c", "-lc"):
        return {"command": words[2], "shell": " ".join(words[:2])}
    return {"command": command}


def _questions(told: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """By their text. Empty, if they cannot be told apart, or one asks for a secret."""
    found: dict[str, dict[str, Any]] = {}
    for each in told.get("questions") or []:
        text, name = each.get("question"), each.get("id")
        named = isinstance(text, str) and isinstance(name, str) and text and text not in found
        if not named or each.get("isSecret"):
            return {}
        found[text] = each
    return found


def answer_of(asked: Asked, command: Command) -> bytes:
    """Raises NotObeyedError. A reason is not passed on: Codex has no place for one."""
    if command.verb not in asked.verbs:
        raise NotObeyedError(f"{asked.tool} does not take `{command.verb}` from elsewhere")
    if command.verb == "defer":
        return b""
    if command.verb == "answer":
        return msgspec.json.encode({"answers": _answers(asked, command)})
    refusal = "cancel" if command.stop else "decline"
    return msgspec.json.encode({"decision": VERBS.get(command.verb, refusal)})


def sayable(text: str) -> str:
    """A prompt. Raises NotObeyedError: at the terminal it would be a command."""
    if without_invisible(text).lstrip()[:1] in ("/", "!"):
        raise NotObeyedError("it begins as a command, with / or !: commands are not sent")
    return text


def _is_refusal(answer: Mapping[str, Any]) -> bool:
    return answer.get("decision") in REFUSALS


def _answers(asked: Asked, command: Command) -> dict[str, Any]:
    """As the terminal gives them: a label, or words of one's own, and a note."""
    questions, given, notes = _questions(asked.given), command.answers or {}, command.notes or {}
    if (given.keys() | notes.keys()) - questions.keys():
        raise NotObeyedError("an answer is to no question that was asked")
    found: dict[str, Any] = {}
    for text, question in questions.items():
        chosen = [require_text(each, "an answer") for each in given.get(text, [])]
        if len(chosen) != 1 or not chosen[0]:
            raise NotObeyedError(f"it takes one answer: {text[:NAME_MAX]}")
        options = question.get("options") or []
        labels = {each.get("label") for each in options if isinstance(each, dict)}
        words = [chosen[0] if chosen[0] in labels else f"{NOTE}{chosen[0]}"]
        if note := require_text(notes.get(text), "a note"):
            words.append(f"{NOTE}{note}")
        found[question["id"]] = {"answers": words}
    return found


RESOLVED: Final = "serverRequest/resolved"
#: For the hook that tells of a patch, which may be heard after the server's request.
PATCH_S: Final = 1.0
PATCH_LOOKS: Final = 20
#: For what comes of a key that crossed with an answer: lines and hooks tell it sooner.
SETTLE_S: Final = 0.5
SETTLE_LOOKS: Final = 20
MOST_OPEN: Final = 64


class _Resumed(msgspec.Struct):
    cwd: str


class _Resolved(msgspec.Struct, rename="camel"):
    thread_id: str
    request_id: int | str


class _Open:
    """A request that is held, and the way its answer takes. given_at: ms, 0 if none was given."""

    def __init__(
        self, server: ControlSocket, request: ServerRequest, number: int | str, now: WallClock
    ) -> None:
        self._server, self.request, self.number, self._now = server, request, number, now
        self.own_id = f"{request.thread}/{number}"
        self.over = asyncio.Event()
        self.asked: Asked | None = None
        self.holding: asyncio.Task[None] | None = None
        self.given: dict[str, Any] = {}
        self.given_at = 0
        self.is_settling = False

    async def read(self, _most: int) -> bytes:
        await self.over.wait()
        return b""

    def write(self, body: bytes) -> None:
        self.given = msgspec.json.decode(body)

    async def drain(self) -> None:
        self.given_at = self._now()
        try:
            await self._server.answer(self.number, self.given)
        except ControlSocketError as error:
            raise OSError(str(error)) from error


class SharedRequests:
    """Of one connection. moved: what was asked in another way than expected -> how often."""

    def __init__(
        self,
        server: ControlSocket,
        threads: KnownThreads,
        around: Surroundings,
        moved: Counter[str],
    ) -> None:
        self._server, self._threads, self._around = server, threads, around
        self._moved = moved
        #: thread -> where it works; "" if the server would not let us listen
        self._heard: dict[str, str] = {}
        self._open: dict[int | str, _Open] = {}

    async def follow(self, asking: Sequence[str]) -> None:
        """asking: the threads that wait for a human now. Raises ControlSocketError."""
        desk = self._around.desk
        wanted = dict.fromkeys(asking if desk is not None and desk.is_on() else ())
        for thread in [each for each in self._heard if each not in wanted]:
            del self._heard[thread]
            for each in [each for each in self._open.values() if each.request.thread == thread]:
                if not each.is_settling:
                    self._end(each)
            with contextlib.suppress(ServerRefusedError):  # it has unloaded the thread itself
                await self._server.call("thread/unsubscribe", {"threadId": thread})
        for thread in [each for each in wanted if each not in self._heard]:
            self._heard[thread] = ""
            try:
                named = {"threadId": thread, "excludeTurns": True}
                raw = await self._server.call("thread/resume", named)
                self._heard[thread] = msgspec.json.decode(raw, type=_Resumed).cwd
            except ServerRefusedError:
                self._moved["thread/resume refused"] += 1
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                self._moved["thread/resume"] += 1

    async def hear(self, message: ServerMessage) -> None:
        """Raises SpoolUnavailable."""
        if message.method != RESOLVED and message.id is None:
            return
        try:
            if message.method == RESOLVED:
                told = msgspec.json.decode(message.params, type=_Resolved)
                await self._resolve(told, message.emitted)
            elif (found := request_in(message.method, message.params)) is not None:
                self._hold(found, message.id or 0)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            self._moved[message.method] += 1

    async def close(self) -> None:
        """Whoever stops listening has not decided."""
        tasks = [each.holding for each in self._open.values() if each.holding is not None]
        for each in list(self._open.values()):
            self._end(each)
        if tasks:
            await asyncio.wait(tasks)

    def _end(self, held: _Open) -> None:
        held.over.set()
        if self._open.get(held.number) is held:
            del self._open[held.number]

    def _hold(self, request: ServerRequest, number: int | str) -> None:
        """A pending request is asked again of whoever comes; one that is held is held once."""
        known, cwd = self._threads.get(request.thread), self._heard.get(request.thread)
        if known is None or not cwd or number in self._open or len(self._open) >= MOST_OPEN:
            return
        child = request.thread if known.kind == "child" else None
        held = self._open[number] = _Open(self._server, request, number, self._around.now)
        held.holding = asyncio.create_task(self._decide(held, Whose(known.session, child, cwd)))

    async def _decide(self, held: _Open, whose: Whose) -> None:
        desk, request = self._around.desk, held.request
        try:
            patch = await self._patch(request.call) if request.method == PATCH else None
            held.asked = asked_of(request, whose, patch)
            opened = opened_by(request, held.asked, held.own_id, self._around.now())
            if desk is not None and not held.over.is_set():
                await desk.hold("codex", HeardRequest(held.asked, opened, held))
        except SpoolUnavailable:
            self._moved["not held"] += 1  # nobody was told of it; the terminal decides
        finally:
            if not held.given_at:  # else the server is to say whose answer it took
                self._end(held)

    async def _patch(self, call: str) -> str | None:
        for _ in range(PATCH_LOOKS):
            if call in self._threads.patches:
                break
            await asyncio.sleep(PATCH_S / PATCH_LOOKS)
        return self._threads.patches.get(call)

    async def _resolve(self, told: _Resolved, emitted: int) -> None:
        """The server took an answer: ours, if it was given by then; else somebody else's."""
        held, now = self._open.get(told.request_id), self._around.now()
        if held is None or held.request.thread != told.thread_id:
            return
        at = min(emitted or now, now)
        if held.given_at and held.holding is not None and (not emitted or emitted >= held.given_at):
            held.is_settling = True
            held.holding = asyncio.create_task(self._settle(held, held.holding, at))
        else:
            if held.given_at and held.holding is not None:
                await asyncio.wait([held.holding])  # that it was sent is told first
            await self._closed(held, at, None)

    async def _settle(self, held: _Open, holding: asyncio.Task[None], at: int) -> None:
        """Tells that ours was taken, unless the opposite is seen to happen.

        The server says that a request is over a few milliseconds after it was, and not by whom. So a
        key that crosses with our answer is known by what comes of it.
        """
        await asyncio.wait([holding])
        refused, call = _is_refusal(held.given), held.request.call
        outcome: str | None = "decline" if refused else "accept"
        for _ in range(SETTLE_LOOKS):
            stopped = self._threads.stopped.get(held.request.thread, 0) >= held.given_at
            if call in self._threads.ran if refused else stopped:
                outcome = None
                break
            await asyncio.sleep(SETTLE_S / SETTLE_LOOKS)
        try:
            await self._closed(held, at, outcome)
        except SpoolUnavailable:
            self._moved["not told"] += 1

    async def _closed(self, held: _Open, at: int, outcome: str | None) -> None:
        if held.asked is not None:
            closed = RequestClosed(
                session_id=held.asked.session_id,
                at=at,
                seen=max(at, self._around.now()),
                source="registry",
                agent_id=held.asked.agent_id,
                request_id=held.own_id,
                outcome=outcome,
            )
            await self._around.accept([closed])
        self._end(held)
