"""Which transcripts there are, and how they are now. Blocks; opens none."""

from __future__ import annotations

import contextlib
import os
import stat as modes
from collections.abc import Callable, Iterable, Iterator, Mapping

from adsum_collector.transcripts.cursors import Stamp

SUFFIX = ".jsonl"
#: The agent nests five directories.
MOST_DEPTH = 8


def look_at(
    paths: Iterable[str],
    enter: Callable[[str], None],
    known: Mapping[str, Stamp] | None = None,
) -> tuple[dict[str, Stamp | None], set[str]]:
    """Stamps of transcripts at or below these paths (None: nothing there), and all that were found.

    enter: called with each directory before it is listed. known: stamps not to be told again.
    """
    told: dict[str, Stamp | None] = {}
    found: set[str] = set()
    for path in paths:
        try:
            stat = os.stat(path)  # noqa: PTH116 - thousands of times; a Path costs more than this
        except (OSError, ValueError):  # ValueError: no path at all, as one with a NUL in it
            told[path] = None
            continue
        if modes.S_ISDIR(stat.st_mode):
            for each, stamp in _walk(path, enter):
                found.add(each)
                if known is None or known.get(each) != stamp:
                    told[each] = stamp
        elif modes.S_ISREG(stat.st_mode):
            found.add(path)
            told[path] = Stamp.of(stat)
    return told, found


def mains_of(roots: Iterable[str], sessions: Iterable[str]) -> dict[str, Stamp | None]:
    """Stamps of these sessions' main files alone, which takes no walk over all that there is."""
    told: dict[str, Stamp | None] = {}
    names = [f"{session}{SUFFIX}" for session in sessions if not {"/", "\0"} & set(session)]
    for root in roots:
        try:
            with os.scandir(root) as entries:
                directories = [entry.path for entry in entries]
        except OSError:
            continue
        for directory in directories:
            for name in names:
                path = f"{directory}/{name}"
                with contextlib.suppress(OSError):
                    told[path] = Stamp.of(os.stat(path))  # noqa: PTH116 - as above
    return told


def newest_first(told: Mapping[str, Stamp | None]) -> dict[str, Stamp | None]:
    """What nobody finds any more comes last."""
    return dict(
        sorted(told.items(), key=lambda item: item[1].mtime_ns if item[1] else 0, reverse=True)
    )


def _walk(top: str, enter: Callable[[str], None]) -> Iterator[tuple[str, Stamp]]:
    """Links to directories are followed directly below the top only: deeper they may lead back."""
    left = [(top, 0)]
    while left:
        directory, depth = left.pop()
        try:
            enter(directory)
            with os.scandir(directory) as entries:
                for entry in entries:
                    try:
                        if entry.name.endswith(SUFFIX):
                            if entry.is_file():
                                yield entry.path, Stamp.of(entry.stat())
                        elif depth < MOST_DEPTH and entry.is_dir(follow_symlinks=depth == 0):
                            left.append((entry.path, depth + 1))
                    except OSError:
                        continue  # a link that leads to itself, or just gone: the others are there
        except OSError:
            continue  # gone, or not for us: the next walk tries again
