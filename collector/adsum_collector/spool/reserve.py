"""A little of the disk held back, so that a full one still takes what publishing has to note."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

FILE = "reserve"
MOST_BYTES = 1 << 20


class Reserve:
    """A file of zeros: given up when the disk is full, made anew when there is room."""

    def __init__(self, directory: Path, share: int) -> None:
        """share: what may be spared of the spool's own allowance."""
        self._path = directory / FILE
        self._size = min(MOST_BYTES, share)
        self._held = self._path.exists() and self._path.stat().st_size == self._size

    def keep(self) -> None:
        if self._held:
            return
        # Written, not only sized: a hole in a file takes no room.
        with contextlib.suppress(OSError):
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            try:
                self._held = os.write(descriptor, bytes(self._size)) == self._size
            finally:
                os.close(descriptor)
        if not self._held:
            self._path.unlink(missing_ok=True)

    def give_up(self) -> bool:
        """False if there is none to give."""
        held, self._held = self._held, False
        self._path.unlink(missing_ok=True)
        return held
