"""What the hub said of every session, in order: heard over its WebSocket, read on step by step."""

from __future__ import annotations

import contextlib
import itertools
import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from websockets.exceptions import WebSocketException
from websockets.sync.client import ClientConnection, connect

#: Notifications wait so long for a need to pass; a wrong state that stands longer reaches a human.
FLICKER_S = 1.0
#: What a step may take by itself, on a busy machine.
WITHIN_S = 8.0
NEVER_S = 1e9


class Entry(NamedTuple):
    """at: the monotonic moment at which we were told."""

    at: float
    view: dict[str, Any]

    @property
    def group(self) -> str:
        return str(self.view["state"]["group"])

    @property
    def state(self) -> str:
        return str(self.view["state"]["state"])

    @property
    def label(self) -> str:
        return str(self.view["state"]["label"])

    def __str__(self) -> str:
        asked = [f"asks:{request['kind']}" for request in self.view.get("requests", ())]
        below = [
            f"{child['kind']}:{child['id'][-4:]}:{child['status']}"
            for child in self.view.get("children", ())
        ]
        source = self.view["state"]["source"]
        return " ".join([f"{self.state:16} {self.label!r} by {source}", *asked, *below])


class Watcher:
    """Follows the hub from `with` to the end of its block, through every restart of it."""

    def __init__(self, hub_url: str) -> None:
        self.changed = threading.Condition()
        self.told: dict[str, list[Entry]] = {}
        self._url = hub_url.replace("http", "ws", 1) + "/ws"
        self._connection: ClientConnection | None = None
        self._over = False
        self._thread = threading.Thread(target=self._follow, daemon=True)

    def __enter__(self) -> Watcher:
        self._thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._over = True
        if self._connection is not None:
            self._connection.close()
        self._thread.join(10)

    def others(self, session_id: str, pid: int) -> list[str]:
        """Who else was heard of from this process, in the order in which they came."""
        with self.changed:
            return [
                name
                for name, told in self.told.items()
                if name != session_id and any(entry.view.get("pid") == pid for entry in told)
            ]

    def _follow(self) -> None:
        while not self._over:
            with (
                contextlib.suppress(OSError, WebSocketException),
                connect(self._url, max_size=None, compression=None) as connection,
            ):
                self._connection = connection
                connection.send("{}")
                for message in connection:
                    self._take(json.loads(message))
            time.sleep(0.02)

    def _take(self, message: dict[str, Any]) -> None:
        now = time.monotonic()
        with self.changed:
            for view in message.get("sessions", ()):
                told = self.told.setdefault(view["session_id"], [])
                entry = Entry(now, view)
                # Times and titles move all the while; what counts here is what it is doing.
                if not told or str(told[-1]) != str(entry):
                    told.append(entry)
                else:
                    told[-1] = Entry(told[-1].at, view)
            self.changed.notify_all()


@dataclass
class Timeline:
    """One session's part of it. A cursor stands where the test has read to."""

    watcher: Watcher
    session_id: str
    born: float = field(default_factory=time.monotonic)
    _cursor: int = -1
    _notes: list[tuple[float, str]] = field(default_factory=list)

    def note(self, what: str, at: float | None = None) -> float:
        """Keep what was seen or done, for whoever reads the timeline; the moment."""
        at = at or time.monotonic()
        self._notes.append((at, what))
        return at

    def act(self, what: str, at: float | None = None) -> float:
        """Note what was done; what the hub had said before counts no longer."""
        at = self.note(what, at)
        with self.watcher.changed:
            before = [index for index, entry in enumerate(self.entries) if entry.at <= at]
            if before and before[-1] > self._cursor:
                self._assert_nothing_false(self._cursor, before[-1], set(), what)
                self._cursor = before[-1]
        return at

    @property
    def entries(self) -> list[Entry]:
        return self.watcher.told.get(self.session_id, [])

    @property
    def now(self) -> dict[str, Any]:
        """The view that holds at present."""
        assert self.entries, f"the hub has never told of {self.session_id}"
        return self.entries[-1].view

    def shows(
        self, *states: str, label: str = "", group: str = "", within: float = WITHIN_S
    ) -> float:
        """Read on to the first entry in one of the states; the moment at which it came.

        label: what its label holds. On the way there, nothing may stand for long that tells a
        human to act, or that all is over.
        """
        wanted = f"{' or '.join(states) or group} {label}".strip()

        def fits(entry: Entry) -> bool:
            named = entry.state in states or entry.group == group
            return named and label in entry.label

        deadline = time.monotonic() + within
        start = self._cursor
        with self.watcher.changed:
            while True:
                for index in range(max(start, 0), len(self.entries)):
                    if fits(self.entries[index]):
                        self._assert_nothing_false(start, index, {*states}, wanted)
                        self._cursor = index
                        return self.entries[index].at
                left = deadline - time.monotonic()
                assert left > 0, f"not {wanted} within {within} s\n{self}"
                self.watcher.changed.wait(left)

    def works(self, within: float = WITHIN_S) -> float:
        return self.shows(group="autonomous", within=within)

    def until(
        self, so: Callable[[dict[str, Any]], bool], what: str, within: float = WITHIN_S
    ) -> None:
        """Wait until it is so of the view that holds; the cursor stays."""
        deadline = time.monotonic() + within
        with self.watcher.changed:
            while not (self.entries and so(self.now)):
                left = deadline - time.monotonic()
                assert left > 0, f"waited {within} s for {what}\n{self}"
                self.watcher.changed.wait(left)

    def longest(self, state: str, since: float) -> float:
        """The longest time for which it showed this state from then on, up to what was read to."""
        best = run = 0.0
        for entry, next_ in itertools.pairwise(self.entries[: self._cursor + 1]):
            end = next_.at
            run = run + max(0.0, end - max(entry.at, since)) if entry.state == state else 0.0
            best = max(best, run)
        return best

    def _assert_nothing_false(self, start: int, end: int, true: set[str], wanted: str) -> None:
        """Between two steps it works, or shows still what it did: anything else is a false alarm."""
        if start >= 0:
            true.add(self.entries[start].state)
        for index in range(max(start, 0), end):
            entry = self.entries[index]
            stood = self.entries[index + 1].at - entry.at
            false = entry.group != "autonomous" and entry.state not in true
            assert not false or stood < FLICKER_S, (
                f"{entry.state} for {stood:.1f} s on the way to {wanted}\n{self}"
            )

    def __str__(self) -> str:
        """Everything, with what was done in between."""
        rows = [(entry.at, f"   {entry}") for entry in self.entries]
        rows += [(at, f"== {what}") for at, what in self._notes]
        lines = [f"{at - self.born:8.3f} {what}" for at, what in sorted(rows)]
        return "\n".join([f"session {self.session_id}, seconds since its start:", *lines])
