"""What a joining has done so far, and how to undo it: last done, first undone."""

from __future__ import annotations

import contextlib
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

from adsum.outcome import CommandError

#: Deeper there is only the spool, which is new as a whole or not at all.
_KEPT = ("host.json", "machine.json", "token")


class Undo:
    def __init__(self) -> None:
        self._steps: list[tuple[str, Callable[[], object]]] = []

    def add(self, what: str, step: Callable[[], object]) -> None:
        """what: how to do it by hand, should it fail."""
        self._steps.append((what, step))

    def run(self) -> list[str]:
        """What is left to do by hand."""
        left = []
        while self._steps:
            what, step = self._steps.pop()
            try:
                step()
            except (CommandError, OSError) as error:
                left.append(f"{what} ({error})")
        return left


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Ctrl-C waits: between a thing and the note of how to undo it."""
    held = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, held)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def heedless() -> Iterator[None]:
    """Ctrl-C does nothing. By a handler: what is started meanwhile would inherit a blocked signal."""
    with _answered_by(lambda *_: None, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        yield


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """A service manager's stop, or a terminal that closes, undoes as Ctrl-C does."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with _answered_by(interrupt, signal.SIGTERM, signal.SIGHUP):
        yield


@contextlib.contextmanager
def _answered_by(
    handler: Callable[[int, FrameType | None], None], *numbers: signal.Signals
) -> Iterator[None]:
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, former in before.items():
            signal.signal(number, former)


class Folder:
    """A folder as it is now: which files are there, and what is in those that joining rewrites."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._missing = [each for each in (path, *path.parents) if not each.exists()]
        self._there = set(path.rglob("*")) if not self._missing else set()
        files = [path / name for name in _KEPT]
        self._held = {file: file.read_bytes() for file in files if file in self._there}

    def restore(self) -> None:
        """Raises OSError."""
        if self._missing:
            shutil.rmtree(self._path, ignore_errors=True)
            for each in self._missing[1:]:
                with contextlib.suppress(OSError):
                    each.rmdir()
            return
        for each in sorted(set(self._path.rglob("*")) - self._there, reverse=True):
            if each.is_dir() and not each.is_symlink():
                each.rmdir()
            else:
                each.unlink(missing_ok=True)
        for file, content in self._held.items():
            if not file.exists() or file.read_bytes() != content:
                file.write_bytes(content)


def without_backups(settings: Path) -> Callable[[], None]:
    """Call it for the backups that lie beside a settings file since now, to be taken away."""
    before = set(_backups(settings))

    def take_away() -> None:
        for each in set(_backups(settings)) - before:
            each.unlink(missing_ok=True)

    return take_away


def _backups(settings: Path) -> Iterator[Path]:
    return settings.parent.glob(f"{settings.name}.adsum-backup-*")
