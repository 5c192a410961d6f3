"""`adsum history`: sessions that are over, the latest first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from adsum.client import fetch, hub_url, no_hub
from adsum.freshness import Freshness, fetch_freshness
from adsum.text.console import advice, open_console, show
from adsum.text.plain import clean
from adsum.text.saying import put_json, say
from adsum_shared.state import History

PATH = "/api/v1/history"
LIMIT = 20
PAGE = 1000


@dataclass(frozen=True, slots=True)
class Search:
    text: str = ""
    host: str | None = None
    project: str | None = None
    limit: int = LIMIT

    @property
    def query(self) -> dict[str, str]:
        """As the hub's REST interface takes it, without how many."""
        given = {"q": self.text.strip() or None, "host": self.host, "project": self.project}
        return {name: value for name, value in given.items() if value is not None}


def list_history(hub: str | None, state_dir: Path | None, search: Search, *, as_json: bool) -> int:
    url = hub_url(hub, state_dir)
    answer = fetch_history(url, search)
    history = msgspec.convert(answer, History)
    fresh = fetch_freshness(url, search.host)
    if as_json:
        put_json(answer)
    elif history.sessions:
        from adsum.text.history_table import footer, history_table

        console = open_console()
        show(console, history_table(history, console), footer(history))
    else:
        say(nothing(search, fresh, history.notes))
    return fresh.own_up()


def fetch_history(url: str, search: Search) -> dict[str, Any]:
    """The hub's answer, as many of its pages in one as are asked for. Raises CommandError."""
    whole: dict[str, Any] = {}
    while True:
        had = whole.get("sessions", [])
        size = str(min(PAGE, search.limit - len(had)))
        page = fetch(url, PATH, {**search.query, "limit": size, "offset": str(len(had))})
        try:
            new = len(msgspec.convert(page, History).sessions)
        except msgspec.ValidationError as error:
            raise no_hub(url) from error
        whole = {**page, "sessions": had + page["sessions"]}
        if not new or len(whole["sessions"]) >= min(search.limit, whole["total"]):
            return whole


def nothing(search: Search, fresh: Freshness, notes: Sequence[str] = ()) -> str:
    """What to do when there is nothing to show. notes: the hub's, of names that nothing bears."""
    if notes:
        return clean(" ".join(notes))
    if search.query:
        return "No session that is over matches. All of them: adsum history"
    if not fresh.hosts and fresh.trouble is None:
        return advice(filtered=False, hosts=[])
    return "No session is over yet. Those that live: adsum agents"
