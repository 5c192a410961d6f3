"""What `adsum doctor` says on a machine whose hub knows it no more, and that its advice is right."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import redis

from adsum_hub.join.rights import user_of
from tests.brokers import running_broker
from tests.hub_processes import HubProcess, started
from tests.joining import Machine, join_token, machines
from tests.signing_in import admin
from tests.support import wait_until

pytestmark = [pytest.mark.redis, pytest.mark.slow, pytest.mark.timeout(150)]


def checks(machine: Machine) -> dict[str, dict[str, Any]]:
    done = machine.run("doctor", "--json")
    assert done.returncode == 1, done.stderr
    return {each["id"]: each for each in json.loads(done.stdout)["checks"]}


async def shut_out(machine: Machine, hub: HubProcess, why: str) -> None:
    """One finding says what happened and what to do; the others lead there."""
    # The collector has noticed, too.
    await wait_until(lambda: machine.ready()["problem"], 20)
    found = checks(machine)
    assert why in found["hub"]["what"]
    assert f"`adsum leave` here, then `adsum join {hub.url} --token …`" in found["hub"]["fix"]
    assert {found[each]["fix"] for each in ("collector", "spool", "redis")} == {"See hub."}


async def test_a_machine_that_is_known_no_more_is_told_so_and_how_to_come_back(
    tmp_path: Path,
) -> None:
    with running_broker(tmp_path) as broker:
        hub = HubProcess(tmp_path / "hub", broker.url, sign_in="on")
        with started(hub), machines("oak") as [oak]:
            assert oak.join(hub.url, join_token(hub)).returncode == 0
            with admin(hub) as client:
                client.post(f"/api/v1/hosts/{oak.host_id}/revoke", json={})
            await shut_out(oak, hub, "its access was revoked")
            assert oak.run("leave").returncode == 0
            with admin(hub) as client:
                client.post(f"/api/v1/hosts/{oak.host_id}/reset", json={})
            assert oak.join(hub.url, join_token(hub)).returncode == 0

            # A hub that was set up anew, with nothing of before.
            hub.kill()
            shutil.rmtree(hub.state_dir)
            with redis.Redis.from_url(broker.url) as client:
                client.flushall()
                client.execute_command("ACL", "DELUSER", user_of(oak.host_id))
            hub.start()
            await shut_out(oak, hub, "does not know this machine's login any more")
            assert oak.run("leave").returncode == 0
            assert oak.join(hub.url, join_token(hub)).returncode == 0
