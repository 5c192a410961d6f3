"""What tests of the spool share: a clock, signals of any kind, and reading it whole."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from adsum_collector.spool.spool import Rows, SpoolGap
from adsum_collector.spool.spool_directory import SpoolDirectory
from adsum_collector.spool.spool_file import Append, SpoolLimits
from adsum_shared import signals as s

#: Files of ten signals of a thousand bytes. Each is 36 kB, as a table is a page at least.
SMALL = SpoolLimits(
    cap_bytes=200_000, rotate_bytes=10_000, retention_s=60, min_free_bytes=0, log_bytes=0
)


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def signal(kind: type[s.Signal], at: int = 0, session: str = "s", **fields: Any) -> bytes:
    return s.encode_signal(kind(session_id=session, at=at, seen=at, **fields))  # type: ignore[arg-type]


def prompt(at: int, size: int = 1000) -> bytes:
    """Of about `size` bytes."""
    return signal(s.PromptSubmitted, at, text=f"{at:06d}" + "." * max(0, size - 100))


def put(files: SpoolDirectory, *bodies: bytes, message_id: str | None = None) -> int:
    return files.commit([Append(bodies, message_id)])[0]


def fill(files: SpoolDirectory, count: int, size: int = 1000) -> None:
    """One commit for each."""
    for at in range(count):
        put(files, prompt(at, size))


def read_all(files: SpoolDirectory, after: int = 0) -> tuple[dict[int, bytes], list[SpoolGap]]:
    """Gaps without their times."""
    rows: dict[int, bytes] = {}
    gaps: list[SpoolGap] = []
    while (found := files.read(after, 7, 1 << 20)) is not None:
        if isinstance(found, Rows):
            rows |= dict(enumerate(found.bodies, found.first))
            after += len(found.bodies)
        else:
            assert found.first == after + 1
            gaps.append(SpoolGap(found.first, found.last, found.reason))
            after = found.last
    return rows, gaps


def numbers_of(gaps: list[SpoolGap]) -> list[int]:
    return [seq for gap in gaps for seq in range(gap.first, gap.last + 1)]


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


class SmallDisk:
    """A file system of its own. size: as for mount, which needs root; without it the test skips."""

    def __init__(self, directory: Path, size: str) -> None:
        self.directory = directory
        directory.mkdir(mode=0o700)
        if refusal := self._mount(f"size={size},mode=0700"):
            pytest.skip(f"small file systems are not permitted: {refusal}")

    def resize(self, size: str) -> None:
        assert self._mount(f"remount,size={size}") == ""

    def fill(self, leave: int = 0) -> Path:
        """What somebody else has written there, all but `leave` bytes."""
        file = self.directory / "somebody-elses"
        with file.open("ab") as stream:
            while (free := self.free() - leave) > 0:
                stream.write(b"\0" * min(free, 1 << 20))
                stream.flush()
        return file

    def free(self) -> int:
        stat = os.statvfs(self.directory)
        return stat.f_bavail * stat.f_frsize

    def close(self) -> None:
        subprocess.run(["umount", "-l", self.directory], check=True)

    def _mount(self, options: str) -> str:
        """Why not; empty if it is done."""
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(self.directory)]
        try:
            done = subprocess.run(command, check=False, capture_output=True, text=True)
        except OSError as error:
            return str(error)
        return f"{done.stderr}?".splitlines()[0] if done.returncode else ""


def snapshots(monkeypatch: pytest.MonkeyPatch, directory: Path, into: Path) -> list[Path]:
    """Copies of the directory as a kill would leave it before each change to its names and syncs."""
    into.mkdir()
    taken: list[Path] = []

    def before(place: Any, name: str) -> None:
        real = getattr(place, name)

        def copied_first(*args: Any, **kwargs: Any) -> Any:
            taken.append(into / str(len(taken)))
            shutil.copytree(directory, taken[-1])
            return real(*args, **kwargs)

        monkeypatch.setattr(place, name, copied_first)

    for name in ("replace", "unlink"):
        before(Path, name)
    before(os, "fsync")
    return taken
