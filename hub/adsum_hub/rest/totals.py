"""Serves REST v1 of usage: what was used and what it cost, budgets, and sessions that are over."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from operator import itemgetter
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Response

from adsum_hub.clock import Clock
from adsum_hub.facts import Facts, Gauges
from adsum_hub.host import Host
from adsum_hub.past import HistorySearch, search
from adsum_hub.rest.api import SCHEMA, BadRequestError, add_endpoints, as_json, endpoint
from adsum_hub.roster import Roster, workers
from adsum_hub.usage.budgets import Uses
from adsum_hub.usage.reports import By, Spender, Split, Tally, as_csv
from adsum_hub.usage.reports import Query as Asked
from adsum_hub.views import limits_that_hold, view_id
from adsum_shared import MOST_DAYS
from adsum_shared.state import (
    COMPRESSED,
    COMPRESSED_MB,
    OVER,
    Budgets,
    BudgetView,
    History,
    SessionView,
    UsageReport,
    unknown_name,
)

MOST = 1000
DAYS = 7
REFUSED = "A parameter that cannot be used"
DAYS_OR_PARAMETER = {400: "Days that cannot be asked for", 422: REFUSED}
#: Sessions gone through before the loop gets its turn.
SLICE = 50


@dataclass(frozen=True, slots=True)
class UsageEndpoints:
    """notes: what keeps all dollars from being right."""

    roster: Roster
    clock: Clock
    notes: Sequence[str]

    @endpoint("GET /usage", "What was used and what it cost", DAYS_OR_PARAMETER, csv=True)
    async def usage(  # noqa: PLR0913, PLR0917 - the query parameters are the interface
        self,
        by: By = "day",
        days: Annotated[int | None, Query(ge=1, le=MOST_DAYS)] = None,
        since: str | None = None,
        until: str | None = None,
        host: str | None = None,
        project: str | None = None,
        model: str | None = None,
        agent: str | None = None,
        split: Split | None = None,
        compare: bool = False,  # noqa: FBT001, FBT002 - as in the address
        form: Annotated[Literal["json", "csv"], Query(alias="format")] = "json",
    ) -> UsageReport | Response:
        roster, now = self.roster, self.clock()
        first, last = days_asked(roster.accounts.spending.day_of(now), days, since, until)
        before = days_before(first, last) if compare else None
        asked = Asked(first, last, by, host, project, model, agent, split, before)
        tally = await _tallied(roster, asked)
        # What it has added up is nobody else's: a long answer is made beside the loop.
        strange = await misspelt(roster, host, project, model, agent) if tally.is_empty else []
        noted = [*strange, *_unfinished(roster, now), *self.notes]
        report = await asyncio.to_thread(tally.report, SCHEMA, now, noted)
        if form == "csv":
            headers = {"content-disposition": f'attachment; filename="usage-{first}-{last}.csv"'}
            text = await asyncio.to_thread(as_csv, report)
            return Response(text, 200, headers, "text/csv; charset=utf-8; header=present")
        return await asyncio.to_thread(as_json, report)

    @endpoint("GET /history", "Sessions that are over, the latest first", {422: REFUSED})
    async def history(
        self,
        q: Annotated[str | None, Query(max_length=500)] = None,
        host: str | None = None,
        project: str | None = None,
        agent: str | None = None,
        limit: Annotated[int, Query(ge=1, le=MOST)] = 100,
        offset: Annotated[int, Query(ge=0)] = 0,
    ) -> History:
        roster = self.roster
        found = await _found(roster, search(q, host, project, agent))
        now = self.clock()
        page: list[SessionView] = []
        for _, key, each, facts in found[offset:][:limit]:
            # It may have come alive while others were looked through.
            page.append(roster.views.get(key) or roster.accounts.past_view(each, facts))
            if len(page) % SLICE == 0:
                await asyncio.sleep(0)
        strange = [] if found else await misspelt(roster, host, project, agent=agent)
        return History(SCHEMA, now, len(found), page, strange)

    @endpoint("GET /budgets", "How much of each budget is used")
    async def budgets(self) -> Budgets:
        accounts, now = self.roster.accounts, self.clock()
        today = accounts.spending.day_of(now)
        found: list[BudgetView] = []
        if accounts.overspent.budgets:
            hosts = self.roster.hosts.values()
            labels = {host.id: host.label for host in hosts}
            uses = Uses(accounts.spending, accounts.overspent, labels, workers(hosts, now))
            for budget in accounts.overspent.budgets:
                found.append(uses.view(budget, today))
                await asyncio.sleep(0)
        return Budgets(SCHEMA, now, found)


def usage_router(roster: Roster, clock: Clock, notes: Sequence[str] = ()) -> APIRouter:
    router = APIRouter(prefix="/api/v1", tags=["v1"])
    return add_endpoints(router, UsageEndpoints(roster, clock, notes))


async def _tallied(roster: Roster, asked: Asked) -> Tally:
    """In turns, for the first to ask has thousands of sessions priced.

    Each line is added to its row and to the total at once, so whatever changes meanwhile, they
    agree.
    """
    spending = roster.accounts.spending
    tally = Tally(asked, spending)
    for count, key in enumerate(spending.keys(asked.first, asked.until), 1):
        facts, host = spending.find(key), roster.hosts.get(key[0])
        if facts is not None and host is not None:  # it may have gone since
            agent = facts.agent, host.title_of(facts.agent)
            named = facts.project, facts.title
            tally.add(Spender(key, host.label, agent, *named, spending.lines(key)))
        if count % SLICE == 0:
            await asyncio.sleep(0)
    return tally


async def _found(roster: Roster, asked: HistorySearch) -> list[tuple[int, str, Host, Facts]]:
    """What matches, the latest first: when it ended, its view's id."""
    found: list[tuple[int, str, Host, Facts]] = []
    for count, (host, facts) in enumerate(list(sessions_over(roster, asked.host)), 1):
        if asked.finds(facts, host.label):
            ended = facts.ended_at - host.clock.offset_ms
            found.append((-ended, view_id(host.id, facts.session_id), host, facts))
        if count % SLICE == 0:
            await asyncio.sleep(0)
    found.sort(key=itemgetter(0))  # numbers alone: with the ids it takes ten times as long
    return found


