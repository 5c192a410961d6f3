"""One collector per state directory: a lock that the kernel drops when its holder dies."""

from __future__ import annotations

import contextlib
import fcntl
import os
from typing import TYPE_CHECKING

from adsum_collector.errors import StartError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FILE = "collector.lock"


@contextlib.contextmanager
def hold_lock(state_dir: Path) -> Iterator[None]:
    """Raises StartError naming the process that holds it."""
    descriptor = os.open(state_dir / FILE, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.pread(descriptor, 20, 0).decode(errors="replace").strip() or "unknown"
            raise StartError(
                f"A collector already uses {state_dir} (process {holder}). "
                f"Stop it first (kill {holder}), or give this one its own ADSUM_STATE_DIR."
            ) from error
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, b"%d\n" % os.getpid(), 0)
        yield
    finally:
        os.close(descriptor)
