"""`adsum top`: groups, keys, the filter, details, and a list that stays where somebody looks."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any, cast

import pytest
from msgspec.structs import replace
from rich.console import Console

from adsum import listing
from adsum.client import Filter
from adsum.outcome import CommandError, Exit
from adsum_shared.state import (
    ActivityEntry,
    CommandView,
    Group,
    HoldView,
    RequestView,
    SessionView,
)
from tests.brokers import free_port
from tests.hostile import NAME, is_plain
from tests.hubs import NOW, StandIn, session, stand_in_hub
from tests.support import wait_until

pytest.importorskip("textual", reason="adsum top needs the extra tui")

from textual.pilot import Pilot
from textual.widgets import OptionList, Static
from textual.worker import WorkerCancelled

from adsum import top
from adsum.top import Details, Top

ASKS = session("0a1b2c3d", Group.NEEDS_YOU, "needs_permission", label="Needs permission: Bash")
WORKS = session("0a1bffff", title="Write the docs")
AWAY = session("77777777", title="Mend the wall", host="desk", reachability="offline")


@pytest.fixture
def hub() -> Iterator[StandIn]:
    with stand_in_hub() as hub:
        hub.sessions = [WORKS, ASKS, AWAY]
        yield hub


@asynccontextmanager
async def screen(hub: StandIn, size: tuple[int, int] = (80, 24)) -> AsyncIterator[Pilot[Any]]:
    app = Top(hub.url, Filter())
    async with app.run_test(size=size) as pilot:
        await wait_until(lambda: rows(pilot), timeout=15)
        yield pilot
        # Its connection closes before the loop of the test stops, and with it all that could.
        for worker in list(app.workers):
            worker.cancel()
            with suppress(WorkerCancelled):
                await worker.wait()


def rows(pilot: Pilot[Any]) -> list[str]:
    return [str(option.id) for option in pilot.app.query_one(OptionList).options]


def drawn(pilot: Pilot[Any]) -> str:
    console = Console(width=80, file=io.StringIO())
    console.print(pilot.app.screen.query_one("#facts", Static).content)
    return console.file.getvalue()  # type: ignore[attr-defined]  # a StringIO


def highlighted(pilot: Pilot[Any]) -> str | None:
    option = pilot.app.query_one(OptionList).highlighted_option
    return option.id if option else None


async def test_who_needs_you_stands_first_each_group_under_its_heading(hub: StandIn) -> None:
    async with screen(hub) as pilot:
        assert rows(pilot) == [
            *("group:needs you", ASKS.id),
            *("group:working", WORKS.id),
            *("group:offline", AWAY.id),
        ]
        assert highlighted(pilot) == ASKS.id


async def test_j_and_k_pass_over_headings(hub: StandIn) -> None:
    async with screen(hub) as pilot:
        await pilot.press("j")
        assert highlighted(pilot) == WORKS.id
        await pilot.press("j", "k", "k")
        assert highlighted(pilot) == ASKS.id


async def test_the_highlight_stays_with_its_session_when_the_list_moves(hub: StandIn) -> None:
    async with screen(hub) as pilot:
        await pilot.press("j")
        hub.tell(session("new", Group.NEEDS_YOU, "idle"))
        await wait_until(lambda: "laptop-id:new" in rows(pilot), timeout=15)
        assert highlighted(pilot) == WORKS.id
        hub.tell(gone=(WORKS.id,))
        await wait_until(lambda: WORKS.id not in rows(pilot), timeout=15)
        assert highlighted(pilot) in (ASKS.id, "laptop-id:new")


async def test_a_filter_narrows_as_it_is_typed_and_escape_ends_it(hub: StandIn) -> None:
    async with screen(hub) as pilot:
        await pilot.press("slash", *"docs")
        await wait_until(lambda: rows(pilot) == ["group:working", WORKS.id], timeout=15)
        await pilot.press("escape")
        await wait_until(lambda: len(rows(pilot)) == 6, timeout=15)


async def test_enter_shows_one_session_in_full(hub: StandIn) -> None:
    hub.activity = [ActivityEntry(NOW, "tool.started", "Read the plan")]
    async with screen(hub) as pilot:
        await pilot.press("enter")
        await wait_until(lambda: "/activity" in str(hub.asked), timeout=15)
        await pilot.pause()
        assert isinstance(pilot.app.screen, Details)
        await wait_until(lambda: "Read the plan" in drawn(pilot), timeout=15)
        assert "Needs permission: Bash (needs_permission)" in drawn(pilot)
        await pilot.press("escape")
        assert highlighted(pilot) == ASKS.id


async def test_a_hub_that_goes_away_is_told_and_what_was_known_stays(hub: StandIn) -> None:
    async with screen(hub) as pilot:
        hub.refusal = 500
        # Closing waits for the other side, which runs on this loop.
        await asyncio.to_thread(hub.drop_watchers)
        foot = pilot.app.query_one("#foot", Static)
        await wait_until(lambda: "The hub is away" in str(foot.content), timeout=15)
        assert ASKS.id in rows(pilot)


async def test_what_is_chosen_is_put_aside_and_taken_back_by_a_key(
    hub: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[tuple[str, str]] = []

    def put_aside(_url: str, view: SessionView, verb: str) -> None:
        done.append((view.id, verb))
        if len(done) > 4:
            raise CommandError("It is gone.")

    monkeypatch.setattr(top, "put_aside", put_aside)
    async with screen(hub) as pilot:
        aside = cast("Top", pilot.app).aside
        for key, count in (("i", 1), ("e", 2), ("z", 1), ("z", 0)):
            made = len(done) + 1
            await pilot.press(key)
            await wait_until(lambda: (len(done), len(aside)) == (made, count))  # noqa: B023 - at once
        await pilot.press("z", "i")  # there is nothing left to take back
        await wait_until(lambda: [one.message for one in pilot.app._notifications])

    verbs = ["dismiss", "archive", "restore", "restore", "dismiss"]
    assert done == [(ASKS.id, verb) for verb in verbs]


async def test_no_hub_ends_it_with_the_reason() -> None:
    app = Top(f"http://127.0.0.1:{free_port()}", Filter())
    async with app.run_test():
        await wait_until(lambda: app.failed, timeout=15)
    assert app.failed is not None
    assert app.failed.code == Exit.UNREACHABLE


def test_without_the_extra_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(listing, "find_spec", lambda name: None)
    with pytest.raises(CommandError, match=r"pip install textual.*agents --watch"):
        listing.top()


async def test_no_name_does_more_to_the_screen_than_a_name(hub: StandIn) -> None:
    evil = NAME.encode(errors="ignore").decode()
    hub.sessions = [session("0a1b2c3d", title=evil, label=evil, host=evil, cwd=f"/{evil}")]
    hub.activity = [ActivityEntry(NOW, "tool", evil)]
    async with screen(hub) as pilot:
        await pilot.press("enter")
        await wait_until(lambda: isinstance(pilot.app.screen, Details))
        listed = pilot.app.screen_stack[0].query_one(OptionList)

        assert is_plain("\n".join(str(option.prompt) for option in listed.options))
        assert is_plain(drawn(pilot))


HELD = HoldView("b" * 64, ("allow", "deny", "defer"), NOW + 60_000)
COMMAND = {"command": "rm -rf build\nmake all \u202e"}
PERMITS = RequestView("r1", "permission", NOW, "Bash", "rm", payload=COMMAND, hold=HELD)
COLOURS = {"questions": [{"question": "Which?", "options": [{"label": "Red"}, {"label": "Blue"}]}]}
ANSWERED = HoldView("c" * 64, ("answer", "deny", "defer"), NOW + 60_000)
QUESTION = RequestView("r2", "question", NOW, "AskUserQuestion", payload=COLOURS, hold=ANSWERED)
TELLS = CommandView("c1", "allow", "ann", NOW, "took_effect")


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What the hub is asked; the stand-in takes no commands."""
    found: list[dict[str, Any]] = []

    def give(url: str, view: SessionView, body: dict[str, Any]) -> CommandView:
        found.append({"session": view.session_id, **body})
        return TELLS

    monkeypatch.setattr(top, "give", give)
    monkeypatch.setattr(top, "awaited", lambda url, view, command, until: command)
    return found


