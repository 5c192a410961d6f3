"""The commands that ask once and print: agents, show, history, hosts, usage.

What draws is imported when there is something to draw: an answer as JSON needs none of it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from adsum.client import fetch, fetch_csv, hub_url, no_hub, send
from adsum.outcome import CommandError, Exit
from adsum.sessions import (
    ACTIVITY_SHOWN,
    Filter,
    HistoryQuery,
    exit_code,
    fetch_history,
    fetch_sessions,
    needs_you,
    order,
    session_named,
    typed,
)
from adsum.text.saying import put, put_json, say, say_trouble
from adsum.text.words import advice, age, as_of, trouble_in
from adsum_shared import MOST_DAYS
from adsum_shared.redact import clean
from adsum_shared.state import (
    ActivityEntry,
    History,
    HostView,
    HubTrouble,
    SessionView,
    UsageReport,
)

#: Lines around the rows of a list: the heads, the counts, and the next prompt.
HEAD_AND_FOOT = 3
SHOW_SCHEMA = 1
ACTIVITY_MOST = 100
LEAST_OF_ID = 4
LENGTH_OF_ID = len("00000000-0000-0000-0000-000000000000")


def list_agents(
    hub: str | None,
    state_dir: Path | None,
    chosen: Filter,
    *,
    as_json: bool = False,
    jsonl: bool = False,
    exit_status: bool = False,
) -> Exit:
    url = hub_url(hub, state_dir)
    answer = fetch_sessions(url, chosen.query)
    views, trouble = typed(url, answer["sessions"], list[SessionView]), trouble_in(answer)
    if as_json:
        put_json(answer)
    elif jsonl:
        for session in answer["sessions"]:
            put_json(session, None)
    else:
        hosts = fetch_freshness(url).hosts
        if views:
            _print_agents(order(views), hosts, as_of(answer["now"], trouble))
        elif trouble is None:
            say(advice(filtered=bool(chosen.query), hosts=hosts))
    if trouble is not None:
        say_trouble(trouble, answer["now"])
    return exit_code(views, exit_status=exit_status, stale=trouble is not None)


def _print_agents(views: list[SessionView], hosts: Sequence[HostView], now: int) -> None:
    from adsum.text.console import open_console, show
    from adsum.text.tables import counts_line, first_line, session_table

    console, first = open_console(), views[0]
    show(console, session_table(views, now, console), counts_line(views, hosts, now))
    if console.is_terminal and len(views) + HEAD_AND_FOOT > console.height and needs_you(first):
        show(console, first_line(first, now))


def show_session(
    hub: str | None,
    state_dir: Path | None,
    wanted: str,
    *,
    as_json: bool,
    activity: int | None = None,
) -> None:
    """activity: how many of its last entries; None for as many as fit the form."""
    url = hub_url(hub, state_dir)
    path = f"/api/v1/sessions/{quote(session_named(url, wanted).id)}"
    session, done = fetch(url, path), fetch(url, f"{path}/activity")
    if activity is None:
        activity = ACTIVITY_MOST if as_json else ACTIVITY_SHOWN
    last = done["entries"][max(0, len(done["entries"]) - activity) :]
    if as_json:
        put_json({"schema": SHOW_SCHEMA, **session, "activity": last})
        return
    fresh, entries = fetch_freshness(url), typed(url, last, list[ActivityEntry])
    _print_session(
        typed(url, session, SessionView), entries, as_of(done["now"], fresh.trouble), fresh.hosts
    )
    if fresh.trouble is not None:
        say_trouble(fresh.trouble, done["now"])


def _print_session(
    view: SessionView, entries: Sequence[ActivityEntry], now: int, hosts: Sequence[HostView]
) -> None:
    from adsum.text.console import is_plain, open_console, show
    from adsum.text.details import activity_table, facts_table, family_tree

    console = open_console()
    gaps = next((host.gaps for host in hosts if host.id == view.host_id), ())
    show(console, facts_table(view, now, gaps, plain=is_plain(console)))
    if view.children:
        console.print()
        show(console, family_tree(view, now))
    if entries:
        console.print("\n[dim]activity[/dim]")
        show(console, activity_table(view, entries, now))


@dataclass(frozen=True, slots=True)
class Freshness:
    """How current the hub is of the hosts that a report is about. now: the hub's clock, ms."""

    hosts: list[HostView]
    now: int
    trouble: HubTrouble | None = None

    def stale(self, until: str | None = None) -> list[HostView]:
        """Not live, and silent since before the end of `until`, an ISO date; None = now."""
        return [
            host
            for host in self.hosts
            if host.reachability != "live" and (until is None or _day(host.last_seen) <= until)
        ]

    def warn(self, until: str | None = None, notes: Sequence[str] = ()) -> Exit:
        """Say on stderr what keeps the report from being whole. notes: what has been said."""
        for host in self.stale(until):
            seen = f"last seen {age(self.now - host.last_seen)} ago"
            name = clean(host.label)
            say(f"adsum: {name} is {host.reachability}, {seen}: what came later is missing.")
        for host in self.hosts:
            said = any(host.label in note and "reads its history" in note for note in notes)
            if host.scan is not None and not said:
                share = host.scan.percent
                say(f"adsum: {clean(host.label)} still reads its history: {share} % so far.")
        if self.trouble is not None:
            # Prices that cannot be used are a note of a report, and part of the trouble as well.
            rest = self.trouble.problem
            for note in notes:
                rest = rest.replace(note, "")
            if rest.strip():
                say_trouble(msgspec.structs.replace(self.trouble, problem=rest.strip()), self.now)
        return Exit.PARTIAL if self.stale(until) or self.trouble is not None else Exit.OK


