"""`adsum prompt`, `queue` and `interrupt`: has something done in a session, and waits for the effect."""

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from adsum.client import hub_url
from adsum.decide import CODES, as_json, awaited, give, in_words, visible
from adsum.outcome import CommandError, Exit, require
from adsum.sessions import fetch_sessions, named, typed
from adsum.text.saying import put, put_json
from adsum_shared.redact import clean
from adsum_shared.state import QueuedView, SessionView

#: Nothing more is waited for: it is said when the turn is over, which may take hours.
ENOUGH = frozenset({"queued"})
COLUMNS = 80
MOST_STDIN = 64 << 10


@dataclass(frozen=True, slots=True)
class ActionAsked:
    """What was typed. session: the start of an id."""

    verb: str
    session: str
    text: str | None = None
    item: str | None = None
    place: int | None = None
    wait_s: float = 10.0
    as_json: bool = False
    hub: str | None = None
    state_dir: Path | None = None


def act(asked: ActionAsked) -> Exit:
    """Raises CommandError before anything is done."""
    url, view = _session(asked)
    body: dict[str, Any] = {"verb": asked.verb}
    if asked.text is not None:
        body["text"] = text_of(asked.text)
    if asked.item is not None:
        body["item"] = item_of(view.queue, asked.item).id
    if asked.place is not None:
        require(asked.place > 0, "Places are counted from 1, which is said next.")
        body["place"] = asked.place - 1
    command = give(url, view, body)
    command = awaited(url, view, command, time.monotonic() + asked.wait_s, ENOUGH)
    if asked.as_json:
        put_json({"schema": 1, "commands": [{"session": view.id, **as_json(command)}]})
    else:
        put(f"{view.session_id[:8]} on {clean(view.host)}: {in_words(command)}")
    return CODES.get(command.outcome, Exit.ERROR)


def show_queue(asked: ActionAsked) -> None:
    """What waits for a session, the next first. Raises CommandError."""
    _, view = _session(asked)
    if asked.as_json:
        items = [{n: getattr(each, n) for n in each.__struct_fields__} for each in view.queue]
        put_json({"schema": 1, "session": view.id, "queue": items})
        return
    for number, each in enumerate(view.queue, 1):
        head = f"{number:>2}  {each.id[:8]}  {clean(each.by)}  "
        now = "(being said) " if each.state != "waiting" else ""
        text = " ".join(visible(each.text).split())
        line = f"{head}{now}{text}"
        put(line if len(line) <= COLUMNS else f"{line[: COLUMNS - 1]}…")
    if not view.queue:
        put(f"Nothing waits for session {clean(view.session_id)[:8]}.")


def item_of(queue: Sequence[QueuedView], wanted: str) -> QueuedView:
    """By its number in the list, or the start of its id. Raises CommandError."""
    if wanted.isascii() and wanted.isdecimal() and 0 < int(wanted) <= len(queue):
        return queue[int(wanted) - 1]
    found = [each for each in queue if each.id.startswith(wanted)] if wanted else []
    if len(found) == 1:
        return found[0]
    why = "Several items begin so" if found else "No such item waits"
    raise CommandError(
        f"{why}: {visible(wanted)[:40]}. What waits: adsum queue ID --list", Exit.USAGE
    )


def text_of(given: str) -> str:
    """- stands for what comes on standard input. Raises CommandError."""
    if given != "-":
        return given
    raw = sys.stdin.buffer.read(MOST_STDIN + 1)
    require(len(raw) <= MOST_STDIN, "What comes on standard input is too long for a prompt.")
    try:
        return raw.decode().rstrip("\n")
    except UnicodeDecodeError as error:
        raise CommandError("What comes on standard input is no text.", Exit.USAGE) from error


def _session(asked: ActionAsked) -> tuple[str, SessionView]:
    url = hub_url(asked.hub, asked.state_dir)
    views = typed(url, fetch_sessions(url, {})["sessions"], list[SessionView])
    return url, named(views, asked.session)
