"""What the commands that show what the hub knows do: agents, show, top, usage, history, hosts.

What draws is imported when there is something to draw: an answer as JSON needs none of it.
"""

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import typer

from adsum.client import (
    ACTIVITY_SHOWN,
    HISTORY,
    Filter,
    activity_path,
    exit_code,
    fetch,
    fetch_csv,
    fetch_pages,
    fetch_sessions,
    given,
    hub_url,
    needs_you,
    order,
    path_of,
    put_aside,
    require_id,
    send,
    session_named,
    typed,
    unknown_names,
)
from adsum.outcome import CommandError, Exit, put, put_json, require, say, say_trouble
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
HOSTS = "/api/v1/hosts"
LEAST_OF_ID = 4
LENGTH_OF_ID = len("00000000-0000-0000-0000-000000000000")


class Freshness(msgspec.Struct, frozen=True):
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

    def exit_code(self, until: str | None = None) -> Exit:
        return Exit.PARTIAL if self.stale(until) or self.trouble is not None else Exit.OK

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
        return self.exit_code(until)


def fetch_freshness(url: str, host: str | None = None) -> Freshness:
    """Of all hosts, or of the one with this label or id."""
    fresh = typed(url, fetch(url, HOSTS), Freshness)
    about = [one for one in fresh.hosts if host is None or host in (one.label, one.id)]
    return msgspec.structs.replace(fresh, hosts=about)


def _day(at: int) -> str:
    return time.strftime("%Y-%m-%d", time.localtime(at / 1000))


def list_agents(url: str, chosen: Filter, *, as_json: bool, jsonl: bool, exit_status: bool) -> Exit:
    answer = fetch_sessions(url, chosen.query)
    views, trouble = typed(url, answer["sessions"], list[SessionView]), trouble_in(answer)
    if as_json:
        put_json(answer)
    elif jsonl:
        for session in answer["sessions"]:
            put_json(session, None)
    elif views:
        _print_agents(url, order(views), as_of(answer["now"], trouble), part=bool(chosen.query))
    elif trouble is None:
        hosts = () if chosen.query else fetch_freshness(url).hosts
        say(unknown_names(url, chosen) or advice(filtered=bool(chosen.query), hosts=hosts))
    if trouble is not None:
        say_trouble(trouble, answer["now"])
    return exit_code(views, exit_status=exit_status, stale=trouble is not None)


def _print_agents(url: str, views: list[SessionView], now: int, *, part: bool) -> None:
    from adsum.text import tables

    screen, first = tables.open_console(), views[0]
    table = tables.session_table(views, now, screen)
    hosts = fetch_freshness(url).hosts
    tables.show(screen, table, tables.counts_line(views, hosts, now, part=part))
    if screen.is_terminal and len(views) + HEAD_AND_FOOT > screen.height and needs_you(first):
        tables.show(screen, tables.first_line(first, now))


def show_session(
    session: str, hub: str | None, state_dir: Path | None, activity: int | None, *, as_json: bool
) -> None:
    url = hub_url(hub, state_dir)
    chosen = session_named(url, session)
    found, done = fetch(url, path_of(chosen)), fetch(url, activity_path(chosen))
    if activity is None:
        activity = ACTIVITY_MOST if as_json else ACTIVITY_SHOWN
    last = done["entries"][max(0, len(done["entries"]) - activity) :]
    if as_json:
        put_json({"schema": SHOW_SCHEMA, **found, "activity": last})
        return
    from adsum.text import details, tables

    view, entries = typed(url, found, SessionView), typed(url, last, list[ActivityEntry])
    fresh, screen = fetch_freshness(url), tables.open_console()
    host = next((host for host in fresh.hosts if host.id == view.host_id), None)
    at, plain = as_of(done["now"], fresh.trouble), tables.is_plain(screen)
    gaps = host.gaps if host else ()
    tables.show(screen, details.session_details(view, entries, at, gaps, plain=plain))
    for agent in host.agents if host else ():
        if agent.limits and agent.name == view.agent:
            say(f"adsum: {clean(agent.limits)}")
    if fresh.trouble is not None:
        say_trouble(fresh.trouble, done["now"])


