"""Finds transcripts, and says whose each is and whether its session lives."""

import contextlib
import os
import stat as modes
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

import msgspec

from adsum_collector.agents.records import TranscriptFile
from adsum_collector.transcripts.cursors import SUFFIX, CopyWait, Cursor, Stamp

#: The agent nests five directories.
MOST_DEPTH = 8

#: How long after its last sign of life a session's files are looked at without being told.
RECENT_MS = 600_000
#: Sessions kept in mind for a sign of life; the one that gave none for longest goes.
MOST_SESSIONS = 4096
#: A session that is over is told of only if its file is younger than this.
TOLD_MS = 24 * 3600 * 1000
#: A file without any other sign of life is one of a session that is over once it rests for this.
QUIET_MS = 60_000
#: A file may be copied, touched or restored long after its session was over. Only one whose last line
#: was written so recently is a sign of life; clocks of machines that share files may differ by that.
OLD_MS = 600_000
#: And one that is dated later than this from now is of no clock to be believed.
AHEAD_MS = 24 * 3600 * 1000
#: A file's time is that of the kernel's last tick, so a line written just now may be dated before us.
TICK_MS = 10
#: Files of one session that hooks have named and nobody has seen yet.
MOST_EXPECTED = 8


def look_at(
    paths: Iterable[str],
    enter: Callable[[str], None],
    known: Mapping[str, Stamp] | None = None,
    roots: Sequence[str] = (),
) -> tuple[dict[str, Stamp | None], set[str]]:
    """Stamps of transcripts at or below these paths (None: nothing there), and all that were found.

    enter: called with each directory before it is listed. known: stamps not to be told again.
    roots: a link to something below one of these is what it leads to.
    """
    told: dict[str, Stamp | None] = {}
    found: set[str] = set()
    reals = _by_real_path(roots)
    walked: set[str] = set()
    for asked in paths:
        try:
            stat = os.stat(asked)  # noqa: PTH116 - thousands of times; a Path costs more than this
        except (OSError, ValueError):  # ValueError: no path at all, as one with a NUL in it
            told[asked] = None
            continue
        path = _led_to(asked, reals) or asked
        if modes.S_ISDIR(stat.st_mode):
            if path in walked:
                continue
            walked.add(path)
            for each, stamp in _walk(path, enter, reals):
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
    for root in _by_real_path(roots).values():
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


def _by_real_path(roots: Iterable[str]) -> dict[str, str]:
    """What two roots both lead to is the first one's, so that nothing is read twice."""
    reals: dict[str, str] = {}
    for root in roots:
        reals.setdefault(os.path.realpath(root), root)
    return reals


def newest_first(told: Mapping[str, Stamp | None]) -> dict[str, Stamp | None]:
    """What nobody finds any more comes last."""
    return dict(
        sorted(told.items(), key=lambda item: item[1].mtime_ns if item[1] else 0, reverse=True)
    )


def _led_to(path: str, reals: Mapping[str, str]) -> str | None:
    """Where below a root it really is. A transcript in a store of blobs has its name from its link."""
    real = os.path.realpath(path)
    if path.endswith(SUFFIX) and not real.endswith(SUFFIX):
        return None
    below = f"{real}/"
    roots = (root + real[len(top) :] for top, root in reals.items() if below.startswith(top + "/"))
    return next(roots, None)


def _walk(
    top: str, enter: Callable[[str], None], reals: Mapping[str, str]
) -> Iterator[tuple[str, Stamp]]:
    """Links to directories are followed directly below the top only: deeper they may lead back.

    What they lead to is found where it is, if that is below a root.
    """
    left = [(top, 0)]
    while left:
        directory, depth = left.pop()
        try:
            enter(directory)
            with os.scandir(directory) as entries:
                for entry in entries:
                    try:
                        if entry.is_symlink() and _led_to(entry.path, reals):
                            continue
                        if entry.name.endswith(SUFFIX):
                            if entry.is_file():
                                yield entry.path, Stamp.of(entry.stat())
                        elif depth < MOST_DEPTH and entry.is_dir(follow_symlinks=depth == 0):
                            left.append((entry.path, depth + 1))
                    except OSError:
                        continue  # a link that leads to itself, or just gone: the others are there
        except OSError:
            continue  # gone, or not for us: the next walk tries again


class FollowedFile(msgspec.Struct):
    """read: the file as it was when it was read to its end.

    failed: as it was when it could not be read, and why.
    waits: it may be a copy that is still being written.
    """

    path: str
    whose: TranscriptFile
    cursor: Cursor | None = None
    read: Stamp | None = None
    failed: tuple[Stamp, int | None] | None = None
    waits: CopyWait | None = None


