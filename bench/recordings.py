"""Records the user's own sessions, labelled by what their terminals show: `bench.accuracy --recordings`.

Of this machine, in tmux alone, and nothing leaves it. Of a screen only its meaning is kept; what the
witnesses said comes from the hub, as redacted as in `adsum report-wrong-state`. The CLI's registry
lends the names of sessions to panes, and never a state.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from adsum.client import HubAddress, hub_url
from adsum.outcome import CommandError
from adsum.reach import Pane, all_panes, pane_of, terminal_and_ancestors
from adsum.reports import gathered, scenario
from adsum_collector.processes import look_up
from adsum_shared.signals import LEFT
from bench.screens import ELSEWHERE, ENDED, INPUT, Look, labels, shown
from bench.traces import Label

INTERVAL_S = 0.1
#: Of what witnesses said before the recording: a session may have begun its turn then.
BEFORE_MIN = 10
#: What a witness is called in `known_to`; how far from a boundary it counts as near.
KNOWN = {"hook": "hook", "transcript": "line"}
BEFORE_MS, AFTER_MS = 700, 1_500


class Recorder:
    """Looks at every pane in which a session of Claude Code runs."""

    def __init__(self, registry: Path) -> None:
        self._registry = registry
        self._panes: dict[int, Pane | None] = {}
        self.looks: list[Look] = []

    def look(self, now: int) -> None:
        """now: ms of wall clock."""
        running = dict(self._running())
        known = {each.session_id for each in self.looks} | {*running.values()}
        inverse = {session_id: pid for pid, session_id in running.items()}
        for session_id in known:
            pid = inverse.get(session_id)
            pane = None if pid is None else self._pane(pid)
            seen = ENDED if pid is None else ELSEWHERE if pane is None else shown(screen(pane))
            self.looks.append(Look(now, session_id, seen))

    def _running(self) -> Iterable[tuple[int, str]]:
        for path in self._registry.glob("*.json"):
            with suppress(OSError, ValueError, KeyError):  # half-written, or gone since
                said = json.loads(path.read_bytes())
                if look_up(said["pid"]) is not None:
                    yield said["pid"], said["sessionId"]

    def _pane(self, pid: int) -> Pane | None:
        if pid not in self._panes:
            with suppress(CommandError):
                self._panes[pid] = pane_of(all_panes(), *terminal_and_ancestors("It", pid))
        return self._panes.get(pid)


def screen(pane: Pane) -> str:
    command = ["tmux", "capture-pane", "-p", "-t", pane.name]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def hub_of(named: str | None) -> HubAddress:
    """As the command line finds it, by the same variables. Raises CommandError."""
    state_dir = os.environ.get("ADSUM_STATE_DIR")
    return hub_url(named or os.environ.get("ADSUM_HUB_URL"), Path(state_dir) if state_dir else None)


def record(folder: Path, minutes: float, hub: str | None = None) -> None:
    """Until Ctrl-C, or so many minutes; then a scenario of each session. Raises CommandError."""
    url, began = hub_of(hub), _now()
    config = Path(os.environ.get("CLAUDE_CONFIG_DIR", "~/.claude")).expanduser()
    recorder = Recorder(config / "sessions")
    print(f"Recording for {minutes:g} min what tmux shows; Ctrl-C ends it.", file=sys.stderr)
    with suppress(KeyboardInterrupt):
        while _now() < began + minutes * 60_000:
            recorder.look(_now())
            time.sleep(INTERVAL_S)
    found = labels(recorder.looks, _now())
    back = math.ceil((_now() - began) / 60_000) + BEFORE_MIN
    for session_id in dict.fromkeys(label.session_id for label in found):
        try:
            mine = [label for label in found if label.session_id == session_id]
            _write(folder, url, session_id, back, mine)
        except CommandError as error:
            print(f"not recorded: {error}", file=sys.stderr)


def known_to(at: int, signals: Iterable[Mapping[str, Any]]) -> list[str]:
    """Which of hooks and transcript said anything near this instant, as traces define it."""
    near = {
        KNOWN.get(each.get("source", ""))
        for each in signals
        if at - BEFORE_MS <= each["at"] <= at + AFTER_MS
    }
    return sorted(filter(None, near))


def withheld(found: list[Label], signals: Sequence[Mapping[str, Any]]) -> None:
    """Takes the score from what a screen cannot show: by one session's signals, times as theirs.

    That its input box waits for a scheduled wake-up; and that the terminal shows the session that
    goes on with it, of which the registry goes on to say the old name.
    """
    wakes = [(each["at"], each["until"]) for each in signals if each.get("until")]
    left = [each["at"] for each in signals if each.get("reason") == LEFT]
    for label in found:
        due = any(at < label.to_ms and label.from_ms < until for at, until in wakes)
        if any(at <= label.from_ms for at in left):
            label.group, label.states, label.why = None, None, "another session goes on with it"
        elif due and label.why == INPUT.why:
            label.group, label.states, label.why = None, None, "input box, a wake-up is due"


def _write(folder: Path, url: str, session_id: str, minutes: int, found: list[Label]) -> None:
    view, told, fresh = gathered(url, session_id, minutes)
    withheld(found, told.signals)
    for label in found:
        label.known_to = known_to(label.from_ms, told.signals)
        label.from_ms -= told.since
        label.to_ms -= told.since
    name = f"{session_id[:8]}-{time.strftime('%Y%m%d-%H%M%S')}"
    collector = next((host.version for host in fresh.hosts if host.id == view.host_id), None)
    rows = [msgspec.to_builtins(label) for label in found]
    (folder / name).mkdir(parents=True)
    for file, text in scenario(name, view, told, collector, rows).items():
        (folder / name / file).write_text(text)
    print(f"{folder / name}: {len(told.signals)} signals, {len(found)} labels", file=sys.stderr)


def _now() -> int:
    return time.time_ns() // 1_000_000
