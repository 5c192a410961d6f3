"""Draws tables for people: of sessions, of those that are over, of usage and of machines.

No line is wider than the console: what does not fit is cut, or a column left out. The consoles that
are drawn on come first. It imports Rich, which is slow, so import this module only to draw.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePath

from rich.console import Console, ConsoleOptions, RenderableType
from rich.console import Group as Lines
from rich.padding import Padding
from rich.segment import Segment
from rich.text import Text

from adsum.text.words import (
    GAPS_SHOWN,
    NONE,
    PRICES,
    UNPRICED,
    age,
    cause_sentence,
    context,
    cost,
    gap_sentence,
    hook_problem,
    limit_words,
    marks,
    moment,
    octets,
    paid,
    short,
    span,
    tokens_of,
    witness_word,
)
from adsum_shared.redact import clean, safe
from adsum_shared.signals import DEFAULT_AGENT
from adsum_shared.state import (
    Group,
    History,
    HostView,
    ScanProgress,
    SessionView,
    UsageReport,
    UsageView,
)

#: Wider than any line of ours.
UNBOUND = 10_000
#: From here on columns may take more cells, and an id has eight.
_WIDE = 110
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
    """Standard output. Nobody watches a pipe, so nothing is cut there unless COLUMNS asks for it."""
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


def _whole_width(columns: Mapping[str, Sequence[Text]]) -> int:
    """Of a line in which nothing is cut."""
    return sum(_whole_widths(columns).values()) + GAP * (len(columns) - 1)


def _whole_widths(columns: Mapping[str, Sequence[Text]]) -> dict[str, int]:
    return {
        name: max([len(name), *(cell.cell_len for cell in cells)])
        for name, cells in columns.items()
    }


def _column_widths(
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


def _table_lines(
    columns: Mapping[str, Sequence[Text]], widths: Mapping[str, int]
) -> tuple[Text, list[Text]]:
    """The heads, and a line for each row; what does not fit is cut with an ellipsis.

    Lines, and no table of the library: that took four times as long, half a minute for 30,000.
    """
    heads = _fitted_line([Text(name, "dim") for name in widths], widths)
    rows = zip(*(columns[name] for name in widths), strict=True)
    return heads, [_fitted_line(row, widths) for row in rows]


def _fitted_line(cells: Sequence[Text], widths: Mapping[str, int]) -> Text:
    line = Text(no_wrap=True)
    for cell, (name, width) in zip(cells, widths.items(), strict=True):
        fitted = cell.copy()
        fitted.truncate(width, overflow="crop" if name == "ID" else "ellipsis")
        fitted.align("right" if name in RIGHT_ALIGNED else "left", width)
        line.append_text(fitted).append(" " * GAP)
    line.right_crop(GAP)
    return line


#: Group, not state: a state nobody has heard of still gets its icon and colour.
ICONS = {Group.NEEDS_YOU: "▲", Group.AUTONOMOUS: "●", Group.DELIVERED: "✓"}
PLAIN_ICONS = {Group.NEEDS_YOU: "!", Group.AUTONOMOUS: "*", Group.DELIVERED: "="}
COLOURS = {Group.NEEDS_YOU: "yellow", Group.AUTONOMOUS: "green", Group.DELIVERED: "blue"}
WORDS = {Group.NEEDS_YOU: "need you", Group.AUTONOMOUS: "working", Group.DELIVERED: "delivered"}
#: A session that closed has not thereby finished anything.
CLOSED, PLAIN_CLOSED = "○", "-"
#: Before the title of a session whose hooks are missing or come twice. counts_line() explains it.
UNWELL, PLAIN_UNWELL = "✗", "x"

FULL = ("STATE", "TITLE", "PROJECT", "HOST", "ID", "COST", "TOKENS", "CTX", "FOR")
#: From which width on there are which columns: by width alone, so that none comes and goes while
#: somebody watches. What a session used up is the first to go, who it is the last: with its project
#: beside it a title has twelve cells in eighty, which say neither.
FORMS = (
    (130, FULL),
    (92, ("STATE", "TITLE", "PROJECT", "HOST", "ID", "FOR")),
    (56, ("STATE", "TITLE", "HOST", "ID", "FOR")),
    (0, ("STATE", "TITLE", "ID", "FOR")),
)
#: Cells that a column takes at most while others still want some. A title shorter than twelve says
#: nothing: the state gives way to it.
LIMITS = {"TITLE": 12, "STATE": 24, "PROJECT": 11, "HOST": 10, "ID": 6}
#: From here on the usual states stay whole as well.
ROOMY, ROOMY_LIMITS = 100, LIMITS | {"STATE": 30}
WIDE_LIMITS = {"TITLE": 12, "STATE": 30, "PROJECT": 18, "HOST": 16, "ID": 8}
HISTORY_LIMITS = LIMITS | {"PROJECT": 14}
WIDE_HISTORY_LIMITS = WIDE_LIMITS | {"PROJECT": 24, "HOST": 20}


def session_table(views: Sequence[SessionView], now: int, console: Console) -> Lines:
    heads, lines = session_lines(views, now, console.width, plain=is_plain(console))
    return Lines(heads, *lines)


def session_lines(
    views: Sequence[SessionView], now: int, width: int, *, plain: bool = False
) -> tuple[Text, list[Text]]:
    """The heads, and a line for each session."""
    names = next(names for least, names in FORMS if width >= least)
    rows = [_session_row(view, now, plain=plain) for view in views]
    columns = {name: [row[name] for row in rows] for name in names}
    limits = WIDE_LIMITS if width >= _WIDE else ROOMY_LIMITS if width >= ROOMY else LIMITS
    widths = _column_widths(
        columns,
        width,
        limits,
        grow=("TITLE", "STATE", "PROJECT", "HOST"),
        shrink={"STATE": 12, "TITLE": 1},
    )
    heads, lines = _table_lines(columns, widths)
    for view, line in zip(views, lines, strict=True):
        if view.reachability != "live":
            line.stylize("dim")
    return heads, lines


def _session_row(view: SessionView, now: int, *, plain: bool) -> dict[str, Text]:
    state, usage = view.state, view.usage
    colour = "red" if state.state == "error" else COLOURS[state.group]
    title = Text(clean(view.title) or _directory(view) or "(untitled)")
    if view.agent != DEFAULT_AGENT:
        title = Text.assemble((clean(view.agent), "dim"), ": ", title)
    if hook_problem(view):
        title = Text.assemble((PLAIN_UNWELL if plain else UNWELL, "red"), " ", title)
    label = f"{icon_of(view, plain=plain)} {_label(view)}"
    live = view.reachability == "live"
    return {
        "STATE": Text(label, style=f"bold {colour}" if view.unread else colour),
        "TITLE": title,
        "PROJECT": Text(clean(view.project)),
        "HOST": Text(clean(view.host)),
        "ID": Text(clean(view.session_id)),
        "COST": Text(clean(paid(view, plain=plain))),
        "TOKENS": Text(short(tokens_of(usage)) if usage else NONE),
        "CTX": Text(context(view.context)),
        # How long it has been so is not known of a host that does not report.
        "FOR": Text(age(now - state.since) if live else view.reachability),
    }


def icon_of(view: SessionView, *, plain: bool) -> str:
    if view.state.state == "session_ended":
        return PLAIN_CLOSED if plain else CLOSED
    return (PLAIN_ICONS if plain else ICONS)[view.state.group]


def _label(view: SessionView) -> str:
    """A domain's words, else the state's own."""
    display = view.display and clean(view.display.label)
    return display or clean(view.state.label) or clean(view.state.state)


def _directory(view: SessionView) -> str:
    """The end of where it runs: what a path begins with is the same for all."""
    return PurePath(clean(view.cwd)).name or clean(view.project)


def first_line(view: SessionView, now: int) -> Text:
    """Of a list whose top has left the screen: who is to be attended to first, and why."""
    said = f"First: {_label(view)}, for {age(now - view.state.since)}. "
    return Text.assemble((said, COLOURS[view.state.group]), f"adsum show {view.session_id[:6]}")


def counts_line(
    views: Sequence[SessionView], hosts: Iterable[HostView], now: int, *, part: bool = False
) -> Text:
    """Live counts, whose hooks are unwell, then who is not live, since when, and in what need.

    part: those shown are not all, so that a group without any may well have some.
    """
    counts = dict.fromkeys(WORDS, 0)
    unwell: Counter[str] = Counter()
    waiting: Counter[str] = Counter()
    for view in views:
        if view.reachability != "offline":
            counts[view.state.group] += 1
        elif view.state.group is Group.NEEDS_YOU:
            waiting[view.host_id] += 1
        if problem := hook_problem(view):
            unwell[problem] += 1
    parts: list[Text] = []
    for group, word in WORDS.items():
        if part and not counts[group]:
            continue
        of = "of these " if part and not parts else ""
        words = "needs you" if word == "need you" and counts[group] == 1 else word
        colour = COLOURS[group] if counts[group] else "dim"
        parts.append(Text.assemble(of, (f"{counts[group]} {words}", colour)))
    if reviews := sum(view.review is not None and view.reachability != "offline" for view in views):
        parts.append(Text(f"{reviews} to review"))
    if unwell:
        words = ", ".join(f"{problem} in {times}" for problem, times in sorted(unwell.items()))
        parts.append(Text(f"hooks {words}", "red"))
    if incomplete := sum(view.incomplete for view in views):
        parts.append(Text(f"parts of {incomplete} missing, see adsum hosts", "dim"))
    of_hosts = (_host_words(host, now, waiting[host.id]) for host in hosts)
    parts += [each for each in of_hosts if each is not None]
    return Text(" · ", "dim").join(parts)


def _host_words(host: HostView, now: int, waiting: int) -> Text | None:
    """None of a host that is well. waiting: sessions that needed someone when it was lost."""
    if host.reachability != "live":
        last = f"{clean(host.label)} {host.reachability}, last seen {age(now - host.last_seen)} ago"
        return Text(f"{last}{f', {waiting} needed you then' if waiting else ''}", "dim")
    unwell = [each.name for each in host.witnesses if each.state in ("missing", "trouble")]
    faults = ["a problem"] if host.problem else []
    faults += [f"{', '.join(unwell)} unwell"] if unwell else []
    if not faults:
        return None
    words = (f"{clean(host.label)}: {' and '.join(faults)}", "red")
    return Text.assemble(words, (", see adsum hosts", "dim"))


def history_table(history: History, console: Console) -> Lines:
    """The title is cut, then columns are left out; nothing is cut while there is room."""
    plain = is_plain(console)
    rows = [_history_row(view, history.now, plain=plain) for view in history.sessions]
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    widths = _column_widths(
        columns,
        console.width,
        WIDE_HISTORY_LIMITS if console.width >= _WIDE else HISTORY_LIMITS,
        grow=("TITLE", "PROJECT", "HOST"),
        shrink={"TITLE": 5},
        drop=("PROJECT", "HOST", "TOKENS", "COST"),
    )
    heads, lines = _table_lines(columns, widths)
    return Lines(heads, *lines)


def _history_row(view: SessionView, now: int, *, plain: bool) -> dict[str, Text]:
    title = clean(view.title) or clean(view.last_prompt) or clean(view.cwd) or "(untitled)"
    return {
        # Of a session whose end nobody reported, the last that was heard of it.
        "ENDED": Text(age(now - (view.ended_at or view.updated_at))),
        "TITLE": Text(title),
        "PROJECT": Text(clean(view.project)),
        "HOST": Text(clean(view.host)),
        "TOKENS": Text(short(tokens_of(view.usage)) if view.usage else NONE),
        "COST": Text(clean(paid(view, plain=plain))),
        "ID": Text(clean(view.session_id)),
    }


def history_footer(history: History) -> Text:
    shown = len(history.sessions)
    sessions = "1 session" if history.total == 1 else f"{history.total:,} sessions"
    if shown < history.total:
        sessions = f"{shown:,} of {sessions}, more with --limit N"
    return Text(f"{sessions} · one in full: adsum show ID", style="dim")


def usage_table(report: UsageReport, console: Console, most: int | None = None) -> Lines:
    """Names are cut, then the last columns left out.

    most: rows; the total is of all of them all the same.
    """
    columns = _usage_columns(report, most, plain=is_plain(console))
    name, _, *others = columns
    heads = {"CACHE READ": "C.READ", "CACHE WRITE": "C.WRITE"}
    if _whole_width(columns) > console.width:
        columns = {heads.get(head, head): cells for head, cells in columns.items()}
        others = [heads.get(head, head) for head in others]
    limits = {name: 12, "ID": 8 if console.width >= _WIDE else 6}
    widths = _column_widths(
        columns, console.width, limits, grow=(name,), shrink={name: 5}, drop=others[::-1]
    )
    header, lines = _table_lines(columns, widths)
    if len(report.rows) > 1:
        lines[-1].stylize("bold")
    return Lines(header, *lines)


def _usage_columns(report: UsageReport, most: int | None, *, plain: bool) -> dict[str, list[Text]]:
    """With a last row for the total, if there is more than one."""
    rows = report.rows[:most]
    usages = [row.usage for row in rows]
    names = [Text(clean(row.label) or clean(row.key) or "(none)") for row in rows]
    ids = [Text(clean(row.key.rpartition(":")[2])) for row in rows]
    sessions = [_number(row.sessions) for row in report.rows]
    if len(report.rows) > 1:
        usages.append(report.total)
        names.append(Text("total"))
        ids.append(Text())
        # A sum only where no session can be in two rows: one lasts for days, and has two models.
        added = report.by in ("host", "project")
        sessions.append(_number(sum(row.sessions for row in report.rows)) if added else Text())
    return {
        report.by.upper(): names,
        **({"ID": ids} if report.by == "session" else {}),
        "COST": [_cost(usage, plain=plain) for usage in usages],
        "INPUT": [_number(usage.input_tokens) for usage in usages],
        "OUTPUT": [_number(usage.output_tokens) for usage in usages],
        "CACHE READ": [_number(usage.cache_read_tokens) for usage in usages],
        "CACHE WRITE": [_number(usage.cache_write_tokens) for usage in usages],
        **({} if report.by == "session" else {"SESSIONS": sessions}),
    }


def _number(count: int) -> Text:
    return Text(short(count), style="" if count else "dim")


def _cost(usage: UsageView, *, plain: bool) -> Text:
    said = cost(usage, plain=plain)
    return Text(said, style="yellow" if said == UNPRICED else "")


def usage_footer(report: UsageReport, console: Console, most: int | None = None) -> Text:
    """Which days, whose word the costs are, and what to do about tokens without a price."""
    plain, count = is_plain(console), len(report.rows)
    cut = f"{most:,} of {count:,} sessions, more with --limit N\n" if most and most < count else ""
    lines = Text(cut + " · ".join([days_of(report), *_source(report, plain=plain)]), style="dim")
    if report.total.unpriced_tokens:
        lines.append("\n").append(_unpriced(report, plain=plain), style="yellow not dim")
    return lines


def days_of(report: UsageReport) -> str:
    return report.since if report.since == report.until else f"{report.since} to {report.until}"


def _unpriced(report: UsageReport, *, plain: bool) -> str:
    """Of which models, and how many tokens, is in the hub's own note."""
    at_least = marks(plain=plain)[1]
    usages = (*(row.usage for row in report.rows), report.total)
    if not any(cost(usage, plain=plain).startswith(at_least) for usage in usages):
        return f"{UNPRICED}: no price is known. {PRICES}"
    return f"{at_least} at least: some lack a price. {PRICES}"