def days_asked(
    today: str, days: int | None, since: str | None, until: str | None
) -> tuple[str, str]:
    """The first and the last. Raises BadRequestError."""
    if days is not None and since is not None:
        raise _no_days("days and since exclude each other.")
    last = _day("until", until) or date.fromisoformat(today)
    first = _day("since", since)
    if first is None:
        back = min((days or DAYS) - 1, (last - date.min).days)
        first = last - timedelta(days=back)
    if first > last:
        raise _no_days(f"since ({first}) is after until ({last}).")
    return first.isoformat(), last.isoformat()


def _no_days(cause: str) -> BadRequestError:
    step = "A day is written as 2026-11-30; until is today unless given."
    return BadRequestError(400, cause, step)


def days_before(first: str, last: str) -> str:
    """The first of as many days before them."""
    begin = date.fromisoformat(first)
    count = (date.fromisoformat(last) - begin).days + 1
    return (begin - timedelta(days=min(count, (begin - date.min).days))).isoformat()


def _day(name: str, text: str | None) -> date | None:
    if text is None:
        return None
    try:
        day = date.fromisoformat(text)
    except ValueError:
        day = None
    if day is None or day.isoformat() != text:
        raise _no_days(f"{name} is {text[:40]!r}, which is no day.")
    return day


def sessions_over(roster: Roster, name: str | None) -> Iterator[tuple[Host, Facts]]:
    """Those of history, and those still listed that have ended. name: a host's label or id."""
    for host in roster.hosts.values():
        if name in (None, host.label, host.id):
            listed = [key for key, each in host.verdicts.items() if each.state.state in OVER]
            for key in (*host.past, *listed):
                yield host, host.facts[key]


def _unfinished(roster: Roster, now: int) -> list[str]:
    notes: list[str] = []
    for view in roster.all_hosts(now):
        scan = view.scan
        if scan is not None:
            notes.append(f"{view.label} still reads its history: {scan.percent} % so far.")
        for witness in view.witnesses:
            if unread := witness.counts.get(COMPRESSED):
                size = witness.counts.get(COMPRESSED_MB, 0)
                said = f"{unread:,} compressed files ({size:,} MB) of {witness.name} are not read"
                notes.append(f"{view.label}: {said}, and in no sum.")
    for host in roster.hosts.values():
        notes += [
            _plan_note(host, agent, each, now)
            for agent, each in sorted(host.gauges.items())
            if each.plan and each.plan[1]
        ]
    dropped = roster.counts["history_dropped"]
    if dropped:
        notes.append(
            f"{dropped:,} sessions are too old or too many to be kept, and are in no sum any more."
        )
    return notes


def _plan_note(host: Host, agent: str, gauges: Gauges, now: int) -> str:
    used = [
        f"{limit.name.replace('_', ' ')} limit {limit.used_percent:.0f} % used"
        + (f", resets in {_span(limit.resets_at - now)}" if limit.resets_at else "")
        for limit in limits_that_hold(gauges.limits[1] if gauges.limits else (), now)
    ]
    title, plan = host.titled(agent) or agent, gauges.plan[1] if gauges.plan else ""
    pays = (
        f"On {host.label} the plan {plan} pays for {title}, whose tokens are in no sum of dollars."
    )
    return " ".join([pays, *([f"{'; '.join(used)}."] if used else [])])


def _span(ms: int) -> str:
    minutes = max(0, ms) // 60_000
    hours, days = minutes // 60, minutes // 1440
    return f"{days} d {hours % 24} h" if days else f"{hours} h {minutes % 60} min"


#: Sessions gone through before the loop gets its turn.
NAMES_SLICE = 500


async def misspelt(
    roster: Roster,
    host: str | None = None,
    project: str | None = None,
    model: str | None = None,
    agent: str | None = None,
) -> list[str]:
    """Notes on names that nothing bears: a slip of the pen must not look like "nothing".

    For whoever found nothing. A name that is borne by something, in whatever days, is no fault.
    """
    notes: list[str] = []
    if host is not None and host not in roster.hosts:
        notes.append(unknown_name("host", host, {each.label for each in roster.hosts.values()}))
    if not (project is None and model is None and agent is None):
        projects: set[str] = set()
        models: set[str] = set()
        agents: set[str] = set()
        for each in list(roster.hosts.values()):
            agents |= {known.name for known in each.beat.agents} if each.beat else set()
            for count, facts in enumerate(list(each.facts.values()), 1):
                projects.add(facts.project or "")
                models |= {key.split(" ", 2)[2] for key in facts.usage}
                models.add(facts.about("model") or "")
                agents.add(facts.agent)
                if count % NAMES_SLICE == 0:
                    await asyncio.sleep(0)
        notes += [unknown_name("project", project, projects), unknown_name("model", model, models)]
        notes.append(unknown_name("agent", agent, agents))
    return [note for note in notes if note]
