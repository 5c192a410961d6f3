"""`adsum top`: whether the full screen can be had here, and if not, why."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

from adsum.client import hub_url
from adsum.outcome import CommandError, Exit
from adsum.select import Filter

INSTEAD = "Without it: adsum agents --watch"


def run_top(hub: str | None, state_dir: Path | None, chosen: Filter) -> None:
    url = hub_url(hub, state_dir)
    if find_spec("textual") is None:
        raise CommandError(
            "adsum top needs Textual, which is not installed. Where Adsum is installed: "
            f"`{Path(sys.executable).parent / 'pip'} install textual`; by pipx: "
            f"`pipx inject adsum textual`. {INSTEAD}"
        )
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise CommandError("adsum top draws on a terminal, and this is none.", Exit.USAGE)
    from adsum.top.screen import Top

    app = Top(url, chosen)
    app.run()
    if app.failed is not None:
        raise app.failed
