"""The turn's finished calls, from facts: what domains learn of at its end, and what never counts."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from adsum_collector.agents.claude_code.tools import role_of
from adsum_hub.domains.show import DEEDS_MAX, find, tools_used
from adsum_hub.facts import Facts
from adsum_hub.verdict.judge import judge
from adsum_hub.views import ViewedHost, session_view
from adsum_shared.signals import (
    KnownSignal,
    MetaChanged,
    PromptSubmitted,
    SessionStarted,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    TurnInterrupted,
)
from adsum_shared.state import AgentState, SessionView
from tests.domains import asking
from tests.scenes import folded

T = 1_000_000


def at(second: int) -> dict[str, object]:
    return {"session_id": "s1", "at": T + second * 1000, "seen": T + second * 1000}


def turn(second: int = 0, name: str = "p1") -> list[KnownSignal]:
    return [PromptSubmitted(**at(second), prompt_id=name, origin="typed", text="Do it")]


def call(second: int, summary: str, tool: str = "Bash", **more: object) -> list[KnownSignal]:
    key = f"t{second}"
    agent = {"agent_id": more.pop("agent_id", None)}
    agent |= {"role": role_of(tool)}
    start = ToolStarted(**at(second), **agent, tool=tool, tool_use_id=key, summary=summary)
    end = {"ok": True, **more}
    return [start, ToolFinished(**at(second + 1), **agent, tool=tool, tool_use_id=key, **end)]


def end(second: int, name: str = "p1") -> list[KnownSignal]:
    return [TurnEnded(**at(second), prompt_id=name, last_message="Done.")]


def facts(*parts: list[KnownSignal]) -> Facts:
    return folded([signal for part in parts for signal in part])


def test_the_calls_of_the_turn_that_ended_in_their_order_and_with_their_errors():
    told = facts(
        turn(),
        call(1, "auth.py", "Edit"),
        call(3, "pytest", ok=False, error="Exit code 1\n3 failed"),
        call(5, "git commit -m x"),
        end(9),
    )

    assert tools_used(told) == [
        {"tool": "Edit", "role": "edit", "summary": "auth.py"},
        {"tool": "Bash", "role": "shell", "summary": "pytest", "error": "Exit code 1"},
        {"tool": "Bash", "role": "shell", "summary": "git commit -m x"},
    ]


def test_nothing_while_the_turn_runs_nor_after_it_was_interrupted():
    running = [*turn(), *call(1, "git commit -m x")]
    interrupted = TurnInterrupted(**at(5), prompt_id="p1")

    assert tools_used(facts(running)) == []
    assert tools_used(facts(running, [interrupted])) == []


def test_nothing_of_an_older_turn():
    older = [*turn(), *call(1, "git commit -m x"), *end(5)]

    assert tools_used(facts(older, turn(10, "p2"), end(12, "p2"))) == []


def test_not_what_was_denied_interrupted_started_in_the_background_or_by_a_subagent():
    told = facts(
        turn(),
        call(1, "a", ok=False, denied=True),
        call(3, "b", ok=False, is_interrupt=True),
        call(5, "c", background=True),
        call(7, "d", agent_id="child"),
        end(30),
    )

    assert tools_used(told) == []


def test_the_latest_of_many():
    calls = [call(2 * number + 1, str(number)) for number in range(DEEDS_MAX + 4)]

    used = tools_used(facts(turn(), *calls, end(99)))

    assert [each["summary"] for each in used] == [str(n) for n in range(4, DEEDS_MAX + 4)]


def seen(told: Facts, second: int) -> tuple[AgentState, str | None]:
    """Resolved, made a view, and shown."""
    now = T + second * 1000
    verdict = judge(told, now)
    state = verdict.state
    view = session_view(ViewedHost("h", "lab", "live", 0), "s1", told, verdict)
    shown = asking(sdlc=find([]).domains["sdlc"]).shown(view, None, told)
    assert shown.state == state  # tools_used is not sent to anyone
    return state, shown.display and shown.display.label


def test_from_signals_to_the_label_of_a_commit():
    branch: list[KnownSignal] = [MetaChanged(**at(0), branch="feature/auth")]
    told = [*turn(), *branch, *call(1, "git commit -m 'Add login'")]

    assert seen(facts(told[:3]), 2)[1] == "Committing to feature/auth"
    state, label = seen(facts(told, end(5)), 6)

    assert (state.state, label) == ("idle", "Committed to feature/auth")
    assert "tools_used" not in (state.context or {})


@pytest.mark.parametrize("late", ["the call's end", "the prompt"])
def test_a_label_is_the_same_whatever_of_the_turn_is_heard_after_its_end(late: str):
    start, finish = call(1, "git commit -m x")
    again = PromptSubmitted(**at(3), prompt_id="p1", origin="typed", text="Do it")
    born = SessionStarted(**at(0))
    heard = [born, *turn(), start] if late == "the call's end" else [born, again, start, finish]
    missing = [finish] if late == "the call's end" else turn()
    domains = asking(sdlc=find([]).domains["sdlc"])

    def shown(told: Facts, before: SessionView | None) -> SessionView:
        view = session_view(ViewedHost("h", "lab", "live", 0), "s1", told, judge(told, T + 9_000))
        return domains.shown(view, before, told)

    before = shown(facts(heard, end(5)), None)
    after = shown(facts(heard, end(5), missing), before)

    assert before.display is None
    assert replace(after, display=None) == before  # nothing else tells that there is more to say
    assert after.display is not None
    assert after.display.label == "Committed"


def test_from_signals_to_failing_tests():
    told = facts(turn(), call(1, "pytest -q", ok=False, error="Exit code 1\n3 failed"))

    assert seen(told, 3)[0].state == "retrying"
    assert seen(told, 3)[1] == "Tests failing"
    assert seen(told, 30)[0].state == "error"
    assert seen(told, 30)[1] == "Tests failing"
