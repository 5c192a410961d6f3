"""What one look through a session's turns, calls, requests and children finds for all the rules.

Each is found of one dictionary alone. Nearly every signal leaves all but one of a session's
dictionaries as they are, so what was found of the others holds.
"""

from __future__ import annotations

import msgspec

from adsum_hub.parts import Child, Request, Tool, Turn

#: A tool that comes back without answers has put a question nobody was seen to be asked.
QUESTION = "AskUserQuestion"


class Turns(msgspec.Struct, frozen=True):
    """closed: the latest close. opener: the youngest turn's rank, its latest opener, its key.

    typed: the latest prompt that a human typed in a turn with a name. 0 = none. over: when what
    began in a turn at a time was over, as far as anybody has asked.
    """

    turns: dict[str, Turn]
    closed: int
    opener: tuple[int, int, str]
    typed: int
    over: dict[tuple[str, int], int]


class Calls(msgspec.Struct, frozen=True):
    """latest: the youngest call. finished: the main agent's latest finish, and which.

    openers: the main agent's first and last start by prompt id. open: its calls that have begun
    and not ended. timed: anybody's that also have a time-out. unanswered: questions that came back
    without answers.
    """

    tools: dict[str, Tool]
    latest: int
    finished: tuple[int, str]
    openers: dict[str, tuple[int, int]]
    open: list[tuple[str, Tool]]
    timed: list[Tool]
    unanswered: list[tuple[str, Tool]]


class Requests(msgspec.Struct, frozen=True):
    """pending: those that nothing has closed. closed: the latest close of the others."""

    pending: list[tuple[str, Request]]
    closed: int


class Children(msgspec.Struct, frozen=True):
    """running: those whose own last word is a start. finished: the latest finish."""

    running: dict[str, Child]
    finished: int


def gather_turns(turns: dict[str, Turn]) -> Turns:
    opener = 0, 0, ""
    closed = typed = 0
    for key, turn in turns.items():
        closed = max(closed, turn.ended, turn.failed, turn.interrupted)
        at = max(turn.prompt, turn.reopened)
        if at:
            opener = max(opener, (turn.first if key else at, at, key))
        if turn.typed and key:
            typed = max(typed, turn.prompt)
    return Turns(turns, closed, opener, typed, {})


def gather_calls(tools: dict[str, Tool]) -> Calls:
    """One plain loop: it is what a signal costs most."""
    latest = 0
    finished = 0, ""
    openers: dict[str, tuple[int, int]] = {}
    begun: list[tuple[str, Tool]] = []
    unanswered: list[tuple[str, Tool]] = []
    for name, tool in tools.items():
        first, end, started = tool.first, tool.finished, tool.started
        latest = max(first, latest)
        if started and not end:
            begun.append((name, tool))
        elif tool.tool == QUESTION and tool.ok and not (tool.answered or tool.denied):
            unanswered.append((name, tool))
        if tool.agent_id is not None:
            continue
        if end and end >= finished[0]:
            finished = max(finished, (end, name))
        if started:
            key = tool.prompt_id or ""
            held = openers.get(key, (first, first))
            if not held[0] < first < held[1]:
                openers[key] = min(held[0], first), max(held[1], first)
    return Calls(
        tools=tools,
        latest=latest,
        finished=finished,
        openers=openers,
        open=[each for each in begun if each[1].agent_id is None],
        timed=[tool for _, tool in begun if tool.timeout_ms],
        unanswered=[each for each in unanswered if each[1].finished],
    )


def gather_requests(requests: dict[str, Request]) -> Requests:
    """A close whose request nobody has seen is none of a request."""
    asked = [each for each in requests.items() if each[1].kind]
    closed = max((request.closed for _, request in asked), default=0)
    return Requests([each for each in asked if not each[1].closed], closed)


def gather_children(children: dict[str, Child]) -> Children:
    running = {key: child for key, child in children.items() if child.running}
    return Children(running, max((each.finished for each in children.values()), default=0))
