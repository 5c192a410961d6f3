"""Suspended and resumed by commands, by long rest and by what is said: real Redis, real collector, real processes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from adsum_shared.commands import Command
from adsum_shared.connect import Redis
from adsum_shared.signals import CommandReported, SessionSuspended
from tests.control import consent_to
from tests.fake_claude import FakeClaude
from tests.integration.test_control_collector import Scene
from tests.support import wait_until

pytestmark = [
    pytest.mark.redis,
    pytest.mark.timeout(90),
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
    pytest.mark.skipif(shutil.which("tmux") is None, reason="there is no tmux"),
]

ID = "0a1b2c3d-0000-4000-8000-000000000001"


class Sleepers:
    """A machine whose owner agreed to all, and sessions on it."""

    def __init__(self, scene: Scene, claude: FakeClaude) -> None:
        self.scene, self.claude = scene, claude
        self.config = claude.folder / "xdg" / "adsum"
        consent_to(scene.state_dir, scene.key, "full")
        self._probes: list[Command] = []

    def restart(self, **env: str) -> None:
        self._probes = []
        self.scene.collector.kill()
        self.scene.collector.env |= env
        self.scene.collector.start()

    async def give(self, verb: Any, **more: Any) -> CommandReported:
        """What its machine says of it at last."""
        await wait_until(self._listens, timeout=30, interval=0.5)
        command = self._command(verb, **more)
        await self.scene.give(command)
        found: CommandReported = await wait_until(lambda: self._told(command), timeout=40)
        return found

    def _command(self, verb: Any, **more: Any) -> Command:
        host_id, named = self.scene.collector.host_id, os.urandom(16).hex()
        return Command(id=named, host_id=host_id, session_id=ID, verb=verb, by="ann", **more)

    async def _told(self, command: Command) -> CommandReported | None:
        final = ("took_effect", "refused")
        told = [each for each in await self.scene.said(CommandReported) if each.outcome in final]
        return next((each for each in told if each.command_id == command.id), None)

    async def _listens(self) -> bool:
        """What was said before it listens is never obeyed; asked by what is always refused."""
        if [each for each in self._probes if await self._told(each)]:
            return True
        self._probes.append(self._command("withdraw", item="none"))
        await self.scene.give(self._probes[-1])
        return False


@pytest.fixture
async def sleepers(tmp_path: Path, redis: Redis, redis_url: str) -> AsyncIterator[Sleepers]:
    sockets = tempfile.mkdtemp()  # Not below tmp_path: a socket's path is short.
    claude = FakeClaude(tmp_path / "claude")
    env = {
        "ADSUM_CLAUDE_DIRS": str(claude.folder),
        "TMUX_TMPDIR": sockets,
        "XDG_CONFIG_HOME": str(claude.folder / "xdg"),
    }
    scene = Scene(tmp_path / "state", redis, redis_url, env)
    yield Sleepers(scene, claude)
    scene.collector.kill()
    claude.end()
    kill = ["tmux", "-L", "adsum", "kill-server"]
    subprocess.run(kill, env=os.environ | env, capture_output=True, check=False)
    shutil.rmtree(sockets)


async def test_suspended_restarted_and_resumed_with_a_message(sleepers: Sleepers) -> None:
    pid = await sleepers.claude.start(ID, "--model", "opus")

    told = await sleepers.give("suspend")
    assert (told.outcome, told.by) == ("took_effect", "ann")
    assert not sleepers.claude.lives(pid)
    suspended = await sleepers.scene.until(SessionSuspended, lambda each: each.session_id == ID)
    assert suspended.freed_bytes > 1 << 20

    sleepers.restart()
    told = await sleepers.give("resume", text="go on")
    assert told.outcome == "took_effect", told.reason
    words = ["--resume", ID, "--model", "opus", "--", "go on"]
    assert sleepers.claude.given(ID)["words"] == words

    again = await sleepers.give("resume")
    assert (again.outcome, again.reason) == ("refused", "it was not suspended on this machine")


@pytest.mark.parametrize("verb", ["prompt", "queue"])
async def test_what_is_said_to_a_suspended_session_resumes_it(
    sleepers: Sleepers, verb: str
) -> None:
    await sleepers.claude.start(ID)
    assert (await sleepers.give("suspend")).outcome == "took_effect"

    told = await sleepers.give(verb, text="and now the tests")

    assert told.outcome == "took_effect", told.reason
    assert sleepers.claude.given(ID)["words"][-1] == "and now the tests"


async def test_who_works_is_not_suspended(sleepers: Sleepers) -> None:
    pid = await sleepers.claude.start(ID)
    sleepers.claude.say(ID, status="busy")

    told = await sleepers.give("suspend")

    assert (told.outcome, told.reason) == ("refused", "it works")
    assert sleepers.claude.lives(pid)


async def test_long_rest_suspends_by_itself_where_the_owner_set_so(sleepers: Sleepers) -> None:
    # of one that began before, it is not known what is scheduled in it
    await wait_until(sleepers._listens, timeout=30, interval=0.5)
    pid = await sleepers.claude.start(ID)
    tag = f'name = "here"\ndirectories = ["{sleepers.claude.work}"]\nsuspend_after_min = 5\n'
    sleepers.config.mkdir(parents=True)
    (sleepers.config / "config.toml").write_text(f"[[control.tag]]\n{tag}")

    told = await sleepers.scene.until(SessionSuspended, lambda each: each.session_id == ID, 30)

    assert (told.auto, told.by) == (True, "auto-suspend")
    await wait_until(lambda: not sleepers.claude.lives(pid))
