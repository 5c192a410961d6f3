"""Codex, as the collector knows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Final

from adsum_collector.agents.base import (
    Agent,
    Asked,
    HookFile,
    OwnWitness,
    SessionLine,
    Surroundings,
    Transcripts,
)
from adsum_collector.agents.codex.calls import PATCHER
from adsum_collector.agents.codex.hook_events import decoded, signals_from_hook
from adsum_collector.agents.codex.install import CodexInstaller, inspect_hooks
from adsum_collector.agents.codex.known_threads import KnownThreads
from adsum_collector.agents.codex.rollout import (
    Thread,
    history,
    opening,
    signals_from_lines,
    transcript_file,
    written,
)
from adsum_collector.agents.codex.usage_lines import USAGE_LINES
from adsum_collector.agents.installer import SettingsError
from adsum_collector.agents.records import Lines, Private, TranscriptFile
from adsum_collector.errors import shown
from adsum_shared.commands import Command
from adsum_shared.signals import AnySignal

ARCHIVE: Final = "archived_sessions"


class Codex(Agent):
    """Hooks do not tell who answers a permission request, and the rollout does, with every turn.

    So what was read there last is kept in mind, the one thing here that is. The line is written at
    the turn's begin, and a model has to answer before anything is asked. Where no rollout was read,
    a human is asked: better once too often than never.

    Nor do they tell when the turn is over: Stop comes before the user's own hooks on it have run,
    which may take minutes and send the agent on, and the rollout's line after (17 ms later in the
    median where there are none). So Stop ends no turn whose lines are read. Where they are not, it
    does, for nothing else will tell. (Rejected: to hold the end back in the hub, as for an agent
    whose registry stays busy. Codex has none, and the line comes at every end.)
    """

    name = "codex"
    title = "Codex"
    resume = "codex resume"
    variable = "CODEX_HOME"
    setting = "codex_dirs"
    session_variable = "CODEX_THREAD_ID"
    usage = USAGE_LINES
    installer = CodexInstaller()
    control_note = (
        "Of Codex that counts for the sessions of its background server alone. What runs in a terminal "
        "of its own (--no-daemon, codex exec, versions before 0.157) is answered there."
    )
    #: How the processes are called that run sessions: a terminal's own, `codex exec`, and the server.
    processes: ClassVar[tuple[str, ...]] = ("codex",)

    def __init__(self) -> None:
        self.threads = KnownThreads()
        self._servers: list[SessionLine] = []

    @property
    def transcripts(self) -> Transcripts:
        return Transcripts(transcript_file, self.read, history, written, opening)

    def directories(self, env: Mapping[str, str], home: Path) -> tuple[Path, ...]:
        told = env.get(self.variable)
        return (Path(told).expanduser() if told else home / ".codex",)

    def transcript_dirs(
        self,
        directories: Sequence[Path],
        env: Mapping[str, str],  # noqa: ARG002 - for those who look elsewhere too
        home: Path,  # noqa: ARG002 - as env
    ) -> tuple[Path, ...]:
        """Also where sessions are put that were archived."""
        return tuple(each / name for each in directories for name in ("sessions", ARCHIVE))

    def hook(self, body: bytes, seen: int) -> Sequence[AnySignal]:
        told = decoded(body)
        known = self.threads.get(str(told.get("session_id")))
        reviewed = known is not None and known.reviewed
        is_read = known is not None and known.turn is not None and known.turn == told.get("turn_id")
        signals = signals_from_hook(told, seen, reviewed=reviewed, is_read=is_read)
        session = signals[0].session_id
        self.threads.learn(session)
        child = signals[0].agent_id
        if child:
            self.threads.learn(child, "child", session)
        if told.get("tool_name") == PATCHER and isinstance(told.get("tool_input"), dict):
            self.threads.keep_patch(told.get("tool_use_id"), told["tool_input"].get("command"))
        self.threads.note(child or session, signals)
        self.threads.hear(str(told.get("hook_event_name")), child or session, signals)
        return signals

    def own_witnesses(
        self, directories: Sequence[Path], around: Surroundings
    ) -> Sequence[OwnWitness]:
        """Imported here: the process that reads usage starts without them."""
        from adsum_collector.agents.codex.live_threads import LiveThreads
        from adsum_collector.agents.codex.server_status import ServerStatus

        found: list[OwnWitness] = []
        self._servers = []
        for each in directories:
            of = f" of {shown(each)}" if len(directories) > 1 else ""
            server = ServerStatus(each, self.threads, around, f"server{of}")
            self._servers.append(server)
            found += [server, LiveThreads(each, self.threads, around, f"threads{of}")]
        return found

    def answer(self, asked: Asked, command: Command) -> bytes:
        """Imported here: as the witnesses."""
        from adsum_collector.agents.codex.requests import answer_of

        return answer_of(asked, command)

    def message(self, text: str, by: str) -> bytes:  # noqa: ARG002 - it is said as its user's own words
        from adsum_collector.agents.codex.requests import sayable

        return sayable(text).encode()

    def out_of_reach(self, session_id: str) -> str | None:
        reached = self.line_to(session_id) is not None
        return None if reached else f"no background server runs it. {self.control_note}"

    def line_to(self, session_id: str) -> SessionLine | None:
        return next((each for each in self._servers if each.status_of(session_id)), None)

    def hook_file(self, directory: Path) -> Path:
        return directory / "hooks.json"

    def look_at_hooks(self, path: Path, port: int) -> HookFile:  # noqa: ARG002 - none is posted
        """Whether they are trusted is not asked: that stands in another file, which changes often."""
        again = "Next: adsum hooks install --agent codex"
        try:
            report = inspect_hooks(path)
        except SettingsError as error:
            return HookFile("trouble", str(error).encode(errors="replace").decode())
        if faults := report.faults():
            return HookFile("trouble", f"{faults[0]}. Take that out.")
        if report.doubled:
            return HookFile("trouble", f"Adsum's hooks stand twice in {shown(path)}. {again}")
        if not report.counts:
            return HookFile("missing", f"{shown(path)} holds none of Adsum's hooks. {again}")
        return HookFile("ok")

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
        known = Thread.of(said.context)
        self.threads.note(file.session_id, said.signals)
        if known.kind == "session":
            thread = self.threads.learn(file.session_id)
            thread.turn, thread.reviewed = known.turn, known.reviewed
        elif known.kind == "child":
            self.threads.learn(file.session_id, "child", known.session)
        elif known.kind == "hidden":
            self.threads.learn(file.session_id, "hidden", known.session)
        return said
