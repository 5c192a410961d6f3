"""What may decide a request that is held, and what ends it: one by one."""

from typing import Any

import msgspec
import pytest

from adsum_collector.agents.base import Asked
from adsum_collector.agents.claude_code.acting import answer_of
from adsum_collector.control.holds import MOST_OPEN, Held, Holds, TooLateError
from adsum_shared import signals as s
from adsum_shared.commands import NotObeyedError
from tests.control import BINDING, RULES, SESSION, asked_by, command_for, form, permission

CALL = "toolu_1"


def told(kind: type[Any], at: int = 2_000, **fields: Any) -> Any:
    return kind(**{"session_id": SESSION, "at": at, "seen": at, **fields})


def held(
    asked: Asked | None = None, request_id: str = "a" * 24, until: float = 100.0, **more: Any
) -> Held:
    asked = asked or asked_by(permission(permission_suggestions=RULES))
    fields = {"digest": "d1", "tool_use_id": CALL, **more}
    return Held(request_id, "claude_code", asked, "own", BINDING, 1_000, until, **fields)


MAIN, SUB = held().asked, asked_by(permission(agent_id="A"))
FORM = asked_by(form())


@pytest.fixture
def holds() -> Holds:
    holds = Holds()
    holds.hold(held())
    return holds


def test_a_decision_closes_what_it_decides(holds: Holds) -> None:
    decided, body = holds.decide(command_for(held()), 1.0, answer_of)

    assert decided.id == "a" * 24
    assert b"allow" in body
    assert not holds.open
    with pytest.raises(TooLateError, match="decided"):
        holds.decide(command_for(held()), 1.0, answer_of)


def test_the_requests_own_binding_denies_and_never_allows(holds: Holds) -> None:
    """It is in the stream, where a hub of an older version takes it for what it shows."""
    own = {"binding": "own"}
    with pytest.raises(NotObeyedError, match="not what is asked"):
        holds.decide(msgspec.structs.replace(command_for(held()), **own), 1.0, answer_of)

    denial = msgspec.structs.replace(command_for(held(), "deny"), **own)
    assert b"deny" in holds.decide(denial, 1.0, answer_of)[1]


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"binding": "0" * 64}, "not what is asked"),
        ({"binding": None}, "not what is asked"),
        ({"session_id": "other"}, "another session"),
        ({"request_id": "b" * 24}, "no longer open"),
        ({"request_id": None}, "no longer open"),
        ({"verb": "plan"}, "does not take"),
        ({"verb": "prompt"}, "does not take"),
        ({"verb": "deny", "text": "\x07"}, "control characters"),
    ],
)
def test_what_does_not_fit_leaves_it_open(holds: Holds, wrong: Any, why: str) -> None:
    command = msgspec.structs.replace(command_for(held()), **wrong)

    with pytest.raises(NotObeyedError, match=why):
        holds.decide(command, 1.0, answer_of)

    assert list(holds.open) == ["a" * 24]


def test_a_command_is_used_once_even_if_it_was_refused(holds: Holds) -> None:
    command = command_for(held())
    with pytest.raises(NotObeyedError, match="not what is asked"):
        holds.decide(msgspec.structs.replace(command, binding="0" * 64), 1.0, answer_of)

    with pytest.raises(NotObeyedError, match="given before"):
        holds.decide(command, 1.0, answer_of)


def test_nothing_is_decided_after_its_time(holds: Holds) -> None:
    with pytest.raises(TooLateError, match="time was over"):
        holds.decide(command_for(held()), 100.0, answer_of)

    assert [each.reason for each in holds.expire(100.0)] == ["expired"]
    assert not holds.open


