"""`adsum hooks verify`: one probe the way a hook goes, and what came of it at every step."""

from __future__ import annotations

import http.client
import json
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from adsum.client import fetch, hub_url
from adsum.hooks import Setup
from adsum.outcome import CommandError, Exit
from adsum_collector.install import inspect_hooks
from adsum_collector.settings_file import SettingsError

#: An event no agent sends: it becomes evidence of life, which makes no session out of nothing.
PROBE = {"hook_event_name": "AdsumProbe", "session_id": "adsum-probe", "cwd": "/"}
TIMEOUT_S = 2.0


def verify_hooks(setup: Setup, hub: str | None) -> None:
    """Raises CommandError at the first step that fails, with what to do."""
    faults = _faults(setup)
    url = setup.target.url
    status, body, took_ms = _probe(url, setup.target.token)
    if status != 200:
        raise CommandError(f"The collector at {url} refuses a hook: {_reason(status, body)}")
    _out(f"collector  takes hooks: 200 from {url} in {took_ms:.1f} ms")
    _out(f"hub        {_seen_by_hub(setup, hub)}")
    if faults:
        raise CommandError(
            f"The way is open, but {setup.path} is not right: {'; '.join(faults)}. "
            "Next: adsum hooks install"
        )
    _out(f"hooks      stand in {setup.path}")


def _faults(setup: Setup) -> list[str]:
    try:
        return setup.faults(inspect_hooks(setup.path))
    except SettingsError as error:
        raise CommandError(str(error)) from error


def _probe(url: str, token: str) -> tuple[int, bytes, float]:
    """(status, body, round trip in ms), sent as Claude Code sends a hook."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=TIMEOUT_S)
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
    try:
        connection.connect()
        start = time.perf_counter()
        connection.request("POST", parts.path, json.dumps(PROBE), headers)
        response = connection.getresponse()
        body = response.read()
        return response.status, body, (time.perf_counter() - start) * 1000
    except (OSError, http.client.HTTPException) as error:
        raise CommandError(
            f"No collector answers at {url} ({error}). Start it with `adsum up`; if it runs on "
            "another port, set ADSUM_COLLECTOR_PORT and run `adsum hooks install` again.",
            Exit.UNREACHABLE,
        ) from error
    finally:
        connection.close()


def _reason(status: int, body: bytes) -> str:
    try:
        said: Any = json.loads(body)
    except ValueError:
        said = None
    if isinstance(said, dict) and "error" in said:
        return f"HTTP {status}, {said['error']}. {said.get('next', '')}".rstrip()
    if status == 401:
        return "HTTP 401, wrong token. Next: adsum hooks install"
    return f"HTTP {status}. Does something else listen on that port?"


def _seen_by_hub(setup: Setup, hub: str | None) -> str:
    """A sentence; raises CommandError when the hub does not have this machine live."""
    url = hub_url(hub, setup.state_dir)
    host_id = _host_id(setup.state_dir)
    for host in fetch(url, "/api/v1/hosts")["hosts"]:
        if host["id"] == host_id and host["reachability"] == "live":
            return f"has this machine live as {host['label']}: {url}"
        if host["id"] == host_id:
            raise CommandError(
                f"The hub at {url} has this machine as {host['reachability']}. Is the collector "
                f"connected to the same Redis? Its log: {setup.state_dir / 'logs'}"
            )
    raise CommandError(
        f"The hub at {url} has never heard of this machine. Collector and hub need the same "
        "ADSUM_REDIS_URL; `adsum up` sees to that."
    )


def _host_id(state_dir: Path) -> str | None:
    try:
        return str(json.loads((state_dir / "host.json").read_bytes())["host_id"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _out(text: str) -> None:
    print(text)  # noqa: T201 - the command line speaks here
