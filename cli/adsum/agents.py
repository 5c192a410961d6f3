"""`adsum agents`: the roster once, or kept current."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from adsum.client import fetch, hub_url, no_hub
from adsum.outcome import CommandError, Exit
from adsum.select import Filter, exit_code, needs_you, order
from adsum.text.console import advice, open_console, own_up, show
from adsum.text.saying import put_json, say
from adsum.text.words import as_of, trouble_in
from adsum_shared.state import HostView, SessionView

PAGE = 1000
#: Lines around the rows of a list: the heads, the counts, and the next prompt.
HEAD_AND_FOOT = 3


@dataclass(frozen=True, slots=True)
class Form:
    """How the answer is given."""

    watch: bool = False
    json: bool = False
    jsonl: bool = False
    exit_status: bool = False

    def __post_init__(self) -> None:
        if self.json and self.jsonl:
            raise CommandError("--json and --jsonl exclude each other.", Exit.USAGE)
        if self.watch and self.json:
            raise CommandError("To watch as JSON, use --jsonl.", Exit.USAGE)
        if self.watch and self.exit_status:
            raise CommandError("--exit-status answers once; leave out --watch.", Exit.USAGE)


def list_agents(hub: str | None, state_dir: Path | None, chosen: Filter, form: Form) -> int:
    url = hub_url(hub, state_dir)
    if form.watch:
        from adsum.watch import watch_agents

        watch_agents(url, chosen, jsonl=form.jsonl)
        return Exit.OK
    answer = fetch_sessions(url, chosen.query)
    views = msgspec.convert(answer["sessions"], list[SessionView])
    trouble = trouble_in(answer)
    if form.json:
        put_json(answer)
    elif form.jsonl:
        for session in answer["sessions"]:
            put_json(session, None)
    else:
        now = as_of(answer["now"], trouble)
        _print(url, order(views), now, filtered=bool(chosen.query), alone=trouble is None)
    if trouble is not None:
        own_up(trouble, answer["now"])
    return exit_code(views, exit_status=form.exit_status, stale=trouble is not None)


def fetch_sessions(url: str, query: dict[str, str]) -> dict[str, Any]:
    """The hub's answer, all pages in one. Raises CommandError when it is no such answer."""
    answer: dict[str, Any] = {}
    while not answer or len(answer["sessions"]) < answer["total"]:
        offset = str(len(answer["sessions"])) if answer else "0"
        page = fetch(url, "/api/v1/sessions", {**query, "limit": str(PAGE), "offset": offset})
        if not isinstance(page, dict) or "sessions" not in page:
            raise no_hub(url)
        if answer:
            page["sessions"] = answer["sessions"] + page["sessions"]
        if answer and len(page["sessions"]) == len(answer["sessions"]):
            return page  # sessions went while we turned the page
        answer = page
    return answer


def _print(url: str, views: list[SessionView], now: int, *, filtered: bool, alone: bool) -> None:
    """alone: nothing else will be said, so of nothing to show the reason is."""
    from adsum.text.render import counts_line, first_line, session_table

    hosts = msgspec.convert(fetch(url, "/api/v1/hosts")["hosts"], list[HostView])
    console = open_console()
    if not views and not alone:
        return
    if not views:
        say(advice(filtered=filtered, hosts=hosts))
        return
    show(console, session_table(views, now, console), counts_line(views, hosts, now))
    first = views[0]
    if console.is_terminal and len(views) + HEAD_AND_FOOT > console.height and needs_you(first):
        show(console, first_line(first, now))
