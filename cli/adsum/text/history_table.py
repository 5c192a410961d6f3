"""Sessions that are over as text for people: a table that fits, and how to see one in full. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from adsum.text.amounts import NONE, cost, short, tokens_of
from adsum.text.plain import age, clean
from adsum.text.render import ICONS, WIDE, icons_for
from adsum_shared.state import History, SessionView

if TYPE_CHECKING:
    from rich.console import Console, JustifyMethod

COLUMNS = ("ENDED", "TITLE", "PROJECT", "HOST", "TOKENS", "COST", "ID")
#: Most cells per column while there is no room for all; the title takes what is left, down to
#: TITLE_LEAST.
LIMITS = (5, 400, 14, 10, 6, 13, 6)
WIDE_LIMITS = (5, 400, 24, 20, 6, 13, 8)
TITLE_LEAST = 12
#: What has the room that is left once the title has all it needs, first to last.
GROWING = ("PROJECT", "HOST")
GUTTER = 2
#: What a narrow terminal goes without, first to last.
DISPENSABLE = ("PROJECT", "HOST", "TOKENS", "COST")


def history_table(history: History, console: Console) -> Table:
    """Never wider than the console: the title is cut, then columns are left out.

    Nothing is cut while there is room.
    """
    wide, plain = console.width >= WIDE, icons_for(console) is not ICONS
    rows = [_row(view, history.now, plain=plain) for view in history.sessions]
    limits = dict(zip(COLUMNS, WIDE_LIMITS if wide else LIMITS, strict=True))
    limits["TITLE"] = console.width
    whole = {name: max(len(name), *(row[name].cell_len for row in rows)) for name in COLUMNS}
    widths = {name: min(limits[name], whole[name]) for name in COLUMNS}
    _fit(widths, console.width)
    left = console.width - sum(widths.values()) - GUTTER * (len(widths) - 1)
    for name in GROWING:
        if name in widths:
            more = max(0, min(left, whole[name] - widths[name]))
            widths[name], left = widths[name] + more, left - more
    table = Table(box=None, pad_edge=False, padding=(0, GUTTER, 0, 0), header_style="dim")
    for name, width in widths.items():
        justify: JustifyMethod = "right" if name in ("TOKENS", "COST") else "left"
        table.add_column(name, justify=justify, no_wrap=True, overflow="ellipsis", width=width)
    for row in rows:
        row["ID"].truncate(widths["ID"])
        table.add_row(*(row[name] for name in widths))
    return table


def _fit(widths: dict[str, int], room: int) -> None:
    def others() -> int:
        return sum(widths.values()) - widths["TITLE"] + GUTTER * (len(widths) - 1)

    for name in DISPENSABLE:
        if others() + min(widths["TITLE"], TITLE_LEAST) > room:
            del widths[name]
    widths["TITLE"] = max(5, min(widths["TITLE"], room - others()))


def _row(view: SessionView, now: int, *, plain: bool) -> dict[str, Text]:
    usage = view.usage
    said = (
        # Of a session whose end nobody told, the last that was heard of it.
        age(now - (view.ended_at or view.updated_at)),
        clean(view.title) or clean(view.last_prompt) or clean(view.cwd) or "(untitled)",
        clean(view.project),
        clean(view.host),
        NONE if usage is None else short(tokens_of(usage)),
        cost(usage, plain=plain),
        clean(view.session_id),
    )
    return {name: Text(text) for name, text in zip(COLUMNS, said, strict=True)}


def footer(history: History) -> Text:
    shown = len(history.sessions)
    sessions = "1 session" if history.total == 1 else f"{history.total:,} sessions"
    if shown < history.total:
        sessions = f"{shown:,} of {sessions}, more with --limit N"
    return Text(f"{sessions} · one in full: adsum show ID", style="dim")
