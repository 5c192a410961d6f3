"""Requests to a human: which tool call they belong to, and what witnesses that they are over."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from adsum_hub.facts import Facts
from adsum_hub.parts import RELEASED_MAX, REQUESTS_MAX, Request, Tool, first_witness
from adsum_shared import signals as s

Requests = dict[str, Request]


def ask(facts: Facts, signal: s.RequestOpened) -> dict[str, Any]:
    key = signal.tool_use_id or bind(facts.tools, signal)
    tool = facts.tools.get(key) if key else None
    if key is None:
        key = f"{signal.request_id or signal.agent_id or ''}?{signal.digest or ''}@{signal.at}"
    held = facts.requests.get(key) or Request(signal.request_kind, 0)
    closed = held.closed or (tool.finished if tool is not None else 0)
    merged = Request(
        # A transcript or PreToolUse may have called it by the tool before the dialog's own hook
        # came; all witnesses of one call agree on the kind, a stub made by its close has none.
        kind=signal.request_kind,
        opened=min(held.opened, signal.at) if held.opened else signal.at,
        closed=closed,
        tool=held.tool or signal.tool,
        tool_use_id=held.tool_use_id or (key if tool is not None else signal.tool_use_id),
        request_id=held.request_id or signal.request_id,
        agent_id=held.agent_id or signal.agent_id,
        prompt_id=held.prompt_id or signal.prompt_id,
        digest=held.digest or signal.digest,
        summary=held.summary or signal.summary,
        # What was asked is shown while it is asked; a closed request is only a tombstone.
        payload=None if closed else held.payload or signal.payload,
        suggestions=None if closed else held.suggestions or signal.suggestions,
        source=first_witness(held.opened, held.source, signal.at, signal.source),
    )
    if merged == facts.requests.get(key):
        return {}
    return {"requests": bounded({**facts.requests, key: merged})}


def bind(tools: dict[str, Tool], signal: s.RequestOpened) -> str | None:
    """The call a PermissionRequest belongs to, since it names none.

    The latest one that a *hook* saw start with the same agent, tool and input, finished or not.
    """
    found, latest = None, 0
    for key, tool in tools.items():
        if (
            latest < tool.hooked <= signal.at
            and tool.digest == signal.digest
            and signal.digest is not None
            and tool.tool == signal.tool
            and tool.agent_id == signal.agent_id
        ):
            found, latest = key, tool.hooked
    return found


def bind_by_finish(requests: Requests, signal: s.ToolFinished) -> Requests:
    """The PreToolUse was lost: the PostToolUse with the same input ends what it could not bind."""
    for key, request in requests.items():
        if (
            not request.closed
            and request.tool_use_id is None
            and request.digest == signal.digest
            and request.tool == signal.tool
            and request.agent_id == signal.agent_id
            and request.opened <= signal.at
        ):
            requests = {**requests, key: tombstone(request, signal.at)}
    return requests


def tombstone(request: Request, at: int) -> Request:
    return replace(request, closed=at, payload=None, suggestions=None)


def close_by_finish(requests: Requests, tool_use_id: str, at: int) -> Requests:
    request = requests.get(tool_use_id)
    if request is None or (request.closed and request.closed <= at):
        return requests
    return {**requests, tool_use_id: tombstone(request, at)}


def close_request(facts: Facts, key: str, at: int) -> dict[str, Any]:
    held = facts.requests.get(key)
    if held is not None and held.closed and held.closed <= at:
        return {}
    # Closed before it was seen to open: born closed, whenever the opening comes.
    stub = tombstone(held, at) if held else Request("", 0, closed=at, tool_use_id=key)
    return {"requests": bounded({**facts.requests, key: stub})}


def release(facts: Facts, request_id: str | None, at: int) -> dict[str, Any]:
    """Requests known by an id of ours or of an MCP server: ids that can be asked under again."""
    if request_id is None or facts.released.get(request_id, 0) >= at:
        return {}
    released = {**facts.released, request_id: at}
    if len(released) > RELEASED_MAX:
        del released[min(released, key=lambda key: released[key])]
    return {"released": released}


def bounded(requests: Requests) -> Requests:
    if len(requests) > REQUESTS_MAX:
        oldest = min(requests, key=lambda key: (not requests[key].closed, requests[key].opened))
        del requests[oldest]
    return requests
