"""What the patrol ends by itself, and what a person's command is told as."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from adsum_collector.control import suspend_verbs
from adsum_collector.control.suspend_verbs import SuspendVerbs
from adsum_shared.commands import Command, NotObeyedError
from tests.support import wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the patrol reads /proc")

ID = "0a1b2c3d-0000-4000-8000-000000000001"


class FakeSuspender:
    """refuses: what comes of each try. rested: what each look finds."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, bool]] = []
        self.refuses: Exception | None = None
        self.looks: list[Callable[[], list[str]]] = []
        self.done: list[str] = []
        self.resumed: list[str] = []

    def hear(self, _signals: object) -> None:
        raise AssertionError

    def sweep(self) -> None:
        self.done.append("sweep")

    def tidy(self) -> None:
        self.done.append("tidy")

    def rested(self, _rest_ms: object) -> list[str]:
        return self.looks.pop(0)() if self.looks else []

    async def suspend(self, _session_id: str, by: str, *, auto: bool) -> str:
        self.asked.append((by, auto))
        if self.refuses is not None:
            raise self.refuses
        return "1 MB are free again"

    async def sleeps(self, _session_id: str) -> bool:
        return True

    async def resume(self, session_id: str, _text: str | None) -> str:
        self.resumed.append(session_id)
        return "in tmux"


class FakeActions:
    """As far as verbs are put into it and obeyed. told: of each report, whose, and what came of it.

    full: the disk of the trail. not_alone: why nobody may prompt alone.
    """

    def __init__(self) -> None:
        self.listeners: list[Any] = []
        self.verbs: dict[str, Any] = {}
        self.told: list[tuple[str, str]] = []
        self.reports = self
        self.written: list[Command] = []
        self.obeyed: list[Command] = []
        self.full = False
        self.not_alone: str | None = None

    async def require_prompting(self, _command: Command) -> None:
        if self.not_alone:
            raise NotObeyedError(self.not_alone)

    async def write_down(self, command: Command) -> None:
        assert command not in self.obeyed
        if self.full:
            raise OSError("no space is left")
        self.written.append(command)

    def report(self, command: Command, outcome: str, _reason: str | None = None) -> None:
        self.told.append((command.by, outcome))

    async def obey(self, command: Command) -> None:
        self.obeyed.append(command)
        await self.verbs[command.verb](command)


class Patrol:
    def __init__(self) -> None:
        self.suspender, self.actions = FakeSuspender(), FakeActions()
        policy = SimpleNamespace(current=SimpleNamespace(rest_ms=lambda _cwd: 1))
        fakes: Any = (self.suspender, self.actions, SimpleNamespace(level="full"), policy)
        self.verbs = SuspendVerbs(*fakes)


@pytest.fixture
def patrol(monkeypatch: pytest.MonkeyPatch) -> Patrol:
    monkeypatch.setattr(suspend_verbs, "PATROL_S", 0.01)
    return Patrol()


@contextlib.asynccontextmanager
async def running(patrol: Patrol) -> Any:
    task = asyncio.create_task(patrol.verbs.run())
    try:
        yield task
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def rests() -> list[str]:
    return [ID]


async def test_who_rests_is_ended_by_the_rule(patrol: Patrol) -> None:
    patrol.suspender.looks = [rests]

    async with running(patrol):
        await wait_until(lambda: patrol.actions.told)

    assert patrol.suspender.asked == [("auto-suspend", True)]
    assert patrol.actions.told == [("auto-suspend", "took_effect")]


async def test_a_look_that_fails_ends_no_patrol(patrol: Patrol) -> None:
    """A path of a registry's that is none, an intake that is full."""

    def fail() -> list[str]:
        raise ValueError("embedded null byte")

    patrol.suspender.looks = [fail, rests]

    task = asyncio.create_task(patrol.verbs.run())
    await wait_until(lambda: patrol.actions.told or task.done())
    has_ended = task.done()
    task.cancel()
    await asyncio.wait([task])

    assert not has_ended


async def test_what_was_left_is_swept_once_and_then_tidied(patrol: Patrol) -> None:
    async with running(patrol):
        await wait_until(lambda: len(patrol.suspender.done) > 2)

    assert patrol.suspender.done[:3] == ["sweep", "tidy", "tidy"]


@pytest.mark.parametrize("why", [NotObeyedError("something is typed"), OSError("the disk is full")])
async def test_a_try_in_vain_of_the_rule_is_not_told_each_minute(
    patrol: Patrol, why: Exception
) -> None:
    patrol.suspender.looks, patrol.suspender.refuses = [rests, rests, list], why

    async with running(patrol):
        await wait_until(lambda: not patrol.suspender.looks)

    assert patrol.suspender.asked == [("auto-suspend", True)]
    assert patrol.actions.told == []


async def test_what_the_rule_ends_stands_in_the_trail_before_and_once(
    patrol: Patrol, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A draft may stand there for days, and the trail has an end."""
    monkeypatch.setattr(suspend_verbs, "TRY_AGAIN_S", 0.0)
    patrol.suspender.looks, patrol.suspender.refuses = [rests, rests], NotObeyedError("a draft")

    async with running(patrol):
        await wait_until(lambda: len(patrol.actions.obeyed) == 2)

    assert patrol.suspender.asked == [("auto-suspend", True)] * 2
    [written] = patrol.actions.written
    assert patrol.actions.obeyed == [written, written]


async def test_what_the_trail_does_not_take_is_not_ended(patrol: Patrol) -> None:
    patrol.suspender.looks, patrol.actions.full = [rests, rests], True

    async with running(patrol):
        await wait_until(lambda: not patrol.suspender.looks and len(patrol.suspender.done) > 3)
        assert not patrol.actions.obeyed
        patrol.suspender.looks, patrol.actions.full = [rests], False
        await wait_until(lambda: patrol.actions.told)


@pytest.mark.parametrize("verb", ["prompt", "queue"])
async def test_who_may_not_prompt_alone_any_more_takes_nothing_up(
    patrol: Patrol, verb: str
) -> None:
    """It has waited for what was done in its session before."""
    named = {"id": "ab" * 16, "host_id": "h", "session_id": ID, "by": "ann", "text": "go on"}
    command = Command(verb=verb, **named)
    patrol.actions.not_alone = "two persons decide in this session"

    with pytest.raises(NotObeyedError, match="two persons"):
        await patrol.actions.obey(command)
    assert not patrol.suspender.resumed

    patrol.actions.not_alone = None
    await patrol.actions.obey(command)
    assert patrol.suspender.resumed == [ID]


async def test_a_person_of_that_name_is_no_rule(patrol: Patrol) -> None:
    """Nor is a refusal kept from them."""
    named = {"id": "ab" * 16, "host_id": "h", "session_id": ID, "by": "auto-suspend"}
    patrol.suspender.refuses = NotObeyedError("it works")

    with pytest.raises(NotObeyedError):
        await patrol.actions.obey(Command(verb="suspend", **named))

    assert patrol.suspender.asked == [("auto-suspend", False)]
