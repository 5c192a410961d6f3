"""Traces of the real CLI, played through adapter, fold and verdict in simulated time."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import msgspec

from adsum_collector.agents.claude_code.hooks import signals_from_hook
from adsum_collector.agents.claude_code.lines import signals_from_lines, transcript_file
from adsum_collector.agents.claude_code.settings_text import SHOWN_WHEN_TYPED, events_for
from adsum_collector.agents.claude_code.status import signals_from_registry, signals_from_statusline
from adsum_collector.agents.codex.agent import Codex
from adsum_collector.agents.codex.control_socket import ServerMessage
from adsum_collector.agents.codex.live_threads import (
    LOCKS,
    Lock,
    LockNews,
    began,
    resumed_by,
)
from adsum_collector.agents.codex.server_status import Broadcasts
from adsum_collector.agents.gemini.agent import GeminiCli
from adsum_collector.agents.opencode.agent import OpenCode, SessionLog
from adsum_collector.agents.programs import Runner, RunnerNews, Whereabouts, remember
from adsum_collector.agents.records import TranscriptFile
from adsum_collector.processes import AgentProcess
from adsum_collector.watch import (
    VANISHED_MS,
    Entry,
    Known,
    news_of_absence,
    news_of_entry,
    news_of_heir,
    read_entry,
)
from adsum_hub.facts import Facts
from adsum_hub.fold.fold import fold
from adsum_hub.verdict.judge import Verdict, judge
from adsum_shared.signals import (
    DEFAULT_AGENT,
    AnySignal,
    ProcessGone,
    ProcessSeen,
    SessionEnded,
    StatusReported,
    TurnEnded,
    decode_signal,
)
from bench.traces import Event, Trace

#: Agents whose scenarios are understood.
REPLAYED = (DEFAULT_AGENT, Codex.name, GeminiCli.name, OpenCode.name)
WITNESSES = ("hooks", "transcript", "registry", "process", "statusline")
#: Who tells of a process's end: the process table, but no set of witnesses goes without it. A trace
#: ends a process by an action, which by definition is the one action that everybody learns of.
THE_END = "the end"
#: A hook that says more where no transcript is read.
UNREAD = "hooks, unread"
PROJECTS = "projects/"
#: The first version of Codex that locks its threads.
LOCKING = (0, 157)
SHELLS = ("bash", "sh", "zsh")


class Arrival(NamedTuple):
    """hook: the hook event that said it. installed: our installer subscribes to that one.

    witness: one of WITNESSES, THE_END or UNREAD.
    """

    t: int
    signal: AnySignal
    witness: str
    hook: str = ""
    installed: bool = True


class Change(msgspec.Struct):
    t_ms: int
    group: str | None
    state: str
    source: str
    confidence: float
    label: str


def arrivals(trace: Trace) -> list[Arrival]:
    """What every witness said, in the order it comes to the hub.

    What an adapter refuses is named among the trace's faults.
    """
    if trace.agent == Codex.name:
        return CodexReplay(trace).arrivals()
    if trace.agent in (GeminiCli.name, OpenCode.name):
        return FilesReplay(trace).arrivals()
    found = [
        *hook_arrivals(trace),
        *transcript_arrivals(trace),
        *registry_arrivals(trace),
        *process_arrivals(trace),
        *statusline_arrivals(trace),
        *signal_arrivals(trace),
    ]
    return sorted(found, key=lambda arrival: arrival.t)


def heard(
    found: Iterable[Arrival],
    witnesses: Iterable[str],
    without: Iterable[str] = (),
    *,
    as_installed: bool = False,
) -> list[Arrival]:
    """Of these, what comes from the witnesses named, and every process's end. without: hook events not subscribed to."""
    names, unheard = set(witnesses), set(without)
    if "transcript" not in names and "hooks" in names:
        names.add(UNREAD)
    return [
        arrival
        for arrival in found
        if arrival.witness in names | {THE_END}
        and arrival.hook not in unheard
        and (arrival.installed or not as_installed)
    ]


def hook_arrivals(trace: Trace) -> Iterator[Arrival]:
    subscribed = frozenset(events_for(trace.version))
    for event in _of_kind(trace, "hook"):
        installed = event.event in subscribed and not (
            event.event in SHOWN_WHEN_TYPED and event.body.get("trigger") != "auto"
        )
        body = json.dumps(event.body).encode()
        for signal in _adapted(trace, event, signals_from_hook, body, trace.t0 + event.t_ms):
            yield Arrival(event.t_ms, signal, "hooks", event.event, installed)


