"""A part's log file: kept from growing without end, and quoted when the part fails."""

from __future__ import annotations

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
    return "\n".join(f"  {line}" for line in text.splitlines()[-lines:]) or "  (it wrote nothing)"
