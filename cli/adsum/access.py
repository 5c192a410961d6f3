"""Decides who may enter: `adsum login`, `adsum hub tokens` and `adsum hub sign-ins`."""

import getpass
import io
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from adsum.client import fetch, hub_url, send
from adsum.outcome import CommandError, agrees, put, put_json, require, say
from adsum.text.tables import open_console
from adsum.text.words import age
from adsum_shared.redact import clean
from adsum_shared.streams import JOIN_TOKEN_MOST_MS

ROLES = ("viewer", "operator", "admin")
LOOPBACK = ("127.0.0.1", "::1", "localhost")
ELSEWHERE = (
    "It opens on this machine alone. For a phone or a colleague, say where the hub is reached from "
    "there: set ADSUM_PUBLIC_URL and start it anew (docs/sign-in.md)."
)
UNITS_S = {"m": 60, "h": 3_600, "d": 86_400}
MOST_DAYS = 366
MOST_JOIN_DAYS = JOIN_TOKEN_MOST_MS // 1000 // UNITS_S["d"]
#: Of each kind: its columns, and what to say where there is none.
_LISTS = {
    "tokens": (
        ("ID", "NAME", "ROLE", "MADE", "USED", "ENDS IN", "MADE BY"),
        "There is no token. One for the API: adsum hub tokens create --name NAME",
    ),
    "sign-ins": (
        ("ID", "NAME", "ROLE", "SINCE", "USED", "ENDS IN", "BROWSER"),
        "No browser is signed in. A link that does it: adsum login",
    ),
    "join-tokens": (
        ("ID", "MADE", "ENDS IN", "LETS IN", "JOINED", "HOST LABEL"),
        "No join token is good. To make one: adsum hub tokens create --join",
    ),
}


def print_login(
    hub: str | None,
    state_dir: Path | None,
    who: tuple[str, str | None, str],
    *,
    as_json: bool,
) -> None:
    """who: role, name, and the machines where they may do something, as `--hosts` names them."""
    url, (role, name, hosts) = hub_url(hub, state_dir), who
    _require_role(role)
    if not fetch(url, "/api/v1/me").get("sign_in", True):
        raise CommandError(f"Nobody has to sign in there: open {url}. (ADSUM_SIGN_IN=off)")
    made = make_link(url, role, name or user(), host_ids(url, hosts))
    if as_json:
        put_json(made)
        return
    say(f"Signs one browser in as {made['name']} ({made['role']}), once, within ten minutes:")
    show_link(made["url"])


def _require_role(role: str) -> None:
    require(role in ROLES, f"{role!r} is no role. Give one of {', '.join(ROLES)}.")


def host_ids(url: str, named: str) -> list[str]:
    """The ids of machines that are named by id or label, with commas between. Raises CommandError."""
    found = []
    known = fetch(url, "/api/v1/hosts")["hosts"] if named else []
    for name in filter(None, map(str.strip, named.split(","))):
        ids = [each["id"] for each in known if name in (each["id"], each["label"])]
        several = "several machines bear" if ids else "no machine bears"
        require(
            len(ids) == 1, f"--hosts: {several} the name {name[:40]!r}. adsum hosts lists them."
        )
        found += ids
    return found


def make_link(url: str, role: str, name: str, hosts: Sequence[str] = ()) -> dict[str, Any]:
    """url, code, name, role and until, ms. Raises CommandError."""
    asked = {"role": role, "name": name} | ({"hosts": list(hosts)} if hosts else {})
    made = send(url, "POST", "/api/v1/login-links", asked)
    base = made["public_url"] or url
    told = {key: made[key] for key in ("code", "name", "role", "until")}
    return {"url": f"{base}/login#{made['code']}", **told}


def show_link(link: str) -> None:
    """The link to stdout; beside it, for people, how it gets onto a phone."""
    put(link)
    if is_local(link):
        say(ELSEWHERE)
    elif drawn := qr(link):
        put(drawn)


def is_local(link: str) -> bool:
    return urlsplit(link).hostname in LOOPBACK


