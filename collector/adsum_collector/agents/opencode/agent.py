"""OpenCode, as the collector knows it: from its database alone. It is never written to.

Each event is one row of the table `event`, which is only ever added to: a session, a message or a part of
one as it is from then on. Of a request for permission and of retries nothing is written there.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import msgspec

from adsum_collector.agents.base import Agent, OwnWitness, Surroundings
from adsum_collector.agents.programs import RunnerNews, Runners, Whereabouts, remember, runners_in
from adsum_collector.agents.records import (
    NAME_MAX,
    NUMBER_MAX,
    call_summary,
    model_name,
    name_of,
    one_line,
    payload,
    project_of,
    shorten,
)
from adsum_collector.errors import SpoolUnavailable, shown
from adsum_shared import signals as s
from adsum_shared.signals import AnySignal, ToolRole
from adsum_shared.state import HostWitness

#: Rows of one session that are read at one look, the latest; and the bytes of one above which it is left out.
_MOST_ROWS: Final = 4_000
MOST_BYTES: Final = 1 << 20

_Stamp = tuple[tuple[int, int], ...]


class Row(NamedTuple):
    """One event. kind: as `message.updated.1`."""

    session: str
    seq: int
    kind: str
    data: bytes


class _Described(NamedTuple):
    """What a session says of itself. parent: whose subagent it is, or "". created, updated: ms."""

    session: str
    directory: str
    title: str
    created: int
    updated: int
    parent: str


class _ModelTotal(NamedTuple):
    """What a session used up on one day of one model. cost: dollars, as OpenCode counts them."""

    session: str
    day: str
    model: str
    messages: int
    input: int
    output: int
    cache_read: int
    cache_write: int
    cost: float
    latest: int


def _stamp_of(path: Path) -> _Stamp:
    """Of the file and of what was written since it was made whole; () if it is not there."""
    found = []
    for each in (path, _wal(path)):
        with contextlib.suppress(OSError):
            stat = each.stat()
            found.append((stat.st_mtime_ns, stat.st_size))
    return tuple(found)


@contextlib.contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """Raises sqlite3.Error.

    (Rejected: `mode=ro` alone. It may write the shared index, or make one.)
    """
    how = "mode=ro&readonly_shm=1" if _wal(path).exists() else "mode=ro&immutable=1"
    uri = f"file:{quote(str(path))}?{how}"
    with contextlib.closing(sqlite3.connect(uri, uri=True, timeout=0)) as database:
        yield database


def _wal(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def sequences(database: sqlite3.Connection) -> dict[str, int]:
    """The number of each session's last event."""
    return dict(database.execute("SELECT aggregate_id, seq FROM event_sequence"))


def events(database: sqlite3.Connection, session: str, after: int) -> Iterator[Row]:
    """Those that follow a number; none twice, and none that is too large to be read."""
    asked = (
        "SELECT seq, type, CAST(data AS BLOB) FROM event"
        " WHERE aggregate_id = ? AND seq > ? AND length(data) <= ? ORDER BY seq"
    )
    for seq, kind, data in database.execute(asked, (session, after, MOST_BYTES)):
        yield Row(session, seq, str(kind), bytes(data))


def _sessions_of(database: sqlite3.Connection, since: int) -> list[_Described]:
    """Those that were changed since then, ms."""
    asked = (
        "SELECT id, directory, title, time_created, time_updated, coalesce(parent_id, '')"
        " FROM session WHERE time_updated >= ? ORDER BY time_updated"
    )
    return [_Described(*row) for row in database.execute(asked, (since,))]


_TOTALS: Final = """
WITH changed AS (
  SELECT id FROM session WHERE coalesce(parent_id, id) IN
         (SELECT coalesce(parent_id, id) FROM session WHERE time_updated >= ?)
), told AS (
  SELECT session_id, time_created AS at, data AS info, 0 FROM message
  WHERE session_id IN changed AND json_valid(data)
  UNION ALL
  SELECT aggregate_id, json_extract(data, '$.info.time.created'), json_extract(data, '$.info'), max(seq)
  FROM event
  WHERE aggregate_id IN changed AND type GLOB 'message.updated.*' AND json_valid(data)
    AND json_extract(data, '$.info.id') NOT IN (SELECT id FROM message)
  GROUP BY aggregate_id, json_extract(data, '$.info.id')
)
SELECT coalesce(s.parent_id, s.id), date(at / 1000, 'unixepoch', 'localtime'),
       coalesce(json_extract(info, '$.modelID'), ''), count(*),
       total(json_extract(info, '$.tokens.input')),
       total(json_extract(info, '$.tokens.output')) + total(json_extract(info, '$.tokens.reasoning')),
       total(json_extract(info, '$.tokens.cache.read')),
       total(json_extract(info, '$.tokens.cache.write')),
       total(json_extract(info, '$.cost')), max(at)
FROM told JOIN session s ON s.id = told.session_id
WHERE at >= s.time_created AND json_extract(info, '$.role') = 'assistant'
GROUP BY 1, 2, 3
"""


