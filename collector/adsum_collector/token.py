"""The secret between this machine's hooks and its receiver."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


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


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except FileNotFoundError:
        return ""


def _offer(path: Path, token: str) -> None:
    # A link appears whole or not at all and never replaces: of two processes that start at once,
    # one wins and both read the winner's token.
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_name(f"token.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(token + "\n")
            file.flush()
            os.fsync(file.fileno())
        if path.exists() and not _read(path):
            draft.replace(path)  # an empty file: a crash of long ago, or a hand
        else:
            os.link(draft, path)
    except FileExistsError:
        pass
    finally:
        draft.unlink(missing_ok=True)
