"""A part's log file: kept from growing without end, and quoted when the part fails."""

from __future__ import annotations

import json
from pathlib import Path

LOG_MOST = 10 * 1024 * 1024


def trim_log(log: Path, most: int = LOG_MOST) -> None:
    if log.exists() and log.stat().st_size > most:
        log.with_suffix(".old.log").write_bytes(log.read_bytes())
        with log.open("r+b") as file:
            file.truncate(0)


def tail_of(log: Path, start: int, lines: int = 8) -> str:
    """The last lines written since `start`, indented."""
    if not log.exists():
        return "  (it wrote nothing)"
    with log.open("rb") as file:
        size = log.stat().st_size
        file.seek(max(start if start <= size else 0, size - 8192))
        text = file.read().decode("utf-8", "replace")
    told = "\n".join(map(for_people, text.splitlines())).splitlines()
    return "\n".join(f"  {line}" for line in told[-lines:]) or "  (it wrote nothing)"


def for_people(line: str) -> str:
    """A part logs JSON to a file; who reads its end at a terminal is a person."""
    try:
        entry = json.loads(line) if line.startswith("{") else None
        return "\n".join([f"{entry['level']}: {entry['event']}", *_trace(entry)]) if entry else line
    except (ValueError, KeyError, TypeError):
        return line  # the first line is cut where the file is long


def _trace(entry: dict[str, str]) -> list[str]:
    return [entry["exception"]] if "exception" in entry else []
