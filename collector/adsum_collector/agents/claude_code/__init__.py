"""Claude Code: its hooks and its session registry, read into signals."""

from adsum_collector.agents.claude_code.bodies import HookBody, HookError, decode_hook
from adsum_collector.agents.claude_code.hooks import signals_from_hook
from adsum_collector.agents.claude_code.registry import (
    RegistryEntry,
    RegistryError,
    decode_registry,
    signals_from_registry,
)

__all__ = [
    "HookBody",
    "HookError",
    "RegistryEntry",
    "RegistryError",
    "decode_hook",
    "decode_registry",
    "signals_from_hook",
    "signals_from_registry",
]
