"""Supervision with small real processes: stages, restarts, giving up, order, nothing orphaned."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from asyncio.subprocess import Process
from collections.abc import Awaitable, Callable
from pathlib import Path

import psutil
import pytest

from adsum import supervise
from adsum.outcome import CommandError
from adsum.supervise import Part, ServerPart, Supervisor, launcher, trim_log
from tests.support import wait_until

SERVES = "import time; time.sleep(60)"
STUBBORN = "import signal, time; signal.signal(15, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"


class Program(Part):
    """Python code, by itself; ready once the log has these words."""

    def __init__(self, stage: Stage, name: str, code: str, words: str) -> None:
        super().__init__(name, stage.folder / f"{name}.log")
        self._stage, self._code, self._words = stage, code, words

    async def launch(self) -> Process:
        with self.log.open("ab") as output:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", "-c", self._code), stdout=output, stderr=output
            )
        self._stage.processes.setdefault(self.name, []).append(process)
        return process

    async def ready(self) -> bool:
        return self._words in self.log.read_text()


class Stage:
    """Parts for a test, and what was done to them in order."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes: dict[str, list[Process]] = {}
        self.said: list[str] = []

    def part(self, name: str, code: str = SERVES, ready: str = "", **limits: float) -> Part:
        part = Program(self, name, code, ready)
        for limit, value in limits.items():
            setattr(part, limit, value)
        return part

    def alive(self) -> list[str]:
        return [
            name
            for name, each in self.processes.items()
            if any(process.returncode is None for process in each)
        ]


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    monkeypatch.setattr(supervise, "PAUSES_S", (0.01,))
    return Stage(tmp_path)


async def start(
    stage: Stage, *stages: list[Part], ending: Callable[[], Awaitable[None]] | None = None
) -> tuple[Supervisor, asyncio.Task[None]]:
    supervisor = Supervisor(stages, stage.said.append)
    up = asyncio.Event()

    async def started() -> None:
        up.set()

    task = asyncio.create_task(supervisor.run(started, ending))
    waiting = asyncio.create_task(up.wait())
    await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    return supervisor, task


