"""A session told signal by signal, for tests of the state core. Times are seconds since T0."""

from __future__ import annotations

from typing import Any, Self

from adsum_collector.agents.claude_code.tools import about
from adsum_hub.facts import Facts
from adsum_hub.fold.fold import fold
from adsum_hub.verdict.judge import Verdict, judge
from adsum_hub.verdict.reading import LIMITS, Limits
from adsum_hub.views import child_views
from adsum_shared import signals as s
from adsum_shared.state import AgentState, ChildView

#: Signals that say what their tool is for and whose it is, as the adapter would.
CALLS = (s.ToolStarted, s.ToolFinished, s.RequestOpened)
T0 = 1_800_000_000_000


def with_role(kind: type, data: dict[str, Any]) -> dict[str, Any]:
    return {**about(str(data.get("tool"))), **data} if kind in CALLS else data


class Story:
    def __init__(self) -> None:
        self.facts: Facts | None = None

    def tell(self, kind: type, at: float, **data: Any) -> Self:
        when = T0 + round(at * 1000)
        data.setdefault("seen", when)
        self.facts = fold(self.facts, kind(session_id="S", at=when, **with_role(kind, data)))
        return self

    def prompt(self, at: float, prompt_id: str | None = "p1", **data: Any) -> Self:
        return self.tell(s.PromptSubmitted, at, prompt_id=prompt_id, **data)

    def start(self, at: float, name: str = "t1", tool: str = "Bash", **data: Any) -> Self:
        data.setdefault("digest", f"{tool} {name}")
        data.setdefault("prompt_id", "p1")
        return self.tell(s.ToolStarted, at, tool=tool, tool_use_id=name, **data)

    def finish(self, at: float, name: str = "t1", tool: str = "Bash", **data: Any) -> Self:
        data.setdefault("prompt_id", "p1")
        return self.tell(s.ToolFinished, at, tool=tool, tool_use_id=name, **data)

    def ask(self, at: float, kind: str = "permission", name: str = "t1", **data: Any) -> Self:
        data.setdefault("tool", "Bash")
        data.setdefault("digest", f"{data['tool']} {name}")
        data.setdefault("prompt_id", "p1")
        return self.tell(s.RequestOpened, at, request_kind=kind, **data)

    def stop(self, at: float, prompt_id: str | None = "p1", **data: Any) -> Self:
        return self.tell(s.TurnEnded, at, prompt_id=prompt_id, **data)

    def status(
        self, at: float, status: str | None, waiting_for: str | None = None, **data: Any
    ) -> Self:
        data.setdefault("pid", 7)
        return self.tell(
            s.StatusReported, at, source="registry", status=status, waiting_for=waiting_for, **data
        )

    def decided(self, at: float, kind: str, **raw: Any) -> Self:
        when = T0 + round(at * 1000)
        self.facts = fold(self.facts, s.UnknownSignal(kind, "S", when, when, raw))
        return self

    def told(self) -> Facts:
        assert self.facts is not None
        return self.facts

    def verdict(self, at: float, limits: Limits = LIMITS) -> Verdict:
        return judge(self.told(), T0 + round(at * 1000), limits)

    def at(self, at: float, limits: Limits = LIMITS) -> AgentState:
        return self.verdict(at, limits).state

    def state(self, at: float) -> str:
        return self.at(at).state

    def label(self, at: float) -> str:
        return self.at(at).label

    def asked(self, at: float) -> list[str]:
        return [request.kind for _, request in self.verdict(at).requests]

    def children(self, at: float) -> dict[str, str]:
        """How each stands, in the order shown."""
        return {c.id: c.status for c in self.child_views(at)}

    def child_views(self, at: float) -> tuple[ChildView, ...]:
        return child_views(self.told(), self.verdict(at).children)

    def unread(self, at: float) -> bool:
        return self.verdict(at).unread

    def deadline(self, at: float) -> float | None:
        """When it changes by itself; `until` may wake us earlier, for nothing."""
        present = self.verdict(at)
        found: Verdict = present
        until = present.until
        while until is not None:
            found = judge(self.told(), until)
            if (found.state, found.requests) != (present.state, present.requests):
                return (until - T0) / 1000
            until = found.until
        return None


def working() -> Story:
    """One turn runs since second 0."""
    return Story().prompt(0, text="go on")
