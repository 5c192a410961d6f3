"""Translates what one hook of Codex says into signals. Pure and total over events and fields."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from adsum_collector.agents.codex import calls
from adsum_collector.agents.records import PATH_MAX, name_of, payload, project_of, shorten
from adsum_shared import signals as s
from adsum_shared.signals import KnownSignal, RequestKind

Fields = Mapping[str, Any]
Common = dict[str, Any]

PROMPT_MAX: Final = 2_000
MESSAGE_MAX: Final = 1_200
#: Events whose body also tells where the session is, and where its rollout.
TELLING: Final = frozenset({"SessionStart", "UserPromptSubmit", "PermissionRequest", "Stop"})


def signals_from_hook(
    body: Fields, seen: int, *, reviewed: bool = False, is_read: bool = False
) -> list[KnownSignal]:
    """All that a hook's body says, once decoded; raises ValueError for what is none.

    reviewed: permissions are asked of another model (`approvals_reviewer`). The body does not tell.
    is_read: this turn's lines are read, and will tell when it is over.
    An event nobody has heard of is `Alive` with its name.
    """
    session_id, event = name_of(body.get("session_id")), name_of(body.get("hook_event_name"))
    if session_id is None or event is None:
        raise ValueError("`session_id` and `hook_event_name` are needed")
    child = name_of(body.get("agent_id"))
    common: Common = {
        "session_id": session_id,
        "at": seen,
        "seen": seen,
        "agent_id": child,
        # a child's turn is no turn of the session's
        "prompt_id": None if child else name_of(body.get("turn_id")),
    }
    step = EVENTS.get(event)
    if reviewed and event == "PermissionRequest":
        step = None  # nobody is asked: another model decides within seconds
    if is_read and event == "Stop":
        step = None  # the user's own hooks on it may run for long, and send the agent on
    found = (step(body, common) if step else []) or [s.Alive(**common, event=event)]
    if event in TELLING and child is None:
        cwd = name_of(body.get("cwd"), PATH_MAX)
        found.append(
            s.MetaChanged(
                **common,
                cwd=cwd,
                project=project_of(cwd),
                model=name_of(body.get("model")),
                transcript=name_of(body.get("transcript_path"), PATH_MAX),
            )
        )
    return found


def decoded(raw: bytes) -> dict[str, Any]:
    """Raises ValueError, as msgspec's DecodeError is one."""
    try:
        return msgspec.json.decode(raw, type=dict[str, Any])
    except RecursionError as error:
        raise ValueError("nested too deep") from error


def ends_of(value: object) -> str | None:
    """Head and tail of a long message: what it is about, and whether it closes with a question."""
    text = value if isinstance(value, str) else None
    if text is None or len(text) <= MESSAGE_MAX:
        return text or None
    half = MESSAGE_MAX // 2
    return f"{text[:half]}\n…\n{text[-half:]}"


def _prompt(body: Fields, common: Common) -> list[KnownSignal]:
    """A prompt that is entered in mid-turn joins it at once, under the turn's own id.

    One that waits in the queue has no hook before it begins. So whatever the hook tells of waits no
    more. (Rejected: to leave that to the transcript's line; it bears an earlier time than the hook,
    and would be taken for older.)
    """
    text = body.get("prompt")
    typed = shorten(text, PROMPT_MAX) if isinstance(text, str) else None
    return [s.PromptSubmitted(**common, text=typed), s.PromptDequeued(**common)]


def _child_started(body: Fields, common: Common) -> list[KnownSignal]:
    child_id, kind = common["agent_id"], name_of(body.get("agent_type"))
    return [s.ChildStarted(**_main(common), child_id=child_id, type=kind)] if child_id else []


def _child_finished(_body: Fields, common: Common) -> list[KnownSignal]:
    """Its parent is not woken when it ends."""
    child_id = common["agent_id"]
    return [s.ChildFinished(**_main(common), child_id=child_id, notified=True)] if child_id else []


def _main(common: Common) -> Common:
    """A child's begin and end are about the main agent's child."""
    return {**common, "agent_id": None}


def _requested(body: Fields, common: Common) -> list[KnownSignal]:
    """After a failure either another request follows, or the rollout tells that the turn failed."""
    if common["agent_id"] is not None:
        return []
    failed = body.get("status") == "failed"
    return [s.RetryScheduled(**common) if failed else s.Alive(**common, event=s.MESSAGE)]


def _compaction(body: Fields, common: Common) -> list[KnownSignal]:
    """A child's is none of the session's."""
    begins = body.get("hook_event_name") == "PreCompact"
    kind = s.CompactionStarted if begins else s.CompactionFinished
    told = kind(**common, trigger=name_of(body.get("trigger")))
    return [told] if common["agent_id"] is None else []


def _call(body: Fields) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """(the tool, its input, what every signal of the call carries)."""
    tool, value = calls.tool_of(body.get("tool_name")), calls.input_of(body.get("tool_input"))
    digest = calls.digest(tool, value)
    about = {"tool": tool, "role": calls.role_of(tool), "digest": digest}
    return tool, value, {**about, "tool_use_id": name_of(body.get("tool_use_id")) or digest}


def _tool_started(body: Fields, common: Common) -> list[KnownSignal]:
    tool, value, about = _call(body)
    started = s.ToolStarted(**common, **about, summary=calls.summary(tool, value))
    if tool != calls.QUESTION:
        return [started]
    return [started, asked(common, "question", about, value)]


def _tool_finished(body: Fields, common: Common) -> list[KnownSignal]:
    """It comes when a human has answered, and says nothing of how a command ended."""
    tool, _, about = _call(body)
    return [s.ToolFinished(**common, **about, answered=tool == calls.QUESTION)]


def _permission(body: Fields, common: Common) -> list[KnownSignal]:
    """It names no call. By its thread the rollout and the server close what that has asked."""
    _, value, about = _call(body)
    thread = common["agent_id"] or common["session_id"]
    about |= {"tool_use_id": None, "request_id": thread}
    return [asked(common, "permission", about, value)]


def asked(common: Fields, kind: RequestKind, about: Fields, value: Fields) -> KnownSignal:
    summary = calls.summary(about["tool"], value)
    said = payload(value) or None
    return s.RequestOpened(**common, **about, request_kind=kind, summary=summary, payload=said)


EVENTS: Final[dict[str, Callable[[Fields, Common], list[KnownSignal]]]] = {
    "SessionStart": lambda body, common: [
        s.SessionStarted(**common, reason=name_of(body.get("source")) or "startup")
    ],
    "SessionEnd": lambda body, common: [
        s.SessionEnded(**common, reason=name_of(body.get("reason")) or "other")
    ],
    "UserPromptSubmit": _prompt,
    "Stop": lambda body, common: [
        s.TurnEnded(**common, last_message=ends_of(body.get("last_assistant_message")))
    ],
    "Interrupt": lambda _body, common: [s.TurnInterrupted(**common)],
    "SubagentStart": _child_started,
    "SubagentStop": _child_finished,
    "PreCompact": _compaction,
    "PostCompact": _compaction,
    "PostModelRequest": _requested,
    "PreToolUse": _tool_started,
    "PostToolUse": _tool_finished,
    "PermissionRequest": _permission,
}
