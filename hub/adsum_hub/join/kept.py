"""The roll as a hub saw it last: for a Redis that has lost it, or every machine would be shut out.

A hub that runs has it in memory, and one that is started anew on its disk. Not from long ago: who
was shut out meanwhile would be let in again.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from pathlib import Path

import msgspec

from adsum_hub.join.machines import Roll

log = logging.getLogger(__name__)

FILE = "roll.json"
#: Since the hub that wrote it ran last.
OLDEST_S = 3600.0
#: Between two signs of life on the file.
TOUCH_S = 60.0


class KeptRoll:
    """It holds digests of credentials, and no credential. Nothing raises: it is a second copy."""

    def __init__(self, state_dir: Path) -> None:
        self._file = state_dir / FILE
        self._touch_due = 0.0
        self.roll = self._read()

    def keep(self, roll: Roll, now: float) -> None:
        """now: seconds that never step."""
        if roll == self.roll and now < self._touch_due:
            return
        self._touch_due = now + TOUCH_S
        self.roll = roll
        draft = self._file.with_suffix(f".{os.getpid()}")
        try:
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(msgspec.json.encode(roll))
            draft.replace(self._file)
        except OSError as error:
            log.warning("the roll of machines cannot be kept in %s: %s", self._file, error)
            with contextlib.suppress(OSError):
                draft.unlink(missing_ok=True)

    def _read(self) -> Roll | None:
        try:
            age_s = time.time() - self._file.stat().st_mtime
            if 0 <= age_s < OLDEST_S:
                return msgspec.json.decode(self._file.read_bytes(), type=Roll)
        except (OSError, msgspec.DecodeError):
            pass
        return None