def test_a_form_is_held_while_somebody_looks_at_it_and_at_most_so_long() -> None:
    holds = Holds()
    holds.hold(held(FORM, until=5.0, latest=300.0))
    extends = [command_for(held(FORM), "extend") for _ in range(100)]

    assert holds.extend(extends[0], 1.0) is not None
    assert holds.extend(extends[0], 4.0) is None, "it was given before"
    assert not holds.expire(10.9)
    assert holds.extend(extends[1], 10.9) is not None
    assert not holds.expire(20.8)
    for number in range(2, 100):
        holds.extend(extends[number], 4.0 * number + 9)
    assert holds.open["a" * 24].until == 300.0
    assert holds.extend(command_for(held(FORM), "extend"), 300.0) is None
    assert [each.reason for each in holds.expire(300.0)] == ["expired"]


@pytest.mark.parametrize(
    ("about", "wrong"),
    [
        (FORM, {"binding": "0" * 64}),
        (FORM, {"binding": None}),
        (FORM, {"session_id": "other"}),
        (FORM, {"request_id": "b" * 24}),
        (MAIN, {}),
    ],
)
def test_what_does_not_fit_extends_nothing(about: Asked, wrong: dict[str, Any]) -> None:
    holds = Holds()
    holds.hold(held(about, until=5.0, latest=300.0 if about is FORM else None))
    command = msgspec.structs.replace(command_for(held(about), "extend"), **wrong)

    assert holds.extend(command, 1.0) is None
    assert holds.open["a" * 24].until == 5.0


def test_only_so_many_are_held(holds: Holds) -> None:
    for number in range(MOST_OPEN - 1):
        holds.hold(held(request_id=f"{number:024x}"))

    assert holds.is_full
    assert holds.knows("a" * 24)


@pytest.mark.parametrize(
    ("asked", "signal", "reason"),
    [
        (MAIN, told(s.ToolFinished, tool="Bash", tool_use_id=CALL), "answered"),
        (MAIN, told(s.ToolFinished, tool="Bash", tool_use_id="other"), None),
        (MAIN, told(s.ToolFinished, tool="Bash", tool_use_id=CALL, session_id="other"), None),
        (MAIN, told(s.TurnEnded), "answered"),
        (MAIN, told(s.TurnEnded, at=1_000), None),
        (MAIN, told(s.TurnEnded, agent_id="A"), None),
        (MAIN, told(s.TurnInterrupted), "answered"),
        (MAIN, told(s.TurnFailed), "answered"),
        (MAIN, told(s.SessionEnded), "gone"),
        (MAIN, told(s.ProcessGone, pid=1), "gone"),
        (MAIN, told(s.PromptSubmitted), None),
        (MAIN, told(s.ChildFinished, child_id="A"), None),
        (MAIN, told(s.StatusReported, status="busy"), None),
        (SUB, told(s.TurnEnded), None),
        (SUB, told(s.TurnEnded, agent_id="A"), "answered"),
        (SUB, told(s.ChildFinished, child_id="A"), "gone"),
        (SUB, told(s.ChildFinished, child_id="B"), None),
        (SUB, told(s.PromptSubmitted), "handed back"),
        (SUB, told(s.PromptSubmitted, at=1_000), None),
        (SUB, told(s.PromptSubmitted, origin="system"), None),
        (SUB, told(s.SessionEnded), "gone"),
        (FORM, told(s.PromptSubmitted), "handed back"),
        (FORM, told(s.PromptSubmitted, at=1_000), None),
        (FORM, told(s.PromptSubmitted, origin="system"), None),
        (FORM, told(s.TurnInterrupted), "handed back"),
        (FORM, told(s.StatusReported, status="idle"), "handed back"),
        (FORM, told(s.StatusReported, status="waiting"), "handed back"),
        (FORM, told(s.StatusReported, status="idle", at=1_000), None),
        (FORM, told(s.StatusReported, status="busy"), None),
    ],
)
def test_what_ends_a_request_and_what_does_not(
    asked: Asked, signal: Any, reason: str | None
) -> None:
    holds = Holds()
    holds.hold(held(asked))

    over, _ = holds.hear([signal])

    assert [each.reason for each in over] == ([reason] if reason else [])
    assert bool(holds.open) == (reason is None)


