"""Where drawn text goes, and how columns share a line. Imports Rich: import this when you draw."""

import io
import os
import sys
from collections.abc import Iterable, Mapping, Sequence

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from adsum_shared.redact import safe

#: Wider than any line of ours.
UNBOUND = 10_000
#: From here on columns may take more cells, and an id has eight.
WIDE = 110
GAP = 2
RIGHT_ALIGNED = {
    *("COST", "TOKENS", "CTX", "FOR", "SESSIONS", "SEEN", "INPUT", "OUTPUT"),
    *("CACHE READ", "CACHE WRITE", "C.READ", "C.WRITE"),
}


class SafeConsole(Console):
    """Through it no text reaches a terminal that the terminal would obey."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Its own colours and movements come after this, or as what it calls control."""
        for part in super().render(renderable, options):
            text, style, control = part
            yield part if control else Segment(safe(text), style)


def open_console() -> Console:
    """Standard output. Nobody watches a pipe, so nothing is cut there unless COLUMNS asks for it.

    What a terminal without Unicode cannot show it shows as `?`.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    width = None if sys.stdout.isatty() else _piped()
    return SafeConsole(highlight=False, soft_wrap=False, width=width)


def show(console: Console, *drawn: RenderableType) -> None:
    """Without the cells that pad a line, which only show when somebody copies or greps it."""
    with console.capture() as captured:
        for each in drawn:
            console.print(each)
    drawn_lines = captured.get().removesuffix("\n").split("\n")
    print("\n".join(line.rstrip() for line in drawn_lines))  # noqa: T201 - drawn by a SafeConsole


def _piped() -> int:
    columns = os.environ.get("COLUMNS", "")
    return int(columns) if columns.isdecimal() and int(columns) > 0 else UNBOUND


def is_plain(console: Console) -> bool:
    """A terminal without Unicode."""
    return not console.encoding.startswith("utf")


def whole_width(columns: Mapping[str, Sequence[Text]]) -> int:
    """Of a line in which nothing is cut."""
    return sum(_whole_widths(columns).values()) + GAP * (len(columns) - 1)


def _whole_widths(columns: Mapping[str, Sequence[Text]]) -> dict[str, int]:
    return {
        name: max([len(name), *(cell.cell_len for cell in cells)])
        for name, cells in columns.items()
    }


def column_widths(
    columns: Mapping[str, Sequence[Text]],
    room: int,
    limits: Mapping[str, int],
    *,
    grow: Sequence[str],
    shrink: Mapping[str, int],
    drop: Sequence[str] = (),
) -> dict[str, int]:
    """How many cells each column has, so that a line fits `room`. Columns go by their heads.

    limits: cells that a column takes at most while others still want some. drop: columns to go
    without where there is no room, first to last. shrink: those that then give way, first to last,
    and down to what. grow: those that get what is left, first to last.
    """
    wants = _whole_widths(columns)
    widths = {name: min(want, limits.get(name, want)) for name, want in wants.items()}

    def spare() -> int:
        return room - sum(widths.values()) - GAP * (len(widths) - 1)

    for name in drop:
        if spare() < 0:
            del widths[name]
    for name, least in shrink.items():
        widths[name] = max(min(least, widths[name]), widths[name] + min(0, spare()))
    for name in grow:
        if name in widths:
            widths[name] += max(0, min(spare(), wants[name] - widths[name]))
    return widths


def table_lines(
    columns: Mapping[str, Sequence[Text]], widths: Mapping[str, int]
) -> tuple[Text, list[Text]]:
    """The heads, and a line for each row; what does not fit is cut with an ellipsis.

    Lines, and no table of the library: that took four times as long, half a minute for 30,000.
    """
    heads = _line([Text(name, "dim") for name in widths], widths)
    rows = zip(*(columns[name] for name in widths), strict=True)
    return heads, [_line(row, widths) for row in rows]


def _line(cells: Sequence[Text], widths: Mapping[str, int]) -> Text:
    line = Text(no_wrap=True)
    for cell, (name, width) in zip(cells, widths.items(), strict=True):
        fitted = cell.copy()
        fitted.truncate(width, overflow="crop" if name == "ID" else "ellipsis")
        fitted.align("right" if name in RIGHT_ALIGNED else "left", width)
        line.append_text(fitted).append(" " * GAP)
    line.right_crop(GAP)
    return line
