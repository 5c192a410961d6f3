"""Translates a file of the CLI's session registry, `sessions/<pid>.json`, into signals.

It is undocumented and optional: anything may be missing, and 2.1.112 has no status at all.
Files beside it that end in `.key` are secrets; nobody here reads them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from adsum_collector.agents.claude_code.bodies import NAME_MAX, TEXT_MAX
from adsum_collector.agents.claude_code.tools import NUMBER_MAX, one_line, project_of
from adsum_shared import signals as s
from adsum_shared.signals import KnownSignal

TITLE_MAX = 120
PID_MAX = (1 << 31) - 1


class RegistryError(ValueError):
    """A file that names no session: empty while it is being written (2.1.112), or not ours."""


class RegistryEntry(msgspec.Struct, frozen=True):
    """One process's entry. started and stamp: ms of host wall clock, 0 if it does not say."""

    session_id: str
    pid: int | None = None
    started: int = 0
    status: str | None = None
    waiting_for: str | None = None
    stamp: int = 0
    cwd: str | None = None
    version: str | None = None
    name: str | None = None
    entrypoint: str | None = None


def decode_registry(content: bytes | Mapping[str, Any]) -> RegistryEntry:
    """Raises RegistryError, and nothing else. A field of the wrong type counts as missing."""
    if isinstance(content, bytes | bytearray | memoryview):
        try:
            content = msgspec.json.decode(content, type=dict[str, Any])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise RegistryError(f"not a JSON object: {error}") from error
    session_id = _text(content, "sessionId")
    if session_id is None or len(session_id) > NAME_MAX:
        raise RegistryError(f"`sessionId` is no string of 1 to {NAME_MAX} characters")
    return RegistryEntry(
        session_id=session_id,
        pid=_number(content, "pid", PID_MAX) or None,
        started=_number(content, "startedAt"),
        status=_name(content, "status"),
        waiting_for=_name(content, "waitingFor"),
        stamp=_number(content, "statusUpdatedAt") or _number(content, "updatedAt"),
        cwd=_text(content, "cwd"),
        version=_name(content, "version"),
        name=_text(content, "name"),
        entrypoint=_name(content, "entrypoint"),
    )


def _text(content: Mapping[str, Any], name: str) -> str | None:
    value = content.get(name)
    return value[:TEXT_MAX] if isinstance(value, str) and value else None


def _name(content: Mapping[str, Any], name: str) -> str | None:
    return (_text(content, name) or "")[:NAME_MAX] or None


def _number(content: Mapping[str, Any], name: str, most: int = NUMBER_MAX) -> int:
    """0 for none, and for one that means nothing."""
    value = content.get(name)
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value <= most:
        return 0
    return int(value)


def status_of(entry: RegistryEntry, seen: int, *, inherited: bool = False) -> s.StatusReported:
    status = None if inherited else entry.status
    return s.StatusReported(
        session_id=entry.session_id,
        at=stamp_of(entry, seen),
        seen=seen,
        source="registry",
        status=status,
        waiting_for=entry.waiting_for if status else None,
        pid=entry.pid,
        started=entry.started,
    )


def stamp_of(entry: RegistryEntry, seen: int) -> int:
    """When the entry was last true, as far as it says; never later than it was read."""
    return min(entry.stamp or entry.started or seen, seen)


def inherits(entry: RegistryEntry, before: RegistryEntry | None) -> bool:
    """Whether its status is another session's.

    After /clear and /resume the process names another session, and at first still bears the
    status of the old one, stamp and all. It says nothing of the new one.
    """
    return (
        before is not None and before.session_id != entry.session_id and before.stamp == entry.stamp
    )


def signals_from_registry(
    content: bytes | Mapping[str, Any] | RegistryEntry,
    seen: int,
    before: RegistryEntry | None = None,
) -> list[KnownSignal]:
    """What one file says. before: what the same file said last, if anybody remembers.

    Raises RegistryError for what is no entry.
    """
    entry = content if isinstance(content, RegistryEntry) else decode_registry(content)
    found: list[KnownSignal] = []
    if entry.pid is not None and (before is None or before.session_id != entry.session_id):
        found.append(
            s.ProcessSeen(
                session_id=entry.session_id,
                at=seen,
                seen=seen,
                source="registry",
                pid=entry.pid,
                started=entry.started,
            )
        )
    found.append(status_of(entry, seen, inherited=inherits(entry, before)))
    told = (entry.cwd, entry.version, entry.name)
    if before is None or told != (before.cwd, before.version, before.name):
        found.append(meta_of(entry, seen))
    return found


def meta_of(entry: RegistryEntry, seen: int) -> s.MetaChanged:
    """The name is one the CLI made up; as it comes from the registry, any other title beats it."""
    return s.MetaChanged(
        session_id=entry.session_id,
        at=stamp_of(entry, seen),
        seen=seen,
        source="registry",
        title=one_line(entry.name, TITLE_MAX),
        cwd=entry.cwd,
        project=project_of(entry.cwd),
        version=entry.version,
    )
