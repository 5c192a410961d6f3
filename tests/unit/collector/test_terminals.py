"""Terminals that share sessions: what the watch tells of who runs them, as the hub understands it."""

from __future__ import annotations

import contextlib
import random
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from adsum_collector.processes import look_up, watched
from adsum_collector.spool.spool import Spool
from adsum_collector.spool.spool_file import SpoolLimits
from adsum_hub.facts import Facts
from adsum_hub.fold.fold import fold
from adsum_hub.verdict.judge import judge
from adsum_shared import signals as s
from tests.unit.collector.test_watch import Rig
from tests.unit.collector.test_watch import wall_ms as now

LATER_MS = 3_600_000
#: A collector needs longer than this to start.
START_MS = 50


class Terminals:
    """Real processes with registry files, and a collector's watch that may be started anew."""

    def __init__(self, spool: Spool, directory: Path) -> None:
        self._spool, self._directory = spool, directory
        #: What the collector's clock shows, ms; 0 for the real time.
        self.clock = 0
        self._open = contextlib.ExitStack()
        self.told: list[s.AnySignal] = []
        self._start()

    def _start(self) -> None:
        self._rig = Rig(self._spool, self._directory, lambda: self.clock or now())
        self._rig.intake.taken = self.told

    async def look(self) -> None:
        await self._rig.watch.look()

    async def restart(self) -> None:
        if self.clock:
            self.clock += START_MS
        self._start()
        await self.look()
        await self.look()

    def open(self) -> subprocess.Popen[bytes]:
        process = self._open.enter_context(subprocess.Popen(["sleep", "600"]))
        self._open.callback(process.kill)
        return process

    def write(self, who: subprocess.Popen[bytes], session: str, status: str, **more: Any) -> None:
        self._rig.write(who.pid, session, status=status, statusUpdatedAt=now(), **more)

    async def says(self, who: subprocess.Popen[bytes], session: str, status: str = "idle") -> None:
        self.write(who, session, status)
        await self.look()

    async def hooks(self, *signals: s.AnySignal) -> None:
        await self._rig.intake.accept(signals)

    async def kill(self, who: subprocess.Popen[bytes]) -> None:
        who.kill()
        who.wait()
        await self.look()

    def state(self, session: str, later_ms: int = 0) -> str:
        facts: Facts | None = None
        for signal in self.told:
            if signal.session_id == session:
                facts = fold(facts, signal)
        assert facts is not None
        return judge(facts, now() + later_ms).state.state

    def running(self, session: str) -> int | None:
        found = watched(self._spool.state).get(session)
        return found.pid if found else None

    def close(self) -> None:
        self._open.close()


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[Terminals]:
    spool = await Spool.open(tmp_path / "spool", SpoolLimits(min_free_bytes=0))
    terminals = Terminals(spool, tmp_path / "sessions")
    yield terminals
    terminals.close()
    await spool.close()


async def ended(here: Terminals, *killed: subprocess.Popen[bytes]) -> None:
    for who in killed:
        assert here.state("s1", LATER_MS) != "session_ended"
        await here.kill(who)
    assert (here.state("s1", LATER_MS), here.running("s1")) == ("session_ended", None)


def later(here: Terminals, older: subprocess.Popen[bytes]) -> subprocess.Popen[bytes]:
    """A terminal that is opened so much later that the system's clock of starts tells it."""
    while True:
        younger = here.open()
        if (look_up(younger.pid) or 0) > (look_up(older.pid) or 0):
            return younger
        younger.kill()


@pytest.mark.parametrize("anew", [False, True])
async def test_the_younger_of_two_is_the_one_whoever_speaks(here: Terminals, anew: bool) -> None:
    older = here.open()
    younger = later(here, older)
    here.write(older, "s1", "idle")
    await here.says(younger, "s1")
    await here.says(older, "s1", "busy")
    if anew:
        await here.restart()

    assert here.running("s1") == younger.pid
    await here.says(younger, "s1", "busy")
    assert here.state("s1", 1_000) == "thinking"
    await ended(here, younger, older)


