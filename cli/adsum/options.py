"""The options that several commands have, and what a shell offers for them."""

import contextlib
import json
import os
import threading
import time
from pathlib import Path
from typing import Annotated, Any

import typer

#: Whoever pressed Tab waits for no longer than this.
PATIENCE_S = 0.15
SESSIONS_MOST = 200
#: Within this nothing is asked anew: Tab is often pressed twice.
FRESH_S = 5.0


def sessions(context: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    return [
        (one, title) for one, title in _known(context, "sessions") if one.startswith(incomplete)
    ]


def hosts(context: typer.Context, incomplete: str) -> list[str]:
    return [label for label, _ in _known(context, "hosts") if label.startswith(incomplete)]


def _known(context: typer.Context, kind: str) -> list[tuple[str, str]]:
    from platformdirs import user_cache_path

    above = context.parent.params if context.parent else {}  # adsum hosts --hub URL forget
    given = {name: context.params.get(name) or above.get(name) for name in ("hub", "state_dir")}
    hub = given["hub"] or os.environ.get("ADSUM_HUB_URL")
    state_dir = given["state_dir"] or os.environ.get("ADSUM_STATE_DIR")
    home = Path(state_dir) if state_dir else None
    return known(kind, hub, home, user_cache_path("adsum") / f"{kind}.json", time.time())


def known(
    kind: str, hub: str | None, state_dir: Path | None, cache: Path, now: float
) -> list[tuple[str, str]]:
    """(word, title) of each session or host: the hub's, or the last known while it is slow.

    Never fails and never speaks: the shell would show it in the middle of a line.
    """
    from adsum.client import hub_url
    from adsum.outcome import CommandError

    try:
        url = hub_url(hub, state_dir)
    except CommandError:
        return []
    kept = _kept(cache, url)
    if not 0 <= now - kept.get("at", 0) < FRESH_S:
        # A time-out of the connection holds for each of its reads, and a slow hub makes many.
        answers: list[list[tuple[str, str]]] = []
        asking = threading.Thread(target=lambda: answers.extend(_asked(kind, url)), daemon=True)
        asking.start()
        asking.join(PATIENCE_S)
        if answers:
            kept = {"hub": str(url), "at": now, "words": answers[0]}
            _keep(cache, kept)
    return [(word, title) for word, title in kept.get("words", [])]


def _asked(kind: str, url: str) -> list[list[tuple[str, str]]]:
    """One answer, or none."""
    from adsum.client import fetch
    from adsum.outcome import CommandError

    query = {"limit": str(SESSIONS_MOST), "offset": "0"} if kind == "sessions" else None
    try:
        views = fetch(url, f"/api/v1/{kind}", query, timeout_s=PATIENCE_S)[kind]
        return [[_offer(kind, view) for view in views]]
    except (CommandError, KeyError, TypeError):
        return []


def _offer(kind: str, view: Any) -> tuple[str, str]:
    from adsum_shared.redact import clean

    if kind == "hosts":
        return clean(view["label"]), ""
    title = f"{clean(view['state']['label'])}: {clean(view.get('title'))}"
    return clean(view["session_id"]), title


def _kept(cache: Path, url: str) -> dict[str, Any]:
    """Another hub's sessions are not offered."""
    try:
        kept = json.loads(cache.read_bytes())
    except (OSError, ValueError):
        return {}
    return kept if isinstance(kept, dict) and kept.get("hub") == url else {}


def _keep(cache: Path, words: dict[str, Any]) -> None:
    """Titles are nobody else's business on this machine."""
    from adsum_shared.private_files import write_private

    with contextlib.suppress(OSError):
        cache.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_private(cache, json.dumps(words).encode(), durable=False)


def agent_name(given: str) -> str:
    """As signals have it: "Claude Code" is claude_code."""
    return "_".join(given.casefold().replace("-", " ").split())


StateDir = Annotated[
    Path | None, typer.Option(help="State directory of this machine.", envvar="ADSUM_STATE_DIR")
]
RedisUrl = Annotated[
    str | None,
    typer.Option(
        help="URL of a broker: redis://, rediss://, unix://, or of Sentinels or a cluster.",
        envvar="ADSUM_REDIS_URL",
    ),
]
HubUrl = Annotated[
    str | None,
    typer.Option(
        "--hub",
        help="URL of the hub; if left out, that of this machine, or the one it joined.",
        envvar="ADSUM_HUB_URL",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="The hub's answer, as JSON.")]
OnlyHost = Annotated[
    str | None, typer.Option("--host", help="Only this machine: label or id.", autocompletion=hosts)
]
OnlyProject = Annotated[str | None, typer.Option("--project", help="Only this project.")]
OnlyAgent = Annotated[
    str | None,
    typer.Option("--agent", help="Only this kind of agent, such as codex.", parser=agent_name),
]
SessionId = Annotated[
    str, typer.Argument(help="Session id, or the start of it.", autocompletion=sessions)
]
SessionIds = Annotated[
    list[str],
    typer.Argument(
        metavar="SESSION", help="Session ids, or the start of each.", autocompletion=sessions
    ),
]
HostName = Annotated[
    str, typer.Argument(help="Label, or the start of its id.", autocompletion=hosts)
]
AgentProgram = Annotated[
    Path | None,
    typer.Option("--claude", "--program", help="The agent's program, if it is not on PATH."),
]