def statusline_arrivals(trace: Trace) -> Iterator[Arrival]:
    for event in _of_kind(trace, "statusline"):
        body = json.dumps(event.body).encode()
        for signal in _adapted(trace, event, signals_from_statusline, body, trace.t0 + event.t_ms):
            yield Arrival(event.t_ms, signal, "statusline")


def transcript_arrivals(trace: Trace) -> Iterator[Arrival]:
    """Lines of one file that came together are read together, as one growth of the file."""
    contexts: dict[str, str] = {}
    lines = list(_of_kind(trace, "line"))
    for (t, name), group in groupby(lines, key=lambda event: (event.t_ms, event.file)):
        file = _whose(name)
        if file is None:
            continue
        raw = [json.dumps(event.line).encode() for event in group]
        read = signals_from_lines(raw, file, contexts.get(name, ""), trace.t0 + t, None)
        contexts[name] = read.context
        trace.faults.extend(f"{trace.name} {t} ms, {name}: {fault}" for fault in read.faults)
        for signal in read.signals:
            yield Arrival(t, signal, "transcript")


#: Whose a signal is, by its source.
_BY_SOURCE = {"hook": "hooks", "hub": THE_END}


def signal_arrivals(trace: Trace) -> Iterator[Arrival]:
    """Of a bundle of `adsum report-wrong-state`, which holds what a collector made of its witnesses."""
    for event in _of_kind(trace, "signal"):
        body = json.dumps(event.body).encode()
        for signal in _adapted(trace, event, lambda raw, _: [decode_signal(raw)], body, 0):
            source = getattr(signal, "source", "hub")
            gone = isinstance(signal, ProcessGone)
            yield Arrival(event.t_ms, signal, THE_END if gone else _BY_SOURCE.get(source, source))


def _whose(name: str) -> TranscriptFile | None:
    return transcript_file(name.removeprefix(PROJECTS)) if name.startswith(PROJECTS) else None


class _Table:
    """Which process runs which session, and what was told of each registry file."""

    def __init__(self) -> None:
        self.known: dict[int, Known] = {}
        self.watched: dict[str, AgentProcess] = {}

    def read(self, trace: Trace, event: Event) -> Entry | None:
        raw = json.dumps(event.content).encode()
        signals = _adapted(trace, event, signals_from_registry, raw, trace.t0 + event.t_ms)
        named = (each for each in signals if isinstance(each, StatusReported | ProcessSeen))
        started = next((each.started for each in named), 0)
        return read_entry(list(signals), started)

    def note(self, signals: Iterable[AnySignal]) -> None:
        for signal in signals:
            if isinstance(signal, ProcessSeen):
                self.watched[signal.session_id] = AgentProcess(signal.pid, signal.started)
            elif isinstance(signal, SessionEnded):
                self.watched.pop(signal.session_id, None)


def registry_arrivals(trace: Trace) -> Iterator[Arrival]:
    table = _Table()
    last = max((event.t_ms for event in trace.events), default=0)
    writes = list(_of_kind(trace, "registry"))
    ends = {each.pid: each.t_ms for each in _of_kind(trace, "action") if each.pid}
    for number, event in enumerate(writes):
        t, pid = event.t_ms, event.pid
        known = table.known.get(pid)
        others = [
            each.entry
            for other, each in table.known.items()
            if other != pid and ends.get(other, last) >= t
        ]
        news: list[AnySignal] = []
        if event.deleted:
            again = any(
                later.pid == pid and later.t_ms <= t + VANISHED_MS
                for later in writes[number + 1 :]
                if not later.deleted
            )
            if known is not None and not again:
                del table.known[pid]
                gone, t = Known(known.entry, trace.t0 + t), min(t + VANISHED_MS, last)
                at = trace.t0 + event.t_ms + VANISHED_MS
                news = news_of_absence(gone, table.watched, at, others)
        elif entry := table.read(trace, event):
            news = news_of_entry(entry, known, table.watched, trace.t0 + t, others)
            table.known[pid] = Known(entry)
        table.note(news)
        yield from (Arrival(t, signal, "registry") for signal in news)


