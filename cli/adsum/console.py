"""Where text for people goes, and what to say when there is nothing to show."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from adsum_shared.state import HostView

if TYPE_CHECKING:
    from rich.console import Console


def open_console() -> Console:
    """Standard output. Nobody watches a pipe, so nothing is cut there to fit a width."""
    from rich.console import Console

    return Console(
        highlight=False, soft_wrap=False, width=None if sys.stdout.isatty() else _piped()
    )


def _piped() -> int:
    columns = os.environ.get("COLUMNS", "")
    return int(columns) if columns.isdecimal() and int(columns) > 0 else 400


def advice(*, filtered: bool, hosts: Sequence[HostView]) -> str:
    """What to do when there is nothing to show."""
    if filtered:
        return "No session matches. All of them: adsum agents"
    if not hosts:
        return "No machine has reported yet. On this one: adsum up"
    return (
        "No sessions yet. Start `claude` in a terminal and it appears here; if it does not: "
        "adsum hooks verify"
    )
