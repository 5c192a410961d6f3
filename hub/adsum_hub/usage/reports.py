"""Sums up usage of some days by day, host, project, model, agent or session. Pure."""

import csv
import io
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import fsum
from typing import Literal, NamedTuple

import msgspec

from adsum_hub.usage.spending import CostLine, Key, Lines, Spending, Sum
from adsum_shared.state import UsagePoint, UsageReport, UsageRow, UsageSeries, UsageView

Split = Literal["host", "project", "model", "agent"]

#: More than these nobody tells apart. Those with the most tokens may be others than the dearest.
MOST = 8
OTHERS = "all others"


class Series:
    """Adds up line by line; `found` is the whole."""

    def __init__(self) -> None:
        self._labels: dict[str, str] = {}
        self._days: defaultdict[str, defaultdict[str, Sum]] = defaultdict(lambda: defaultdict(Sum))

    def add(self, key: str, label: str, line: CostLine) -> None:
        self._labels.setdefault(key, label)
        self._days[key][line.day].add(line)

    def found(self) -> list[UsageSeries]:
        """The dearest first; those that are left out of it as one, with the key None."""
        dollars, tokens = {}, {}
        for key, days in self._days.items():
            dollars[key] = fsum(usd for day in days.values() for usd in day.dollars)
            tokens[key] = sum(day.tokens for day in days.values())
        dearest = sorted(self._days, key=lambda key: (-dollars[key], -tokens[key], key))
        largest = sorted(self._days, key=lambda key: (-tokens[key], -dollars[key], key))
        named = {*dearest[:MOST], *largest[:MOST]}
        series = [
            UsageSeries(key, self._labels[key], _points([self._days[key]]))
            for key in dearest
            if key in named
        ]
        rest = [self._days[key] for key in dearest if key not in named]
        return [*series, UsageSeries(None, OTHERS, _points(rest))] if rest else series


def _points(several: Sequence[Mapping[str, Sum]]) -> list[UsagePoint]:
    points = []
    for name in sorted({name for days in several for name in days}):
        found = [days[name] for days in several if name in days]
        dollars = [usd for day in found for usd in day.dollars]
        tokens = sum(day.tokens for day in found)
        points.append(UsagePoint(name, tokens, fsum(dollars) if dollars or not tokens else None))
    return points


By = Literal["day", "host", "project", "model", "agent", "session"]

NO_PROJECT = "(no project)"
#: Models named in a note.
NAMED = 5
#: What makes a spreadsheet take a cell for a formula; it may stand behind blanks.
_FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
_BREAKS = ("\t", "\r", "\n")


class Query(msgspec.Struct, frozen=True):
    """since, until: ISO dates, both included. host: label or id.

    before: the first of the days before `since` that are summed up to compare them.
    """

    since: str
    until: str
    by: By = "day"
    host: str | None = None
    project: str | None = None
    model: str | None = None
    agent: str | None = None
    split: Split | None = None
    before: str | None = None

    @property
    def first(self) -> str:
        return self.before or self.since


class Spender(NamedTuple):
    """A session, what people know it by, and its lines. agent: its name and its title."""

    key: Key
    host: str
    agent: tuple[str, str]
    project: str | None
    title: str | None
    lines: Lines