def top(
    hub: str | None = None,
    state_dir: Path | None = None,
    host: str | None = None,
    project: str | None = None,
    agent: str | None = None,
) -> None:
    if find_spec("textual") is None:
        pip = Path(sys.executable).parent / "pip"
        # uv makes environments without pip.
        uv = f"uv pip install --python {sys.executable}"
        raise CommandError(
            "adsum top needs Textual, which is not installed. Where Adsum is installed: "
            f"`{f'{pip} install' if pip.exists() else uv} textual`; by pipx: "
            "`pipx inject adsum textual`. Without it: adsum agents --watch"
        )
    from adsum.top import run_top

    run_top(hub_url(hub, state_dir), Filter(host=host, project=project, agent=agent))


USAGE_BY = ("day", "host", "project", "model", "agent", "session")
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
    agent: str | None = None

    def __post_init__(self) -> None:
        since, until = _date("--since", self.since), _date("--until", self.until)
        require(self.by in USAGE_BY, f"--by is one of {', '.join(USAGE_BY)}.")
        require(not (since and self.days), "--since and --days exclude each other.")
        require(self.limit is None or self.by == "session", "--limit goes with --by session.")
        late = since and until and since > until
        require(not late, f"--since {since} is after --until {until}: exchange them.")

    @property
    def filtered(self) -> bool:
        """By "" as well: it names no host, and the project of sessions without one."""
        named = (self.host, self.project, self.model, self.agent)
        return any(each is not None for each in named)

    @property
    def query(self) -> dict[str, str]:
        """As the hub's REST interface takes it. Which day it is now the hub knows."""
        since, days = self.since, self.days or USAGE_DAYS
        until = _date("--until", self.until)
        if until and not since:
            # The first of all days where there are not so many.
            since = (until - timedelta(days=min(days - 1, (until - date.min).days))).isoformat()
        return given(
            by=self.by,
            host=self.host,
            project=self.project,
            model=self.model,
            agent=self.agent,
            since=since,
            until=self.until,
            days=None if since else str(days),
        )


def _date(option: str, text: str | None) -> date | None:
    if text is None:
        return None
    try:
        found = date.fromisoformat(text)
    except ValueError:
        found = None
    # fromisoformat takes 20261122 and 2026-W47-7 too; the hub is asked in one form.
    one_form = found is not None and found.isoformat() == text
    require(one_form, f"{option} {text!r} is no day. It looks like 2026-11-22.")
    return found


def show_usage(
    asked: UsageQuery, hub: str | None, state_dir: Path | None, *, as_json: bool, as_csv: bool
) -> Exit:
    url, path = hub_url(hub, state_dir), "/api/v1/usage"
    if as_csv:
        put(fetch_csv(url, path, {**asked.query, "format": "csv"}).decode(errors="replace"), "")
        return fetch_freshness(url, asked.host).warn(asked.until)
    answer = fetch(url, path, asked.query)
    report, fresh = typed(url, answer, UsageReport), fetch_freshness(url, asked.host)
    if as_json:
        put_json(answer)
        return fresh.warn(report.until)
    if report.rows:
        from adsum.text import tables

        screen = tables.open_console()
        most = (asked.limit or USAGE_LIMIT) if asked.by == "session" else len(report.rows)
        footer = tables.usage_footer(report, screen, most)
        tables.show(screen, tables.usage_table(report, screen, most), footer)
    elif said := no_usage(report, asked, fresh):
        say(said)
    for note in report.notes:
        say(f"adsum: {clean(note)}")
    return fresh.warn(report.until, report.notes)


def no_usage(report: UsageReport, asked: UsageQuery, fresh: Freshness) -> str:
    """What to do when there is nothing to show: look further back, if a hub knows of then.

    "": the report's notes say it.
    """
    if any(host.scan is not None for host in fresh.hosts):
        return "Still counting: nothing is added up yet. How far it is: adsum hosts"
    if asked.filtered and any(note.startswith("There is no ") for note in report.notes):
        return ""
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


def history(  # noqa: PLR0913 - the options of the command
    text: list[str] | None = None,
    hub: str | None = None,
    state_dir: Path | None = None,
    host: str | None = None,
    project: str | None = None,
    limit: int = 20,
    agent: str | None = None,
    *,
    as_json: bool = False,
) -> None:
    url = hub_url(hub, state_dir)
    query = given(q=" ".join(text or ()).strip() or None, host=host, project=project, agent=agent)
    answer = fetch_pages(url, HISTORY, query, limit)
    over, fresh = typed(url, answer, History), fetch_freshness(url, host)
    if as_json:
        put_json(answer)
    elif over.sessions:
        from adsum.text import tables

        screen = tables.open_console()
        tables.show(screen, tables.history_table(over, screen), tables.history_footer(over))
    else:
        say(no_history(fresh, over.notes, filtered=bool(query)))
    raise typer.Exit(fresh.warn())