def process_arrivals(trace: Trace) -> Iterator[Arrival]:
    """What the process table shows: who runs, and that a killed or finished process is gone.

    A SessionStart hook names the process beside it, as the shim does, also of a session that the registry
    never names.
    """
    table = _Table()
    held: dict[int, Entry] = {}
    begun = {
        entry.session_id: entry
        for event in reversed(list(_of_kind(trace, "registry")))
        if not event.deleted and (entry := table.read(trace, event))
    }
    for event in trace.events:
        t, at = event.t_ms, trace.t0 + event.t_ms
        if event.event == "SessionStart" and (
            entry := begun.get(str(event.body.get("session_id")))
        ):
            seen = _process(ProcessSeen, entry, at)
            table.note([seen])
            yield Arrival(t, seen, "process")
        written = event.kind == "registry" and not event.deleted
        if written and (entry := table.read(trace, event)):
            held[event.pid] = entry
            if entry.session_id not in table.watched:
                seen = _process(ProcessSeen, entry, at)
                table.note([seen])
                yield Arrival(t, seen, "process")
        killed = event.action == "kill" and str(event.sig) in ("9", "KILL")
        if event.kind == "action" and (killed or event.action == "exit"):
            for pid in [event.pid] if event.pid else list(held):
                if pid in held:
                    gone = held.pop(pid)
                    yield Arrival(t, _process(ProcessGone, gone, at), THE_END)
                    for signal in news_of_heir(gone.session_id, held.values(), at):
                        yield Arrival(t, signal, "registry")


