"""What TLS is done by, made of files, and made anew when they change: certificates are renewed while we run."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable, Sequence
from pathlib import Path

log = logging.getLogger(__name__)

#: Of a file as it stands there; None: it cannot be looked at.
_Mark = tuple[int, int, int, int] | None


class Renewed:
    """make: raises `broken`, whose text names the file. files: whatever it reads.

    A new context, not new files into the one in use: that would be left with half of them where the
    other half cannot be used yet, and certificate and key are two.
    """

    def __init__(
        self,
        files: Sequence[str | None],
        make: Callable[[], ssl.SSLContext],
        broken: type[Exception],
    ) -> None:
        self._files = [Path(each) for each in files if each is not None]
        self._make = make
        self._broken = broken
        self._context: ssl.SSLContext | None = None
        self._marks: list[_Mark] = []

    def context(self) -> ssl.SSLContext:
        """For each connection that is opened. Raises `broken` where nothing could ever be used."""
        marks = [_mark(each) for each in self._files]  # before they are read: they may change then
        if self._context is not None and marks == self._marks:
            return self._context
        self._marks = marks
        try:
            self._context = self._make()
        except self._broken as error:
            if self._context is None:
                raise
            log.warning("what was read before is used on, for a file has changed: %s", error)
        return self._context


def trusted_file() -> str | None:
    """With all the authorities that the system trusts; None: it keeps them otherwise."""
    return ssl.get_default_verify_paths().cafile


def _mark(file: Path) -> _Mark:
    try:
        found = file.stat()
    except OSError:
        return None
    # ctime: one that could not be read is made readable by a change of its mode alone.
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino
