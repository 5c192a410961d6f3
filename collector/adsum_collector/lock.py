"""One collector per state directory: a lock that the kernel drops when its holder dies.

The file names the holder's process and the port it takes hooks on, for the command line.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from typing import TYPE_CHECKING, NamedTuple

from adsum_collector.errors import StartError
from adsum_shared.private_files import open_private

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FILE = "collector.lock"


@contextlib.contextmanager
def hold_lock(state_dir: Path, port: int = 0) -> Iterator[None]:
    """Raises StartError naming the process that holds it."""
    try:
        descriptor = open_private(state_dir / FILE, os.O_RDWR | os.O_CREAT)
    except OSError as error:
        raise StartError(
            f"{state_dir / FILE} cannot be used ({error}). Remove it, or run this as the user whose "
            "state directory it is."
        ) from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = (_read(descriptor) or ["unknown"])[0]
            raise StartError(
                f"A collector already uses {state_dir} (process {holder}). "
                f"Stop it first (kill {holder}), or give this one its own ADSUM_STATE_DIR."
            ) from error
        # in this order, which needs no room on a full disk
        os.ftruncate(descriptor, os.pwrite(descriptor, b"%d %d\n" % (os.getpid(), port), 0))
        yield
    finally:
        os.close(descriptor)


class Holder(NamedTuple):
    """port: where it takes hooks; 0 if it has not said."""

    pid: str
    port: int


def holder_of(state_dir: Path) -> Holder | None:
    """Who runs on this state directory; None if nobody does. Changes nothing."""
    try:
        descriptor = os.open(state_dir / FILE, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        pid, port, *_ = [*_read(descriptor), "unknown", "0"]
        return Holder(pid, int(port) if port.isdigit() else 0)
    finally:
        os.close(descriptor)
    return None  # nobody holds it: what it says is of the past


def running_port(state_dir: Path) -> int | None:
    """The port of the collector that runs on this state directory, if one does and says so."""
    holder = holder_of(state_dir)
    return (holder.port or None) if holder else None


def _read(descriptor: int) -> list[str]:
    return os.pread(descriptor, 40, 0).decode(errors="replace").split()