def _source(report: UsageReport, *, plain: bool) -> list[str]:
    """The page has the same words, in web/core/format.js."""
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


CLOCK_MOST_MS = 5_000
BAR_CELLS = 16
BAR, PLAIN_BAR = ("█", "░"), ("#", "-")
#: Of a rate limit: from here on it is worth a colour.
NEARLY_USED_UP = 80


def host_table(hosts: Sequence[HostView], now: int, console: Console) -> RenderableType:
    """A line for each machine, and below it what is wrong, wrapped to any width."""
    columns = {
        "HOST": [Text(clean(host.label)) for host in hosts],
        "STATE": [Text(host.reachability) for host in hosts],
        "SESSIONS": [Text(str(host.sessions)) for host in hosts],
        "SEEN": [Text(age(now - host.last_seen)) for host in hosts],
    }
    # A name may be anything: it has what the others leave.
    widths = _column_widths(columns, console.width, {"HOST": 4}, grow=("HOST",), shrink={})
    heads, lines = _table_lines(columns, widths)
    drawn: list[RenderableType] = [heads]
    for host, line in zip(hosts, lines, strict=True):
        line.style = "" if host.reachability == "live" else "dim"
        drawn.append(line)
        drawn += [
            Padding(Text(note, style), (0, 0, 0, 2), expand=False)
            for note, style in host_notes(host, now, plain=is_plain(console))
        ]
    return Lines(*drawn)


