"""Where text for people goes, and what to say when there is nothing to show."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from adsum.text.saying import say
from adsum.text.words import trouble_sentence
from adsum_shared.state import HostView, HubTrouble

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

#: Wider than any line of ours.
UNBOUND = 10_000


def open_console() -> Console:
    """Standard output, without what a terminal would obey in any text. Nobody watches a pipe, so nothing is cut there unless COLUMNS asks for it.

    What a terminal without Unicode cannot show it shows as `?`.
    """
    from adsum.text.safe_console import SafeConsole

    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    return SafeConsole(
        highlight=False, soft_wrap=False, width=None if sys.stdout.isatty() else _piped()
    )


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


def own_up(trouble: HubTrouble, now: int) -> None:
    """Beside the data, which is as true as it was."""
    from adsum.text.plain import clean

    say(f"adsum: {clean(trouble_sentence(trouble, now))}")


def advice(*, filtered: bool, hosts: Sequence[HostView]) -> str:
    """What to do when there is nothing to show."""
    if filtered:
        return "No session matches. All of them: adsum agents"
    if not hosts:
        return "No machine has reported yet. On this one: adsum up"
    return (
        "No sessions yet. Start `claude` in a terminal and it appears here; if it does not: "
        "adsum hooks verify. Those that are over: adsum history"
    )
