"""`adsum open`: the dashboard in the browser, at one session's page if one is named."""

from __future__ import annotations

import os
import sys
import webbrowser
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from adsum.client import fetch, hub_url
from adsum.outcome import CommandError, Exit
from adsum.sessions import session_named
from adsum.text.saying import put, say


def open_dashboard(
    hub: str | None, state_dir: Path | None, wanted: str | None, *, only_print: bool
) -> None:
    """The address goes to standard output either way, so that a script can take it."""
    url = hub_url(hub, state_dir)
    asks = asks_to_sign_in(url)
    address = f"{url}/{page_of(url, wanted)}"
    put(address)
    if only_print:
        return
    if not has_browser(os.environ, sys.platform) or not opened(address):
        say("adsum: No browser can be opened from here: open the address above in one.")
    if asks:
        say("If it asks you to sign in: adsum login")


def asks_to_sign_in(url: str) -> bool:
    """Raises CommandError if nobody answers there."""
    try:
        return bool(fetch(url, "/api/v1/me").get("sign_in", True))
    except CommandError as error:
        # A browser needs no token of ours: it has a cookie, or is sent to sign in.
        if error.code is Exit.AUTH:
            return True
        raise


def page_of(url: str, wanted: str | None) -> str:
    """The path of a session's page without its first slash; empty for the whole."""
    if wanted is None:
        return ""
    return f"sessions/{quote(session_named(url, wanted).id, safe=':')}"


def has_browser(environ: Mapping[str, str], platform: str) -> bool:
    """One with windows: a text browser would take the terminal over."""
    if environ.get("BROWSER"):
        return True
    if platform == "darwin":
        return not environ.get("SSH_CONNECTION")
    return any(environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME"))


def opened(address: str) -> bool:
    try:
        return webbrowser.open(address)
    except webbrowser.Error:
        return False