def host_notes(host: HostView, now: int, *, plain: bool = False) -> Iterator[tuple[str, str]]:
    """(sentence, style), worst first; the machine's own, then a line for each witness worth one.

    plain: for a terminal without Unicode.
    """
    if host.problem:
        yield clean(host.problem), "yellow"
    if host.reachability != "live":
        since = moment(host.last_seen, now)
        yield f"{host.reachability} since {since}; its sessions are shown as they were then", ""
    for gap in reversed(host.gaps[-GAPS_SHOWN:]):
        yield clean(gap_sentence(gap, now)), "yellow"
    if len(host.gaps) > GAPS_SHOWN:
        yield f"and {len(host.gaps) - GAPS_SHOWN} earlier gaps", ""
    if host.set_aside:
        entries = "1 entry was" if host.set_aside == 1 else f"{host.set_aside:,} entries were"
        yield f"{entries} set aside: unreadable, or sent by a copy of it", "yellow"
    # Of many the hub says itself how long they will take.
    if host.backlog and "on their way" not in (host.problem or ""):
        signals = "1 signal" if host.backlog == 1 else f"{host.backlog:,} signals"
        yield f"{signals} on their way", ""
    if host.via == "hub":
        yield "via hub: its signals come through one, and not by Redis", ""
    if abs(host.clock_offset_ms) > CLOCK_MOST_MS:
        ahead = "ahead" if host.clock_offset_ms > 0 else "behind"
        yield f"its clock is {span(abs(host.clock_offset_ms))} {ahead}", "yellow"
    yield from _usage_notes(host, now, plain=plain)
    for note in _witness_notes(host):
        yield note, ""


