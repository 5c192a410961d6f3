"""Which directories `CLAUDE_CONFIG_DIR` names."""

from __future__ import annotations

from pathlib import Path


def config_dirs(told: str | None, home: Path) -> tuple[Path, ...]:
    """One; or several with commas between, as ccusage has it, unless there is one of that very name.

    Claude Code itself knows of one at a time.
    """
    if not told:
        return (home / ".claude",)
    whole = Path(told).expanduser()
    parts = [part.strip() for part in told.split(",")]
    if len(parts) == 1 or whole.is_dir():
        return (whole,)
    return tuple(dict.fromkeys(Path(part).expanduser() for part in parts if part)) or (whole,)
