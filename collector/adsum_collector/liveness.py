"""What the agent's registry and the process table tell of sessions. Pure decisions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import msgspec

from adsum_collector.processes import SAME_START_MS, Process
from adsum_shared.signals import (
    Alive,
    AnySignal,
    ProcessGone,
    ProcessSeen,
    SessionEnded,
    StatusReported,
    UnknownSignal,
)

#: A registry file can vanish and be back within 15 ms; gone for this long, it is gone.
VANISHED_MS = 200
#: Between two measurements of a process's work, and so the pace of the signs of life it gives.
CPU_INTERVAL_MS = 30_000
#: The share of one core above which a process works. A model's long answer is read, parsed and
#: drawn at several per cent, while no hook and no status tells of it; one that hangs uses none.
CPU_SHARE = 0.01


class Entry(msgspec.Struct, frozen=True):
    """One file of the registry, of a living process: what it says, in our words."""

    session_id: str
    process: Process
    signals: tuple[AnySignal, ...] = ()


class Known(msgspec.Struct):
    """What was told last of one registry file. missing_since: ms, 0 while the file is there."""

    entry: Entry
    missing_since: int = 0


class Work(msgspec.Struct, frozen=True):
    """used: ms of processor time a process had used by `at` (ms)."""

    at: int
    used: int


def news_of_work(
    known: Mapping[Process, Work],
    watched: Mapping[str, Process],
    cpu: Callable[[int], int | None],
    now: int,
) -> tuple[list[AnySignal], dict[Process, Work]]:
    """A sign of life for each session whose process works; and what to know at the next look.

    cpu: see `processes.cpu_ms`. A process is measured only once its last measurement is old enough.
    """
    news: list[AnySignal] = []
    work: dict[Process, Work] = {}
    for process in set(watched.values()):
        before = known.get(process)
        # a clock that was set back starts anew
        if before is not None and 0 <= now - before.at < CPU_INTERVAL_MS:
            work[process] = before
            continue
        used = cpu(process.pid)
        if used is None:
            continue
        work[process] = Work(now, used)
        elapsed = now - before.at if before else 0
        if before and elapsed > 0 and used - before.used >= CPU_SHARE * elapsed:
            news += (_working(each, now) for each, its in watched.items() if its == process)
    return news, work


def read_entry(signals: list[AnySignal], started: int | None) -> Entry | None:
    """An entry of what a registry file says; None if it names no living process.

    started: when the process it names began, None if there is none. A file left over by a killed
    agent may name a process id that another program bears by now: that one began after the file's
    own stamp. The stamp is the agent's, some 100 ms late; ours is the same from every witness.
    """
    named = next((s for s in signals if isinstance(s, StatusReported | ProcessSeen)), None)
    if named is None or named.pid is None or started is None:
        return None
    if named.started and started > named.started + SAME_START_MS:
        return None
    return Entry(
        named.session_id,
        Process(named.pid, started),
        tuple(
            msgspec.structs.replace(signal, started=started)
            if isinstance(signal, StatusReported | ProcessSeen)
            else signal
            for signal in signals
        ),
    )


def news_of_entry(
    entry: Entry, known: Known | None, watched: Mapping[str, Process], now: int
) -> list[AnySignal]:
    """What a registry file that is there tells beyond what was told of it before. now: ms."""
    before = known.entry if known else None
    told = [_core(signal) for signal in before.signals] if before else []
    news: list[AnySignal] = []
    signals: Iterable[AnySignal] = entry.signals
    if before is not None and before.session_id != entry.session_id:
        # /clear and in-app /resume: the same process names another session
        if _is_running(before, watched):
            news.append(_ended(before, now))
        signals = (_disown(signal, before) for signal in signals)
    process = watched.get(entry.session_id)
    if process is None or not process.is_same(entry.process):
        news.append(_seen(entry, now))
    news += (s for s in signals if not isinstance(s, ProcessSeen) and _core(s) not in told)
    return news


def news_of_absence(known: Known, watched: Mapping[str, Process], now: int) -> list[AnySignal]:
    """A registry file has gone: its session has ended, unless the hook has said so before.

    If the process is gone too, that is what `news_of_processes` tells.
    """
    if now - known.missing_since < VANISHED_MS or not _is_running(known.entry, watched):
        return []
    return [_ended(known.entry, now)]


def news_of_processes(
    watched: Mapping[str, Process], gone: set[Process], now: int
) -> list[AnySignal]:
    """The sessions whose process is no more: kill -9 leaves no other sign."""
    return [
        ProcessGone(
            session_id=session_id,
            at=now,
            seen=now,
            source="process",
            pid=process.pid,
            started=process.started,
        )
        for session_id, process in watched.items()
        if process in gone
    ]


def _core(signal: AnySignal) -> AnySignal:
    """A signal without the time at which we looked: what it says, to tell whether that is new."""
    if isinstance(signal, UnknownSignal):
        return signal
    at = signal.at if isinstance(signal, StatusReported) else 0
    return msgspec.structs.replace(signal, at=at, seen=0)


def _disown(signal: AnySignal, before: Entry) -> AnySignal:
    """A session that has just taken over a process bears, for a while, the last one's status."""
    inherited = isinstance(signal, StatusReported) and any(
        isinstance(old, StatusReported) and old.at == signal.at for old in before.signals
    )
    if not inherited:
        return signal
    return msgspec.structs.replace(signal, status=None, waiting_for=None)


def _is_running(entry: Entry, watched: Mapping[str, Process]) -> bool:
    process = watched.get(entry.session_id)
    return process is not None and process.is_same(entry.process)


def _seen(entry: Entry, now: int) -> ProcessSeen:
    return ProcessSeen(
        session_id=entry.session_id,
        at=now,
        seen=now,
        source="registry",
        pid=entry.process.pid,
        started=entry.process.started,
    )


def _working(session_id: str, now: int) -> Alive:
    return Alive(session_id=session_id, at=now, seen=now, source="process", event="cpu")


def _ended(entry: Entry, now: int) -> SessionEnded:
    return SessionEnded(session_id=entry.session_id, at=now, seen=now, source="registry")
