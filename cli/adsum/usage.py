"""`adsum usage`: what was used up in some days, and what it cost."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from adsum.client import fetch, fetch_csv, hub_url, no_hub
from adsum.freshness import Freshness, fetch_freshness
from adsum.outcome import CommandError, Exit
from adsum.text.console import advice, open_console, show
from adsum.text.plain import clean
from adsum.text.saying import put, put_json, say
from adsum_shared import MOST_DAYS
from adsum_shared.usage import UsageReport

PATH = "/api/v1/usage"
BYS = ("day", "host", "project", "model", "session")
DAYS = 7
#: How far back to look when there is nothing; a hub keeps no more than the last.
FURTHER = (90, MOST_DAYS)
LIMIT = 20


@dataclass(frozen=True, slots=True)
class Question:
    """Which days, of whom, a row for each what. Dates are ISO; days excludes since."""

    since: str | None = None
    until: str | None = None
    days: int | None = None
    by: str = "day"
    host: str | None = None
    project: str | None = None
    model: str | None = None
    limit: int | None = None

    def __post_init__(self) -> None:
        if self.by not in BYS:
            raise CommandError(f"--by is one of {', '.join(BYS)}.", Exit.USAGE)
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
        since = self.since
        until = _date("--until", self.until)
        if until and not since:
            since = _before(until, (self.days or DAYS) - 1).isoformat()
        if since or until:
            given |= {"since": since, "until": self.until}
        else:
            given["days"] = str(self.days or DAYS)
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
        raise CommandError(
            f"{option} {text!r} is no day. It looks like 2026-11-22.", Exit.USAGE
        ) from None
    return found


def _before(day: date, days: int) -> date:
    """That many days before; the first of all days where there are not so many."""
    return day - timedelta(days=min(days, (day - date.min).days))


def show_usage(
    hub: str | None,
    state_dir: Path | None,
    asked: Question,
    *,
    as_json: bool = False,
    as_csv: bool = False,
) -> int:
    if as_json and as_csv:
        raise CommandError("--json and --csv exclude each other.", Exit.USAGE)
    url = hub_url(hub, state_dir)
    if as_csv:
        put(fetch_csv(url, PATH, {**asked.query, "format": "csv"}).decode(errors="replace"), "")
        return fetch_freshness(url, asked.host).own_up(asked.until)
    answer = fetch(url, PATH, asked.query)
    report = usage_report(url, answer)
    fresh = fetch_freshness(url, asked.host)
    if as_json:
        put_json(answer)
    else:
        _print(report, asked, fresh)
    return fresh.own_up(report.until, () if as_json else report.notes)


def usage_report(url: str, answer: Any) -> UsageReport:
    try:
        return msgspec.convert(answer, UsageReport)
    except msgspec.ValidationError as error:
        raise no_hub(url) from error


def _print(report: UsageReport, asked: Question, fresh: Freshness) -> None:
    from adsum.text.usage_table import footer, usage_table

    if report.rows:
        console = open_console()
        most = (asked.limit or LIMIT) if asked.by == "session" else len(report.rows)
        show(console, usage_table(report, console, most), footer(report, console, most))
    else:
        say(nothing(report, asked, fresh))
    for note in report.notes:
        say(f"adsum: {clean(note)}")


def nothing(report: UsageReport, asked: Question, fresh: Freshness) -> str:
    """What to do when there is nothing to show."""
    if asked.filtered:
        return f"Nothing matches from {report.since} to {report.until}. All of it: adsum usage"
    if not fresh.hosts and fresh.trouble is None:
        return advice(filtered=False, hosts=[])
    days = report.since if report.since == report.until else f"{report.since} to {report.until}"
    return f"Nothing was used {'on' if days == report.since else 'from'} {days}. {_next(report, asked)}"


def _next(report: UsageReport, asked: Question) -> str:
    """A question that goes further back, if a hub knows anything of then."""
    since, until = date.fromisoformat(report.since), date.fromisoformat(report.until)
    oldest = datetime.fromtimestamp(report.now / 1000, UTC).date() - timedelta(days=FURTHER[-1] - 1)
    further = next((days for days in FURTHER if days > (until - since).days + 1), None)
    if further is None or since <= oldest:
        return "What each machine tells: adsum hosts"
    last = f" --until {asked.until}" if asked.until else ""
    return f"Further back: `adsum usage --days {further}{last}`"