def test_a_registry_that_no_longer_waits_ends_what_it_showed(holds: Holds) -> None:
    """A Yes leaves no other trace while its tool runs."""
    before, shown = (
        told(s.StatusReported, at=999, status="waiting"),
        told(s.StatusReported, status="waiting"),
    )
    left = told(s.StatusReported, at=3_000, status="busy")

    assert holds.hear([before, left]) == ([], [])
    over, _ = holds.hear([shown, left])

    assert [each.reason for each in over] == ["answered"]


def test_a_request_and_its_call_find_each_other_in_either_order() -> None:
    started = told(s.ToolStarted, tool="Bash", tool_use_id="t9", digest="d1")
    finished = told(s.ToolFinished, tool="Bash", tool_use_id="t9")
    first, second, third = Holds(), Holds(), Holds()

    first.hear([started])
    assert first.hold(held(tool_use_id=None)).tool_use_id == "t9"
    second.hold(held(tool_use_id=None))
    assert [each.reason for each in second.hear([started, finished])[0]] == ["answered"]
    # the call before this one looked the same, and is over
    third.hear([started, told(s.ToolFinished, tool="Bash", tool_use_id="t9", digest="d1")])
    assert third.hold(held(tool_use_id=None)).tool_use_id is None


@pytest.mark.parametrize(
    ("verb", "decided_by", "accepted", "outcome"),
    [
        ("allow", "hook", True, "took_effect"),
        ("deny", "hook", False, "took_effect"),
        ("deny", "user_temporary", True, "overruled"),
        ("allow", "user_reject", False, "overruled"),
        ("allow", "user_temporary", True, "overruled"),
        ("allow", "hook", False, "overruled"),
        ("deny", "hook", True, "overruled"),
        ("allow", None, None, None),
    ],
)
def test_what_came_of_a_decision_is_what_the_agent_wrote(
    holds: Holds, verb: str, decided_by: Any, accepted: Any, outcome: str | None
) -> None:
    command = command_for(held(), verb)
    holds.decide(command, 1.0, answer_of)
    finished = told(s.ToolFinished, tool="Bash", tool_use_id=CALL)

    _, effects = holds.hear(
        [msgspec.structs.replace(finished, decided_by=decided_by, accepted=accepted)]
    )

    assert [(e.outcome, e.command.id) for e in effects] == (
        [(outcome, command.id)] if outcome else []
    )


def test_a_denial_that_ends_the_turn_is_known_by_its_end(holds: Holds) -> None:
    """The CLI writes the same as for Esc."""
    holds.decide(command_for(held(), "deny", stop=True), 1.0, answer_of)

    assert not holds.hear([told(s.TurnInterrupted, at=999), told(s.TurnInterrupted, agent_id="A")])[
        1
    ]
    _, effects = holds.hear([told(s.TurnInterrupted)])

    assert [each.outcome for each in effects] == ["took_effect"]


def test_a_denial_that_ends_the_turn_is_no_denial_at_the_keyboard(holds: Holds) -> None:
    holds.decide(command_for(held(), "deny", stop=True), 1.0, answer_of)
    finished = told(s.ToolFinished, tool="Bash", tool_use_id=CALL)
    ended = msgspec.structs.replace(finished, decided_by="user-rejected", accepted=False)

    assert [each.outcome for each in holds.hear([ended])[1]] == ["took_effect"]


def test_a_form_took_effect_once_its_servers_call_is_over_in_the_same_thread() -> None:
    """Nothing else is heard of a form that a hook filled in."""
    holds, form = Holds(), {"tool_use_id": None, "digest": None, "own_id": "f", "server": "rig"}
    holds.hold(held(**form))
    holds.decide(command_for(held()), 1.0, answer_of)
    ours = told(s.ToolFinished, tool="ask", tool_use_id="t9", server="rig")
    others = ({"server": "other"}, {"agent_id": "A"}, {"at": 999}, {"is_interrupt": True})

    for each in others:
        assert not holds.hear([msgspec.structs.replace(ours, **each)])[1]
    assert [each.outcome for each in holds.hear([ours])[1]] == ["took_effect"]
