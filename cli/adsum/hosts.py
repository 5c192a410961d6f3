"""`adsum hosts`: every machine and how fresh its news is; `rename`, `forget`, `revoke`, `reset` for one."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import msgspec

from adsum.client import fetch, hub_url, send
from adsum.outcome import CommandError, Exit
from adsum.text.console import advice, open_console, own_up, show
from adsum.text.plain import clean
from adsum.text.saying import put_json, say
from adsum.text.words import as_of, trouble_in
from adsum_shared.state import HostView


def list_hosts(hub: str | None, state_dir: Path | None, *, as_json: bool) -> int:
    answer = fetch(hub_url(hub, state_dir), "/api/v1/hosts")
    hosts, trouble = msgspec.convert(answer["hosts"], list[HostView]), trouble_in(answer)
    if as_json:
        put_json(answer)
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


LEAST_OF_ID = 4


def change(
    hub: str | None, state_dir: Path | None, verb: str, named: str, label: str | None = None
) -> None:
    """Raises CommandError."""
    url = hub_url(hub, state_dir)
    hosts = msgspec.convert(fetch(url, "/api/v1/hosts")["hosts"], list[HostView])
    host_id, name = _found(hosts, named)
    told = {} if label is None else {"label": label}
    send(url, "POST", f"/api/v1/hosts/{quote(host_id, safe='')}/{verb}", told)
    say(_DONE[verb].format(name=name, label=clean(label or "what it calls itself")))


def _found(hosts: list[HostView], named: str) -> tuple[str, str]:
    """(id, name): by the whole label, or the start of the id. Raises CommandError."""
    found = [host for host in hosts if named in (host.label, host.id)]
    if not found and len(named) >= LEAST_OF_ID:
        found = [host for host in hosts if host.id.startswith(named)]
    if len(found) > 1:
        ids = ", ".join(host.id for host in found)
        raise CommandError(
            f"{len(found)} hosts are called {named!r}. Give an id: {ids}", Exit.USAGE
        )
    if found:
        return found[0].id, clean(found[0].label)
    if len(named) == len("00000000-0000-0000-0000-000000000000"):
        return named, named  # of a machine that joined and of which nothing was heard yet
    raise CommandError(f"There is no host {named!r}. List them: adsum hosts", Exit.USAGE)


_DONE = {
    "rename": "{name} is called {label} from now on.",
    "forget": "{name} is forgotten, with its sessions. It comes back only by joining.",
    "revoke": "{name} is shut out: its credential is worthless. What it sent stays listed.\n"
    "To let it join again: adsum hosts reset. To have it gone: adsum hosts forget.",
    "reset": "{name} may join anew; its credential is worthless. On the machine itself: "
    "adsum join … --again.\nOn a copy of it: adsum join … --new-identity.",
}
