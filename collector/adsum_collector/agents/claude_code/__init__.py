"""Claude Code: its hooks, registry, transcripts and status line, read into signals."""

from adsum_collector.agents.claude_code.bodies import HookBody, HookError, decode_hook
from adsum_collector.agents.claude_code.history import history
from adsum_collector.agents.claude_code.hooks import signals_from_hook
from adsum_collector.agents.claude_code.lines import signals_from_lines, transcript_file, written
from adsum_collector.agents.claude_code.registry import (
    RegistryEntry,
    RegistryError,
    decode_registry,
    signals_from_registry,
)
from adsum_collector.agents.claude_code.statusline import signals_from_statusline

__all__ = [
    "HookBody",
    "HookError",
    "RegistryEntry",
    "RegistryError",
    "decode_hook",
    "decode_registry",
    "history",
    "signals_from_hook",
    "signals_from_lines",
    "signals_from_registry",
    "signals_from_statusline",
    "transcript_file",
    "written",
]
