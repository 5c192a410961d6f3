"""`adsum hosts`: every machine, and how fresh its news is."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import msgspec

from adsum.client import fetch, hub_url
from adsum.console import advice, open_console
from adsum.outcome import Exit
from adsum_shared.state import HostView


def list_hosts(hub: str | None, state_dir: Path | None, *, as_json: bool) -> int:
    answer = fetch(hub_url(hub, state_dir), "/api/v1/hosts")
    hosts = msgspec.convert(answer["hosts"], list[HostView])
    if as_json:
        print(json.dumps(answer, ensure_ascii=False, indent=2))  # noqa: T201 - data
    elif hosts:
        from adsum.render import host_table

        open_console().print(host_table(hosts, answer["now"]))
    else:
        print(advice(filtered=False, hosts=[]), file=sys.stderr)  # noqa: T201 - for people
    stale = any(host.reachability != "live" for host in hosts)
    return Exit.PARTIAL if stale else Exit.OK
