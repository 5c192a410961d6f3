"""The token of this machine's own command line: in a file that only its user can read."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

from adsum_hub.auth.secret import digest_of, make_token

#: In the state directory, beside hub.json, which says where the hub is.
FILE = "hub.token"


@contextlib.contextmanager
def machine_token(state_dir: Path) -> Iterator[str]:
    """Its digest. A new one for each run of a hub, and gone with it. Raises OSError.

    Kept from run to run it would open a later hub to whoever, with an account on this machine, had
    listened on the port of a dead one when a command asked there.
    """
    secret, file = make_token(), state_dir / FILE
    draft = file.with_suffix(f".{os.getpid()}.{secrets.token_hex(4)}")
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as text:
            text.write(secret + "\n")
        draft.replace(file)
    finally:
        draft.unlink(missing_ok=True)
    try:
        yield digest_of(secret)
    finally:
        # Another hub of this directory may have put its own there.
        with contextlib.suppress(OSError, ValueError):
            if file.read_text(encoding="ascii").strip() == secret:
                file.unlink()