def _usage_notes(host: HostView, now: int, *, plain: bool) -> Iterator[tuple[str, str]]:
    if host.scan is not None:
        yield _scan_words(host.scan, plain=plain), ""
    if host.limits:
        full = any(limit.used_percent >= NEARLY_USED_UP for limit in host.limits)
        used = "; ".join(limit_words(host.limits, now))
        yield clean(f"rate limits used: {used}"), "yellow" if full else ""


def _scan_words(scan: ScanProgress, *, plain: bool) -> str:
    """A bar by bytes, since files differ in size; what matters least stands last, where it wraps."""
    if scan.bytes <= 0:
        return "looks for its history"
    part = min(1.0, max(0.0, scan.bytes_done / scan.bytes))
    done, still = PLAIN_BAR if plain else BAR
    cells = int(part * BAR_CELLS)
    # Never all of it: what has been read has still to be sent.
    share = min(99, int(part * 100))
    said = [f"reads its history {done * cells}{still * (BAR_CELLS - cells)} {share}%"]
    if scan.left_s is not None and scan.left_s >= 1:
        said.append(f"{span(scan.left_s * 1000)} left")
    said.append(f"{octets(scan.bytes_done)} of {octets(scan.bytes)}")
    if scan.bytes_per_s > 0:
        said.append(f"{octets(scan.bytes_per_s)}/s")
    said.append(f"{scan.files_done:,} of {scan.files:,} files")
    return ", ".join(said)


def _witness_notes(host: HostView) -> Iterator[str]:
    """Silence is no fault and the process table never fails: neither is worth a word."""
    heard = [each for each in host.witnesses if each.state == "ok" and each.name != "process"]
    if heard:
        yield "heard: " + ", ".join(witness_word(each.name) for each in heard)
    for each in host.witnesses:
        said = [] if each.state in ("ok", "silent") else [clean(each.state)]
        said += [cause_sentence(cause, times) for cause, times in each.counts.items()]
        note = clean(each.note)
        if said or note:
            yield f"{witness_word(each.name)}: {', '.join(said)}{'. ' if said and note else ''}{note}"
