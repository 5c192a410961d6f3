"""Machines as text for people: a line each, and below it what is wrong, wrapped to any width. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from adsum.text.amounts import limit_words, octets, span
from adsum.text.causes import sentence
from adsum.text.plain import age, clean
from adsum.text.render import ICONS, icons_for, witness_word
from adsum.text.words import GAPS_SHOWN, gap_sentence, moment
from adsum_shared.state import HostView
from adsum_shared.usage import ScanProgress

COLUMNS = ("HOST", "STATE", "SESSIONS", "SEEN")
GUTTER = 2
INDENT = 2
CLOCK_MOST_MS = 5_000
BAR_CELLS = 16
BAR, PLAIN_BAR = ("█", "░"), ("#", "-")
#: Of a rate limit: from here on it is worth a colour.
NEARLY_USED_UP = 80


def host_table(hosts: Sequence[HostView], now: int, console: Console) -> RenderableType:
    """No line is wider than the console: names are cut, sentences wrapped."""
    rows = [_cells(host, now) for host in hosts]
    widths = [
        max(len(name), *(len(row[index]) for row in rows)) if rows else len(name)
        for index, name in enumerate(COLUMNS)
    ]
    # A name may be anything: it has what the others leave.
    names = [Text(row[0]).cell_len for row in rows]
    room = console.width - sum(widths[1:]) - GUTTER * (len(COLUMNS) - 1)
    widths[0] = max(len(COLUMNS[0]), min(room, max(names, default=0)))
    drawn: list[RenderableType] = [_line(COLUMNS, widths, "dim")]
    for host, row in zip(hosts, rows, strict=True):
        drawn.append(_line(row, widths, "" if host.reachability == "live" else "dim"))
        drawn += [
            Padding(Text(note, style), (0, 0, 0, INDENT), expand=False)
            for note, style in notes(host, now, plain=icons_for(console) is not ICONS)
        ]
    return Group(*drawn)


def _cells(host: HostView, now: int) -> tuple[str, ...]:
    seen = age(now - host.last_seen)
    return clean(host.label), host.reachability, str(host.sessions), seen


def _line(cells: Sequence[str], widths: Sequence[int], style: str) -> Text:
    first, state, *numbers = [Text(cell) for cell in cells]
    first.truncate(widths[0], overflow="ellipsis", pad=True)
    state.align("left", widths[1])
    for number, width in zip(numbers, widths[2:], strict=True):
        number.align("right", width)
    line = Text(" " * GUTTER).join((first, state, *numbers))
    line.no_wrap, line.style = True, style
    return line


def notes(host: HostView, now: int, *, plain: bool = False) -> Iterator[tuple[str, str]]:
    """(sentence, style), worst first; the machine's own, then a line for each witness worth one.

    plain: for a terminal without Unicode.
    """
    if host.problem:
        yield clean(host.problem), "yellow"
    if host.reachability != "live":
        since = moment(host.last_seen, now)
        yield f"{host.reachability} since {since}: what is listed of it is of then", ""
    for gap in reversed(host.gaps[-GAPS_SHOWN:]):
        yield clean(gap_sentence(gap, now)), "yellow"
    if len(host.gaps) > GAPS_SHOWN:
        yield f"and {len(host.gaps) - GAPS_SHOWN} earlier gaps", ""
    if host.set_aside:
        entries = "1 entry was" if host.set_aside == 1 else f"{host.set_aside:,} entries were"
        yield f"{entries} set aside: unreadable, or sent by a copy of it", "yellow"
    # Of many the hub says itself how long they will take.
    if host.backlog and "on their way" not in (host.problem or ""):
        yield f"{_signals(host.backlog)} on their way", ""
    if host.via == "hub":
        yield "via hub: its signals come through one, and not by Redis", ""
    if abs(host.clock_offset_ms) > CLOCK_MOST_MS:
        ahead = "ahead" if host.clock_offset_ms > 0 else "behind"
        yield f"its clock is {age(abs(host.clock_offset_ms))} {ahead}", "yellow"
    yield from _usage_notes(host, now, plain=plain)
    for note in _witness_notes(host):
        yield note, ""


def _usage_notes(host: HostView, now: int, *, plain: bool) -> Iterator[tuple[str, str]]:
    if host.scan is not None:
        yield scan_words(host.scan, plain=plain), ""
    if host.limits:
        full = any(limit.used_percent >= NEARLY_USED_UP for limit in host.limits)
        told = "; ".join(limit_words(host.limits, now))
        yield clean(f"rate limits used: {told}"), "yellow" if full else ""


def scan_words(scan: ScanProgress, *, plain: bool) -> str:
    """A bar by bytes, since files differ in size; what matters least stands last, where it wraps."""
    if scan.bytes <= 0:
        return "looks for its history"
    part = min(1.0, max(0.0, scan.bytes_done / scan.bytes))
    done, still = PLAIN_BAR if plain else BAR
    cells = int(part * BAR_CELLS)
    # Never all of it: what has been read has still to be told.
    share = min(99, int(part * 100))
    said = [f"reads its history {done * cells}{still * (BAR_CELLS - cells)} {share}%"]
    if scan.left_s is not None and scan.left_s >= 1:
        said.append(f"{span(scan.left_s * 1000)} left")
    said.append(f"{octets(scan.bytes_done)} of {octets(scan.bytes)}")
    if scan.bytes_per_s > 0:
        said.append(f"{octets(scan.bytes_per_s)}/s")
    said.append(f"{scan.files_done:,} of {scan.files:,} files")
    return ", ".join(said)


def _signals(count: int) -> str:
    return "1 signal" if count == 1 else f"{count:,} signals"


def _witness_notes(host: HostView) -> Iterator[str]:
    """Silence is no fault and the process table never fails: neither is worth a word."""
    heard = [each for each in host.witnesses if each.state == "ok" and each.name != "process"]
    if heard:
        yield "heard: " + ", ".join(witness_word(each.name) for each in heard)
    for each in host.witnesses:
        said = [] if each.state in ("ok", "silent") else [clean(each.state)]
        said += [sentence(cause, times) for cause, times in each.counts.items()]
        note = clean(each.note)
        if said or note:
            yield f"{witness_word(each.name)}: {', '.join(said)}{'. ' if said and note else ''}{note}"
