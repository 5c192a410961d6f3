"""One collector per state directory: a lock that the kernel drops when its holder dies.

The file names the holder's process and the port it takes hooks on, for the command line.
"""

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
def hold_lock(state_dir: Path, port: int = 0) -> Iterator[None]:
    """Raises StartError naming the process that holds it."""
    descriptor = os.open(state_dir / FILE, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = (_read(descriptor) or ["unknown"])[0]
            raise StartError(
                f"A collector already uses {state_dir} (process {holder}). "
                f"Stop it first (kill {holder}), or give this one its own ADSUM_STATE_DIR."
            ) from error
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, b"%d %d\n" % (os.getpid(), port), 0)
        yield
    finally:
        os.close(descriptor)


def running_port(state_dir: Path) -> int | None:
    """The port of the collector that runs on this state directory, if one does and says so."""
    try:
        descriptor = os.open(state_dir / FILE, os.O_RDONLY)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        words = _read(descriptor)
        return int(words[1]) or None if len(words) > 1 and words[1].isdigit() else None
    finally:
        os.close(descriptor)
    return None  # nobody holds it: what it says is of the past


def _read(descriptor: int) -> list[str]:
    return os.pread(descriptor, 40, 0).decode(errors="replace").split()
