"""Translates a file of the CLI's session registry, `sessions/<pid>.json`, into signals.

It is undocumented and optional: anything may be missing, and 2.1.112 has no status at all.
Files beside it that end in `.key` are secrets; nobody here reads them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from adsum_collector.agents.claude_code.bodies import NAME_MAX, TEXT_MAX, UNDECODABLE
from adsum_collector.agents.claude_code.hooks import TITLE_MAX
from adsum_collector.agents.claude_code.tools import NUMBER_MAX, one_line, project_of
from adsum_shared import signals as s
from adsum_shared.signals import KnownSignal

PID_MAX = (1 << 31) - 1


class RegistryError(ValueError):
    """A file that names no session: empty while it is being written (2.1.112), or not ours."""


def signals_from_registry(content: bytes, seen: int) -> list[KnownSignal]:
    """All that one file says, as of when it was last true by its own account, at the latest now.

    Raises RegistryError, and nothing else. A field of the wrong type counts as missing. The name is
    one the CLI made up; as it comes from the registry, any other title beats it.
    """
    try:
        entry = msgspec.json.decode(content, type=dict[str, Any])
    except UNDECODABLE as error:
        raise RegistryError(f"not a JSON object: {error}") from error
    session_id = _text(entry, "sessionId")
    if session_id is None or len(session_id) > NAME_MAX:
        raise RegistryError(f"`sessionId` is no string of 1 to {NAME_MAX} characters")
    pid, started = _number(entry, "pid", PID_MAX) or None, _number(entry, "startedAt")
    stamp = _number(entry, "statusUpdatedAt") or _number(entry, "updatedAt") or started or seen
    status, cwd = _name(entry, "status"), _text(entry, "cwd")
    common: dict[str, Any] = {"session_id": session_id, "seen": seen, "source": "registry"}
    dated = common | {"at": min(stamp, seen)}
    found: list[KnownSignal] = [
        s.StatusReported(
            **dated,
            status=status,
            waiting_for=_name(entry, "waitingFor") if status else None,
            pid=pid,
            started=started,
        ),
        s.MetaChanged(
            **dated,
            title=one_line(_text(entry, "name"), TITLE_MAX),
            cwd=cwd,
            project=project_of(cwd),
            version=_name(entry, "version"),
        ),
    ]
    if pid is not None:
        found.insert(0, s.ProcessSeen(**common, at=seen, pid=pid, started=started))
    return found


def _text(entry: Mapping[str, Any], name: str) -> str | None:
    value = entry.get(name)
    return value[:TEXT_MAX] if isinstance(value, str) and value else None


def _name(entry: Mapping[str, Any], name: str) -> str | None:
    return (_text(entry, name) or "")[:NAME_MAX] or None


def _number(entry: Mapping[str, Any], name: str, most: int = NUMBER_MAX) -> int:
    """0 for none, and for one that means nothing."""
    value = entry.get(name)
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value <= most:
        return 0
    return int(value)
