"""What is known of a session of the real CLI when a witness is missing, or came late."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.real_cli.cli_rig import Home
from tests.real_cli.conftest import Figure, OpenSession
from tests.real_cli.fleet import Fleet, Machine, free_port
from tests.real_cli.session import ASKS, IDLE

pytestmark = [pytest.mark.real_cli, pytest.mark.redis, pytest.mark.timeout(90)]

NO_HOOKS = ("--settings", '{"disableAllHooks": true}')


def witnesses(view: dict[str, Any]) -> dict[str, str | None]:
    """What is wrong with each witness that the view names."""
    return {each["name"]: each.get("problem") for each in view.get("witnesses", ())}


@pytest.mark.core
def test_a_session_without_hooks_is_seen_by_the_others(
    open_session: OpenSession, figure: Figure
) -> None:
    session = open_session(*NO_HOOKS, mode="manual")
    typed = session.play("permlate")
    figure("no hooks: at work after Enter", session.hub.works() - typed)
    asked = session.sees(ASKS)
    figure("no hooks: permission shown", session.hub.shows("needs_permission") - asked)
    session.hub.until(
        lambda view: witnesses(view).get("hook") == "missing", "the hooks to be missed"
    )
    assert session.hub.now["state"]["state"] == "needs_permission"
    others = {name: why for name, why in witnesses(session.hub.now).items() if name != "hook"}
    assert {"transcript": None, "registry": None}.items() <= others.items()

    answered = session.answer("Enter", ASKS)

    figure("no hooks: at work after yes", session.hub.works() - answered)
    said = session.sees("The folder stands.")
    figure("no hooks: idle after the end", session.hub.shows("idle", label=IDLE) - said)


@pytest.fixture
def late(fleet: Fleet, tmp_path: Path) -> Iterator[Machine]:
    """A machine whose collector has not been started, and that has no hooks."""
    first = fleet.machines[0]
    home = Home(tmp_path / "cedar", first.home.model_url).seed()
    machine = Machine("cedar", home, free_port(), first.redis_url)
    yield machine
    machine.collector.stop()


def test_a_collector_that_comes_late_finds_who_is_there(
    late: Machine, open_session: OpenSession, figure: Figure
) -> None:
    idle, working = (open_session(machine=late) for _ in range(2))
    asking = open_session(machine=late, mode="manual")
    idle.play("text")
    idle.sees("All is well.")
    working.play("slowtool")
    asking.play("perm")
    asking.sees(ASKS)

    late.collector.start()

    began = asking.hub.act("collector started")
    figure("found late: a permission", asking.hub.shows("needs_permission") - began)
    figure("found late: at work", working.hub.shows("acting", label="Running Bash") - began)
    figure("found late: idle", idle.hub.shows("idle", label=IDLE) - began)

    late.install_hooks()
    asking.answer("Enter", ASKS)

    asking.hub.works()
    asking.hub.shows("idle", label=IDLE)
    idle.play("nap")
    idle.hub.works()
    idle.hub.shows("idle", label=IDLE)
    working.press("Escape")
    working.hub.shows("idle")