def totals(database: sqlite3.Connection, since: int) -> list[_ModelTotal]:
    """All that sessions used up that were changed since then, ms; a subagent's is its session's.

    `/undo` deletes messages that were paid for. Their events stay, so they count as those have them
    last: with `max`, SQLite takes the row that has it. (Rejected: the events alone. Messages of
    before OpenCode kept them have none. And to keep the highest sums here: that would end with the
    process.)

    `/fork` copies messages with their times into a session of its own, so a message that is older than
    its session is a copy, and counts where it was said. (Where the clock was set back it may be none:
    that is lost. Rejected: to look for the same message in older sessions. Once it is deleted there,
    what it used would count again, for the fork.)
    """
    return [_ModelTotal(*map(_plain, row)) for row in database.execute(_TOTALS, (since,))]


def _plain(value: Any) -> Any:
    """`total` counts in fractions. A cost is one."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


#: Of a prompt, or of an answer's end, in characters.
_TEXT_MAX: Final = 4_000
_LAST_WORDS_MAX: Final = 1_000
#: Messages and calls of one session that are kept in mind; the oldest goes.
_MOST: Final = 256
ROLES: Final[dict[str, ToolRole]] = {
    "bash": "shell",
    "edit": "edit",
    "apply_patch": "edit",
    "write": "write",
    "read": "read",
    "list": "read",
    "glob": "search",
    "grep": "search",
    "webfetch": "fetch",
    "websearch": "web_search",
    "task": "agent",
    "question": "question",
    "todowrite": "todo",
    "todoread": "todo",
}
#: A title that nobody gave.
_UNTITLED: Final = ("New session - ", "Child session - ")
#: Why an answer stopped that is followed by another one of the same turn.
_GOES_ON: Final = frozenset({"tool-calls", "unknown"})
_ABORTED: Final = "MessageAbortedError"
_MADE: Final = "session.created"

Fields = dict[str, Any]
_decode = msgspec.json.Decoder(Fields).decode


class SessionLog:
    """What the events of one session mean, in their order.

    parent: the session whose subagent it is. directory: where it runs. begun, at: when it was begun and
    when its last event was, ms.
    """

    def __init__(self, session_id: str) -> None:
        self.id, self.parent = session_id, ""
        self.directory, self.begun, self.at = "", 0, 0
        #: Of those that a human wrote: id -> when.
        self._prompts: dict[str, int] = {}
        self._calls: dict[str, str] = {}
        self._told: Fields = {}
        self._answer = ""

    def read(self, kind: str, data: bytes, seen: int) -> list[AnySignal]:
        """kind: as `message.updated.1`. Raises msgspec.DecodeError, UnicodeDecodeError, RecursionError."""
        fields, step = _decode(data), kind.rpartition(".")[0]
        if step in (_MADE, "session.updated"):
            return self._session(_dict(fields, "info"), seen)
        if step == "session.deleted":
            return self._ended(seen)
        if step == "message.updated":
            return self._message(_dict(fields, "info"), seen)
        if step == "message.part.updated":
            return self._part(_dict(fields, "part"), _time(fields, "time"), seen)
        return []

    def _about(self, at: int, seen: int, turn: object = None) -> Fields:
        """at: 0: as its last event. turn: the message that began it."""
        self.at = max(self.at, min(at, seen)) if at else self.at or seen
        return {
            "session_id": self.parent or self.id,
            "at": min(at or self.at, seen),
            "seen": seen,
            "source": "transcript",
            "agent_id": self.id if self.parent else None,
            "prompt_id": name_of(turn) if not self.parent else None,
        }

    def _main(self, seen: int, at: int = 0) -> Fields:
        return {**self._about(at, seen), "agent_id": None}

    def _session(self, info: Fields, seen: int) -> list[AnySignal]:
        times = _dict(info, "time")
        self.begun = self.begun or _time(times, "created")
        self.directory = name_of(info.get("directory"), 4_096) or self.directory
        is_new = not self._told
        title = one_line(info.get("title"), NAME_MAX) or ""
        if (parent := name_of(info.get("parentID"))) and parent != self.id:
            self.parent, self._told = parent, {"title": title}
            about = {**self._main(seen, self.begun), "child_id": self.id, "description": title}
            return [s.ChildStarted(**about)] if is_new else []
        told = {
            "cwd": self.directory,
            "project": project_of(self.directory),
            "version": name_of(info.get("version")),
            "ai_title": _given_title(title),
            "model": name_of(_dict(info, "model").get("id")),
            "mode": name_of(info.get("agent")),
        }
        started = [s.SessionStarted(**self._about(self.begun, seen))] if is_new else []
        return [*started, *self._news(told, _time(times, "updated"), seen)]

    def _news(self, told: Fields, at: int, seen: int) -> list[AnySignal]:
        news = {name: each for name, each in told.items() if each and self._told.get(name) != each}
        self._told |= news
        return [s.MetaChanged(**self._main(seen, at), **news)] if news else []

    def _ended(self, seen: int) -> list[AnySignal]:
        return [] if self.parent else [s.SessionEnded(**self._main(seen, seen), reason="deleted")]

    def _message(self, info: Fields, seen: int) -> list[AnySignal]:
        key, times = name_of(info.get("id")), _dict(info, "time")
        made, turn = _time(times, "created"), info.get("parentID")
        if key is None:
            return []
        if info.get("role") == "user":
            if key in self._prompts:
                return []
            _keep(self._prompts, key, made)
            self._answer = ""
            if self.parent:
                return []
            return [s.PromptSubmitted(**self._about(made, seen, key))]
        done, error = _time(times, "completed"), _dict(info, "error")
        if error:
            return self._failed(error, self._about(done, seen, turn))
        about = self._about(done or made, seen, turn)
        if not done or name_of(info.get("finish")) in _GOES_ON or not info.get("finish"):
            return [s.Alive(**about, event=s.MESSAGE)]
        if self.parent:
            return self._child_over("completed", seen, done)
        ends = s.TurnEnded(**about, final=True, last_message=self._answer or None)
        said = {"last_answer": shorten(self._answer, _LAST_WORDS_MAX)}
        return [ends, *self._news(said, done, seen)]

    def _failed(self, error: Fields, about: Fields) -> list[AnySignal]:
        aborted = error.get("name") == _ABORTED
        if self.parent:
            return self._child_over("interrupted" if aborted else "failed", about["seen"])
        if aborted:
            return [s.TurnInterrupted(**about)]
        said = one_line(_dict(error, "data").get("message"), _LAST_WORDS_MAX)
        return [s.TurnFailed(**about, error=name_of(error.get("name")) or "unknown", message=said)]

    def _child_over(self, status: str, seen: int, at: int = 0) -> list[AnySignal]:
        about = {**self._main(seen, at), "child_id": self.id, "status": status, "notified": True}
        return [s.ChildFinished(**about)]

    def _part(self, part: Fields, at: int, seen: int) -> list[AnySignal]:
        message, what = name_of(part.get("messageID")), part.get("type")
        if what == "tool":
            return self._call(part, _dict(part, "state"), at, seen)
        text = part.get("text")
        if what == "text" and isinstance(text, str) and not part.get("synthetic"):
            if message not in self._prompts:
                self._answer = text[-_TEXT_MAX:].strip()
            elif not self.parent:
                about = self._about(self._prompts[message], seen, message)
                said = {"last_prompt": one_line(text, _LAST_WORDS_MAX)}
                prompt = s.PromptSubmitted(**about, text=shorten(text, _TEXT_MAX))
                return [prompt, *self._news(said, at, seen)]
        if what == "compaction":
            return [] if self.parent else [s.CompactionStarted(**self._main(seen, at))]
        return [s.Alive(**self._about(at, seen), event=s.MESSAGE)] if at else []

    def _call(self, part: Fields, state: Fields, at: int, seen: int) -> list[AnySignal]:
        key, tool = name_of(part.get("callID")), name_of(part.get("tool")) or "tool"
        status, times = state.get("status"), _dict(state, "time")
        if key is None or status == "pending":
            return []
        role, value = ROLES.get(tool, "other"), _dict(state, "input")
        call: Fields = {"tool": tool, "role": role, "tool_use_id": key}
        found: list[AnySignal] = []
        if key not in self._calls:
            _keep(self._calls, key, tool)
            about = self._about(_time(times, "start") or at, seen)
            found.append(s.ToolStarted(**about, **call, summary=call_summary(value)))
            if role == "question":
                asked: Fields = {"summary": call_summary(value), "payload": payload(value)}
                found.append(s.RequestOpened(**about, **call, request_kind="question", **asked))
        if status == "running":
            return found
        ok, about = status == "completed", self._about(_time(times, "end") or at, seen)
        error = None if ok else one_line(state.get("error")) or "failed"
        done = s.ToolFinished(
            **about, **call, ok=ok, error=error, answered=role == "question" and ok
        )
        return [*found, done]


def _given_title(title: object) -> str | None:
    """None for what it is called until a title has been made up."""
    told = one_line(title, NAME_MAX)
    return None if told is None or told.startswith(_UNTITLED) else told


def _keep(held: dict[str, Any], key: str, value: Any) -> None:
    held[key] = value
    if len(held) > _MOST:
        del held[next(iter(held))]


def _dict(fields: Mapping[str, Any], name: str) -> Fields:
    value = fields.get(name)
    return value if isinstance(value, dict) else {}


def _time(fields: Mapping[str, Any], name: str) -> int:
    value = fields.get(name)
    return int(value) if isinstance(value, int | float) and 0 < value < NUMBER_MAX else 0


_NAME: Final = "opencode.db"
#: Between two looks at whether the database has changed; two `stat` each.
_LOOK_S: Final = 0.25
#: Between two looks at the processes, and at whether there is a database at all.
_PROCESSES_S: Final = 1.0
#: Between two sums of what was used, and how far back the first one goes. ms.
_COUNT_MS: Final = 10_000
_COUNTED_MS: Final = 35 * 86_400_000
#: Sessions that are kept in mind. One that goes, and goes on, is read from its begin.
_MOST_LOGS: Final = 256
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class _News(NamedTuple):
    """What one look has found. last: see `sequences`. past: of sessions that nobody runs."""

    last: dict[str, int]
    rows: list[Row]
    past: list[_Described]
    totals: list[_ModelTotal]


def is_opencode(words: Sequence[str]) -> bool:
    return bool(words) and Path(words[0]).name in ("opencode", "opencode.exe", ".opencode")


class EventLog:
    """The witness of one directory. Nothing in it is written, and nothing of it is held open."""

    def __init__(self, directory: Path, around: Surroundings) -> None:
        self._path, self._around = directory / _NAME, around
        self._runners, self._news = Runners(is_opencode, around.started_of), RunnerNews()
        self._logs: dict[str, SessionLog] = {}
        self._places: dict[str, Whereabouts] = {}
        self._told: dict[str, int] | None = None
        self._stamp: _Stamp = ()
        #: What was counted last, and when.
        self._counted: tuple[_Stamp, int] = (), 0
        self.faults: Counter[str] = Counter()
        self._trouble: str | None = None
        self.read_at = 0

    async def run(self) -> None:
        """Until cancelled."""
        looked, clock = -_PROCESSES_S, asyncio.get_running_loop().time
        while True:
            try:
                if clock() >= looked + _PROCESSES_S:
                    looked = clock()
                    if await asyncio.to_thread(self._path.is_file):
                        await self._look_for_runners()
                await self._look()
            except SpoolUnavailable:
                # Whoever was read is read again, whole, at the next look.
                self.faults["not accepted"] += 1
                self._stamp = ()
                for session in self._logs:
                    (self._told or {}).pop(session, None)
                self._logs.clear()
                self._places.clear()
                self._news.forget()
            except sqlite3.Error as error:
                # In the middle of a write, or of another version: tried again at the next look.
                self.faults[str(error)[:40]] += 1
                self._trouble = f"{shown(self._path)} cannot be read: {error}."
                await asyncio.sleep(_PROCESSES_S)
            await asyncio.sleep(_LOOK_S)

    def health(self, _now: int) -> HostWitness:
        state = "trouble" if self._trouble else "ok" if self.read_at else "silent"
        return HostWitness("database", state, self.read_at, dict(self.faults), self._trouble)

    async def _look_for_runners(self) -> None:
        """Raises SpoolUnavailable."""
        running = await asyncio.to_thread(self._runners.look)
        mains = {each: it for each, it in self._places.items() if not self._logs[each].parent}
        if signals := self._news.read(mains, running, self._around.now()):
            await self._around.accept(signals)

    async def _look(self) -> None:
        """Raises SpoolUnavailable, sqlite3.Error."""
        stamp, now = await asyncio.to_thread(_stamp_of, self._path), self._around.now()
        counted, at = self._counted
        count = stamp != counted and not 0 <= now - at < _COUNT_MS
        if not stamp or (stamp == self._stamp and not count):
            return
        since = (at - 2 * _COUNT_MS if at else now - _COUNTED_MS) if count else None
        news = await asyncio.to_thread(self._read, since)
        signals = [each for row in news.rows for each in self._signals(row, now)]
        signals += [each for past in news.past for each in _past(past, now)]
        signals += _used(news.totals, now)
        if signals:
            await self._around.accept(signals)
        self._told, self._stamp, self._trouble, self.read_at = news.last, stamp, None, now
        if count:
            self._counted = stamp, now

    def _read(self, since: int | None) -> _News:
        """In a thread. since: from when on what was used is to be counted. Raises sqlite3.Error."""
        past: list[_Described] = []
        with opened(self._path) as database:
            last, told = sequences(database), self._told
            if told is None:
                told, past = self._before(database, last)
            rows = [
                row
                for session, seq in last.items()
                if seq > told.get(session, -1)
                for row in events(database, session, self._begin_after(session, seq))
            ]
            return _News(last, rows, past, totals(database, since) if since is not None else [])

    def _begin_after(self, session: str, last: int) -> int:
        """Of a session that is new to us all is read, or of a long one its latest rows."""
        told = (self._told or {}).get(session, -1) if session in self._logs else -1
        return max(told, last - _MOST_ROWS)

    def _before(
        self, database: sqlite3.Connection, last: dict[str, int]
    ) -> tuple[dict[str, int], list[_Described]]:
        """What counts as told when we begin, and the sessions of that: all that no process may still run."""
        running = self._runners.look()
        living, past = set(), []
        for each in _sessions_of(database, self._around.now() - _COUNTED_MS):
            if runners_in(Whereabouts(each.directory, each.updated), running):
                living.add(each.session)
            elif not each.parent:
                past.append(each)
        return {session: seq for session, seq in last.items() if session not in living}, past

    def _signals(self, row: Row, now: int) -> list[AnySignal]:
        log = self._logs.pop(row.session, None) or SessionLog(row.session)
        self._logs[row.session] = log
        if len(self._logs) > _MOST_LOGS:
            oldest = next(iter(self._logs))
            del self._logs[oldest]
            self._places.pop(oldest, None)
        try:
            found = log.read(row.kind, row.data, now)
        except _UNREADABLE:
            self.faults["no event"] += 1
            return []
        remember(self._places, row.session, Whereabouts(log.directory, log.at))
        return found


def _past(one: _Described, now: int) -> list[AnySignal]:
    """Of a session that nobody runs any more."""
    about: dict[str, Any] = {"session_id": one.session, "seen": now, "source": "transcript"}
    place: dict[str, Any] = {"cwd": one.directory, "project": project_of(one.directory)}
    begun, ended = min(one.created, now), min(one.updated, now)
    return [
        s.MetaChanged(**about, at=begun, ai_title=_given_title(one.title), **place),
        s.SessionEnded(**about, at=ended, reason="process"),
    ]


def _used(totals: Sequence[_ModelTotal], now: int) -> list[AnySignal]:
    """Cumulative, so to tell them twice does no harm."""
    found: list[AnySignal] = []
    costs: defaultdict[str, float] = defaultdict(float)
    for total in totals:
        costs[total.session] += total.cost
        found.append(
            s.UsageTotalled(
                session_id=total.session,
                at=min(total.latest, now),
                seen=now,
                source="transcript",
                day=total.day,
                model=model_name(total.model),
                messages=total.messages,
                input_tokens=total.input,
                output_tokens=total.output,
                cache_read_tokens=total.cache_read,
                cache_5m_tokens=total.cache_write,
            )
        )
    about: dict[str, Any] = {"at": now, "seen": now, "source": "transcript"}
    told = [
        s.CostReported(session_id=id_, cost_usd=usd, **about) for id_, usd in costs.items() if usd
    ]
    return [*found, *told]


class OpenCode(Agent):
    """Versions before 1.2 wrote a file of JSON for each part of a message. Those are not read."""

    name = "opencode"
    title = "OpenCode"
    resume = "opencode --session"
    variable = "XDG_DATA_HOME"
    setting = "opencode_dirs"
    limits = (
        "Known from its database alone: who waits for a permission looks as if it worked, "
        "and a retry is not told."
    )

    def directories(self, env: Mapping[str, str], home: Path) -> tuple[Path, ...]:
        told = env.get(self.variable)
        return ((Path(told).expanduser() if told else home / ".local/share") / "opencode",)

    def own_witnesses(
        self, directories: Sequence[Path], around: Surroundings
    ) -> Sequence[OwnWitness]:
        return [EventLog(directory, around) for directory in directories]