def fetch_freshness(url: str, host: str | None = None) -> Freshness:
    """Of all hosts, or of the one with this label or id."""
    return _freshness(url, fetch(url, "/api/v1/hosts"), host)


def _freshness(url: str, answer: Any, host: str | None = None) -> Freshness:
    if not isinstance(answer, dict) or "hosts" not in answer:
        raise no_hub(url)
    hosts = typed(url, answer["hosts"], list[HostView])
    about = [one for one in hosts if host is None or host in (one.label, one.id)]
    return Freshness(about, answer["now"], trouble_in(answer))


def _day(at: int) -> str:
    return time.strftime("%Y-%m-%d", time.localtime(at / 1000))


def list_hosts(hub: str | None, state_dir: Path | None, *, as_json: bool) -> Exit:
    url = hub_url(hub, state_dir)
    answer = fetch(url, "/api/v1/hosts")
    fresh = _freshness(url, answer)
    if as_json:
        put_json(answer)
    elif fresh.hosts:
        from adsum.text.console import open_console, show
        from adsum.text.tables import host_table

        console = open_console()
        show(console, host_table(fresh.hosts, as_of(fresh.now, fresh.trouble), console))
    elif fresh.trouble is None:
        say(advice(filtered=False, hosts=[]))
    if fresh.trouble is not None:
        say_trouble(fresh.trouble, fresh.now)
    return Exit.PARTIAL if fresh.stale() or fresh.trouble is not None else Exit.OK


def change_host(
    hub: str | None, state_dir: Path | None, verb: str, named: str, label: str | None = None
) -> None:
    """verb: rename, forget, revoke or reset. Raises CommandError."""
    url = hub_url(hub, state_dir)
    host_id, name = _host_named(fetch_freshness(url).hosts, named)
    body = {} if label is None else {"label": label}
    send(url, "POST", f"/api/v1/hosts/{quote(host_id, safe='')}/{verb}", body)
    say(_DONE[verb].format(name=name, label=clean(label or "what it calls itself")))


def _host_named(hosts: list[HostView], named: str) -> tuple[str, str]:
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
    if len(named) == LENGTH_OF_ID:
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


def list_history(
    hub: str | None, state_dir: Path | None, search: HistoryQuery, *, as_json: bool
) -> Exit:
    url = hub_url(hub, state_dir)
    answer = fetch_history(url, search)
    history, fresh = typed(url, answer, History), fetch_freshness(url, search.host)
    if as_json:
        put_json(answer)
    elif history.sessions:
        from adsum.text.console import open_console, show
        from adsum.text.tables import history_footer, history_table

        console = open_console()
        show(console, history_table(history, console), history_footer(history))
    else:
        say(no_history(search, fresh, history.notes))
    return fresh.warn()


def no_history(search: HistoryQuery, fresh: Freshness, notes: Sequence[str] = ()) -> str:
    """What to do when there is nothing to show. notes: the hub's, of names that nothing bears."""
    if notes:
        return clean(" ".join(notes))
    if search.query:
        return "No session that is over matches. All of them: adsum history"
    if not fresh.hosts and fresh.trouble is None:
        return advice(filtered=False, hosts=[])
    return "No session is over yet. Those that live: adsum agents"


USAGE = "/api/v1/usage"
USAGE_BY = ("day", "host", "project", "model", "session")
USAGE_DAYS = 7
USAGE_LIMIT = 20
#: How far back to look when there is nothing; a hub keeps no more than the last.
FURTHER = (90, MOST_DAYS)


