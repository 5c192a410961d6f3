"""Judges how well this machine's witnesses are heard, for the heartbeat and `/readyz`."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from adsum_collector.agents.base import Agent, HookFile
from adsum_collector.errors import shown
from adsum_collector.line_reader import MOST_TRANSCRIPT_BYTES
from adsum_shared.state import HostWitness

#: Between two looks into the settings, and after the start: `adsum up` puts the hooks in a moment
#: after its collector is there.
LOOK_MS = 10_000
#: The heartbeat is written every two seconds and read by every hub, so it stays small.
CAUSES_MAX = 16
CAUSE_MAX = 40
NOTE_MAX = 300

Stamp = tuple[int, int, int]


class HookFiles:
    """The files in which an agent's hooks should stand. port: where those should report."""

    def __init__(self, agent: Agent, directories: Sequence[Path], port: int, now: int) -> None:
        self._agent, self._port, self._looked_at = agent, port, now
        self._stamps: dict[Path, tuple[bool, Stamp | None]] = {}
        paths = filter(None, map(agent.hook_file, directories))
        self._found: dict[Path, HookFile] = {path: HookFile("ok") for path in paths}

    def look(self, now: int) -> list[HookFile]:
        """Reads what has changed; a file that has not costs one stat every LOOK_MS."""
        if not 0 <= now - self._looked_at < LOOK_MS:
            self._looked_at = now
            for path in self._found:
                # without its directory the agent is not on this machine, and misses no hooks
                there, stamp = path.parent.is_dir(), _stamp(path)
                if self._stamps.get(path) != (there, stamp):
                    self._stamps[path] = there, stamp
                    self._found[path] = self._read(path, stamp) if there else HookFile("ok")
        return list(self._found.values())

    def _read(self, path: Path, stamp: Stamp | None) -> HookFile:
        found = self._agent.look_at_hooks(path, self._port)
        note = found.note[:NOTE_MAX] if found.note else None
        return HookFile(found.state, note, stamp[0] // 1_000_000 if stamp else 0)


def _stamp(path: Path) -> Stamp | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size, stat.st_ino


def hook_witness(
    files: Sequence[HookFile], accepted: int, refused: Mapping[int, int], heard_at: int
) -> HostWitness:
    """What is wrong with a settings file outweighs what has been heard before it was so."""
    counts = bounded({f"HTTP {status}": times for status, times in refused.items()})
    wrong = [file for file in files if file.state == "trouble"]
    # Hooks that come long after the file was changed stand elsewhere, in a project or a plugin.
    wrong += [f for f in files if f.state == "missing" and heard_at <= f.changed_at + LOOK_MS]
    if wrong:
        return HostWitness("hook", wrong[0].state, heard_at, counts, wrong[0].note)
    if accepted or not refused:
        return HostWitness("hook", "ok" if accepted else "silent", heard_at, counts)
    step = "install" if 401 in refused else "verify"
    note = f"Every hook so far was refused. Next: adsum hooks {step}"
    return HostWitness("hook", "trouble", heard_at, counts, note)


def witness(name: str, heard_at: int, faults: Mapping[str, int] | None = None) -> HostWitness:
    """One of which nothing is expected: silence is no fault, there may be no session yet."""
    return HostWitness(name, "ok" if heard_at else "silent", heard_at, bounded(faults or {}))


def transcript_witness(
    heard_at: int, faults: Mapping[str, int], too_long: Mapping[str, int]
) -> HostWitness:
    """too_long: files that are not read for their size, and that."""
    told = witness("transcript", heard_at, faults)
    if not too_long:
        return told
    path, size = max(too_long.items(), key=lambda item: item[1])
    name = shown(Path(path)).encode(errors="replace").decode()
    others = f", as are {len(too_long) - 1} more" if len(too_long) > 1 else ""
    note = (
        f"Not read, as it is longer than {MOST_TRANSCRIPT_BYTES >> 30} GB: {name} ({size >> 30:,} GB){others}. "
        "Next: delete it or cut it short."
    )
    return msgspec.structs.replace(told, state="trouble", note=note[:NOTE_MAX])


def bounded(counts: Mapping[str, int]) -> dict[str, int]:
    """The most frequent causes, at most CAUSES_MAX of them."""
    most = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:CAUSES_MAX]
    return {cause[:CAUSE_MAX]: times for cause, times in most if times}
