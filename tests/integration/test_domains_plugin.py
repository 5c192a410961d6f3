"""An installed domain in a real hub: its words are sent, it breaks nothing, and a bad setting is told."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from adsum_shared import streams
from adsum_shared.signals import PromptSubmitted, ToolStarted
from tests.half_hubs import HOST
from tests.hub_processes import HubProcess
from tests.rosters import beat, publish
from tests.support import wait_until

pytestmark = [pytest.mark.redis, pytest.mark.slow]

EXAMPLE = Path(__file__).parents[1] / "data" / "example_plugin" / "adsum_example_kitchen.py"
ALL = json.dumps([{"project": "*", "use": ["kitchen", "sdlc"]}])

Start = Callable[..., HubProcess]


def install(folder: Path, name: str, source: str) -> None:
    """As pip leaves it. That pip does so with the example, a unit test shows."""
    module = f"adsum_example_{name}"
    folder.mkdir(exist_ok=True)
    (folder / f"{module}.py").write_text(source)
    about = folder / f"{module}-1.0.dist-info"
    about.mkdir()
    about.joinpath("METADATA").write_text(
        f"Metadata-Version: 2.1\nName: adsum-{name}\nVersion: 1.0\n"
    )
    about.joinpath("entry_points.txt").write_text(f"[adsum.domains]\n{name} = {module}\n")


@pytest.fixture
def start(tmp_path: Path, redis_url: str) -> Any:
    started: list[HubProcess] = []
    install(tmp_path / "site", "kitchen", EXAMPLE.read_text())

    def start(**settings: str) -> HubProcess:
        hub = HubProcess(tmp_path / f"hub{len(started)}", redis_url, **settings)
        paths = [str(tmp_path / "site"), os.environ.get("PYTHONPATH", "")]
        hub.env["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
        hub.env["XDG_CONFIG_HOME"] = str(tmp_path / "config")
        started.append(hub)
        return hub

    yield start
    for hub in started:
        hub.kill()


async def acting(redis: Any, summary: str) -> None:
    """One session at work, on a machine that has just reported."""
    now = int(time.time() * 1000)
    at = {"session_id": "s1", "at": now, "seen": now}
    await redis.sadd(streams.HOSTS, HOST)
    await beat(redis, [HOST], now)
    signals = [
        PromptSubmitted(**at, prompt_id="p", origin="typed", text="Cook"),
        ToolStarted(**at, tool="Bash", role="shell", tool_use_id="t", summary=summary),
    ]
    await publish(redis, HOST, 1, signals, now)


async def display(hub: HubProcess) -> dict[str, Any]:
    """Of the one session, once it is there and at work."""
    found: list[dict[str, Any]] = []

    async def there() -> bool:
        found[:] = (await asyncio.to_thread(hub.get, "/api/v1/sessions"))["sessions"]
        return bool(found) and found[0]["state"]["state"] == "acting"

    await wait_until(there, timeout=10)
    shown = found[0].get("display", {})
    assert isinstance(shown, dict)
    return shown


async def test_an_installed_domain_is_heard(start: Start, redis: Any) -> None:
    hub = start(domains=ALL).start()
    await acting(redis, "soup.recipe")

    assert await display(hub) == {
        "label": "Cooking",
        "icon": "coffee",
        "chips": [{"text": "hot", "tone": "warning"}],
        "domains": ["kitchen"],
    }


async def test_without_a_word_in_the_settings_sdlc_is_heard_alone(start: Start, redis: Any) -> None:
    hub = start().start()
    await acting(redis, "pytest -q soup.recipe")

    assert (await display(hub))["domains"] == ["sdlc"]


async def test_one_that_cannot_be_imported_is_told_and_the_hub_starts(
    start: Start, redis: Any, tmp_path: Path
) -> None:
    install(tmp_path / "site", "broken", "import no_such_module")
    hub = start(domains=json.dumps([{"project": "*", "use": ["broken", "kitchen"]}])).start()
    await acting(redis, "soup.recipe")

    assert (await display(hub))["domains"] == ["kitchen"]
    assert "Domain broken of adsum-broken cannot be used" in hub.log.read_text()


async def test_one_that_fails_and_one_that_sleeps_leave_the_list_as_it_is(
    start: Start, redis: Any, tmp_path: Path
) -> None:
    body = "@hookimpl\ndef interpret(session):\n    "
    head = "import time\nfrom adsum_hub.domains import hookimpl\nadsum_domain_api = 1\n" + body
    install(tmp_path / "site", "raising", head + "raise ValueError(session.cwd)")
    install(tmp_path / "site", "sleeping", head + "time.sleep(0.05)")
    use = ["raising", "sleeping", "kitchen"]
    hub = start(domains=json.dumps([{"project": "*", "use": use}])).start()
    await acting(redis, "soup.recipe")

    assert (await display(hub))["domains"] == ["kitchen"]
    log = hub.log.read_text()
    assert log.count("Domain raising fails") == 1
    assert log.count("Domain sleeping fails") == 1


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ('[{"project": "a", "use": ["nobody"]}]', "[[domains]] 1: no domain is called 'nobody'"),
        ('[{"project": "a"}]', "[[domains]] 1: there is no `use`"),
    ],
)
def test_a_choice_that_cannot_be_used_is_told_and_nothing_else_is_printed(
    start: Start, setting: str, told: str
) -> None:
    hub = start(domains=setting)

    run = subprocess.run(
        [sys.executable, "-P", "-m", "adsum", "hub"],
        env=hub.env,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )

    assert run.returncode == 1
    assert told in run.stderr
    assert "Traceback" not in run.stderr