def no_history(fresh: Freshness, notes: Sequence[str] = (), *, filtered: bool) -> str:
    """What to do when there is nothing to show. notes: the hub's, of names that nothing bears."""
    if notes:
        return clean(" ".join(notes))
    if filtered:
        return "No session that is over matches. All of them: adsum history"
    if not fresh.hosts and fresh.trouble is None:
        return advice(filtered=False, hosts=[])
    return "No session is over yet. Those that live: adsum agents"


def list_hosts(hub: str | None, state_dir: Path | None, *, as_json: bool) -> Exit:
    url = hub_url(hub, state_dir)
    answer = fetch(url, HOSTS)
    fresh = typed(url, answer, Freshness)
    if as_json:
        put_json(answer)
    elif fresh.hosts:
        from adsum.text import tables

        screen, at = tables.open_console(), as_of(fresh.now, fresh.trouble)
        tables.show(screen, tables.host_table(fresh.hosts, at, screen))
    elif fresh.trouble is None:
        say(advice(filtered=False, hosts=[]))
    if fresh.trouble is not None:
        say_trouble(fresh.trouble, fresh.now)
    return fresh.exit_code()


#: Of each change of a host, what it comes to.
_CHANGED = {
    "rename": "{} is called {} from now on.",
    "forget": "{} is forgotten, with its sessions. It comes back only by joining.",
    "revoke": "{} is shut out: its credential is worthless. What it sent stays listed.\n"
    "To let it join again: adsum hosts reset. To have it gone: adsum hosts forget.",
    "reset": "{} may join anew; its credential is worthless. On the machine itself: "
    "adsum join … --again.\nOn a copy of it: adsum join … --new-identity.",
}


def change_host(
    hub: str | None, state_dir: Path | None, verb: str, named: str, label: str | None
) -> None:
    """label: its new name, of a change of that. Raises CommandError."""
    url = hub_url(hub, state_dir)
    host_id, name = _host_named(fetch_freshness(url).hosts, named)
    body = {} if label is None else {"label": label}
    send(url, "POST", f"{HOSTS}/{quote(host_id, safe='')}/{verb}", body)
    say(_CHANGED[verb].format(name, clean(label or "what it calls itself")))


_PUT_ASIDE = {
    "dismiss": "{} needs nobody until something happens there.",
    "archive": "{} is in the history until something happens there.",
    "restore": "{} is on the list as before.",
}


def put_aside_all(
    named: Sequence[str], hub: str | None, state_dir: Path | None, verb: str, *, as_json: bool
) -> Exit:
    """Each for itself: one that cannot be put aside keeps none of the others. Raises CommandError."""
    for each in named:
        require_id(each)
    url, code = hub_url(hub, state_dir), Exit.OK
    done: list[dict[str, Any]] = []
    failed: list[dict[str, str]] = []
    for each in named:
        try:
            view = session_named(url, each)
            done.append(put_aside(url, view, verb))
        except CommandError as error:
            if error.code in (Exit.UNREACHABLE, Exit.AUTH):
                raise  # the others would hear the same
            failed.append({"id": each, "error": str(error)})
            code = Exit.ERROR
        else:
            if not as_json:
                say(_PUT_ASIDE[verb].format(clean(view.title) or view.session_id))
    if as_json:
        put_json({"schema": SHOW_SCHEMA, "sessions": done, "failed": failed})
    for one in failed:
        say(f"adsum: {one['error']}")
    return code


def _host_named(hosts: list[HostView], named: str) -> tuple[str, str]:
    """(id, name): by the whole label, or the start of the id. Raises CommandError."""
    found = [host for host in hosts if named in (host.label, host.id)]
    if not found and len(named) >= LEAST_OF_ID:
        found = [host for host in hosts if host.id.startswith(named)]
    ids = ", ".join(host.id for host in found)
    require(len(found) < 2, f"{len(found)} hosts are called {named!r}. Give an id: {ids}")
    if found:
        return found[0].id, clean(found[0].label)
    # A whole id may be of a machine that joined and of which nothing was heard yet.
    known = len(named) == LENGTH_OF_ID
    require(known, f"There is no host {named!r}. List them: adsum hosts")
    return named, named
