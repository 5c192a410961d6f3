"""One package per kind of agent, and a line in `known_agents` that registers it."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from adsum_collector.agents.base import Agent, UsageLines


@functools.cache
def known_agents() -> tuple[Agent, ...]:
    """Imported here, as the scan of usage starts with little to import. The first is the default."""
    from adsum_collector.agents.claude_code.agent import ClaudeCode
    from adsum_collector.agents.codex.agent import Codex
    from adsum_collector.agents.gemini.agent import GeminiCli
    from adsum_collector.agents.opencode.agent import OpenCode

    return (ClaudeCode(), Codex(), GeminiCli(), OpenCode())


def usage_lines(agent: Agent | None = None) -> UsageLines:
    """Of this agent, or of the first one whose transcripts tell what was used up."""
    of = (agent,) if agent else known_agents()
    return next(each.usage for each in of if each.usage is not None)
