"""What the main agent did in the turn that has ended: `tools_used` in the context of plugins."""

from __future__ import annotations

from typing import Any

from adsum_hub.facts import Facts
from adsum_hub.verdict.ground import ground_of

#: The states of a turn that came to its own end. An interrupted one shows as `idle` too.
RESTING = frozenset({"idle", "task_complete"})
#: The latest so many, oldest first.
DEEDS_MAX = 16


def tools_used(facts: Facts) -> list[dict[str, Any]]:
    """Finished calls, each with tool, role, summary and, if it failed, its error.

    Not those in the background, which finish when they start, and none of subagents. They are not
    part of the state: clients have no use for them, and they would double what is sent to them.
    """
    if not facts.tools:
        return []
    ground = ground_of(facts)
    stand = ground.stand
    if not stand.closed or stand.how != "ended":
        return []
    done = [
        (tool.first, key, tool)
        for key, tool in facts.tools.items()
        if tool.finished
        and tool.agent_id is None
        and not (tool.background or tool.denied or tool.is_interrupt)
        and tool.first >= max(stand.began, ground.run)
    ]
    return [
        {
            "tool": tool.tool,
            "role": tool.role,
            "summary": tool.summary,
            **({} if tool.ok else {"error": tool.error or "failed"}),
        }
        for _, _, tool in sorted(done, key=lambda each: each[:2])[-DEEDS_MAX:]
    ]
