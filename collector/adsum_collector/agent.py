"""What the collector needs of an agent's adapter: its files and hooks, as signals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from adsum_shared.signals import AnySignal

#: What a witness said and when we learned of it (ms) -> signals; none, if it means nothing to us.
#: Raises ValueError or msgspec.DecodeError for what the agent would never say.
Adapt = Callable[[bytes, int], Sequence[AnySignal]]


class Agent(NamedTuple):
    """hook: a hook's body. registry: a file in which the agent tells of its own sessions."""

    hook: Adapt
    registry: Adapt


def claude_code() -> Agent:
    from adsum_collector.agents.claude_code import (
        decode_hook,
        signals_from_hook,
        signals_from_registry,
    )

    return Agent(
        hook=lambda body, seen: signals_from_hook(decode_hook(body), seen),
        registry=signals_from_registry,
    )
