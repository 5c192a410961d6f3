"""How turns and sessions of the real CLI begin, go on, fail and end, as the hub shows it."""

from __future__ import annotations

import pytest

from tests.real_cli.conftest import Figure, NewSession, OpenSession
from tests.real_cli.session import ASKS, IDLE, LINE, headless
from tests.real_cli.timeline import FLICKER_S

pytestmark = [pytest.mark.real_cli, pytest.mark.redis, pytest.mark.timeout(90)]

#: the default model goes without task tools otherwise
TASK_TOOLS = {"CLAUDE_CODE_ENABLE_TODO_TOOLS": "1"}
ONE_RETRY = {"CLAUDE_CODE_MAX_RETRIES": "1"}


def test_a_typed_compact_shows_as_work(open_session: OpenSession, figure: Figure) -> None:
    session = open_session()
    session.play("text")
    session.hub.works()
    session.hub.shows("idle", label=IDLE)

    typed = session.type("/compact")

    figure("/compact: at work after Enter", session.hub.works() - typed)
    done = session.sees("Compacted")
    idle = session.hub.shows("idle", label=IDLE)
    figure("/compact: idle after its end", idle - done)
    assert idle > done - FLICKER_S, session.hub


@pytest.mark.core
def test_clear_closes_the_session_and_opens_another(
    open_session: OpenSession, figure: Figure
) -> None:
    session = open_session()
    session.play("text")
    session.hub.works()
    session.hub.shows("idle")

    typed = session.type("/clear")

    figure("/clear: old one closed", session.hub.shows("session_ended", label="cleared") - typed)
    other = session.successor()
    figure("/clear: new one ready", other.shows("idle", label="Ready") - typed)
    session.play("nap")
    other.shows("acting")
    other.shows("idle", label=IDLE)
    assert session.hub.now["state"]["state"] == "session_ended"


def test_a_resumed_session_is_the_same_one(new_session: NewSession, figure: Figure) -> None:
    session = new_session()
    with session.terminal:
        session.play("text")
        session.hub.works()
        session.hub.shows("idle", label=IDLE)
        session.terminal.leave()
    session.hub.shows("session_ended")

    with session.resumed() as session.terminal:
        figure("--resume: open again", session.hub.shows("idle") - session.hub.note("ready"))
        session.play("nap")
        session.hub.shows("acting")
        session.hub.shows("idle", label=IDLE)


def test_a_session_resumed_inside_an_older_terminal_takes_its_place(
    new_session: NewSession, open_session: OpenSession, figure: Figure
) -> None:
    session = open_session()
    old = new_session()
    with old.terminal:
        old.play("text")
        old.hub.works()
        old.hub.shows("idle")
        old.terminal.leave()
    old.hub.shows("session_ended")
    session.play("text")
    session.hub.works()
    session.hub.shows("idle")

    typed = session.type(f"/resume {old.id}")

    figure("/resume: the other one closed", session.hub.shows("session_ended") - typed)
    figure("/resume: the old one open", old.hub.shows("idle") - typed)
    session.play("nap")
    old.hub.shows("acting")
    old.hub.shows("idle", label=IDLE)
    killed = session.kill()
    figure("/resume: killed", old.hub.shows("session_ended", label="process gone") - killed)


def test_a_session_lives_on_in_the_terminal_that_is_left_of_two(
    new_session: NewSession, figure: Figure
) -> None:
    """The closed one was at rest: a dialog that stands in the other comes to a human's eyes."""
    session = new_session(mode="manual")
    with session.terminal:
        session.play("text")
        session.hub.works()
        session.hub.shows("idle", label=IDLE)
        with session.resumed() as second:
            session.hub.shows("idle")
            second.leave()
        closed = session.hub.act("closed the second terminal")
        session.hub.shows("idle", label=IDLE)

        session.play("perm")
        asked = session.sees(ASKS)
        figure("of two terminals: permission", session.hub.shows("needs_permission") - asked)
        session.answer("1", ASKS)
        session.hub.shows("idle", label=IDLE)
        assert session.hub.longest("session_ended", since=closed) < FLICKER_S
        killed = session.kill()
        figure("of two terminals: killed", session.hub.shows("session_ended") - killed)


