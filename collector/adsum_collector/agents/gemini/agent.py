"""Gemini CLI, as the collector knows it: from the chats it keeps, and from which processes run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath

from adsum_collector.agents.base import Agent, OwnWitness, Surroundings, Transcripts
from adsum_collector.agents.gemini.chat import (
    Chat,
    history,
    opening,
    signals_from_lines,
    transcript_file,
    written,
)
from adsum_collector.agents.gemini.usage_lines import USAGE_LINES
from adsum_collector.agents.records import Lines, Private, TranscriptFile
from adsum_collector.agents.runners import RunnerWitness, Whereabouts, remember
from adsum_shared.signals import MetaChanged


def is_gemini(words: Sequence[str]) -> bool:
    """A script that node runs, which starts itself anew with more memory."""
    names = [PurePath(word).name for word in words[:4] if not word.startswith("-")]
    return bool({"gemini", "gemini.js"} & set(names[:2]))


class GeminiCli(Agent):
    """A session bears the first eight letters of its id: its file's name has no more of it."""

    name = "gemini"
    title = "Gemini CLI"
    variable = "GEMINI_CLI_HOME"
    setting = "gemini_dirs"
    usage = USAGE_LINES
    limits = (
        "Known from its files alone: a call is told when it has ended, so who waits for an approval "
        "looks as if it worked, and an answer before a call looks like the end."
    )

    def __init__(self) -> None:
        self.places: dict[str, Whereabouts] = {}

    def directories(self, env: Mapping[str, str], home: Path) -> tuple[Path, ...]:
        told = env.get(self.variable)
        return ((Path(told).expanduser() if told else home) / ".gemini",)

    @property
    def transcripts(self) -> Transcripts:
        return Transcripts(transcript_file, self.read, history, written, opening)

    def transcript_dirs(
        self,
        directories: Sequence[Path],
        env: Mapping[str, str],  # noqa: ARG002 - for those who look elsewhere too
        home: Path,  # noqa: ARG002 - as env
    ) -> tuple[Path, ...]:
        return tuple(each / "tmp" for each in directories)

    def own_witnesses(
        self, directories: Sequence[Path], around: Surroundings
    ) -> Sequence[OwnWitness]:
        return [RunnerWitness(directories, is_gemini, self.places, around)]

    def read(
        self,
        lines: Sequence[bytes],
        file: TranscriptFile,
        context: str,
        now: int,
        meta: bytes | None,
        private: Private,
    ) -> Lines:
        said = signals_from_lines(lines, file, context, now, meta, private)
        chat = Chat.of(said.context)
        # the context may hold none: what may be kept on disk is less than what is told here
        told = [each.cwd for each in said.signals if isinstance(each, MetaChanged) and each.cwd]
        if not file.agent_id:
            place = Whereabouts(told[-1] if told else chat.directory, chat.at)
            remember(self.places, file.session_id, place)
        return said
