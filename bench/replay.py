"""Traces of the real CLI, played through adapter, fold and resolve in simulated time."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from adsum_collector.agents.claude_code import (
    RegistryEntry,
    decode_registry,
    signals_from_hook,
    signals_from_registry,
)
from adsum_hub.facts import Facts
from adsum_hub.fold import fold
from adsum_hub.resolve import next_deadline, resolve
from adsum_shared.signals import KnownSignal, ProcessGone, ProcessSeen, SessionEnded

WITNESSES = frozenset({"hooks", "registry", "process"})
#: The installer never subscribes to it: it fires for every group of lines of streaming text.
UNHEARD = frozenset({"MessageDisplay"})
#: A registry file must have been gone for so long; it can vanish and return within 15 ms.
GONE_HOLD = 200

Arrival = tuple[int, KnownSignal]


class Change(msgspec.Struct):
    t_ms: int
    group: str
    state: str
    source: str
    confidence: float
    label: str


class Label(msgspec.Struct):
    session_id: str
    from_ms: int
    to_ms: int
    group: str | None = None
    states: list[str] | None = None
    why: str = ""
    known_to: list[str] = []

    def right(self, change: Change | None) -> bool:
        if change is None or change.group != self.group:
            return False
        return self.states is None or change.state in self.states


class Trace(msgspec.Struct):
    name: str
    t0: int
    events: list[dict[str, Any]]
    labels: list[Label]


def load(folder: Path) -> Trace:
    meta = json.loads((folder / "meta.json").read_text())
    events = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    labels = [
        msgspec.json.decode(line, type=Label)
        for line in (folder / "labels.jsonl").read_text().splitlines()
        if line.strip()
    ]
    return Trace(folder.name, meta["t0_wall_ms"], events, labels)


def arrivals(trace: Trace, witnesses: Iterable[str], without: Iterable[str] = ()) -> list[Arrival]:
    """(t_ms, signal) of every witness that is heard, in the order they come to the hub."""
    unheard = UNHEARD | set(without)
    found: list[Arrival] = []
    for event in trace.events:
        t = event["t_ms"]
        if event["kind"] == "hook" and "hooks" in witnesses and event["event"] not in unheard:
            body = json.dumps(event["body"]).encode()
            found += [(t, signal) for signal in signals_from_hook(body, trace.t0 + t)]
    if "registry" in witnesses:
        found += registry_arrivals(trace)
    if "process" in witnesses:
        found += process_arrivals(trace)
    return sorted(found, key=lambda arrival: arrival[0])


def registry_arrivals(trace: Trace) -> Iterator[Arrival]:
    before: dict[int, RegistryEntry] = {}
    last = 0
    for event in trace.events:
        last = event["t_ms"]
    writes = [event for event in trace.events if event["kind"] == "registry"]
    for number, event in enumerate(writes):
        t, pid = event["t_ms"], event["pid"]
        if event.get("deleted"):
            again = any(
                later["pid"] == pid and later["t_ms"] <= t + GONE_HOLD
                for later in writes[number + 1 :]
                if not later.get("deleted")
            )
            held = before.pop(pid, None)
            if held is not None and not again:
                yield min(t + GONE_HOLD, last), _left(held, trace.t0 + t)
            continue
        entry = decode_registry(event["content"])
        held = before.get(pid)
        if held is not None and held.session_id != entry.session_id:
            yield t, _left(held, trace.t0 + t)
        for signal in signals_from_registry(entry, trace.t0 + t, before.get(pid)):
            yield t, signal
        before[pid] = entry


def _left(entry: RegistryEntry, at: int) -> SessionEnded:
    """The registry names it no longer: its file is gone, or names another session."""
    return SessionEnded(
        session_id=entry.session_id, at=at, seen=at, source="registry", reason="gone"
    )


def process_arrivals(trace: Trace) -> Iterator[Arrival]:
    """What the process table shows: who runs, and that a killed or finished process is gone."""
    held: dict[int, RegistryEntry] = {}
    known: set[tuple[str, int]] = set()
    for event in trace.events:
        t = event["t_ms"]
        if event["kind"] == "registry" and not event.get("deleted"):
            entry = decode_registry(event["content"])
            pid = held_pid = event["pid"]
            held[pid] = entry
            if (entry.session_id, held_pid) not in known:
                known.add((entry.session_id, pid))
                yield t, _process(ProcessSeen, entry, trace.t0 + t)
        killed = event.get("action") == "kill" and str(event.get("sig")) in ("9", "KILL")
        if event["kind"] == "action" and (killed or event.get("action") == "exit"):
            gone = [event["pid"]] if killed else list(held)
            for pid in gone:
                if pid in held:
                    yield t, _process(ProcessGone, held.pop(pid), trace.t0 + t)


def _process(kind: type[Any], entry: RegistryEntry, at: int) -> Any:
    return kind(
        session_id=entry.session_id,
        at=at,
        seen=at,
        source="process",
        pid=entry.pid,
        started=entry.started,
    )


def timelines(trace: Trace, found: list[Arrival]) -> dict[str, list[Change]]:
    """Per session, every change of its state; only of sessions that have materialised."""
    per_session: dict[str, list[Arrival]] = {}
    for t, signal in found:
        per_session.setdefault(signal.session_id, []).append((t, signal))
    end = max([event["t_ms"] for event in trace.events] + [label.to_ms for label in trace.labels])
    return {session: list(timeline(batch, trace.t0, end)) for session, batch in per_session.items()}


def timeline(found: list[Arrival], t0: int, end: int) -> Iterator[Change]:
    facts: Facts | None = None
    shown: Change | None = None
    for number, (t, signal) in enumerate(found):
        facts = fold(facts, signal)
        until = found[number + 1][0] if number + 1 < len(found) else end + 1
        if until == t:
            continue  # resolved once per arrival batch
        at: int | None = t0 + t
        if not facts.materialised and shown is not None:
            shown = Change(t, "", "unlisted", "", 0.0, "")
            yield shown
        while at is not None and at < t0 + until and facts.materialised:
            state = resolve(facts, at)
            change = Change(
                at - t0, state.group, state.state, state.source, state.confidence, state.label
            )
            if shown is None or (shown.group, shown.state) != (change.group, change.state):
                yield change
                shown = change
            at = next_deadline(facts, at)


def state_at(line: list[Change], t: float) -> Change | None:
    found = None
    for change in line:
        if change.t_ms > t:
            break
        found = change
    return found