def test_an_overloaded_api_shows_as_retries(new_session: NewSession) -> None:
    """In a headless run: the terminal writes no line about them, and no hook tells."""
    session = new_session()
    with headless(session, "do play:busy") as run:
        session.hub.works()
        session.hub.shows("retrying", label="API retry 1")
        session.hub.shows("acting")
        assert run.wait(30) == 0
    session.hub.shows("session_ended")


@pytest.mark.core
def test_an_api_that_fails_for_good_is_an_error_until_the_next_prompt(
    open_session: OpenSession, figure: Figure
) -> None:
    session = open_session(extra=ONE_RETRY)
    session.play("down")
    session.hub.works()
    said = session.sees("API Error")
    figure("API error: shown", session.hub.shows("error", label="server error", within=20) - said)

    session.play("text")

    session.hub.works()
    session.hub.shows("idle", label=IDLE)


def test_a_queued_prompt_runs_after_the_turn_it_waited_for(open_session: OpenSession) -> None:
    session = open_session()
    session.play("talk")
    session.hub.works()
    session.sees(LINE)
    queued = session.play("nap")
    session.hub.shows("acting")
    session.sees("Slept.")
    assert session.hub.longest("idle", since=queued) < FLICKER_S
    session.hub.shows("idle", label=IDLE)


def test_esc_lets_a_queued_prompt_begin(open_session: OpenSession) -> None:
    session = open_session()
    session.play("slow")
    session.hub.works()
    session.sees(LINE)
    session.play("nap")

    pressed = session.press("Escape")

    session.hub.shows("acting")
    session.sees("Slept.")
    assert session.hub.longest("idle", since=pressed) < FLICKER_S
    session.hub.shows("idle", label=IDLE)


@pytest.mark.core
def test_a_killed_session_is_closed_until_it_is_resumed(
    new_session: NewSession, figure: Figure
) -> None:
    session = new_session()
    with session.terminal:
        session.play("text")
        session.hub.works()
        session.hub.shows("idle", label=IDLE)
        session.play("slowtool")
        session.hub.shows("acting")
        killed = session.kill()
        ended = session.hub.shows("session_ended", label="process gone")
        figure("kill -9: closed", ended - killed)

    with session.resumed() as session.terminal:
        session.hub.shows("idle")
        session.play("nap")
        session.hub.shows("acting")
        session.hub.shows("idle", label=IDLE)


def test_a_headless_run_works_and_is_closed(new_session: NewSession, figure: Figure) -> None:
    session = new_session()
    with headless(session, "do play:nap") as run:
        session.hub.works()
        session.hub.shows("acting", label="Running Bash")
        assert run.wait(30) == 0
    ended = session.hub.act("run over")
    figure("headless: closed after its end", session.hub.shows("session_ended") - ended)


def test_a_killed_headless_run_is_closed(new_session: NewSession, figure: Figure) -> None:
    session = new_session()
    with headless(session, "do play:slowtool") as run:
        session.hub.shows("acting")
        run.kill()
        killed = session.hub.act("killed with -9")
        figure("kill -9, headless: closed", session.hub.shows("session_ended") - killed)


def test_tasks_are_delivered_only_when_all_are_done(
    open_session: OpenSession, figure: Figure
) -> None:
    session = open_session(extra=TASK_TOOLS)
    session.play("tasks")
    session.hub.works()
    session.sees("One of two is done.")
    session.hub.shows("idle", label=IDLE)

    session.play("taskrest")

    session.hub.works()
    said = session.sees("The rest is done.")
    figure("tasks: delivered", session.hub.shows("task_complete", label="Other") - said)


def test_a_command_of_the_user_shows_as_work(open_session: OpenSession, figure: Figure) -> None:
    session = open_session()
    session.play("text")
    session.hub.works()
    session.hub.shows("idle")

    typed = session.type("!sleep 1.5 && echo through", "sleep 1.5 && echo through")

    figure("!command: at work after Enter", session.hub.works() - typed)
    session.hub.shows("idle")
