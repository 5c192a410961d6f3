"""When what is on the disk has to be read back before it is trusted, and how soon that is tried."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

from adsum_collector.errors import SpoolUnavailable
from adsum_collector.spool.connection import is_full

#: Between two tries, the first and the longest pause: each try reads a file through and makes a
#: new one, which a dying disk must not do every second for ever.
FIRST_S = 1.0
LONGEST_S = 60.0
#: After a pause of this length it is another failure.
CALM_S = 600.0


class Doubt:
    """recover: reads back. undo: gives up what was begun. now: seconds of wall clock."""

    def __init__(
        self,
        directory: Path,
        recover: Callable[[], None],
        undo: Callable[[], None],
        now: Callable[[], float],
    ) -> None:
        self._directory = directory
        self._recover = recover
        self._undo = undo
        self._now = now
        self._suspect = False
        self._tried_at = float("-inf")
        self._pause = FIRST_S

    @contextlib.contextmanager
    def trusted(self) -> Iterator[None]:
        """Turns what SQLite and the disk say into SpoolUnavailable, and remembers to look again."""
        try:
            if self._suspect:
                self._require_due()
                self._recover()
                self._suspect = False
            yield
        except (sqlite3.Error, OSError) as error:
            self._look_again_after(error)
            if is_full(error):
                text = f"the disk of {self._directory} is full ({error}). Free some space there"
            else:
                text = f"{self._directory} cannot be used: {error}"
            raise SpoolUnavailable(text) from error

    def _look_again_after(self, error: Exception) -> None:
        """A full disk refuses and harms nothing. After any other error, who knows what is there."""
        self._suspect |= not is_full(error)
        try:
            self._undo()
        except sqlite3.Error:
            self._suspect = True

    def _require_due(self) -> None:
        """Raises SpoolUnavailable while it is too soon to try again."""
        passed = self._now() - self._tried_at
        if 0 <= passed < self._pause:
            raise SpoolUnavailable(
                f"{self._directory} failed a moment ago and is tried again in "
                f"{self._pause - passed:.0f} s. Look at that disk"
            )
        soon = 0 <= passed < CALM_S
        self._pause = min(2 * self._pause, LONGEST_S) if soon else FIRST_S
        self._tried_at = self._now()
