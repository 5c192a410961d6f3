"""Keeps which transcripts have grown since they were read for usage. No clock, no files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from adsum_collector.agents.records import TranscriptFile
from adsum_collector.transcripts.cursors import Stamp
from adsum_collector.usage.reading import Errand

#: Read by a thread; more is the process's.
LITTLE_BYTES: Final = 8 << 20
LITTLE_FILES: Final = 64
#: A file that rests for so long is one of a session that is over, if nothing says that it lives.
QUIET_MS: Final = 60_000
RETRY_MS: Final = 600_000


class _Seen(msgspec.Struct, frozen=True, eq=False):
    """A file as it was noticed. stamp: None if only its session's past is to be told."""

    whose: TranscriptFile
    stamp: Stamp | None = None


class Stale:
    """lives: whether a session does. now: ms of wall clock."""

    def __init__(self, lives: Callable[[str], bool], now: Callable[[], int]) -> None:
        self._lives = lives
        self._now = now
        self._read: dict[str, Stamp] = {}
        self._stale: dict[str, _Seen] = {}
        self._failed: dict[str, _Seen] = {}
        self._retried_at = now()
        self._young: dict[str, _Seen] = {}
        self._with_child: dict[str, _Seen] = {}
        self._with_thread: dict[str, _Seen] = {}

    def notice(self, path: str, whose: TranscriptFile, stamp: Stamp) -> bool:
        """Whether there is something to read."""
        self.forget(path)
        if _same(self._read.get(path), stamp):
            return False
        self._stale[path] = _Seen(whose, stamp)
        return True

    def forget(self, path: str) -> None:
        """There is nothing to read."""
        self._young.pop(path, None)
        self._failed.pop(path, None)
        self._stale.pop(path, None)

    def begin(self, read: Mapping[str, Stamp]) -> None:
        """read: how the files were that have been read to their ends."""
        self._read = dict(read)
        self._with_child = {}
        self._with_thread = {}
        for path, seen in list(self._stale.items()):
            if seen.stamp is not None and _same(self._read.get(path), seen.stamp):
                del self._stale[path]

    def owe(self, pasts: Iterable[tuple[str, str]]) -> None:
        """Files of which only their sessions' pasts are to be told, with those sessions."""
        for path, session_id in pasts:
            self._stale.setdefault(path, _Seen(TranscriptFile(session_id)))

    def retry(self, now: int) -> None:
        """What could not be read, once in a while: nobody may ever put that right."""
        if not 0 <= now - self._retried_at < RETRY_MS:
            self._retried_at = now
            self._stale = {**self._failed, **self._stale}
            self._failed = {}

    def errands(self, *, reads_much: bool) -> tuple[list[Errand], list[Errand]]:
        """For the thread; and for the process, if it is free and there is much.

        First the sessions that live, then the newest.
        """
        self._owe_the_rested()
        waiting = [path for path in self._stale if path not in self._with_child]
        waiting.sort(key=self._order)
        little: list[str] = []
        left = LITTLE_BYTES
        for path in waiting:
            if (growth := self._growth(path)) <= left and len(little) < LITTLE_FILES:
                little.append(path)
                left -= growth
        if len(little) == len(waiting) or not reads_much:
            self._with_thread = {path: self._stale[path] for path in little}
            return self._errands(little), []
        self._with_child = {path: self._stale[path] for path in waiting}
        return [], self._errands(waiting)

    def bytes_of(self, errands: Sequence[Errand]) -> int:
        return sum(self._growth(os.fsdecode(errand.path)) for errand in errands)

    def keep(self, done: Iterable[tuple[bytes, Stamp]]) -> None:
        """These were read to their ends, as they were when they were opened."""
        for raw, stamp in done:
            path = os.fsdecode(raw)
            self._read[path] = stamp
            for hands in (self._with_child, self._with_thread):
                seen = hands.pop(path, None)
                # noticed since: may have grown since
                if seen is not None and self._stale.get(path) is seen:
                    del self._stale[path]

    def settle(self, *, by_child: bool) -> None:
        """All were tried. What is left could not be read."""
        hands = self._with_child if by_child else self._with_thread
        for path, seen in hands.items():
            if self._stale.get(path) is seen:
                self._failed[path] = self._stale.pop(path)
        hands.clear()

    def _owe_the_rested(self) -> None:
        """Their pasts: they were read as soon as they came, and could still have been growing."""
        for path, seen in list(self._young.items()):
            if self._age(seen) > QUIET_MS:
                del self._young[path]
                self.owe([(path, seen.whose.session_id)])

    def _age(self, seen: _Seen) -> int:
        return self._now() - (seen.stamp.mtime_ns // 1_000_000 if seen.stamp else 0)

    def _order(self, path: str) -> tuple[bool, int]:
        seen = self._stale[path]
        return not self._lives(seen.whose.session_id), -(seen.stamp.mtime_ns if seen.stamp else 0)

    def _growth(self, path: str) -> int:
        seen = self._stale.get(path) or self._with_child.get(path)
        if seen is None or seen.stamp is None:
            return 0
        read = self._read.get(path)
        return seen.stamp.size - (read.size if read and read.size <= seen.stamp.size else 0)

    def _errands(self, paths: Iterable[str]) -> list[Errand]:
        return [self._errand(path, self._stale[path]) for path in paths]

    def _errand(self, path: str, seen: _Seen) -> Errand:
        lives = self._lives(seen.whose.session_id)
        is_over = seen.whose.agent_id is None and not lives
        past = is_over and self._age(seen) > QUIET_MS
        if is_over and not past:
            self._young[path] = seen
        return Errand(os.fsencode(path), seen.whose, past=past, urgent=lives)


def _same(one: Stamp | None, other: Stamp) -> bool:
    """Devices are numbered anew when a system starts, and nothing has changed by that."""
    return one is not None and (one.mtime_ns, one.size, one.inode) == (
        other.mtime_ns,
        other.size,
        other.inode,
    )
