"""OpenCode, as the collector knows it: from its database alone. It is never written to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from adsum_collector.agents.base import Agent, OwnWitness, Surroundings, Transcripts
from adsum_collector.agents.opencode.event_log import EventLog
from adsum_collector.agents.records import Lines
from adsum_shared.signals import AnySignal


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

    @property
    def transcripts(self) -> Transcripts:
        """It has none."""
        return Transcripts(
            lambda _path: None,
            lambda _lines, _file, context, _now, _meta, _private: Lines([], context),
            lambda _head, _tail, _file: None,
            lambda _lines: 0,
        )

    def transcript_dirs(
        self,
        directories: Sequence[Path],  # noqa: ARG002 - for those who have some
        env: Mapping[str, str],  # noqa: ARG002 - as above
        home: Path,  # noqa: ARG002 - as above
    ) -> tuple[Path, ...]:
        return ()

    def hook(self, body: bytes, seen: int) -> Sequence[AnySignal]:  # noqa: ARG002 - for those who have one
        raise ValueError("no hook of OpenCode reports here")

    def own_witnesses(
        self, directories: Sequence[Path], around: Surroundings
    ) -> Sequence[OwnWitness]:
        return [EventLog(directory, around) for directory in directories]
