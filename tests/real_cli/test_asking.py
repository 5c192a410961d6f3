"""Whatever asks a human, in the real CLI: shown while it stands, gone once it is answered."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from tests.real_cli.conftest import Figure, OpenSession
from tests.real_cli.session import ASKS, FREE, IDLE, INTERRUPTED, LINE, Session

pytestmark = [pytest.mark.real_cli, pytest.mark.redis, pytest.mark.timeout(90)]

QUESTION = "Which colour should the button be?"
CHOOSE = "Enter to select"
PLAN = "Would you like to proceed?"


class Dialog(NamedTuple):
    """asks, choose: what the screen says before a key is awaited, and then."""

    mode: str
    script: str
    asks: str
    choose: str
    state: str


DIALOGS = {
    "permission": Dialog("manual", "perm", ASKS, ASKS, "needs_permission"),
    "question": Dialog(FREE, "ask", QUESTION, CHOOSE, "awaiting_input"),
    "plan": Dialog("plan", "plan", PLAN, PLAN, "awaiting_approval"),
}


def assert_interrupted(session: Session, since: float, what: str, figure: Figure) -> None:
    figure(f"{what}: idle", session.hub.shows("idle") - since)
    figure(
        f"{what}: known as an interruption", session.hub.shows("idle", label=INTERRUPTED) - since
    )


@pytest.mark.core
def test_a_permission_shows_until_it_is_allowed(open_session: OpenSession, figure: Figure) -> None:
    session = open_session(mode="manual")
    session.play("permslow")
    asked = session.sees(ASKS)
    figure(
        "permission: shown after the dialog",
        session.hub.shows("needs_permission", label="Bash") - asked,
    )

    answered = session.answer("Enter", ASKS)

    figure("yes: at work after the key", session.hub.shows("acting") - answered)
    said = session.sees("It took its time.")
    figure("end of a turn: idle", session.hub.shows("idle", label=IDLE) - said)


def test_a_permission_that_is_denied_leaves_it_idle(
    open_session: OpenSession, figure: Figure
) -> None:
    session = open_session(mode="manual")
    session.play("perm")
    session.sees(ASKS)
    session.hub.shows("needs_permission")

    answered = session.decline(ASKS)

    assert_interrupted(session, answered, "no", figure)


def test_a_question_shows_until_it_is_answered(open_session: OpenSession, figure: Figure) -> None:
    session = open_session()
    session.play("askslow")
    asked = session.sees(QUESTION)
    figure("question: shown after the dialog", session.hub.shows("awaiting_input") - asked)

    answered = session.answer("Enter", CHOOSE)

    figure("answer: at work after the key", session.hub.works() - answered)
    session.hub.shows("acting")
    session.hub.shows("idle", label=IDLE)


@pytest.mark.parametrize("what", DIALOGS)
def test_esc_in_a_dialog_leaves_it_idle(
    open_session: OpenSession, figure: Figure, what: str
) -> None:
    dialog = DIALOGS[what]
    session = open_session(mode=dialog.mode)
    session.play(dialog.script)
    session.sees(dialog.asks)
    session.hub.shows(dialog.state)

    answered = session.answer("Escape", dialog.choose)

    assert_interrupted(session, answered, f"esc in a {what}", figure)


def test_a_plan_shows_until_it_is_approved(open_session: OpenSession, figure: Figure) -> None:
    session = open_session(mode="plan")
    session.play("planslow")
    asked = session.sees(PLAN)
    figure("plan: shown after the dialog", session.hub.shows("awaiting_approval") - asked)

    answered = session.answer("Enter", PLAN)

    figure("approval: at work after the key", session.hub.works() - answered)
    session.hub.shows("idle", label=IDLE)


def test_esc_while_it_thinks_leaves_it_idle(open_session: OpenSession, figure: Figure) -> None:
    session = open_session()
    session.play("slow")
    session.hub.works()
    session.sees(LINE)

    pressed = session.press("Escape")

    assert_interrupted(session, pressed, "esc while thinking", figure)


def test_esc_before_a_word_is_said_leaves_it_idle(
    open_session: OpenSession, figure: Figure
) -> None:
    """The prompt goes back to the input box: its hook has fired, and no line is written."""
    session = open_session()
    session.play("mute")
    session.hub.works()

    pressed = session.press("Escape")

    figure("esc before the first word: idle", session.hub.shows("idle") - pressed)


@pytest.mark.core
def test_esc_in_a_tool_leaves_it_idle(open_session: OpenSession, figure: Figure) -> None:
    session = open_session()
    session.play("slowtool")
    session.hub.shows("acting", label="Running Bash")

    pressed = session.press("Escape")

    assert_interrupted(session, pressed, "esc in a tool", figure)
