"""Watches directories for changes, by the system's own notifications.

On Linux straight from inotify: watchfiles asks its own thread every step, which at 50 ms costs
0.17 % of a core and 20 wake-ups a second for each watcher, all day; this costs nothing while
nothing changes, and tells at once.
"""

import asyncio
import contextlib
import ctypes
import os
import struct
import sys
import weakref
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Protocol

from watchfiles import awatch

#: After a change was told: what a busy file can cost.
PAUSE_S = 0.02
RETRY_S = 1.0
STEP_MS = 50

_MODIFY, _MOVED_FROM, _MOVED_TO, _CREATE, _DELETE = 0x2, 0x40, 0x80, 0x100, 0x200
_OVERFLOW, _IGNORED, _ONLYDIR, _ISDIR = 0x4000, 0x8000, 0x0100_0000, 0x4000_0000
_MASK = _MODIFY | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE | _ONLYDIR
_EVENT = struct.Struct("iIII")
_READ_BYTES = 64 << 10


class FileEvents(Protocol):
    """enter: a directory to be told of; again, if in doubt. Raises OSError.

    changes: paths of files that have changed, come or gone, and of directories that are to be
    looked at whole, without end.
    """

    def enter(self, directory: str) -> None: ...

    def changes(self) -> AsyncIterator[set[str]]: ...

    def close(self) -> None: ...


def file_events(
    roots: Sequence[Path], wanted: Callable[[str], bool], *, recursive: bool
) -> FileEvents:
    """wanted: by a file's name. Where the system tells nothing, nothing is told."""
    if sys.platform != "linux":
        return Watched(roots, wanted, recursive=recursive)
    return Inotify(roots, wanted)


class Inotify:
    def __init__(self, roots: Sequence[Path], wanted: Callable[[str], bool]) -> None:
        self._roots = [str(root) for root in roots]
        self._wanted = wanted
        self._libc = ctypes.CDLL(None, use_errno=True)
        # -1 if the user has too many of them already: then every `enter` fails
        self._descriptor: int = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._descriptor >= 0:
            # Also of one that nobody follows: a user may have 128 instances.
            self._give_back = weakref.finalize(self, os.close, self._descriptor)
        self._directories: dict[int, str] = {}
        self._entered: set[str] = set()

    def enter(self, directory: str) -> None:
        if directory in self._entered:
            return
        watch: int = self._libc.inotify_add_watch(self._descriptor, os.fsencode(directory), _MASK)
        if watch < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), directory)
        # the same directory by another name, if it was renamed
        self._entered.discard(self._directories.get(watch, ""))
        self._directories[watch] = directory
        self._entered.add(directory)

    async def changes(self) -> AsyncIterator[set[str]]:
        if self._descriptor < 0:
            await asyncio.Event().wait()
        while True:
            await self._readable()
            if paths := self._read():
                yield paths
            await asyncio.sleep(PAUSE_S)

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        self._entered.clear()
        if descriptor >= 0:
            self._give_back()

    async def _readable(self) -> None:
        loop = asyncio.get_running_loop()
        readable = asyncio.Event()
        loop.add_reader(self._descriptor, readable.set)
        try:
            await readable.wait()
        finally:
            loop.remove_reader(self._descriptor)

    def _read(self) -> set[str]:
        paths: set[str] = set()
        # nothing there after all; or a name longer than the rest of the buffer, which comes next
        with contextlib.suppress(BlockingIOError):
            raw = os.read(self._descriptor, _READ_BYTES)
            position = 0
            while position < len(raw):
                watch, mask, _, length = _EVENT.unpack_from(raw, position)
                position += _EVENT.size + length
                name = os.fsdecode(raw[position - length : position].rstrip(b"\0"))
                paths |= self._paths(watch, mask, name)
        return paths

    def _paths(self, watch: int, mask: int, name: str) -> set[str]:
        if mask & _OVERFLOW:
            return set(self._roots)
        directory = self._directories.get(watch)
        if mask & _IGNORED:
            self._entered.discard(self._directories.pop(watch, ""))
            return set()
        if directory is None or not name:
            return set()
        if mask & _ISDIR:
            return {f"{directory}/{name}"} if mask & (_CREATE | _MOVED_TO) else set()
        return {f"{directory}/{name}"} if self._wanted(name) else set()


class Watched:
    """By watchfiles, where there is no inotify."""

    def __init__(
        self, roots: Sequence[Path], wanted: Callable[[str], bool], *, recursive: bool
    ) -> None:
        self._roots, self._wanted, self._recursive = roots, wanted, recursive

    def enter(self, directory: str) -> None:
        pass

    async def changes(self) -> AsyncIterator[set[str]]:
        while True:
            present = [root for root in self._roots if root.is_dir()]
            if present:
                with contextlib.suppress(OSError, RuntimeError):
                    async for changed in awatch(
                        *present,
                        watch_filter=lambda _change, path: self._wanted(Path(path).name),
                        step=STEP_MS,
                        debounce=STEP_MS,
                        recursive=self._recursive,
                        force_polling=False,
                    ):
                        yield {path for _, path in changed}
            await asyncio.sleep(RETRY_S)

    def close(self) -> None:
        pass
