"""Views as domains are asked about, and domains that answer whatever a test wants."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adsum_collector.agents.claude_code.tools import role_of
from adsum_hub.domains.show import DomainChoice, Domains
from adsum_hub.facts import Facts
from adsum_hub.views import rank
from adsum_shared.state import GROUP_OF, AgentState, Group, SessionView

FACTS = Facts("s1")


def view(
    state: str = "acting",
    context: dict[str, Any] | None = None,
    *,
    name: str = "s1",
    project: str | None = "shop",
    branch: str | None = "feature/auth",
    **more: Any,
) -> SessionView:
    group = GROUP_OF.get(state, Group.AUTONOMOUS)
    agent_state = AgentState(group, state, "the core's label", 0.9, "hook", 1, context)
    return SessionView(
        id=f"h:{name}",
        host_id="h",
        host="lab",
        session_id=name,
        agent="claude_code",
        state=agent_state,
        reachability="live",
        updated_at=1,
        rank=rank(agent_state, "live", more.get("urgency"), 1),
        project=project,
        branch=branch,
        **more,
    )


def running(summary: str, tool: str = "Bash", **more: Any) -> SessionView:
    return view("acting", {"tool": tool, "role": role_of(tool), "summary": summary}, **more)


def failed(summary: str, error: str, state: str = "error", **more: Any) -> SessionView:
    return view(
        state, {"tool": "Bash", "role": "shell", "summary": summary, "error": error}, **more
    )


def done(*used: tuple[str, ...], state: str = "idle", **more: Any) -> SessionView:
    """used: tool and summary, and the error of those that failed."""
    names = ("tool", "summary", "error")
    told = [{"role": role_of(each[0]), **dict(zip(names, each, strict=False))} for each in used]
    return view(state, {"last_message": "Done.", "tools_used": told}, **more)


def shell(*lines: str, **more: Any) -> SessionView:
    return done(*(("Bash", line) for line in lines), **more)


class Ticks:
    """A clock that a domain itself moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Asked:
    """A domain that counts, and does what it is told."""

    def __init__(self, answer: Callable[[SessionView], object]) -> None:
        self.answer = answer
        self.sessions: list[str] = []

    def __call__(self, session: SessionView) -> object:
        self.sessions.append(session.session_id)
        return self.answer(session)


def asking(timer: Callable[[], float] | None = None, **domains: Any) -> Domains:
    """All of these, for every project, in this order."""
    return Domains(domains, DomainChoice([("*", tuple(domains))]), timer or Ticks())