class CodexReplay:
    """One scenario of Codex, in the order of its trace: what is read explains what is heard.

    In a collector the server is asked at once what an unknown thread is; here it waits until a hook or
    a rollout has told. Traces shorten command lines, so any shell that a session's process starts after
    a permission was asked for counts as the command.
    """

    def __init__(self, trace: Trace) -> None:
        self._trace, self._codex, self._boot = trace, Codex(), _boot_of(trace)
        threads = self._codex.threads
        self._broadcasts = Broadcasts(threads)
        self._locks = LockNews(threads, self._started_of, from_begin=True)
        self._contexts: dict[str, str] = {}
        self._running: dict[str, AgentProcess] = {}
        self._living: dict[int, dict[str, Any]] = {}
        self._taken: dict[str, Lock] = {}
        self._resumed: set[int] = set()

    def arrivals(self) -> list[Arrival]:
        steps = {
            "hook": self._hook,
            "line": self._line,
            "status": self._status,
            "process": self._processes,
            "file": self._file,
        }
        return [each for event in self._trace.events for each in self._step(steps, event)]

    def _step(self, steps: dict[str, Any], event: Event) -> Iterator[Arrival]:
        seen = self._trace.t0 + event.t_ms
        if (step := steps.get(event.kind)) is not None:
            yield from step(event, seen)
        for signal in self._broadcasts.settle(seen):
            yield Arrival(event.t_ms, signal, "registry")
        runner = self._runner()
        for thread, lock in self._taken.items():
            if not lock.pid and runner is not None:
                self._taken[thread] = lock._replace(pid=runner)
        held = {thread: lock for thread, lock in self._taken.items() if lock.pid in self._living}
        yield from self._noted(event, self._locks.read(held, set(self._taken), seen), "process")

    def _noted(
        self, event: Event, signals: Iterable[AnySignal], witness: str, hook: str = ""
    ) -> Iterator[Arrival]:
        for signal in signals:
            if isinstance(signal, ProcessSeen):
                self._running[signal.session_id] = AgentProcess(signal.pid, signal.started)
            elif isinstance(signal, SessionEnded):
                self._running.pop(signal.session_id, None)
            yield Arrival(event.t_ms, signal, witness, hook)

    def _hook(self, event: Event, seen: int) -> Iterator[Arrival]:
        body = json.dumps(event.body).encode()
        signals = _adapted(self._trace, event, self._codex.hook, body, seen)
        started = self._started_of(event.ppid)
        if signals and started is not None:
            process = AgentProcess(event.ppid, started)
            seen_there = [_of(ProcessSeen, signals[0].session_id, process, seen)]
            yield from self._noted(event, seen_there, "process")
        yield from self._noted(event, signals, "hooks", event.event)
        unread = (each for each in Codex().hook(body, seen) if isinstance(each, TurnEnded))
        yield from self._noted(event, unread, UNREAD, event.event)

    def _line(self, event: Event, seen: int) -> Iterator[Arrival]:
        transcripts, trace = self._codex.transcripts, self._trace
        file = transcripts.file_of(event.file.removeprefix("sessions/"))
        if file is None or not event.file.startswith("sessions/"):
            return
        raw = [json.dumps(event.line).encode()]
        before = self._contexts.get(event.file, "")
        read = transcripts.read(raw, file, before, seen, None, lambda struct: struct)
        self._contexts[event.file] = read.context
        trace.faults.extend(f"{trace.name} {event.t_ms} ms, {file}: {it}" for it in read.faults)
        yield from self._noted(event, read.signals, "transcript")

    def _status(self, event: Event, seen: int) -> Iterator[Arrival]:
        params = msgspec.Raw(msgspec.json.encode(event.body.get("params")))
        about = params, event.body.get("id"), event.body.get("emittedAtMs", 0)
        said = ServerMessage(str(event.body.get("method")), *about)
        yield from self._noted(event, self._broadcasts.read(said, seen), "registry")

    def _file(self, event: Event, _seen: int) -> Iterator[Arrival]:
        folder, _, name = event.file.partition("/")
        if folder == LOCKS and event.what == "created":
            self._taken[name.removesuffix(".lock")] = Lock(0, self._trace.t0 + event.t_ms)
        elif folder == LOCKS:
            self._taken.pop(name.removesuffix(".lock"), None)
        return iter(())

    def _processes(self, event: Event, seen: int) -> Iterator[Arrival]:
        self._living = {each["pid"]: each for each in event.processes}
        for session, process in list(self._running.items()):
            if process.pid not in self._living:
                gone = [_of(ProcessGone, session, process, seen)]
                yield from self._noted(event, gone, "process")
                del self._running[session]
        if self._trace.version < LOCKING:
            yield from self._noted(event, self._resumes(seen), "process")
        yield from self._noted(event, self._commands(seen), "process")

    def _resumes(self, seen: int) -> Iterator[AnySignal]:
        for pid, each in self._living.items():
            thread = resumed_by(each["cmd"].split()) if pid not in self._resumed else None
            if thread is not None and each["role"] == "tui":
                self._resumed.add(pid)
                yield _of(ProcessSeen, thread, AgentProcess(pid, self._started_of(pid) or 0), seen)

    def _commands(self, seen: int) -> Iterator[AnySignal]:
        asked = self._codex.threads.asked
        for key, each in list(asked.items()):
            process = self._running.get(each.session)
            below = [
                (self._boot + it["start"] * 10, [each.command])
                for it in self._living.values()
                if process and it["ppid"] == process.pid and it["cmd"] in SHELLS
            ]
            if (closed := began(each, below, seen)) is not None:
                del asked[key]
                yield closed

    def _runner(self) -> int | None:
        """The process that runs all sessions of a scenario."""
        for role in ("server", "exec", "tui"):
            for pid, each in self._living.items():
                if each["role"] == role:
                    return pid
        return None

    def _started_of(self, pid: int) -> int | None:
        return self._boot + self._living[pid]["start"] * 10 if pid in self._living else None


