"""A usage report as text for people: a table that fits, its total, and what its marks mean. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from adsum.text.amounts import PRICES, UNPRICED, cost, marks, short
from adsum.text.plain import clean
from adsum.text.render import ICONS, WIDE, icons_for
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


def usage_table(report: UsageReport, console: Console, most: int | None = None) -> Table:
    """Never wider than the console: names are cut, then the last columns left out.

    most: rows; the total is of all of them all the same.
    """
    columns = _columns(report, console, CACHE_HEADS, most)
    if sum(each.width + GUTTER for each in columns) - GUTTER > console.width:
        columns = _fitting(_columns(report, console, SHORT_CACHE_HEADS, most), console.width)
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


def _columns(
    report: UsageReport, console: Console, cache: tuple[str, str], most: int | None
) -> list[_Column]:
    """cache: the heads of its columns."""
    plain, rows = icons_for(console) is not ICONS, report.rows[:most]
    usages = [row.usage for row in rows]
    names = [Text(clean(row.label) or clean(row.key) or "(none)") for row in rows]
    if len(report.rows) > 1:
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


def footer(report: UsageReport, console: Console, most: int | None = None) -> Text:
    """Which days, whose word the costs are, and what to do about tokens without a price."""
    plain, count = icons_for(console) is not ICONS, len(report.rows)
    days = report.since if report.since == report.until else f"{report.since} to {report.until}"
    cut = f"{most:,} of {count:,} sessions, more with --limit N\n" if most and most < count else ""
    lines = Text(cut + " · ".join([days, *_whose_word(report, plain=plain)]), style="dim")
    if report.total.unpriced_tokens:
        lines.append("\n").append(_unpriced(report, plain=plain), style="yellow not dim")
    return lines


def _unpriced(report: UsageReport, *, plain: bool) -> str:
    """Of which models, and how many tokens, is in the hub's own note."""
    at_least = marks(plain=plain)[1]
    usages = (*(row.usage for row in report.rows), report.total)
    if not any(cost(usage, plain=plain).startswith(at_least) for usage in usages):
        return f"{UNPRICED}: no price is known. {PRICES}"
    return f"{at_least} at least: some lack a price. {PRICES}"


def _whose_word(report: UsageReport, *, plain: bool) -> list[str]:
    """The page has the same words, in web/figures.js."""
    usages = [row.usage for row in report.rows]
    sources = {usage.cost_source for usage in usages if usage.cost_usd is not None}
    if not sources:
        return []
    if sources == {"reported"}:
        return ["as the agent reports"]
    mark = marks(plain=plain)[0]
    marked = any(cost(usage, plain=plain).startswith(mark) for usage in usages)
    computed = f"{mark} from list prices" if marked else "from list prices"
    if "mixed" in sources:
        return [f"{computed}, wholly or in part"]
    return [f"{computed}{', the others as the agent reports' if 'reported' in sources else ''}"]
