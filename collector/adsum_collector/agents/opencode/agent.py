"""OpenCode, as the collector knows it: from its database alone. It is never written to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from adsum_collector.agents.base import Agent, OwnWitness, Surroundings
from adsum_collector.agents.opencode.event_log import EventLog


class OpenCode(Agent):
    """Versions before 1.2 wrote a file of JSON for each part of a message. Those are not read."""

    name = "opencode"
    title = "OpenCode"
    resume = "opencode --session"
    variable = "XDG_DATA_HOME"
    setting = "opencode_dirs"
    limits = (
        "Known from its database alone: who waits for a permission looks as if it worked, "
        "and a retry is not told."
    )

    def directories(self, env: Mapping[str, str], home: Path) -> tuple[Path, ...]:
        told = env.get(self.variable)
        return ((Path(told).expanduser() if told else home / ".local/share") / "opencode",)

    def own_witnesses(
        self, directories: Sequence[Path], around: Surroundings
    ) -> Sequence[OwnWitness]:
        return [EventLog(directory, around) for directory in directories]
