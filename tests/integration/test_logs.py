"""The logs of real parts: JSON in a file, and nothing of the secrets they were given or shown."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from tests.hub_processes import AgentCollector, HubProcess, started, tool_starts
from tests.signing_in import asking, first_message, log_in, make_token, sign_in, watching
from tests.support import wait_until

pytestmark = pytest.mark.redis

PASSWORD = "Pl4ntedPassw0rd"
STRANGE = "adsum_" + "PlantedToken" * 3 + "1234567"
COOKIE = "PlantedCookie" * 3 + "1234"


def entries(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines()]


async def test_a_hub_logs_no_secret_it_was_given_or_shown(tmp_path: Path, redis_server) -> None:
    subprocess.run(
        ["redis-cli", "-u", redis_server.url, "config", "set", "requirepass", PASSWORD], check=True
    )
    url = redis_server.url.replace("redis://", f"redis://:{PASSWORD}@")
    channel = json.dumps([{"name": "team", "url": "json://u:Pl4ntedChannel@127.0.0.1:9/x"}])
    rules = json.dumps([{"on": "needs_you", "channels": ["team"]}])
    hub = HubProcess(
        tmp_path / "hub", url, sign_in="on", log_level="debug", channel=channel, notify=rules
    )
    with started(hub):
        cookie, (_, token) = sign_in(hub), make_token(hub)
        for shown in ({"token": STRANGE}, {"cookie": COOKIE}, {"token": token}):
            with asking(hub, **shown) as client:
                client.get(f"/api/v1/sessions?token={STRANGE}&q=PlantedQuery")
        log_in(hub, "PlantedCode" + "x" * 21)
        asked = f"ws://127.0.0.1:{hub.port}/ws?token={STRANGE}&q=PlantedQuery"
        async with connect(
            asked, proxy=None, additional_headers={"authorization": f"Bearer {token}"}
        ) as socket:
            await first_message(socket)
        async with watching(hub, authorization=f"Bearer {STRANGE}") as socket:
            with pytest.raises(ConnectionClosed):
                await first_message(socket)
        hub.stop()

    text = hub.log.read_text()
    said = [entry["event"] for entry in entries(hub.log)]
    assert any("signed in as" in line for line in said), text
    assert any("refused" in line for line in said)
    for secret in (PASSWORD, STRANGE, COOKIE, token, cookie, "Planted", "Pl4nted"):
        assert secret not in text


async def test_a_collector_logs_no_secret(tmp_path: Path, redis_url: str) -> None:
    wrong = redis_url.replace("redis://", f"redis://ops:{PASSWORD}@")
    collector = AgentCollector(tmp_path / "host", wrong, log_level="debug")
    with started(collector):
        token = collector.token
        async with httpx.AsyncClient() as client:
            await collector.hook(client, tool_starts("s1", 1))
            await client.post(
                f"{collector.url}/api/live/hook", headers={"authorization": f"Bearer {STRANGE}"}
            )
        await wait_until(lambda: len(entries(collector.log)) > 1, timeout=15)
        collector.stop()

    text = collector.log.read_text()
    assert any("hooks on 127.0.0.1" in entry["event"] for entry in entries(collector.log))
    for secret in (PASSWORD, STRANGE, token):
        assert secret not in text


async def test_plain_is_plain_where_somebody_wants_it(tmp_path: Path, redis_url: str) -> None:
    hub = HubProcess(tmp_path / "hub", redis_url, log_format="plain")
    with started(hub):
        await wait_until(lambda: "reading from Redis" in hub.log.read_text())

    assert not hub.log.read_text().startswith("{")
    assert "\x1b[" not in hub.log.read_text()


def test_a_format_that_does_not_exist_is_refused_by_name(tmp_path: Path, redis_url: str) -> None:
    hub = HubProcess(tmp_path / "hub", redis_url, log_format="xml").spawn()
    assert hub.process is not None
    assert hub.process.wait(20) == 2
    assert "ADSUM_LOG_FORMAT" in hub.log.read_text()
