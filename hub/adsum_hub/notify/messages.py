"""Words a message: by default it names nothing of a session but its state and its machine. Pure."""

import hashlib
import re
from collections import Counter
from collections.abc import Sequence
from typing import Literal

import msgspec

from adsum_hub.notify.rules import REPORTED, Case, Content
from adsum_shared.redact import clean, redact_text

Urgency = Literal["low", "normal", "high"]

#: A digest names so many, the most urgent first.
MOST_LINES = 8
#: Of one line. With these a push stays far below the 4,096 bytes that its service takes.
MOST_CHARS = 140
#: From here on somebody keeps an agent waiting at a question.
URGENT = 4
#: A state may hold what an agent or its user wrote only in its label, so these are our own.
_STATES = {
    "needs_permission": "Needs permission",
    "awaiting_input": "Asked a question",
    "error": "Failed",
    "awaiting_approval": "Waits for approval",
    "budget_exceeded": "Over budget",
    "stuck": "No sign of life",
    "idle": "Waits for the next prompt",
    "task_complete": "Finished",
    "offline": "Offline",
    "passed": "Reported: passed",
    "blocked": "Reported: blocked",
    "failed": "Reported: failed",
}
#: Of one, of several.
_HEADS = {
    "needs_you": ("agent needs you", "agents need you"),
    "delivered": ("agent is done", "agents are done"),
    "report": ("agent has reported", "agents have reported"),
    "host_offline": ("machine is offline", "machines are offline"),
}
_WORD = re.compile(r"[A-Za-z][\w-]{0,39}")


class Notification(msgspec.Struct, frozen=True):
    """topic: a later message of the same one takes its place. id: of the session or host, if one.

    needing: how many need a human at that moment, told or not, for the app's icon; None: not looked.
    """

    title: str
    body: str
    topic: str
    urgency: Urgency
    kind: str
    count: int
    at: int
    id: str | None = None
    needing: int | None = None


TEST = Notification("Test from Adsum", "Messages arrive here.", "test", "high", "test", 0, 0)


def message_of(cases: Sequence[Case], content: Content, needing: int | None = None) -> Notification:
    """One or many cases, of at least one."""
    cases = sorted(cases, key=lambda case: (case.urgency, case.since))
    first = cases[0]
    if len(cases) == 1:
        title, body = _single(first, content)
    else:
        title, body = _digest(cases, content)
    return Notification(
        title=title,
        body=body,
        topic=topic_of(first.key if len(cases) == 1 else "digest"),
        urgency=_urgency(first),
        kind=first.on if len(cases) == 1 else "digest",
        count=len(cases),
        at=min(case.since for case in cases),
        id=first.key.removesuffix(REPORTED) if len(cases) == 1 else None,
        needing=needing,
    )


def topic_of(key: str) -> str:
    """At most 32 characters of base64url, which is all a push service takes."""
    return hashlib.blake2b(key.encode(), digest_size=16).hexdigest()


def _single(case: Case, content: Content) -> tuple[str, str]:
    if case.on == "host_offline" or content == "none":
        called = f"{case.called} on" if case.called else "on"
        return _state(case), _cut(
            f"{called} {case.host}" if case.on != "host_offline" else case.host
        )
    where = " · ".join(part for part in (case.called, case.project, case.host) if part)
    return _cut(case.label or _state(case)), "\n".join(
        _cut(line) for line in (case.title, where) if line
    )


def _digest(cases: Sequence[Case], content: Content) -> tuple[str, str]:
    kinds = Counter(case.on for case in cases)
    heads = [f"{count} {_HEADS[on][count > 1]}" for on, count in kinds.items()]
    lines = (_lines if content == "title" else _counted)(cases)
    more = len(lines) - MOST_LINES
    shown = [_cut(line) for line in lines[:MOST_LINES]] + ([f"and {more} more"] if more > 0 else [])
    return ", ".join(heads), "\n".join(shown)


def _lines(cases: Sequence[Case]) -> list[str]:
    return [
        " · ".join(
            part
            for part in (
                *(case.label or _state(case), case.title),
                *(case.called, case.project, case.host),
            )
            if part
        )
        for case in cases
    ]


def _counted(cases: Sequence[Case]) -> list[str]:
    counts = Counter((_state(case), case.called, case.host) for case in cases)
    return [
        f"{state}: {called and f'{called} on '}{host}" + (f" ({count})" if count > 1 else "")
        for (state, called, host), count in counts.items()
    ]


def _urgency(case: Case) -> Urgency:
    if case.on == "host_offline":
        return "normal"
    if case.on == "delivered" or case.state == "passed":
        return "low"
    return "high" if case.urgency <= URGENT else "normal"


def _state(case: Case) -> str:
    known = _STATES.get(case.state)
    if known is not None:
        return known
    # States are an open set: one nobody has heard of is told by its own name, if it is a name.
    word = case.state.replace("_", " ").capitalize() if _WORD.fullmatch(case.state) else None
    return word or ("Needs you" if case.on == "needs_you" else "Done")


def _cut(text: str) -> str:
    line = redact_text(" ".join(clean(text).split()), "")
    return line if len(line) <= MOST_CHARS else f"{line[: MOST_CHARS - 1]}…"
