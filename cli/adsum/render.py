"""Sessions and hosts as text for people: tables that fit, ages, counts. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from adsum_shared.state import Group, HostView, SessionView

if TYPE_CHECKING:
    from rich.console import Console

#: Group, not state: a state nobody has heard of still gets its icon and colour.
ICONS = {Group.NEEDS_YOU: "▲", Group.AUTONOMOUS: "●", Group.DELIVERED: "✓"}
PLAIN_ICONS = {Group.NEEDS_YOU: "!", Group.AUTONOMOUS: "*", Group.DELIVERED: "="}
COLOURS = {Group.NEEDS_YOU: "yellow", Group.AUTONOMOUS: "green", Group.DELIVERED: "blue"}
WORDS = {Group.NEEDS_YOU: "need you", Group.AUTONOMOUS: "working", Group.DELIVERED: "delivered"}
COLUMNS = ("STATE", "TITLE", "PROJECT", "HOST", "ID", "FOR")
#: Most cells per column, and from which width on it may be more. 80 must hold them all.
LIMITS = (24, 400, 11, 10, 6, 7)
WIDE = 110
WIDE_LIMITS = (44, 400, 24, 24, 8, 7)

# Titles and labels come from agents: control characters could move the cursor or worse.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]+")


def clean(text: str | None) -> str:
    return _CONTROL.sub(" ", text or "").strip()


def age(ms: int) -> str:
    """A duration in at most four characters: 0s, 59s, 59m, 23h, 99d."""
    seconds = max(0, ms) // 1000
    for size, unit in ((60, "s"), (60, "m"), (24, "h")):
        if seconds < size:
            return f"{seconds}{unit}"
        seconds //= size
    return f"{min(seconds, 999)}d"


def session_table(views: Sequence[SessionView], now: int, console: Console) -> Table:
    """Never wider than the console; what does not fit is cut with an ellipsis."""
    rows = [_row(view, now, icons_for(console)) for view in views]
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    widths = _widths(rows, console.width)
    for name, width in zip(COLUMNS, widths, strict=True):
        table.add_column(name, no_wrap=True, overflow="ellipsis", width=width)
    table.columns[-1].justify = "right"
    for view, row in zip(views, rows, strict=True):
        row[COLUMNS.index("ID")].truncate(widths[COLUMNS.index("ID")])
        table.add_row(*row, style="dim" if view.reachability != "live" else "")
    return table


#: A session that closed has not thereby finished anything.
CLOSED, PLAIN_CLOSED = "○", "-"
#: Before the title of a session whose hooks are missing or come twice. counts_line() explains it.
UNWELL, PLAIN_UNWELL = "✗", "x"


def icons_for(console: Console) -> dict[Group, str]:
    return ICONS if console.encoding.startswith("utf") else PLAIN_ICONS


def _row(view: SessionView, now: int, icons: dict[Group, str]) -> list[Text]:
    state, group = view.state, view.state.group
    colour = "red" if state.state == "error" else COLOURS[group]
    icon = icons[group]
    if state.state == "session_ended":
        icon = CLOSED if icons is ICONS else PLAIN_CLOSED
    label = f"{icon} {clean(state.label) or clean(state.state)}"
    live = view.reachability == "live"
    title = Text(clean(view.title) or clean(view.cwd) or "(untitled)")
    if hook_problem(view):
        title = Text.assemble((UNWELL if icons is ICONS else PLAIN_UNWELL, "red"), " ", title)
    return [
        Text(label, style=f"bold {colour}" if view.unread else colour),
        title,
        Text(clean(view.project)),
        Text(clean(view.host)),
        Text(clean(view.session_id)),
        # How long it has been so is not known of a host that does not report.
        Text(age(now - state.since) if live else view.reachability),
    ]


def hook_problem(view: SessionView) -> str | None:
    """missing, doubled, or a word this version does not know; None of a host nobody hears."""
    if view.reachability == "offline":
        return None
    return next((clean(each.problem) for each in view.witnesses if each.problem), None)


def _widths(rows: Sequence[Sequence[Text]], room: int) -> list[int]:
    """Each column as wide as its text, up to its limit; the title takes what is left."""
    limits = WIDE_LIMITS if room >= WIDE else LIMITS
    widths = [
        min(limit, max([len(name), *(row[index].cell_len for row in rows)]))
        for index, (name, limit) in enumerate(zip(COLUMNS, limits, strict=True))
    ]
    title = COLUMNS.index("TITLE")
    others = sum(widths) - widths[title] + 2 * len(COLUMNS)
    widths[title] = max(5, min(widths[title], room - others))
    return widths


def counts_line(views: Iterable[SessionView], hosts: Iterable[HostView], now: int) -> Text:
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
    for host in hosts:
        if host.reachability != "live":
            since = age(now - host.last_seen)
            last = f"{clean(host.label)} {host.reachability}, last seen {since} ago"
            needs = f", {left[host.id]} needed you then" if left[host.id] else ""
            line.append(f"{last}{needs} · ", "dim")
        else:
            faults = [each.name for each in host.witnesses if each.state in ("missing", "trouble")]
            if faults:
                line.append(f"{clean(host.label)}: {', '.join(faults)} unwell", "red")
                line.append(", see adsum hosts · ", style="dim")
    return line[:-3]


def host_table(hosts: Iterable[HostView], now: int) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name, right in (("HOST", False), ("STATE", False), ("SESSIONS", True), ("SEEN", True)):
        table.add_column(name, no_wrap=True, justify="right" if right else "left")
    table.add_column("NOTES", overflow="fold")
    for host in hosts:
        style = "" if host.reachability == "live" else "dim"
        row = (clean(host.label), host.reachability, str(host.sessions), age(now - host.last_seen))
        table.add_row(*(Text(cell) for cell in (*row, _notes(host))), style=style)
    return table


def _notes(host: HostView) -> str:
    """First the machine's own, then a line for each witness worth one."""
    notes = []
    if host.problem:
        notes.append(clean(host.problem))
    if host.backlog:
        notes.append(f"{host.backlog} signals on their way")
    if abs(host.clock_offset_ms) > 5_000:
        ahead = "ahead" if host.clock_offset_ms > 0 else "behind"
        notes.append(f"its clock is {age(abs(host.clock_offset_ms))} {ahead}")
    return "\n".join(filter(None, ("; ".join(notes), *_witness_notes(host))))


def _witness_notes(host: HostView) -> Iterator[str]:
    """Silence is no fault and the process table never fails: neither is worth a word."""
    heard = [each for each in host.witnesses if each.state == "ok" and each.name != "process"]
    if heard:
        yield "heard: " + ", ".join(witness_word(each.name) for each in heard)
    for each in host.witnesses:
        said = [] if each.state in ("ok", "silent") else [clean(each.state)]
        said += [f"{times} {clean(cause)}" for cause, times in each.counts.items()]
        note = clean(each.note)
        if said or note:
            yield f"{witness_word(each.name)}: {', '.join(said)}{'. ' if said and note else ''}{note}"


def witness_word(witness: str) -> str:
    return "status line" if witness == "statusline" else clean(witness)