@dataclass(frozen=True, slots=True)
class UsageQuery:
    """Which days, of whom, and what a row stands for. Dates are ISO. Raises CommandError."""

    since: str | None = None
    until: str | None = None
    days: int | None = None
    by: str = "day"
    host: str | None = None
    project: str | None = None
    model: str | None = None
    limit: int | None = None

    def __post_init__(self) -> None:
        if self.by not in USAGE_BY:
            raise CommandError(f"--by is one of {', '.join(USAGE_BY)}.", Exit.USAGE)
        if self.since is not None and self.days is not None:
            raise CommandError("--since and --days exclude each other.", Exit.USAGE)
        if self.limit is not None and self.by != "session":
            raise CommandError("--limit goes with --by session.", Exit.USAGE)
        since, until = _date("--since", self.since), _date("--until", self.until)
        if since and until and since > until:
            raise CommandError(
                f"--since {since} is after --until {until}: exchange them.", Exit.USAGE
            )

    @property
    def filtered(self) -> bool:
        return any((self.host, self.project, self.model))

    @property
    def query(self) -> dict[str, str]:
        """As the hub's REST interface takes it. Which day it is now the hub knows."""
        given = {"by": self.by, "host": self.host, "project": self.project, "model": self.model}
        since, days = self.since, self.days or USAGE_DAYS
        until = _date("--until", self.until)
        if until and not since:
            # The first of all days where there are not so many.
            since = (until - timedelta(days=min(days - 1, (until - date.min).days))).isoformat()
        if since or until:
            given |= {"since": since, "until": self.until}
        else:
            given["days"] = str(days)
        return {name: value for name, value in given.items() if value is not None}


def _date(option: str, text: str | None) -> date | None:
    if text is None:
        return None
    try:
        found = date.fromisoformat(text)
    except ValueError:
        found = None
    # fromisoformat takes 20261122 and 2026-W47-7 too; the hub is asked in one form.
    if found is None or found.isoformat() != text:
        raise CommandError(f"{option} {text!r} is no day. It looks like 2026-11-22.", Exit.USAGE)
    return found


def show_usage(
    hub: str | None,
    state_dir: Path | None,
    asked: UsageQuery,
    *,
    as_json: bool = False,
    as_csv: bool = False,
) -> Exit:
    if as_json and as_csv:
        raise CommandError("--json and --csv exclude each other.", Exit.USAGE)
    url = hub_url(hub, state_dir)
    if as_csv:
        put(fetch_csv(url, USAGE, {**asked.query, "format": "csv"}).decode(errors="replace"), "")
        return fetch_freshness(url, asked.host).warn(asked.until)
    answer = fetch(url, USAGE, asked.query)
    report, fresh = typed(url, answer, UsageReport), fetch_freshness(url, asked.host)
    if as_json:
        put_json(answer)
        return fresh.warn(report.until)
    if report.rows:
        from adsum.text.console import open_console, show
        from adsum.text.tables import usage_footer, usage_table

        console = open_console()
        most = (asked.limit or USAGE_LIMIT) if asked.by == "session" else len(report.rows)
        show(console, usage_table(report, console, most), usage_footer(report, console, most))
    else:
        say(no_usage(report, asked, fresh))
    for note in report.notes:
        say(f"adsum: {clean(note)}")
    return fresh.warn(report.until, report.notes)


def no_usage(report: UsageReport, asked: UsageQuery, fresh: Freshness) -> str:
    """What to do when there is nothing to show: look further back, if a hub knows of then."""
    if any(host.scan is not None for host in fresh.hosts):
        return "Still counting: nothing is added up yet. How far it is: adsum hosts"
    if asked.filtered:
        return f"Nothing matches from {report.since} to {report.until}. All of it: adsum usage"
    if not fresh.hosts and fresh.trouble is None:
        return advice(filtered=False, hosts=[])
    since, until = date.fromisoformat(report.since), date.fromisoformat(report.until)
    days = f"on {since}" if since == until else f"from {since} to {until}"
    oldest = datetime.fromtimestamp(report.now / 1000, UTC).date() - timedelta(days=FURTHER[-1] - 1)
    further = next((days for days in FURTHER if days > (until - since).days + 1), None)
    if further is None or since <= oldest:
        step = "What each machine tells: adsum hosts"
    else:
        last = f" --until {asked.until}" if asked.until else ""
        step = f"Further back: `adsum usage --days {further}{last}`"
    return f"Nothing was used {days}. {step}"
