"""The demo through real collectors' code, broker and hub; and `adsum up --demo` as a user meets it."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from adsum.demo import MACHINES, ROLES, SCRIPT, STAGE, play
from adsum_shared.state import GROUP_OF
from tests.brokers import Broker, require_binary
from tests.hub_processes import HubProcess
from tests.support import wait_until

pytestmark = [pytest.mark.redis, pytest.mark.timeout(150), pytest.mark.slow]

SPEED = 20.0
#: What no hub shows: who is listed has a state.
NEVER = {"unknown"}


def story_clock(speed: float = 1.0) -> Callable[[], int]:
    """True time in ms, as the story has it: at another speed it begins now and runs away."""
    start = time.time()
    return lambda: int((start + (time.time() - start) * speed) * 1000)


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[HubProcess]:
    broker = Broker(tmp_path / "broker", unix=True).start()
    hub = HubProcess(
        tmp_path / "hub", broker.url, budgets=json.dumps(SCRIPT["budgets"]), demo="on"
    ).start()
    yield hub
    hub.stop()
    broker.kill()


async def test_every_state_comes_to_the_page_in_time(hub: HubProcess, tmp_path: Path) -> None:
    told = asyncio.Event()
    clock = story_clock(SPEED)
    url = hub.env["ADSUM_REDIS_URL"]
    playing = asyncio.create_task(play(tmp_path / "fleet", url, clock, told.set, 1 / SPEED))
    states: set[str] = set()
    groups: set[str] = set()
    reached: set[str] = set()
    async with httpx.AsyncClient(base_url=hub.url, trust_env=False) as client:

        async def all_seen() -> bool:
            sessions = (await client.get("/api/v1/sessions")).json()["sessions"]
            states.update(each["state"]["state"] for each in sessions)
            groups.update(each["state"]["group"] for each in sessions)
            hosts = (await client.get("/api/v1/hosts")).json()["hosts"]
            reached.update(each["reachability"] for each in hosts)
            return (
                playing.done() or (states >= set(GROUP_OF) - NEVER and "offline" in reached)
            ) and len(sessions) == len(ROLES)

        try:
            await asyncio.wait_for(told.wait(), 30)
            await wait_until(all_seen, timeout=90, interval=0.2)
        except AssertionError as error:
            raise AssertionError(f"missing: {set(GROUP_OF) - NEVER - states}, {reached}") from error
        finally:
            ended = playing.done()
            playing.cancel()
            await asyncio.gather(playing, return_exceptions=True)
        assert not ended
        assert groups == {"needs_you", "autonomous", "delivered"}
        hosts = (await client.get("/api/v1/hosts")).json()["hosts"]
        assert {each["label"] for each in hosts} == {machine.label for machine in MACHINES}
        assert not [each for each in hosts if each.get("set_aside") or each.get("gaps")]
        assert (await client.get("/api/v1/usage?days=30")).json()["total"]["cost_usd"] > 0


async def test_what_is_asked_is_answered_from_elsewhere_and_the_story_goes_on(
    hub: HubProcess, tmp_path: Path
) -> None:
    """A permission is allowed, a plan sent back."""
    told = asyncio.Event()
    url, clock = hub.env["ADSUM_REDIS_URL"], story_clock()
    playing = asyncio.create_task(play(tmp_path / "fleet", url, clock, told.set))
    async with httpx.AsyncClient(base_url=f"{hub.url}/api/v1", trust_env=False) as client:

        async def held() -> dict[str, Any]:
            hosts = (await client.get("/hosts")).json()["hosts"]
            if sum(each.get("control") == "approve" for each in hosts) < 2:
                return {}
            views = (await client.get("/sessions")).json()["sessions"]
            asked = [(view, each) for view in views for each in view.get("requests", ())]
            found = {each["kind"]: (view, each) for view, each in asked if "hold" in each}
            return found if {"permission", "plan"} <= found.keys() else {}

        try:
            await asyncio.wait_for(told.wait(), 100)
            found = await wait_until(held, timeout=60, interval=0.2)
            for kind, verb in (("permission", "allow"), ("plan", "deny")):
                view, request = found[kind]
                body = {
                    "verb": verb,
                    "request_id": request["id"],
                    "binding": request["hold"]["binding"],
                }
                path = f"/sessions/{view['id']}/commands"
                given = await client.post(path, json=body)
                assert given.status_code == 202, given.text
                named = f"{path}/{given.json()['command']['id']}"

                async def took_effect(named: str = named) -> bool:
                    command = (await client.get(named)).json()["command"]
                    return bool(command["outcome"] == "took_effect")

                await wait_until(took_effect, timeout=80, interval=0.2)
                now = (await client.get(f"/sessions/{view['id']}")).json()
                assert request["id"] not in {each["id"] for each in now.get("requests", ())}
        finally:
            ended = playing.done()
            playing.cancel()
            await asyncio.gather(playing, return_exceptions=True)
        assert not ended


async def test_a_story_whose_disk_is_gone_ends_with_the_reason(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("no directory")
    with pytest.raises(ExceptionGroup) as told:
        await play(blocked / "fleet", "unix:///nonexistent", story_clock(), lambda: None)
    assert told.group_contains(OSError, match="Not a directory")


class Home:
    """A user with a home of their own, who tries the demo."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.state = home / "adsum"
        self.demo = home / "adsum-demo"
        self.ups: list[subprocess.Popen[str]] = []
        (home / ".claude").mkdir(parents=True)
        self.hooks = home / ".claude" / "settings.json"
        self.hooks.write_text('{"hooks": {}}')

    def start(self, **env: str) -> subprocess.Popen[str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("ADSUM_", "CLAUDE"))}
        with (self.home / "err").open("w") as said:
            up = subprocess.Popen(
                [sys.executable, "-m", "adsum", "up", "--demo"],
                env=kept | {"HOME": str(self.home), "ADSUM_STATE_DIR": str(self.state)} | env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=said,
                text=True,
            )
        self.ups.append(up)
        return up

    def up(self, **env: str) -> tuple[subprocess.Popen[str], str, str]:
        """Started; its address; what it printed."""
        up = self.start(**env)
        assert up.stdout is not None
        printed = ""
        while "Ctrl-C" not in printed:
            line = up.stdout.readline()
            assert line, self.said
            printed += line
        found = re.search(r"http://\S+", printed)
        assert found is not None
        return up, found[0], printed

    @property
    def said(self) -> str:
        return (self.home / "err").read_text()

    def end(self) -> None:
        for up in self.ups:
            if up.poll() is None:
                up.terminate()
                up.wait(30)
            if up.stdout:
                up.stdout.close()


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    require_binary()
    home = Home(tmp_path / "home")
    yield home
    home.end()