class TranscriptFiles:
    """roots: directories whose files `file_of` knows by their path below. began: ms."""

    def __init__(
        self, roots: Sequence[str], file_of: Callable[[str], TranscriptFile | None], began: int
    ) -> None:
        reals = _by_real_path(roots)
        self._roots = {
            spelling: reals[real]
            for root in roots
            for real in [os.path.realpath(root)]
            for spelling in (root, real)
        }
        self._file_of, self._began = file_of, began
        self._paths: defaultdict[str, set[str]] = defaultdict(set)
        self._heard: dict[str, int] = {}
        self._watched: Collection[str] = ()
        self.files: dict[str, FollowedFile] = {}
        self.stamps: dict[str, Stamp] = {}

    def inside(self, path: str) -> str | None:
        """The path as it is below a root of ours, however the agent spells it; None if it is not."""
        if "\0" in path:
            return None
        path = os.path.normpath(path)
        for spelling, root in self._roots.items():
            if path.startswith(spelling + "/"):
                return root + path.removeprefix(spelling)
        return None

    def hear(self, session_id: str, now: int) -> None:
        """A sign of life."""
        self._heard.pop(session_id, None)
        self._heard[session_id] = now
        if len(self._heard) > MOST_SESSIONS:
            oldest = next(iter(self._heard))
            del self._heard[oldest]
            if self._paths.get(oldest, set()).isdisjoint(self.files):
                self._paths.pop(oldest, None)

    def watch(self, session_ids: Collection[str]) -> None:
        """These have a process."""
        self._watched = session_ids

    def lives(self, session_id: str) -> bool:
        return session_id in self._heard or session_id in self._watched

    def living(self) -> list[str]:
        """Paths of their files."""
        return [path for path, file in self.files.items() if self.lives(file.whose.session_id)]

    def recent(self, now: int) -> Iterable[str]:
        """Sessions whose files may well be written to just now."""
        yield from self._watched
        for session_id, at in reversed(self._heard.items()):
            if now - at > RECENT_MS:
                break
            if session_id not in self._watched:
                yield session_id

    def expect(self, session_id: str, path: str) -> None:
        """A session's file, there already or not; of one that hooks name ever new ones for, few."""
        paths = self._paths[session_id]
        if self._whose(path) is not None and len(paths - self.files.keys()) < MOST_EXPECTED:
            paths.add(path)

    def places(self, session_id: str) -> set[str]:
        """Its known files, and the directory of each main file's name, where others come up."""
        paths = self._paths.get(session_id, set())
        return paths | {path.rpartition(".")[0] for path in paths if not self._is_child(path)}

    def doubtful(self, told: Mapping[str, Stamp | None]) -> list[str]:
        """Those that grew, of sessions of which nothing else says that they live."""
        grown = [path for path, stamp in told.items() if stamp and self._grew(path, stamp)]
        whose = zip(grown, map(self._whose, grown), strict=True)
        return [path for path, file in whose if file and not self.lives(file.session_id)]

    def notice(self, path: str, stamp: Stamp, now: int, written: int = 0) -> FollowedFile | None:
        """A file is there; None if it is nobody's. One that grew since we began is a sign of life.

        written: when its last line was, ms; 0 if that is not known.
        """
        file, grew = self.files.get(path), self._grew(path, stamp)
        self.stamps[path] = stamp
        if file is None:
            if (whose := self._whose(path)) is None:
                return None
            file = self.files[path] = FollowedFile(path, whose)
            self._paths[whose.session_id].add(path)
        if grew and (not written or -AHEAD_MS <= now - written <= OLD_MS):
            self.hear(file.whose.session_id, now)
        return file

    def _grew(self, path: str, stamp: Stamp) -> bool:
        """Since it was noticed last, or since we began."""
        before = self.stamps.get(path)
        if before is None:
            return stamp.mtime_ns // 1_000_000 >= self._began - TICK_MS
        return (before.size, before.inode) != (stamp.size, stamp.inode)

    def is_over(self, file: FollowedFile, now: int) -> bool:
        """It rests, and nothing says that its session lives."""
        return not self.lives(file.whose.session_id) and self._age(file, now) > QUIET_MS

    def is_worth_reading(self, file: FollowedFile, now: int) -> bool:
        """It has lines that were not read, of a session that lives or may just have ended."""
        if file.read == self.stamps[file.path]:
            return False
        if self.lives(file.whose.session_id):
            return True
        return file.whose.agent_id is None and self._age(file, now) < TOLD_MS

    def _age(self, file: FollowedFile, now: int) -> int:
        return now - self.stamps[file.path].mtime_ns // 1_000_000

    def forget(self, path: str) -> None:
        """The file is gone. A living session's may come back."""
        self.stamps.pop(path, None)
        file = self.files.pop(path, None)
        if file is not None and not self.lives(file.whose.session_id):
            paths = self._paths[file.whose.session_id]
            paths.discard(path)
            if not paths:
                del self._paths[file.whose.session_id]

    def _is_child(self, path: str) -> bool:
        whose = self._whose(path)
        return whose is None or whose.agent_id is not None

    def _whose(self, path: str) -> TranscriptFile | None:
        file = self.files.get(path)
        if file is not None:
            return file.whose
        for root in self._roots:
            if path.startswith(root + "/"):
                return self._file_of(path.removeprefix(root + "/"))
        return None
