"""`adsum hub tokens … --join`: the tokens by which machines join."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import quote

from adsum.client import fetch, hub_url, tell
from adsum.text.console import open_console
from adsum.text.plain import age, clean
from adsum.text.saying import say
from adsum.tokens import UNITS_S, seconds
from adsum_shared.streams import JOIN_TOKEN_MOST_MS

MOST_DAYS = JOIN_TOKEN_MOST_MS // 1000 // UNITS_S["d"]


def create_join_token(
    hub: str | None,
    state_dir: Path | None,
    expires: str,
    label: str,
    *,
    reusable: bool,
    as_json: bool,
) -> None:
    url = hub_url(hub, state_dir)
    asked = {"expires_s": seconds(expires, MOST_DAYS), "reusable": reusable, "label": label}
    made = tell(url, "POST", "/api/v1/join-tokens", asked)
    if as_json:
        print(json.dumps(made, indent=2, ensure_ascii=False))  # noqa: T201 - data
        return
    often = "lets machines in" if reusable else "lets one machine in, once,"
    say(f"Join token {made['token']['id']} {often} for {expires}. On the machine:")
    print(made["command"])  # noqa: T201 - data
    if made["note"]:
        say(f"Note: {made['note']}")


def list_join_tokens(hub: str | None, state_dir: Path | None, *, as_json: bool) -> None:
    answer = fetch(hub_url(hub, state_dir), "/api/v1/join-tokens")
    if as_json:
        print(json.dumps(answer, indent=2, ensure_ascii=False))  # noqa: T201 - data
        return
    if not answer["tokens"]:
        say("No join token is good. To make one: adsum hub tokens create --join")
        return
    from rich.table import Table
    from rich.text import Text

    columns = ("ID", "MADE", "ENDS IN", "LETS IN", "JOINED", "HOST LABEL")
    table = Table(*columns, box=None, pad_edge=False, header_style="dim")
    now = answer["now"]
    for one in answer["tokens"]:
        many = "many" if one["reusable"] else "one"
        cells = (one["id"], age(now - one["since"]), age(one["until"] - now), many)
        table.add_row(*map(Text, (*cells, str(one["uses"]), clean(one["label"]))))
    open_console().print(table)


def revoke_join_token(hub: str | None, state_dir: Path | None, named: str) -> None:
    url = hub_url(hub, state_dir)
    tell(url, "DELETE", f"/api/v1/join-tokens/{quote(named, safe='')}")
    say(f"Revoked {named}: it lets nobody in any more. Who has joined by it stays.")
