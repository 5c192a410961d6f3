"""`adsum hub tokens` and `adsum hub sign-ins` list, make and revoke access."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

from adsum.client import fetch, hub_url, send
from adsum.login import ROLES, is_local
from adsum.outcome import CommandError, Exit
from adsum.text.console import open_console
from adsum.text.saying import put, put_json, say
from adsum.text.words import age
from adsum_shared.redact import clean
from adsum_shared.streams import JOIN_TOKEN_MOST_MS

UNITS_S = {"m": 60, "h": 3_600, "d": 86_400}
MOST_DAYS = 366
MOST_JOIN_DAYS = JOIN_TOKEN_MOST_MS // 1000 // UNITS_S["d"]


def create_token(
    hub: str | None, state_dir: Path | None, role: str, name: str, expires: str, *, as_json: bool
) -> None:
    url = hub_url(hub, state_dir)
    if role not in ROLES:
        raise CommandError(f"{role!r} is no role. Give one of {', '.join(ROLES)}.", Exit.USAGE)
    asked = {"role": role, "name": name, "expires_s": seconds(expires)}
    made = send(url, "POST", "/api/v1/tokens", asked)
    if as_json:
        put_json(made)
        return
    token = made["token"]
    # Of this machine alone it would lead nowhere from elsewhere.
    reached = "its address" if is_local(url) else url
    say(
        f"Token {token['id']} for {clean(token['name'])} ({token['role']}), good for {expires}. It is "
        "shown this once: keep it. On a machine that has joined: ADSUM_TOKEN=… adsum agents; on any "
        f"other give the hub as well, ADSUM_HUB_URL={reached}"
    )
    put(made["secret"])


def list_tokens(hub: str | None, state_dir: Path | None, *, as_json: bool) -> None:
    answer = fetch(hub_url(hub, state_dir), "/api/v1/tokens")
    rows = [(*_who(one, answer), _left(one["until"], answer)) for one in answer["tokens"]]
    empty = "There is no token. One for the API: adsum hub tokens create --name NAME"
    _print(answer, rows, ("ID", "NAME", "ROLE", "MADE", "USED", "ENDS IN"), empty, as_json=as_json)


def list_sign_ins(hub: str | None, state_dir: Path | None, *, as_json: bool) -> None:
    answer = fetch(hub_url(hub, state_dir), "/api/v1/sign-ins")
    rows = [
        (*_who(one, answer), _left(one["ends"], answer), clean(one["where"]))
        for one in answer["sign_ins"]
    ]
    empty = "No browser is signed in. A link that does it: adsum login"
    columns = ("ID", "NAME", "ROLE", "SINCE", "USED", "ENDS IN", "BROWSER")
    _print(answer, rows, columns, empty, as_json=as_json)


def revoke(hub: str | None, state_dir: Path | None, kind: str, named: str) -> None:
    """kind: token or sign-in."""
    url = hub_url(hub, state_dir)
    send(url, "DELETE", f"/api/v1/{kind}s/{quote(named, safe='')}")
    say(f"Revoked {named}: it opens nothing more, and what it has open is closed within seconds.")


def seconds(text: str, most_days: int = MOST_DAYS) -> int:
    """Of such as 30m, 12h, 90d. Raises CommandError."""
    found = re.fullmatch(r"([1-9][0-9]{0,6})([mhd])", text.strip())
    span = int(found[1]) * UNITS_S[found[2]] if found else 0
    if not 0 < span <= most_days * UNITS_S["d"]:
        raise CommandError(
            f"{text!r} is no time that such a token may last. Give such as 30m, 12h or 7d, at most "
            f"{most_days}d.",
            Exit.USAGE,
        )
    return span


def _who(one: dict[str, Any], answer: dict[str, Any]) -> tuple[str, ...]:
    used = age(answer["now"] - one["seen"]) if one["seen"] else "never"
    return one["id"], clean(one["name"]), one["role"], age(answer["now"] - one["since"]), used


def _left(until: int, answer: dict[str, Any]) -> str:
    return age(until - answer["now"])


def _print(
    answer: dict[str, Any],
    rows: list[tuple[str, ...]],
    columns: tuple[str, ...],
    empty: str,
    *,
    as_json: bool,
) -> None:
    if as_json:
        put_json(answer)
        return
    if not rows:
        say(empty)
        return
    from rich.table import Table
    from rich.text import Text

    table = Table(*columns, box=None, pad_edge=False, header_style="dim")
    for row in rows:
        table.add_row(*map(Text, row))
    open_console().print(table)


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
    asked = {"expires_s": seconds(expires, MOST_JOIN_DAYS), "reusable": reusable, "label": label}
    made = send(url, "POST", "/api/v1/join-tokens", asked)
    if as_json:
        put_json(made)
        return
    often = "lets machines in" if reusable else "lets one machine in, once,"
    say(f"Join token {made['token']['id']} {often} for {expires}. On the machine:")
    put(made["command"])
    if made["note"]:
        say(f"Note: {made['note']}")


def list_join_tokens(hub: str | None, state_dir: Path | None, *, as_json: bool) -> None:
    answer = fetch(hub_url(hub, state_dir), "/api/v1/join-tokens")
    if as_json:
        put_json(answer)
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
    send(url, "DELETE", f"/api/v1/join-tokens/{quote(named, safe='')}")
    say(f"Revoked {named}: it lets nobody in any more. Who has joined by it stays.")
