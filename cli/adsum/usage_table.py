"""A usage report as text for people: a table that fits, its total, and what its marks mean. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from adsum.amounts import (
    AT_LEAST,
    COMPUTED,
    PLAIN_AT_LEAST,
    PRICES,
    UNPRICED,
    cost,
    short,
)
from adsum.render import ICONS, WIDE, clean, icons_for
from adsum_shared.usage import UsageReport, UsageView

if TYPE_CHECKING:
    from rich.console import Console, JustifyMethod

GUTTER = 2
#: What a row stands for is cut to this before a column gives way to it.
NAME_LEAST = 12
ID_CELLS, WIDE_ID_CELLS = 6, 8
CACHE_HEADS, SHORT_CACHE_HEADS = ("CACHE READ", "CACHE WRITE"), ("C.READ", "C.WRITE")


@dataclass(frozen=True, slots=True)
class _Column:
    head: str
    cells: list[Text]
    right: bool = True

    @property
    def width(self) -> int:
        return max(len(self.head), *(cell.cell_len for cell in self.cells))


def usage_table(report: UsageReport, console: Console) -> Table:
    """Never wider than the console: names are cut, then the last columns left out."""
    columns = _columns(report, console, CACHE_HEADS)
    if sum(each.width + GUTTER for each in columns) - GUTTER > console.width:
        columns = _fitting(_columns(report, console, SHORT_CACHE_HEADS), console.width)
    room = console.width - sum(each.width + GUTTER for each in columns[1:])
    table = Table(box=None, pad_edge=False, padding=(0, GUTTER, 0, 0), header_style="dim")
    for column in columns:
        justify: JustifyMethod = "right" if column.right else "left"
        width = max(5, min(column.width, room)) if column is columns[0] else column.width
        table.add_column(
            column.head, justify=justify, no_wrap=True, overflow="ellipsis", width=width
        )
    for cells in zip(*(column.cells for column in columns), strict=True):
        table.add_row(*cells)
    if len(report.rows) > 1:
        table.rows[-1].style = "bold"
    return table


def _fitting(columns: list[_Column], room: int) -> list[_Column]:
    def least() -> int:
        names = min(columns[0].width, NAME_LEAST)
        return names + sum(each.width + GUTTER for each in columns[1:])

    while len(columns) > 2 and least() > room:
        columns = columns[:-1]
    return columns


def _columns(report: UsageReport, console: Console, cache: tuple[str, str]) -> list[_Column]:
    """cache: the heads of its columns."""
    plain, rows = icons_for(console) is not ICONS, report.rows
    usages = [row.usage for row in rows]
    names = [Text(clean(row.label) or clean(row.key) or "(none)") for row in rows]
    if len(rows) > 1:
        usages.append(report.total)
        names.append(Text("total"))
    columns = [
        _Column(report.by.upper(), names, right=False),
        _Column("COST", [_cost(usage, plain=plain) for usage in usages]),
        _Column("INPUT", [_number(usage.input_tokens) for usage in usages]),
        _Column("OUTPUT", [_number(usage.output_tokens) for usage in usages]),
        _Column(cache[0], [_number(usage.cache_read_tokens) for usage in usages]),
        _Column(cache[1], [_number(usage.cache_write_tokens) for usage in usages]),
    ]
    if report.by == "session":
        cells = WIDE_ID_CELLS if console.width >= WIDE else ID_CELLS
        ids = [Text(clean(row.key.rpartition(":")[2])[:cells]) for row in rows]
        columns.insert(1, _Column("ID", _padded(ids, len(usages)), right=False))
    else:
        counts = [_number(count) for count in _sessions(report)]
        columns.append(_Column("SESSIONS", _padded(counts, len(usages))))
    return columns


def _sessions(report: UsageReport) -> list[int]:
    """With their sum where no session can be in two rows: one lasts for days, and has two models."""
    counts = [row.sessions for row in report.rows]
    return [*counts, sum(counts)] if report.by in ("host", "project") else counts


def _padded(cells: list[Text], length: int) -> list[Text]:
    return (cells + [Text()] * length)[:length]


def _number(count: int) -> Text:
    return Text(short(count), style="" if count else "dim")


def _cost(usage: UsageView, *, plain: bool) -> Text:
    said = cost(usage, plain=plain)
    return Text(said, style="yellow" if said == UNPRICED else "")


def footer(report: UsageReport, console: Console) -> Text:
    """Which days, whose word the costs are, and what to do about tokens without a price."""
    days = report.since if report.since == report.until else f"{report.since} to {report.until}"
    lines = Text(" · ".join([days, *_whose_word(report)]), style="dim")
    if report.total.unpriced_tokens:
        lines.append("\n").append(_unpriced(report, console), style="yellow not dim")
    return lines


def _unpriced(report: UsageReport, console: Console) -> str:
    """Of which models, and how many tokens, is in the hub's own note."""
    costs = [cost(usage) for usage in (*(row.usage for row in report.rows), report.total)]
    if not any(said.startswith(AT_LEAST) for said in costs):
        return f"{UNPRICED}: no price is known. {PRICES}"
    mark = PLAIN_AT_LEAST if icons_for(console) is not ICONS else AT_LEAST
    return f"{mark} at least: some has no price. {PRICES}"


def _whose_word(report: UsageReport) -> list[str]:
    usages = [row.usage for row in report.rows]
    sources = {usage.cost_source for usage in usages if usage.cost_usd is not None}
    if not sources:
        return []
    if sources == {"reported"}:
        return ["as the agent says"]
    marked = any(cost(usage).startswith(COMPUTED) for usage in usages)
    computed = f"{COMPUTED} computed from prices" if marked else "computed from prices"
    if "mixed" in sources:
        return [f"{computed}, wholly or in part"]
    return [f"{computed}{', the others told by the agent' if 'reported' in sources else ''}"]
