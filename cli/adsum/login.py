"""`adsum login` prints a link that signs one browser in, as text and as a QR code."""

from __future__ import annotations

import getpass
import io
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from adsum.client import fetch, hub_url, send
from adsum.outcome import CommandError, Exit
from adsum.text.saying import put, put_json, say

ROLES = ("viewer", "operator", "admin")
LOOPBACK = ("127.0.0.1", "::1", "localhost")
ELSEWHERE = (
    "It opens on this machine alone. For a phone or a colleague, say where the hub is reached from "
    "there: set ADSUM_PUBLIC_URL and start it anew (docs/sign-in.md)."
)


def print_login(
    hub: str | None, state_dir: Path | None, role: str, name: str | None, *, as_json: bool
) -> None:
    url = hub_url(hub, state_dir)
    if role not in ROLES:
        raise CommandError(f"{role!r} is no role. Give one of {', '.join(ROLES)}.", Exit.USAGE)
    if not fetch(url, "/api/v1/me").get("sign_in", True):
        raise CommandError(f"Nobody has to sign in there: open {url}. (ADSUM_SIGN_IN=off)")
    made = make_link(url, role, name or user())
    if as_json:
        put_json(made)
        return
    say(f"Signs one browser in as {made['name']} ({made['role']}), once, within ten minutes:")
    show_link(made["url"])


def make_link(url: str, role: str, name: str) -> dict[str, Any]:
    """url, code, name, role and until, ms. Raises CommandError."""
    made = send(url, "POST", "/api/v1/login-links", {"role": role, "name": name})
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
