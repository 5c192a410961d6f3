"""What a user's transcripts hold, by kind of line: the means to see that we add nothing."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from urllib.parse import urlsplit

import adsum_collector
from adsum_collector.agents.claude_code.agent import install_hooks
from adsum_collector.agents.installer import Installation, Target, Transport
from tests.real_cli.cli_rig import VERSION, Home

#: Which transcript, line type, and subtype or attachment type.
Kind = tuple[str, str, str | None]

#: Lines by which the CLI saves its own settings and requests every so often. How many there are
#: differs from run to run of one and the same prompt, hooks or none; they tell nothing of hooks.
UNSTEADY = frozenset({"last-prompt", "atis-latch", "mode", "permission-mode", "api-request-blob"})


def census(home: Home) -> Counter[Kind]:
    """How many lines of each kind the user's transcripts hold, the subagents' among them."""
    counts: Counter[Kind] = Counter()
    for file in home.transcripts():
        role = "subagent" if "subagents" in file.parts else "main"
        for raw in file.read_text().splitlines():
            line = json.loads(raw)
            kind = line.get("subtype") or line.get("attachment", {}).get("type")
            if line["type"] not in UNSTEADY:
                counts[role, line["type"], kind] += 1
    return counts


def subscribe(home: Home, url: str, transport: Transport = "http") -> None:
    """Install in this HOME what `adsum hooks install` installs, reporting to the url's port."""
    port = urlsplit(url).port
    assert port is not None
    state_dir = home.path / "adsum"
    target = Target(
        port=port,
        token="unused",
        python=sys.executable,
        shim=Path(adsum_collector.__path__[0]) / "shim.py",
        socket=state_dir / "collector.sock",
        transport=transport,
    )
    version = tuple(int(part) for part in VERSION.split("."))
    install_hooks(Installation(home.settings, state_dir, target, version))
