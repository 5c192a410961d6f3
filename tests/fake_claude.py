"""Sessions of a stand-in for Claude Code, as real processes that register themselves."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.support import wait_until

SOURCE = Path(__file__).parent / "data" / "fake_claude.py"


class FakeClaude:
    """One user's sessions. folder: of the configuration."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.work = folder, folder / "work"
        self.sessions = folder / "sessions"
        self.sessions.mkdir(parents=True)
        self.work.mkdir()
        # The name by which an interpreter's script is told from a program's own words.
        self.program = folder / "claude.js"
        shutil.copy(SOURCE, self.program)
        self._running: list[subprocess.Popen[bytes]] = []

    async def start(self, session_id: str, *flags: str, said: bool = True, **env: str) -> int:
        """The process id, once it rests. said: there is a conversation."""
        if said:
            lines = self.folder / "projects" / "-work" / f"{session_id}.jsonl"
            lines.parent.mkdir(parents=True, exist_ok=True)
            lines.touch()
        words = [sys.executable, str(self.program), "--session-id", session_id, *flags]
        given = {"CLAUDE_CONFIG_DIR": str(self.folder), "PATH": os.environ["PATH"], **env}
        process = subprocess.Popen(words, cwd=self.work, env=given)
        self._running.append(process)
        await wait_until(lambda: self.entry(session_id))
        return process.pid

    def entry(self, session_id: str) -> dict[str, Any] | None:
        for file in self.sessions.glob("*.json"):
            with suppress(FileNotFoundError):
                told: dict[str, Any] = json.loads(file.read_text())
                if told["sessionId"] == session_id:
                    return told
        return None

    def say(self, session_id: str, **changes: Any) -> None:
        """Has the registry say something else."""
        told = self.entry(session_id)
        assert told is not None
        file = self.sessions / f"{told['pid']}.json"
        draft = file.with_suffix(".draft")
        draft.write_text(json.dumps(told | changes))
        draft.replace(file)

    def given(self, session_id: str) -> dict[str, Any]:
        """Words, environment and directory of the latest run."""
        told: dict[str, Any] = json.loads((self.folder / f"given-{session_id}").read_text())
        return told

    def lives(self, pid: int) -> bool:
        """Also of one that was not started from here."""
        for each in self._running:
            if each.pid == pid:
                return each.poll() is None
        return Path(f"/proc/{pid}").exists()

    def end(self) -> None:
        for each in self._running:
            each.kill()
            each.wait(10)
        for file in self.sessions.glob("*.json"):
            with suppress(ProcessLookupError):
                os.kill(int(file.stem), signal.SIGKILL)