class FilesReplay:
    """One scenario of an agent that is known from what it writes, and from who runs in its directory.

    In a collector processes are looked for every second, here at each change of theirs.
    """

    def __init__(self, trace: Trace) -> None:
        self._trace, self._boot = trace, _boot_of(trace)
        self._gemini, self._contexts = GeminiCli(), dict[str, str]()
        self._logs: dict[str, SessionLog] = {}
        self._news, self._running = RunnerNews(), dict[int, Runner]()
        self._named: dict[str, AgentProcess] = {}
        self._places = self._gemini.places

    def arrivals(self) -> list[Arrival]:
        return [each for event in self._trace.events for each in self._step(event)]

    def _step(self, event: Event) -> Iterator[Arrival]:
        seen = self._trace.t0 + event.t_ms
        if event.kind == "line":
            read = self._row if self._trace.agent == OpenCode.name else self._line
            yield from (Arrival(event.t_ms, each, "transcript") for each in read(event, seen))
        if event.kind == "process":
            self._running = {
                each["pid"]: Runner(self._boot + each["start"] * 10, each["what"], each["ppid"])
                for each in event.processes
            }
            for session, process in list(self._named.items()):
                if process.pid not in self._running:
                    del self._named[session]
                    yield Arrival(event.t_ms, _of(ProcessGone, session, process, seen), THE_END)
        if event.kind in ("line", "process"):
            for each in self._news.read(self._places, self._running, seen):
                if isinstance(each, ProcessSeen):
                    self._named[each.session_id] = AgentProcess(each.pid, each.started)
                yield Arrival(event.t_ms, each, "process")

    def _line(self, event: Event, seen: int) -> Sequence[AnySignal]:
        file = self._gemini.transcripts.file_of(event.file.removeprefix("tmp/"))
        if file is None:
            return ()
        raw, before = [json.dumps(event.line).encode()], self._contexts.get(event.file, "")
        read = self._gemini.read(raw, file, before, seen, None, lambda struct: struct)
        self._contexts[event.file] = read.context
        return read.signals

    def _row(self, event: Event, seen: int) -> Sequence[AnySignal]:
        row = event.line
        log = self._logs.setdefault(row["aggregate_id"], SessionLog(row["aggregate_id"]))
        found = log.read(row["type"], json.dumps(row["data"]).encode(), seen)
        remember(self._places, log.id, Whereabouts(log.directory, log.at))
        return found


def _boot_of(trace: Trace) -> int:
    """When the machine was started, ms: each process was seen after its start, in ticks since then."""
    seen = [
        trace.t0 + event.t_ms - each["start"] * 10
        for event in _of_kind(trace, "process")
        for each in event.processes
    ]
    return min(seen, default=0)


def _of(kind: type[Any], session_id: str, process: AgentProcess, at: int) -> Any:
    return _process(kind, Entry(session_id, process), at)


def _process(kind: type[Any], entry: Entry, at: int) -> Any:
    pid, started = entry.process.pid, entry.process.started
    named = {"session_id": entry.session_id, "pid": pid, "started": started}
    return kind(**named, at=at, seen=at, source="process")


def _of_kind(trace: Trace, kind: str) -> Iterator[Event]:
    return (event for event in trace.events if event.kind == kind)


def _adapted(
    trace: Trace, event: Event, adapt: Callable[[Any, int], Sequence[Any]], raw: Any, seen: int
) -> Sequence[Any]:
    """What the adapter makes of it; nothing and a fault, if it is refused."""
    try:
        return adapt(raw, seen)
    except (ValueError, msgspec.DecodeError) as error:
        fault = f"{trace.name} {event.t_ms} ms, {event.kind} {event.event}: {error}"
        if fault not in trace.faults:
            trace.faults.append(fault)
        return ()


def timelines(trace: Trace, found: Iterable[Arrival]) -> dict[str, list[Change]]:
    """Per session, every change of its state; only of sessions that have materialised."""
    per_session: dict[str, list[Arrival]] = {}
    for arrival in found:
        per_session.setdefault(arrival.signal.session_id, []).append(arrival)
    return {
        session: list(timeline(batch, trace.t0, trace.end))
        for session, batch in per_session.items()
    }


def timeline(found: list[Arrival], t0: int, end: int) -> Iterator[Change]:
    facts: Facts | None = None
    shown: Change | None = None
    verdict: Verdict | None = None
    for number, arrival in enumerate(found):
        t = arrival.t
        facts = fold(facts, arrival.signal)
        until = found[number + 1].t if number + 1 < len(found) else end + 1
        if until == t:
            continue  # judged once per arrival batch
        at: int | None = t0 + t
        if not facts.materialised and shown is not None and shown.group is not None:
            shown = Change(t, None, "unlisted", "fallback", 0.0, "")
            yield shown
        while at is not None and at < t0 + until and facts.materialised:
            verdict = judge(facts, at, last=verdict)
            state = verdict.state
            change = Change(
                at - t0, state.group, state.state, state.source, state.confidence, state.label
            )
            if shown is None or (shown.group, shown.state) != (change.group, change.state):
                yield change
                shown = change
            at = verdict.until


def state_at(line: list[Change], t: float) -> Change | None:
    found = None
    for change in line:
        if change.t_ms > t:
            break
        found = change
    return found
