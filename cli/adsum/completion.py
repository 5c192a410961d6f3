"""What a shell offers for a session or a machine: the hub's, or the last known while it is slow."""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer

from adsum.text.plain import clean
from adsum_shared.private_files import write_private

#: Whoever pressed Tab waits for no longer than this.
PATIENCE_S = 0.15
SESSIONS_MOST = 200
#: Within this nothing is asked anew: Tab is often pressed twice.
FRESH_S = 5.0
#: What a hub at this URL knows; None: it does not say.
Ask = Callable[[str], dict[str, Any] | None]


def sessions(context: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    offered = _known(context).get("sessions", [])
    return [(one, title) for one, title in offered if one.startswith(incomplete)]


def hosts(context: typer.Context, incomplete: str) -> list[str]:
    offered = _known(context).get("hosts", [])
    return [label for label in offered if label.startswith(incomplete)]


def machines(context: typer.Context, incomplete: str) -> list[str]:
    """Also those that have no session, as one to be forgotten often has none."""
    offered = _known(context, "machines.json", machines_of).get("hosts", [])
    return [label for label in offered if label.startswith(incomplete)]


def _known(
    context: typer.Context, file: str = "completion.json", ask: Ask | None = None
) -> dict[str, Any]:
    above = context.parent.params if context.parent else {}  # adsum hosts --hub URL forget
    given = {name: context.params.get(name) or above.get(name) for name in ("hub", "state_dir")}
    hub = given["hub"] or os.environ.get("ADSUM_HUB_URL")
    state_dir = given["state_dir"] or os.environ.get("ADSUM_STATE_DIR")
    home = Path(state_dir) if state_dir else None
    return known(hub, home, cache_folder() / file, time.time(), ask)


def cache_folder() -> Path:
    from platformdirs import user_cache_path

    return user_cache_path("adsum")


def known(
    hub: str | None, state_dir: Path | None, cache: Path, now: float, ask: Ask | None = None
) -> dict[str, Any]:
    """Never fails and never speaks: the shell would show it in the middle of a line.

    ask: for what stands in `cache`, if that is not sessions.
    """
    from adsum.client import hub_url
    from adsum.outcome import CommandError

    try:
        url = hub_url(hub, state_dir)
    except CommandError:
        return {}
    kept = _kept(cache, url)
    if 0 <= now - kept.get("at", 0) < FRESH_S:
        return kept
    told = _within(PATIENCE_S, lambda: (ask or sessions_of)(url))
    if told is None:
        return kept
    told |= {"hub": str(url), "at": now}
    _keep(cache, told)
    return told


def sessions_of(url: str) -> dict[str, Any] | None:
    from adsum.client import fetch
    from adsum.outcome import CommandError

    query = {"limit": str(SESSIONS_MOST), "offset": "0"}
    try:
        views = fetch(url, "/api/v1/sessions", query, timeout_s=PATIENCE_S)["sessions"]
    except (CommandError, KeyError, TypeError):
        return None
    told = [
        (clean(one["session_id"]), f"{clean(one['state']['label'])}: {clean(one.get('title'))}")
        for one in views
    ]
    return {"sessions": told, "hosts": sorted({clean(one["host"]) for one in views})}


def machines_of(url: str) -> dict[str, Any] | None:
    from adsum.client import fetch
    from adsum.outcome import CommandError

    try:
        views = fetch(url, "/api/v1/hosts", timeout_s=PATIENCE_S)["hosts"]
    except (CommandError, KeyError, TypeError):
        return None
    return {"hosts": sorted({clean(one["label"]) for one in views})}


def _within(patience_s: float, ask: Callable[[], dict[str, Any] | None]) -> dict[str, Any] | None:
    """A time-out of the connection holds for each of its reads, and a slow hub makes many."""
    told: list[dict[str, Any] | None] = []
    asking = threading.Thread(target=lambda: told.append(ask()), daemon=True)
    asking.start()
    asking.join(patience_s)
    return told[0] if told else None


def _kept(cache: Path, url: str) -> dict[str, Any]:
    """Another hub's sessions are not offered."""
    try:
        kept = json.loads(cache.read_bytes())
    except (OSError, ValueError):
        return {}
    return kept if isinstance(kept, dict) and kept.get("hub") == url else {}


def _keep(cache: Path, told: dict[str, Any]) -> None:
    """Titles are nobody else's business on this machine."""
    with contextlib.suppress(OSError):
        cache.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_private(cache, json.dumps(told).encode(), durable=False)