def qr(link: str) -> str:
    """In blocks, for a terminal that can show them; else empty."""
    if not sys.stdout.isatty():
        return ""
    import segno

    drawn = io.StringIO()
    segno.make(link, error="l", micro=False).terminal(drawn, compact=True, border=2)
    try:
        drawn.getvalue().encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return ""
    return drawn.getvalue().rstrip("\n")


def user() -> str:
    """What whoever signs in is called, unless --name says otherwise."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # no such user, as in some containers
        return "admin"


def create_token(
    hub: str | None,
    state_dir: Path | None,
    who: tuple[str, str, str],
    expires: str,
    *,
    as_json: bool,
) -> None:
    """who: as of `print_login`."""
    url, (role, name, hosts) = hub_url(hub, state_dir), who
    _require_role(role)
    asked = {"role": role, "name": name, "expires_s": seconds(expires)}
    asked |= {"hosts": host_ids(url, hosts)} if hosts else {}
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


def list_access(kind: str, hub: str | None, state_dir: Path | None, *, as_json: bool) -> None:
    """kind: as in the path that is asked."""
    answer = fetch(hub_url(hub, state_dir), f"/api/v1/{kind}")
    if as_json:
        put_json(answer)
        return
    columns, empty = _LISTS[kind]
    listed = answer["sign_ins" if kind == "sign-ins" else "tokens"]
    if not listed:
        say(empty)
        return
    from rich.table import Table
    from rich.text import Text

    table = Table(*columns, box=None, pad_edge=False, header_style="dim")
    for one in listed:
        table.add_row(*map(Text, _cells(kind, one, answer["now"])))
    open_console().print(table)


def _cells(kind: str, one: dict[str, Any], now: int) -> tuple[str, ...]:
    since = age(now - one["since"])
    if kind == "join-tokens":
        many = "many" if one["reusable"] else "one"
        left = age(one["until"] - now)
        return one["id"], since, left, many, str(one["uses"]), clean(one["label"])
    used = age(now - one["seen"]) if one["seen"] else "never"
    who = (one["id"], clean(one["name"]), one["role"], since, used)
    if kind == "tokens":
        return *who, age(one["until"] - now), one.get("by", "")
    return *who, age(one["ends"] - now), clean(one["where"])


def revoke(kind: str, hub: str | None, state_dir: Path | None, named: str) -> None:
    """kind: as in the path that is asked."""
    url = hub_url(hub, state_dir)
    if not named or "/" in named:  # another path, of which the hub would say something else
        one = kind.removesuffix("s").replace("join-", "join ")
        listed = "tokens list --join" if kind == "join-tokens" else f"{kind} list"
        raise CommandError(f"There is no {one} {named[:40]!r}. List them: adsum hub {listed}")
    told = send(url, "DELETE", f"/api/v1/{kind}/{quote(named, safe='')}")
    if kind == "join-tokens":
        say(f"Revoked {named}: it lets nobody in any more. Who has joined by it stays.")
    else:
        say(
            f"Revoked {named}: it opens nothing more, and what it has open is closed within seconds."
        )
        _revoke_made(url, told)


def _revoke_made(url: str, told: dict[str, Any]) -> None:
    """Ask whether to revoke the credentials that a revoked one made."""
    made = [("tokens", each) for each in told.get("tokens", ())]
    made += [("sign-ins", each) for each in told.get("sign_ins", ())]
    if not made:
        return
    say("It made these, which are still good:")
    for kind, each in made:
        say(f"  adsum hub {kind} revoke {each}")
    if not sys.stdin.isatty() or not agrees("Revoke them as well? [Y/n] "):
        return
    for kind, each in made:
        send(url, "DELETE", f"/api/v1/{kind}/{each}")
    say(f"Revoked {len(made)} more.")


def seconds(text: str, most_days: int = MOST_DAYS) -> int:
    """Of such as 30m, 12h, 90d. Raises CommandError."""
    found = re.fullmatch(r"([1-9][0-9]{0,6})([mhd])", text.strip())
    span = int(found[1]) * UNITS_S[found[2]] if found else 0
    step = f"Give such as 30m, 12h or 7d, at most {most_days}d."
    lasts = 0 < span <= most_days * UNITS_S["d"]
    require(lasts, f"{text!r} is no time span. {step}")
    return span