async def test_an_older_one_that_came_last_is_the_one_though_the_younger_speaks(
    here: Terminals,
) -> None:
    older = here.open()
    younger = later(here, older)
    here.write(older, "s0", "idle")
    await here.says(younger, "s1")
    await here.says(older, "s1")
    await here.says(younger, "s1", "busy")
    started = look_up(younger.pid) or 0
    seen = s.ProcessSeen(session_id="s1", at=now(), seen=now(), pid=younger.pid, started=started)
    await here.hooks(seen)

    assert here.running("s1") == older.pid
    await ended(here, older, younger)


async def test_the_older_one_has_it_still_where_the_younger_goes_on_to_another_session(
    here: Terminals,
) -> None:
    """The hook of that ended the session, so whoever spoke next was watched, and nobody said so."""
    older = here.open()
    younger = later(here, older)
    here.write(older, "s1", "idle")
    await here.says(younger, "s1")
    await here.hooks(s.SessionEnded(session_id="s1", at=now(), seen=now(), reason="clear"))
    await here.says(older, "s1", "busy")
    await here.says(younger, "s2")

    assert here.running("s1") == older.pid
    assert here.state("s1", 1_000) == "thinking"
    await ended(here, older)


@pytest.mark.parametrize("closed", [True, False])
async def test_an_older_one_that_came_while_no_collector_ran_is_the_one(
    here: Terminals, closed: bool
) -> None:
    older = here.open()
    younger = later(here, older)
    here.write(older, "s0", "idle")
    await here.says(younger, "s1")
    if closed:
        await here.kill(younger)
    else:
        here.write(younger, "s2", "idle")
    here.write(older, "s1", "idle")
    await here.restart()

    assert here.running("s1") == older.pid
    await ended(here, older)


async def test_a_session_that_was_left_while_no_collector_ran_is_over(here: Terminals) -> None:
    only = here.open()
    await here.says(only, "s1")
    here.write(only, "s2", "idle")
    await here.restart()

    assert (here.state("s1", LATER_MS), here.running("s1")) == ("session_ended", None)
    assert here.running("s2") == only.pid


async def test_a_new_session_that_is_left_at_once_is_over(here: Terminals, tmp_path: Path) -> None:
    """By /exit a second after /clear: no other process had it, so the hook is of this one."""
    only = here.open()
    await here.says(only, "s0")
    await here.says(only, "s1")
    started = look_up(only.pid) or 0
    about: dict[str, Any] = {"session_id": "s1", "at": now(), "seen": now()}
    await here.hooks(
        s.SessionStarted(**about, reason="clear"),
        s.ProcessSeen(**about, source="process", pid=only.pid, started=started),
    )
    await here.hooks(s.SessionEnded(**about, reason="prompt_input_exit"))
    (tmp_path / "sessions" / f"{only.pid}.json").unlink()
    await here.kill(only)

    assert (here.state("s1", LATER_MS), here.running("s1")) == ("session_ended", None)


async def walk(here: Terminals, seed: int, looks: int) -> None:
    """Move two terminals between two sessions, close both, and expect both sessions to end.

    looks: how many looks of the collector share one millisecond; 0 leaves it the real clock.
    """
    dice, steps = random.Random(seed), []
    one = here.open()
    at = {one: "s1", later(here, one): "s2"}
    for who, session in at.items():
        here.write(who, session, "idle")
    await here.look()
    began = now()
    for step in range(8):
        if looks and step % looks == 0:
            here.clock = max(here.clock + 1, began)
        who, what = dice.choice(list(at)), dice.choice(("moves", "moves", "speaks", "restart"))
        steps.append((what, who.pid))
        if what == "moves":
            at[who] = {"s1": "s2", "s2": "s1"}[at[who]]
        here.write(who, at[who], dice.choice(("idle", "busy")))
        await (here.restart() if what == "restart" else here.look())
    for who in dice.sample(list(at), 2):
        await here.kill(who)

    assert [here.state(name, LATER_MS) for name in ("s1", "s2")] == ["session_ended"] * 2, steps
    assert (here.running("s1"), here.running("s2")) == (None, None), steps


@pytest.mark.parametrize("seed", range(12))
async def test_every_session_ends_with_its_terminals_wherever_they_went(
    here: Terminals, seed: int
) -> None:
    await walk(here, seed, looks=0)


@pytest.mark.parametrize("looks", [2, 3, 8])
@pytest.mark.parametrize("seed", range(12))
async def test_observations_that_share_a_millisecond_keep_their_order(
    here: Terminals, seed: int, looks: int
) -> None:
    await walk(here, seed, looks)
