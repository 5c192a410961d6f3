"""Which decisions a request of Codex's server takes, and what it is answered for each. Pure.

The shapes are those of 0.169.0. What asks in another way is not held: the terminal decides it. Never
answered: rules that Codex would write into a file, and permissions beyond the one call.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any, Final, NamedTuple

import msgspec

from adsum_collector.agents.base import Asked
from adsum_collector.agents.codex import calls
from adsum_collector.agents.words import require_text
from adsum_shared.commands import Command, Decision, NotObeyedError
from adsum_shared.signals import RequestOpened

COMMAND: Final = "item/commandExecution/requestApproval"
PATCH: Final = "item/fileChange/requestApproval"
QUESTIONS: Final = "item/tool/requestUserInput"
PATCHER: Final = "apply_patch"
TOOLS: Final = {COMMAND: calls.SHELL, PATCH: PATCHER, QUESTIONS: calls.QUESTION}
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
    if text.lstrip()[:1] in ("/", "!"):
        raise NotObeyedError("it begins as a command, with / or !: commands are not sent")
    return text


def is_refusal(answer: Mapping[str, Any]) -> bool:
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
