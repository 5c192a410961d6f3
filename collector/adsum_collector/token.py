"""The secret between this machine's hooks and its receiver."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from pathlib import Path

from adsum_shared.private_files import write_private


def token_of(state_dir: Path) -> str:
    """The token in `state_dir`/token (0600), made at the first call. Two first calls agree."""
    path = state_dir / "token"
    while True:
        token = _read(path)
        if token:
            return token
        _offer(path, secrets.token_urlsafe(32))


def held_token(state_dir: Path) -> str:
    """As it stands, empty if there is none: unlike `token_of` this makes nothing."""
    return _read(state_dir / "token")


def renew_token(state_dir: Path) -> None:
    """What was handed to whoever listened in the collector's place opens nothing any more."""
    write_private(state_dir / "token", f"{secrets.token_urlsafe(32)}\n".encode())


def _read(path: Path) -> str:
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)) as file:
            return file.read().strip()
    except FileNotFoundError:
        return ""
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        return ""  # a link: what somebody else knows is no secret


def _offer(path: Path, token: str) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Of two processes that start at once one wins, and both read the winner's. An empty file (a
    # crash of long ago, or a hand) and a link are nobody's token.
    with contextlib.suppress(FileExistsError):
        spoilt = os.path.lexists(path) and not _read(path)
        write_private(path, f"{token}\n".encode(), replace=spoilt)