async def test_stopping_ends_the_parts_in_reverse_order(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = [stage.part(name) for name in ("broker", "hub", "collector")]
    supervisor, task = await start(stage, parts[:1], parts[1:])
    ended: list[str] = []
    for name, [process] in stage.processes.items():
        waiting = asyncio.create_task(process.wait())
        waiting.add_done_callback(lambda _, name=name: ended.append(name))
    supervisor.stop()
    await task
    await wait_until(lambda: len(ended) == 3)
    assert ended == ["collector", "hub", "broker"]


async def test_a_part_that_dies_comes_back_and_the_others_stay(stage: Stage) -> None:
    supervisor, task = await start(stage, [stage.part("hub"), stage.part("collector")])
    stage.processes["hub"][0].kill()
    await wait_until(lambda: "The hub is back." in stage.said)
    assert stage.said[0] == "The hub ended (killed by SIGKILL); starting it again."
    assert len(stage.processes["hub"]) == 2
    assert len(stage.processes["collector"]) == 1
    supervisor.stop()
    await task
    assert stage.alive() == []


async def test_a_part_that_never_starts_ends_everything_with_its_own_words(stage: Stage) -> None:
    wrong = stage.part("hub", "import sys; sys.exit('the port is taken')", ready="never")
    _, task = await start(stage, [stage.part("broker")], [wrong, stage.part("collector")])
    with pytest.raises(CommandError, match="hub does not start") as failed:
        await task
    assert "the port is taken" in str(failed.value)
    assert str(wrong.log) in str(failed.value)
    assert stage.alive() == []


async def test_a_part_that_does_not_answer_in_time_ends_everything(stage: Stage) -> None:
    _, task = await start(stage, [stage.part("hub", ready="never", patience_s=0.2)])
    with pytest.raises(CommandError, match="does not answer within"):
        await task
    assert stage.alive() == []


async def test_a_part_that_keeps_dying_ends_everything(stage: Stage) -> None:
    dying = stage.part("collector", "import time; time.sleep(0.05)")
    _, task = await start(stage, [stage.part("broker")], [dying])
    with pytest.raises(CommandError, match=r"ended 6 times in a row.*collector\.log"):
        await asyncio.wait_for(task, 20)
    assert stage.alive() == []


async def test_a_part_the_others_can_do_without_is_tried_again_for_ever(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervise, "SLOW_S", 0.02)
    dying = stage.part("hub", "import time; time.sleep(0.02)", vital=False)
    supervisor, task = await start(stage, [stage.part("collector")], [dying])
    await wait_until(lambda: len(stage.processes["hub"]) > 9, timeout=20)
    assert not task.done()
    assert stage.alive()[:1] == ["collector"]
    assert len(stage.processes["collector"]) == 1
    [slowly] = [line for line in stage.said if "tried again every" in line]
    assert "The hub ended 6 times in a row" in slowly
    assert stage.said[-1] == slowly
    supervisor.stop()
    await task


async def test_a_part_tried_slowly_is_back_once_it_has_stayed(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(supervise, "SLOW_S", 0.02)
    monkeypatch.setattr(supervise, "QUICK_S", 1.5)
    cured = tmp_path / "cured"
    code = f"import os, time; time.sleep(60 if os.path.exists({str(cured)!r}) else 0.02)"
    supervisor, task = await start(stage, [stage.part("hub", code, vital=False)])
    await wait_until(lambda: "tried again every" in "".join(stage.said), timeout=20)
    cured.touch()
    await wait_until(lambda: stage.said[-1] == "The hub is back.", timeout=20)
    supervisor.stop()
    await task


def test_of_what_up_runs_only_the_hub_can_be_done_without(tmp_path: Path) -> None:
    vital = {
        name: ServerPart(name, ("127.0.0.1", 1), tmp_path, {}).vital
        for name in ("hub", "collector")
    }
    assert vital == {"hub": False, "collector": True}


async def test_a_part_that_ignores_sigterm_is_ended_after_its_grace(stage: Stage) -> None:
    stubborn = stage.part("hub", STUBBORN, ready="up", grace_s=0.2)
    supervisor, task = await start(stage, [stubborn])
    supervisor.stop()
    await task
    assert stage.said == ["The hub does not stop by itself; it is ended."]
    assert stage.processes["hub"][0].returncode == -signal.SIGKILL


async def test_asking_twice_stops_at_once(stage: Stage) -> None:
    supervisor, task = await start(stage, [stage.part("hub", STUBBORN, ready="up", grace_s=60)])
    supervisor.stop()
    supervisor.stop()
    await asyncio.wait_for(task, 5)


async def test_an_ending_that_fails_still_stops_every_part(stage: Stage) -> None:
    async def ending() -> None:
        raise OSError(28, "No space left on device")

    supervisor, task = await start(stage, [stage.part("hub")], ending=ending)
    supervisor.stop()
    with pytest.raises(OSError, match="No space left"):
        await task
    assert stage.alive() == []


async def test_asking_twice_does_not_wait_for_the_ending(stage: Stage) -> None:
    begun = asyncio.Event()

    async def ending() -> None:
        begun.set()
        await asyncio.sleep(60)

    supervisor, task = await start(stage, [stage.part("hub")], ending=ending)
    supervisor.stop()
    await asyncio.wait_for(begun.wait(), 5)
    assert stage.alive() == ["hub"]
    supervisor.stop()
    await asyncio.wait_for(task, 5)
    assert stage.alive() == []


async def test_asking_twice_still_does_a_quick_ending(stage: Stage) -> None:
    done = asyncio.Event()

    async def ending() -> None:
        await asyncio.sleep(0)
        done.set()

    supervisor, task = await start(stage, [stage.part("hub")], ending=ending)
    supervisor.stop()
    supervisor.stop()
    await asyncio.wait_for(task, 5)
    assert done.is_set()


async def test_hanging_up_twice_is_no_hurry(stage: Stage) -> None:
    """The shell of a closed terminal and the kernel both send the signal."""
    polite = (
        "import signal, sys; signal.signal(15, lambda *_: sys.exit(0)); print('up', flush=True); "
    )
    supervisor, task = await start(stage, [stage.part("hub", polite + SERVES, ready="up")])
    supervisor.hang_up()
    supervisor.hang_up()
    await task
    assert stage.processes["hub"][0].returncode == 0


async def test_stopping_while_parts_still_start_leaves_none(stage: Stage) -> None:
    supervisor = Supervisor([[stage.part("hub", ready="never")]], stage.said.append)
    task = asyncio.create_task(supervisor.run(lambda: asyncio.sleep(0)))
    await wait_until(lambda: stage.processes)
    supervisor.stop()
    await task
    assert stage.alive() == []


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's parent-death signal is Linux's")
async def test_a_launched_child_dies_with_its_killed_parent(tmp_path: Path) -> None:
    child = [
        sys.executable,
        "-I",
        "-S",
        "-c",
        f"import os; print(os.getpid(), flush=True); {SERVES}",
    ]
    code = (
        "import os, subprocess, sys; from adsum.supervise import launcher;"
        f"subprocess.Popen(launcher(os.getpid(), {child!r})).wait()"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pid = int(await asyncio.to_thread(parent.stdout.readline))
    parent.kill()
    parent.wait()
    parent.stdout.close()
    await wait_until(lambda: not psutil.pid_exists(pid))


async def test_a_child_whose_parent_is_gone_already_does_not_start() -> None:
    argv = launcher(os.getpid() + 1, ["/bin/echo", "started"])
    ended = subprocess.run(argv, capture_output=True, text=True, check=False)
    if sys.platform == "linux":
        assert (ended.returncode, ended.stdout) == (1, "")


def test_a_log_that_has_grown_is_cut_and_its_old_half_kept(tmp_path: Path) -> None:
    log = tmp_path / "hub.log"
    log.write_bytes(b"x" * 100)
    trim_log(log, most=100)
    assert log.stat().st_size == 100
    trim_log(log, most=99)
    assert log.read_bytes() == b""
    assert (tmp_path / "hub.old.log").stat().st_size == 100
