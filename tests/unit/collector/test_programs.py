"""Which process runs a session that nothing names: the one in its directory, or nobody knows."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from adsum_collector.agents.base import Surroundings
from adsum_collector.agents.opencode.agent import EventLog
from adsum_collector.agents.programs import (
    Runner,
    RunnerNews,
    Runners,
    RunnerWitness,
    Whereabouts,
    remember,
)
from adsum_collector.processes import look_up
from adsum_shared.signals import AnySignal, ProcessSeen, SessionEnded
from tests.support import wait_until

NOW = 1_000_000
HERE = "/src/boat"
PLACE = {"s1": Whereabouts(HERE, NOW)}


def runner(started: int = NOW - 5_000, directory: str = HERE, parent: int = 1) -> Runner:
    return Runner(started, directory, parent)


def test_the_only_one_in_its_directory_runs_it() -> None:
    told = RunnerNews().read(PLACE, {7: runner(), 8: runner(directory="/src/car")}, NOW)

    assert [(type(each), getattr(each, "pid", 0)) for each in told] == [(ProcessSeen, 7)]


def test_of_one_that_starts_itself_anew_it_is_the_first() -> None:
    told = RunnerNews().read(PLACE, {7: runner(), 8: runner(parent=7)}, NOW)

    assert [each.pid for each in told if isinstance(each, ProcessSeen)] == [7]


def test_one_that_was_started_later_does_not_run_it() -> None:
    assert RunnerNews().read(PLACE, {7: runner(started=NOW + 60_000)}, NOW) == []


def test_of_several_none_is_named_and_it_is_over_with_the_last() -> None:
    news = RunnerNews()

    assert news.read(PLACE, {7: runner(), 8: runner()}, NOW) == []
    assert news.read(PLACE, {8: runner()}, NOW + 1) == []
    (told,) = news.read(PLACE, {}, NOW + 2)
    assert isinstance(told, SessionEnded)


def test_one_that_is_over_is_nobody_elses_until_it_is_heard_again() -> None:
    news, other = RunnerNews(), {8: runner(started=NOW - 1_000)}
    news.read(PLACE, {7: runner()}, NOW)
    assert news.read(PLACE, {}, NOW + 1) == []  # who watches processes tells that

    assert news.read(PLACE, other, NOW + 2) == []
    later = {"s1": Whereabouts(HERE, NOW + 3)}
    assert [type(each) for each in news.read(later, other, NOW + 4)] == [ProcessSeen]


def test_what_is_remembered_keeps_its_directory_and_goes_no_step_back() -> None:
    sessions: dict[str, Whereabouts] = {}
    remember(sessions, "s1", Whereabouts(HERE, 5))
    remember(sessions, "s1", Whereabouts("", 3))

    assert sessions == {"s1": Whereabouts(HERE, 5)}


async def test_a_process_is_found_with_its_directory_and_missed(tmp_path: Path) -> None:
    mark = f"runner-{os.getpid()}"
    runners = Runners(lambda words: words[-1:] == [mark], look_up)
    words = [sys.executable, "-c", "import time; time.sleep(60)", mark]
    with subprocess.Popen(words, cwd=tmp_path) as process:
        await wait_until(runners.look)
        (found,) = runners.look().items()
        process.kill()

    assert found[0] == process.pid
    assert found[1].directory == str(tmp_path.resolve())
    assert runners.look() == {}


async def unheard(_signals: Sequence[AnySignal]) -> int:
    return 0


@pytest.mark.parametrize(
    ("make", "file"),
    [
        (lambda home, around: RunnerWitness([home], bool, {}, around), "any"),
        (EventLog, "opencode.db"),
    ],
)
async def test_nobody_is_looked_for_where_the_agent_is_not(
    make: Any, file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[int] = []
    monkeypatch.setattr(psutil, "pids", lambda: looks.append(1) or [])
    around = Surroundings(unheard, dict, lambda _pid: None, lambda: NOW)
    home = tmp_path / "home"
    with suppress(TimeoutError):
        await asyncio.wait_for(make(home, around).run(), 0.1)
    assert looks == []

    home.mkdir()
    home.joinpath(file).touch()
    task = asyncio.create_task(make(home, around).run())
    await wait_until(lambda: looks)
    task.cancel()
