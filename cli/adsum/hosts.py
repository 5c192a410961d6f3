"""`adsum hosts`: every machine, and how fresh its news is."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec

from adsum.client import fetch, hub_url
from adsum.outcome import Exit
from adsum.text.console import advice, open_console, own_up, show
from adsum.text.saying import say
from adsum.text.words import as_of, trouble_in
from adsum_shared.state import HostView


def list_hosts(hub: str | None, state_dir: Path | None, *, as_json: bool) -> int:
    answer = fetch(hub_url(hub, state_dir), "/api/v1/hosts")
    hosts, trouble = msgspec.convert(answer["hosts"], list[HostView]), trouble_in(answer)
    if as_json:
        print(json.dumps(answer, ensure_ascii=False, indent=2))  # noqa: T201 - data
    elif hosts:
        from adsum.text.machines import host_table

        console = open_console()
        show(console, host_table(hosts, as_of(answer["now"], trouble), console))
    elif trouble is None:
        say(advice(filtered=False, hosts=[]))
    if trouble is not None:
        own_up(trouble, answer["now"])
    stale = any(host.reachability != "live" for host in hosts)
    return Exit.PARTIAL if stale or trouble is not None else Exit.OK
