"""Keeps what joining has done so far, and undoes it: the last step first."""

from __future__ import annotations

import contextlib
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

from adsum.machine import FILE as JOINED
from adsum.outcome import CommandError
from adsum_collector.sockets import SOCKET_FILE as SOCKET
from adsum_collector.state_dir import HOST_FILE as IDENTITY
from adsum_collector.state_dir import LOCK_FILE as LOCK
from adsum_collector.state_dir import holder_of
from adsum_collector.usage.ledger import NAME as LEDGER
from adsum_shared.private_files import write_private

#: What joining rewrites.
_KEPT = (IDENTITY, JOINED, "token")
#: What the collector that it starts makes besides. Other processes have files here too.
_RUNNING = (LOCK, SOCKET, "logs/collector.log", "spool", LEDGER, f"{LEDGER}-wal", f"{LEDGER}-shm")
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Undo:
    def __init__(self) -> None:
        self._steps: list[tuple[str, Callable[[], object]]] = []
        self._beyond: list[str] = []

    def add(self, what: str, step: Callable[[], object]) -> None:
        """what: how to do it by hand, should it fail."""
        self._steps.append((what, step))

    def beyond(self, what: str) -> None:
        """what: to be done by hand, for nothing here can undo it."""
        self._beyond.append(what)

    def run(self) -> list[str]:
        """What is left to do by hand."""
        left = self._beyond
        while self._steps:
            what, step = self._steps.pop()
            try:
                step()
            except Exception as error:  # noqa: BLE001 - the steps before it must be undone as well
                left.append(f"{what} ({str(error) or type(error).__name__})")
        return left


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Ctrl-C waits: between a thing and the note of how to undo it.

    By a handler: what is started meanwhile would inherit a blocked signal.
    """
    came: list[int] = []
    with _answered_by(lambda number, _: came.append(number), *_ENDING):
        yield
    for number in came[:1]:
        signal.raise_signal(number)


def heedless() -> contextlib.AbstractContextManager[None]:
    """Ctrl-C does nothing. By a handler, as above."""
    return _answered_by(lambda *_: None, *_ENDING)


def interruptible() -> contextlib.AbstractContextManager[None]:
    """A service manager's stop, or a terminal that closes, undoes as Ctrl-C does."""
    return _answered_by(signal.default_int_handler, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def _answered_by(
    handler: Callable[[int, FrameType | None], object], *numbers: signal.Signals
) -> Iterator[None]:
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, former in before.items():
            signal.signal(number, former)


class Folder:
    """A state directory as it is now, for what joining makes and rewrites in it.

    in_use: a collector was started on it, and is not known to have stopped.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.in_use = False
        folders = (path / "logs", path / "hooks", path, *path.parents)
        self._missing = [each for each in folders if not each.exists()]
        self._new = {name for name in (*_KEPT, *_RUNNING) if not (path / name).exists()}
        files = [path / name for name in _KEPT if name not in self._new]
        self._held = {file: file.read_bytes() for file in files}

    def restore(self) -> None:
        """Only by name: a hub or a broker may have come to live here. Raises CommandError."""
        running = self.in_use or holder_of(self._path) is not None
        names = self._new & {JOINED} if running else self._new
        wrong = [f"a collector may still run, so its files stay in {self._path}"] if running else []
        for each in (*(self._path / name for name in sorted(names)), *self._locks(), *self._held):
            try:
                if (content := self._held.get(each)) is None:
                    _remove(each)
                elif not each.exists() or each.read_bytes() != content:
                    write_private(each, content)
            except OSError as error:
                wrong.append(str(error))
        for each in self._missing:
            with contextlib.suppress(OSError):  # somebody else has something in it
                each.rmdir()
        if wrong:
            raise CommandError("; ".join(wrong))

    def _locks(self) -> list[Path]:
        """Of installing hooks. What stood in the settings before lies beside them, and stays."""
        folder = self._path / "hooks"
        return list(folder.glob("*.lock")) if folder in self._missing else []


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
