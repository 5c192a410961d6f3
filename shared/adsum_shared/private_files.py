"""Writes and reads files that only their owner may read, safe in folders that others may write.

Whoever runs with more rights than the folder's owner must not be led elsewhere: no link is
followed, and what belongs to somebody else is refused.
"""

import contextlib
import errno
import os
import secrets
import stat
from pathlib import Path


def open_private(path: Path, flags: int) -> int:
    """A descriptor of our own plain file. Raises OSError for a link and for what is not ours.

    O_TRUNC would spoil a file before it is known to be ours: truncate the descriptor instead.
    """
    descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(f"{path} is no plain file")
        if found.st_uid != os.geteuid():
            raise PermissionError(f"{path} belongs to user {found.st_uid}")
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def write_private(
    path: Path, content: bytes, *, mode: int = 0o600, replace: bool = True, durable: bool = True
) -> None:
    """Whole and on disk, or not at all; a link in its place is replaced, not followed.

    replace: False raises FileExistsError where there is one, so that of two writers the first wins.
    durable: False leaves it to the system when it reaches the disk. Raises OSError.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(draft, flags, 0o600), "wb") as file:
            file.write(content)
            os.fchmod(file.fileno(), mode)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        if replace:
            draft.replace(path)
        else:
            _give_name(draft, path)
    finally:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)
    if durable:
        sync_folder(path.parent)


def _give_name(draft: Path, path: Path) -> None:
    """Raises FileExistsError."""
    try:
        os.link(draft, path)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS):
            raise
        if path.exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from error
        draft.replace(path)  # a USB stick, a share: they know no links


def require_own_folder(folder: Path) -> None:
    """Raises PermissionError for a folder of another user, which root could write to all the same."""
    if folder.stat().st_uid != os.geteuid():
        raise PermissionError(f"it belongs to user {folder.stat().st_uid}, run this as that user")


def sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
