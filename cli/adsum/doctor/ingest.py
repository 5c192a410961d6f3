"""Checks the way to hubs of a machine that has joined."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from adsum.doctor.finding import Finding, from_text
from adsum.doctor.joined import check_login
from adsum.doctor.redis import check_redis
from adsum.joined import Joined, joined
from adsum_collector.delivery.transports import HubPlace, HubTransport
from adsum_collector.errors import HubError
from adsum_shared.host_keys import KeysRequest
from adsum_shared.redact import clean

PATIENCE_S = 12.0


def check_way(redis_url: str | None, state_dir: Path) -> Finding:
    """Redis, or the hub that signals go through. redis_url: as set for this command."""
    machine = joined(state_dir)
    if redis_url is not None or machine is None:
        return check_redis(redis_url, state_dir)
    if machine.ingest is None:
        return check_login(machine)
    return check_ingest(machine, machine.ingest)


def check_ingest(machine: Joined, hub: HubPlace) -> Finding:
    began = time.perf_counter()
    try:
        asyncio.run(asyncio.wait_for(_ask(hub, machine.host_id), PATIENCE_S))
    except HubError as error:
        return from_text("ingest", "fail", clean(str(error)))
    except TimeoutError:
        what = f"The hub at {hub.url} does not answer within {PATIENCE_S:g} s."
        return Finding("ingest", "fail", what, "Look at its machine and at the way there.")
    took_ms = (time.perf_counter() - began) * 1000
    what = f"Signals go through the hub at {clean(hub.url)}, which takes them ({took_ms:.0f} ms)."
    return Finding("ingest", "ok", what)


async def _ask(hub: HubPlace, host_id: str) -> None:
    """Nothing is written."""
    async with HubTransport(hub).open() as line:
        await line.ask(host_id, KeysRequest(want=True))
