"""Sessions as text for people: tables that fit, ages, counts. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING

from rich.console import Group as Lines
from rich.text import Text

from adsum.text.amounts import NONE, context, cost, short, tokens_of
from adsum.text.console import UNBOUND
from adsum.text.plain import age, clean
from adsum_shared.state import Group, HostView, SessionView

if TYPE_CHECKING:
    from rich.console import Console

#: Group, not state: a state nobody has heard of still gets its icon and colour.
ICONS = {Group.NEEDS_YOU: "▲", Group.AUTONOMOUS: "●", Group.DELIVERED: "✓"}
PLAIN_ICONS = {Group.NEEDS_YOU: "!", Group.AUTONOMOUS: "*", Group.DELIVERED: "="}
COLOURS = {Group.NEEDS_YOU: "yellow", Group.AUTONOMOUS: "green", Group.DELIVERED: "blue"}
WORDS = {Group.NEEDS_YOU: "need you", Group.AUTONOMOUS: "working", Group.DELIVERED: "delivered"}
COLUMNS = ("STATE", "TITLE", "PROJECT", "HOST", "ID", "FOR")
FULL_COLUMNS = ("STATE", "TITLE", "PROJECT", "HOST", "ID", "COST", "TOKENS", "CTX", "FOR")
#: From which width on there are which columns: by width alone, so that none comes and goes while
#: somebody watches. What a session used up is the first to go, who it is the last: with its project
#: beside it a title has twelve cells in eighty, which tell neither.
FORMS = (
    (130, FULL_COLUMNS),
    (92, COLUMNS),
    (56, ("STATE", "TITLE", "HOST", "ID", "FOR")),
    (0, ("STATE", "TITLE", "ID", "FOR")),
)
#: Cells that a column takes at most while others still want some; what the title then leaves goes
#: to those of GROWING, in this order.
LIMITS = {"STATE": 24, "PROJECT": 11, "HOST": 10, "ID": 6, "COST": 13, "TOKENS": 6, "CTX": 5}
LIMITS |= {"FOR": 7}
WIDE = 110
WIDE_LIMITS = LIMITS | {"STATE": 30, "PROJECT": 18, "HOST": 16, "ID": 8}
GROWING = ("STATE", "PROJECT", "HOST")
#: A title shorter than this tells nothing: the state gives way to it.
TITLE_LEAST, STATE_LEAST = 12, 12
GAP = 2
NUMBERS = ("COST", "TOKENS", "CTX", "FOR")


def session_table(views: Sequence[SessionView], now: int, console: Console) -> Lines:
    """Never wider than the console; what does not fit is cut with an ellipsis.

    Lines, and no table of the library: that took four times as long, half a minute for 30,000.
    """
    heads, lines = session_lines(views, now, console.width, icons_for(console))
    return Lines(heads, *lines)


def session_lines(
    views: Sequence[SessionView], now: int, width: int, icons: dict[Group, str]
) -> tuple[Text, list[Text]]:
    """Each as wide as the rest: the heads, and one for each session."""
    columns = next(names for least, names in FORMS if width >= least)
    cells = [_row(view, now, icons) for view in views]
    rows = [[row[name] for name in columns] for row in cells]
    widths = _widths(columns, rows, width)
    heads = _line([Text(name, "dim") for name in columns], columns, widths)
    lines = [_line(row, columns, widths) for row in rows]
    for view, line in zip(views, lines, strict=True):
        if view.reachability != "live":
            line.stylize("dim")
    return heads, lines


def _line(cells: Sequence[Text], columns: Sequence[str], widths: Sequence[int]) -> Text:
    line = Text(no_wrap=True)
    for name, cell, width in zip(columns, cells, widths, strict=True):
        fitted = cell.copy()
        fitted.truncate(width, overflow="crop" if name == "ID" else "ellipsis")
        fitted.align("right" if name in NUMBERS else "left", width)
        line.append_text(fitted).append(" " * GAP)
    line.right_crop(GAP)
    return line


#: A session that closed has not thereby finished anything.
CLOSED, PLAIN_CLOSED = "○", "-"
#: Before the title of a session whose hooks are missing or come twice. counts_line() explains it.
UNWELL, PLAIN_UNWELL = "✗", "x"


def icons_for(console: Console) -> dict[Group, str]:
    return ICONS if console.encoding.startswith("utf") else PLAIN_ICONS


def _shown(view: SessionView) -> str:
    """A domain's words, else the state's own."""
    display = view.display and clean(view.display.label)
    return display or clean(view.state.label) or clean(view.state.state)


def _place(view: SessionView) -> str:
    """The end of where it runs: what a path begins with is the same for all."""
    return PurePath(clean(view.cwd)).name or clean(view.project)


def first_line(view: SessionView, now: int) -> Text:
    """Of a list whose top has left the screen: who is to be attended to first, and why."""
    said = f"First: {_shown(view)}, for {age(now - view.state.since)}. "
    return Text.assemble((said, COLOURS[view.state.group]), f"adsum show {view.session_id[:6]}")


def _row(view: SessionView, now: int, icons: dict[Group, str]) -> dict[str, Text]:
    state, group = view.state, view.state.group
    colour = "red" if state.state == "error" else COLOURS[group]
    icon = icons[group]
    if state.state == "session_ended":
        icon = CLOSED if icons is ICONS else PLAIN_CLOSED
    label = f"{icon} {_shown(view)}"
    live = view.reachability == "live"
    title = Text(clean(view.title) or _place(view) or "(untitled)")
    if hook_problem(view):
        title = Text.assemble((UNWELL if icons is ICONS else PLAIN_UNWELL, "red"), " ", title)
    return {
        "STATE": Text(label, style=f"bold {colour}" if view.unread else colour),
        "TITLE": title,
        "PROJECT": Text(clean(view.project)),
        "HOST": Text(clean(view.host)),
        "ID": Text(clean(view.session_id)),
        "COST": Text(cost(view.usage, plain=icons is not ICONS)),
        "TOKENS": Text(short(tokens_of(view.usage)) if view.usage else NONE),
        "CTX": Text(context(view.context)),
        # How long it has been so is not known of a host that does not report.
        "FOR": Text(age(now - state.since) if live else view.reachability),
    }


def hook_problem(view: SessionView) -> str | None:
    """missing, doubled, or a word this version does not know; None of a host nobody hears."""
    if view.reachability == "offline":
        return None
    return next((clean(each.problem) for each in view.witnesses if each.problem), None)


def _widths(columns: Sequence[str], rows: Sequence[Sequence[Text]], room: int) -> list[int]:
    """Each column as wide as its text, up to its limit; the title, then others, take what is left."""
    wants = {
        name: max([len(name), *(row[index].cell_len for row in rows)])
        for index, name in enumerate(columns)
    }
    wants["ID"] = min(wants["ID"], WIDE_LIMITS["ID"])
    if room >= UNBOUND:
        return list(wants.values())
    limits = WIDE_LIMITS if room >= WIDE else LIMITS
    widths = {name: min(want, limits.get(name, TITLE_LEAST)) for name, want in wants.items()}
    spare = room - sum(widths.values()) - GAP * (len(columns) - 1)
    if spare < 0:
        given = min(-spare, widths["STATE"] - min(widths["STATE"], STATE_LEAST))
        widths["STATE"] -= given
        widths["TITLE"] = max(1, widths["TITLE"] + spare + given)
    for name in ("TITLE", *GROWING):
        more = min(max(0, spare), wants.get(name, 0) - widths.get(name, 0))
        if name in widths and more > 0:
            widths[name] += more
            spare -= more
    return [widths[name] for name in columns]


def counts_line(views: Sequence[SessionView], hosts: Iterable[HostView], now: int) -> Text:
    """Live counts, whose hooks are unwell, then who is not live, since when, and in what need."""
    counts = dict.fromkeys(WORDS, 0)
    unwell: Counter[str] = Counter()
    left: Counter[str] = Counter()
    for view in views:
        if view.reachability != "offline":
            counts[view.state.group] += 1
        elif view.state.group is Group.NEEDS_YOU:
            left[view.host_id] += 1
        if problem := hook_problem(view):
            unwell[problem] += 1
    line = Text()
    for group, word in WORDS.items():
        style = COLOURS[group] if counts[group] else "dim"
        words = "needs you" if word == "need you" and counts[group] == 1 else word
        line.append(f"{counts[group]} {words}", style=style).append(" · ", style="dim")
    if unwell:
        words = ", ".join(f"{problem} in {times}" for problem, times in sorted(unwell.items()))
        line.append(f"hooks {words}", "red").append(" · ", style="dim")
    incomplete = sum(view.incomplete for view in views)
    if incomplete:
        line.append(f"parts of {incomplete} missing, see adsum hosts · ", style="dim")
    for host in hosts:
        line.append_text(_host_words(host, now, left[host.id]))
    return line[:-3]


def _host_words(host: HostView, now: int, waiting: int) -> Text:
    """Nothing of a host that is well. waiting: sessions that needed someone when it was lost."""
    if host.reachability != "live":
        last = f"{clean(host.label)} {host.reachability}, last seen {age(now - host.last_seen)} ago"
        return Text(f"{last}{f', {waiting} needed you then' if waiting else ''} · ", "dim")
    if faults := _faults(host):
        words = Text.assemble((f"{clean(host.label)}: {faults}", "red"))
        return words.append(", see adsum hosts · ", style="dim")
    return Text()


def _faults(host: HostView) -> str:
    faults = [each.name for each in host.witnesses if each.state in ("missing", "trouble")]
    told = [f"{', '.join(faults)} unwell"] if faults else []
    return " and ".join([*(["a problem"] if host.problem else []), *told])


def witness_word(witness: str) -> str:
    return "status line" if witness == "statusline" else clean(witness)