def shown_whole(pilot: Pilot[Any]) -> str:
    return str(pilot.app.screen.query_one("#whole", Static).content)


async def test_a_request_is_allowed_by_a_y_below_its_whole_command_and_by_no_other_key(
    hub: StandIn, sent: list[dict[str, Any]]
) -> None:
    hub.sessions = [replace(ASKS, requests=(PERMITS,))]
    async with screen(hub) as pilot:
        await pilot.press("a", "enter", "space", "escape", "a")
        await pilot.pause()
        assert "rm -rf build\nmake all \\u{202e}" in shown_whole(pilot)
        assert sent == []
        await pilot.press("y")
        await wait_until(lambda: sent)
        await pilot.press("d", *"no", "enter")
        await wait_until(lambda: len(sent) == 2)
    about = {"session": ASKS.session_id, "request_id": "r1", "binding": HELD.binding}
    assert sent == [about | {"verb": "allow"}, about | {"verb": "deny", "text": "no"}]


async def test_what_may_read_as_something_else_is_allowed_by_the_second_y(
    hub: StandIn, sent: list[dict[str, Any]]
) -> None:
    doubtful = replace(PERMITS, hold=replace(HELD, cautions=("Nobody can see it.",)))
    hub.sessions = [replace(ASKS, requests=(doubtful,))]
    async with screen(hub) as pilot:
        await pilot.press("a", "y")
        await pilot.pause()
        assert "Nobody can see it." in shown_whole(pilot)
        assert "y again: allow it" in str(pilot.app.screen.query_one(".does", Static).content)
        assert sent == []
        await pilot.press("y")
        await wait_until(lambda: sent)


async def test_an_option_is_chosen_by_its_number_and_words_by_r(
    hub: StandIn, sent: list[dict[str, Any]]
) -> None:
    hub.sessions = [replace(ASKS, requests=(QUESTION,))]
    async with screen(hub) as pilot:
        await pilot.press("3", "a")  # there is no such option, and nothing to allow
        await pilot.press("2", "y")
        await wait_until(lambda: sent)
        await pilot.press("r", "enter", *"teal", "enter")
        await wait_until(lambda: len(sent) == 2)
    assert [each["answers"] for each in sent] == [{"Which?": ["Blue"]}, {"Which?": ["teal"]}]


async def test_a_session_that_asks_nothing_is_prompted_suspended_and_resumed(
    hub: StandIn, sent: list[dict[str, Any]]
) -> None:
    hub.sessions = [WORKS]
    async with screen(hub) as pilot:
        await pilot.press("a", "d", "1", "r", *"go", "enter")
        await wait_until(lambda: sent)
        await pilot.press("s", "n", "y")
        await wait_until(lambda: len(sent) == 2)
        await pilot.press("u", "enter")
        await wait_until(lambda: len(sent) == 3)
    about = {"session": WORKS.session_id}
    assert sent == [
        about | {"verb": "prompt", "text": "go"},
        about | {"verb": "suspend"},
        about | {"verb": "resume"},
    ]