class Tally:
    """Adds up session by session, so that whoever has many can stop in between."""

    def __init__(self, query: Query, spending: Spending) -> None:
        self._query, self._spending = query, spending
        self._total = Sum()
        self._before = Sum()
        self._sessions: set[str] = set()
        self._series = Series()
        self._rows: dict[str, tuple[str, Sum, set[str]]] = {}
        #: by model, and whether all that it lacks is a rate for fast mode
        self._unpriced: Counter[tuple[str, bool]] = Counter()

    def add(self, spender: Spender) -> None:
        query = self._query
        if not (
            query.host in (None, spender.host, spender.key[0])
            and query.project in (None, spender.project or "")
            and query.agent in (None, spender.agent[0])
        ):
            return
        naming = _NAMES[query.by]
        for line in spender.lines:
            if not query.first <= line.day <= query.until:
                continue
            if query.model is not None and query.model != line.model:
                continue
            if line.day < query.since:
                self._before.add(line)
                continue
            key, label = naming(spender, line)
            row = self._rows.get(key)
            if row is None:
                row = self._rows[key] = label, Sum(), set()
            row[1].add(line)
            row[2].add(spender.key[1])  # on however many hosts
            self._total.add(line)
            self._sessions.add(spender.key[1])
            if query.split is not None:
                self._series.add(*_NAMES[query.split](spender, line), line)
            if line.unpriced_tokens:
                kind = line.model, self._spending.is_priced(line.model, line.day)
                self._unpriced[kind] += line.unpriced_tokens

    @property
    def is_empty(self) -> bool:
        return not self._rows

    def report(self, schema: int, now: int, notes: Iterable[str] = ()) -> UsageReport:
        rows = [
            UsageRow(key, label, counted.view(), len(sessions))
            for key, (label, counted, sessions) in self._rows.items()
        ]
        rows.sort(key=(lambda row: row.key) if self._query.by == "day" else _dearest)
        return UsageReport(
            schema=schema,
            now=now,
            since=self._query.since,
            until=self._query.until,
            by=self._query.by,
            rows=rows,
            total=self._total.view(),
            notes=[*_unpriced(self._unpriced), *notes],
            sessions=len(self._sessions),
            split=self._query.split,
            series=self._series.found(),
            before=self._before.view() if self._query.before is not None else None,
        )


def _dearest(row: UsageRow) -> tuple[float, int, str]:
    usage = row.usage
    tokens = usage.input_tokens + usage.output_tokens
    return -(usage.cost_usd or 0.0), -tokens, row.key


_NAMES: dict[str, Callable[[Spender, CostLine], tuple[str, str]]] = {
    "day": lambda _, line: (line.day, line.day),
    "host": lambda spender, _: (spender.key[0], spender.host),
    "project": lambda spender, _: (spender.project or "", spender.project or NO_PROJECT),
    "model": lambda _, line: (line.model, line.model),
    "agent": lambda spender, _: spender.agent,
    "session": lambda spender, _: (":".join(spender.key), spender.title or spender.key[1]),
}


def _unpriced(kinds: Mapping[tuple[str, bool], int]) -> list[str]:
    if not kinds:
        return []
    most = sorted(kinds, key=lambda kind: (-kinds[kind], kind))
    more = f" and {len(most) - NAMED} more" if len(most) > NAMED else ""
    named = ", ".join(f"{model[:80]}{' in fast mode' * fast}" for model, fast in most[:NAMED])
    lacks = _LACKS[frozenset(fast for _, fast in kinds)]
    return [
        f"{sum(kinds.values()):,} tokens have no price and are in no sum of dollars: {named}{more}. "
        f"Give them {lacks} in {PRICE_FILE}: see docs/prices.md."
    ]


PRICE_FILE = "prices.toml beside the hub's config.toml"
_LACKS = {
    frozenset({False}): "an entry",
    frozenset({True}): "an entry with `fast`",
    frozenset({False, True}): "an entry, for fast mode one with `fast`,",
}


COLUMNS = ("by", "key", "label", "sessions", *UsageView.__struct_fields__)


def as_csv(report: UsageReport) -> str:
    """RFC 4180, a row for each row and none for the total, which would be added to itself."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\r\n")
    writer.writerow(COLUMNS)
    for row in report.rows:
        usage = msgspec.structs.asdict(row.usage)
        if row.usage.cost_usd is not None:
            usage["cost_usd"] = f"{row.usage.cost_usd:.6f}"
        names = harmless(row.key), harmless(row.label)
        writer.writerow((report.by, *names, row.sessions, *usage.values()))
    return file.getvalue()


def harmless(text: str) -> str:
    """A label is whatever somebody called a session: no spreadsheet may run it."""
    runs = text.lstrip().startswith(_FORMULA) or text.startswith(_BREAKS)
    return f"'{text}" if runs else text