def fetched(url: str, path: str) -> Any:
    return httpx.get(url + path, timeout=10, trust_env=False).json()


@pytest.mark.core
async def test_it_is_marked_and_apart_from_everything_real_and_gone_at_the_end(
    home: Home,
) -> None:
    broken = home.home / ".config" / "adsum" / "config.toml"
    broken.parent.mkdir(parents=True)
    broken.write_text("this is no TOML")
    # Whatever the user has set is for the real one.
    up, url, printed = home.up(ADSUM_REDIS_URL="redis://127.0.0.1:1", ADSUM_PUBLIC_URL="no url")
    children = psutil.Process(up.pid).children(recursive=True)

    assert printed.startswith("DEMO")
    assert fetched(url, "/api/v1/me")["demo"] is True
    await wait_until(lambda: len(fetched(url, "/api/v1/sessions")["sessions"]) == len(ROLES))
    assert len(children) == 2
    assert not home.state.exists()
    assert home.hooks.read_text() == '{"hooks": {}}'

    up.send_signal(signal.SIGINT)
    assert up.wait(30) == 0
    assert "nothing of it is left" in home.said
    assert not home.demo.exists()
    assert not home.state.exists()
    assert not psutil.wait_procs(children, timeout=5)[1]
    assert home.hooks.read_text() == '{"hooks": {}}'


async def test_what_a_killed_demo_left_is_gone_at_the_next(home: Home) -> None:
    up, _, _ = home.up()
    children = psutil.Process(up.pid).children(recursive=True)
    up.kill()
    up.wait(10)
    assert not psutil.wait_procs(children, timeout=15)[1]
    left = home.demo / STAGE / "left"
    left.write_text("over")

    _, url, _ = home.up()
    assert not left.exists()
    await wait_until(lambda: len(fetched(url, "/api/v1/sessions")["sessions"]) == len(ROLES))


def test_a_second_demo_points_to_the_first(home: Home) -> None:
    _, url, _ = home.up()
    second = home.start()

    assert second.wait(30) == 1
    assert f"Adsum is up already: {url}" in home.said


def test_a_directory_that_is_not_the_demos_is_left_alone(home: Home) -> None:
    home.demo.mkdir()
    (home.demo / "thesis.txt").write_text("years of work")
    up = home.start()

    assert up.wait(30) == 1
    assert "was not made by a demo" in home.said
    assert (home.demo / "thesis.txt").read_text() == "years of work"
