"""The key that signs pushes. It stays on the hub's disk.

Redis holds the browsers' subscriptions, and whoever reads both could write on people's screens: so
the key is not kept there, and hubs that are to speak with one voice get the same file.
"""

from __future__ import annotations

import base64
import contextlib
import os
import re
import secrets
import time
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from py_vapid import Vapid02

#: A signature is good for so long; push services take 24 h at most.
GOOD_S = 12 * 3600
#: Where nobody gave an address. Apple refuses such a one, the others do not look.
NOBODY = "mailto:adsum@example.com"
_CONTACT = re.compile(r"mailto:[\w.+-]+@[\w-]+(\.[\w-]+)+")


class PushKeyError(RuntimeError):
    """Nothing can be signed. The text names the file or the place, the cause, the next step."""


def require_contact(contact: str | None) -> None:
    """Raises PushKeyError with the next step in its text."""
    if contact is not None and not _CONTACT.fullmatch(contact):
        raise PushKeyError(
            f"ADSUM_PUSH_CONTACT is no mail address: {contact[:60]!r}. Push services want one to "
            "write to, such as mailto:you@example.org."
        )


class PushKey:
    """public: as a browser wants it, base64url."""

    def __init__(self, vapid: Vapid02, contact: str | None) -> None:
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        raw = vapid.public_key.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
        self.public = base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
        self._vapid = vapid
        self._contact = contact or NOBODY

    def authorization(self, endpoint: str) -> str:
        parts = urlsplit(endpoint)
        claims = {
            "sub": self._contact,
            "aud": f"{parts.scheme}://{parts.netloc}",
            "exp": int(time.time()) + GOOD_S,
        }
        from py_vapid import VapidException

        try:
            return str(self._vapid.sign(claims)["Authorization"])
        except VapidException as error:
            raise PushKeyError(f"A push to {parts.hostname} cannot be signed.") from error


def load_key(state_dir: Path, given: Path | None, contact: str | None) -> PushKey:
    """given: a file that must be there; else the hub's own, made where there is none.

    Blocks, and imports what takes a fifth of a second: not for the loop.
    """
    from py_vapid import Vapid02, VapidException

    file = given or state_dir / "push-key.pem"
    try:
        if given is None and not file.exists():
            _make(file)
        return PushKey(Vapid02.from_pem(file.read_bytes()), contact)
    except OSError as error:
        step = "Make it readable for the user who runs the hub."
        raise PushKeyError(
            f"The key for pushes, {file}, cannot be used: {error.strerror}. {step}"
        ) from error
    except (ValueError, TypeError, AttributeError, VapidException) as error:
        step = "Replace it by the file of another hub, or move it away: then a new one is made."
        raise PushKeyError(f"{file} is no private key for pushes. {step}") from error


def _make(file: Path) -> None:
    """Whole or not at all, and the first of two hubs wins."""
    from py_vapid import Vapid02

    vapid = Vapid02()
    vapid.generate_keys()
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = file.with_suffix(f".{secrets.token_hex(4)}")
    try:
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:  # noqa: PTH123 - a mode that no other can read, from the first byte on
            out.write(vapid.private_pem())
            out.flush()
            os.fsync(out.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(draft, file)
    finally:
        draft.unlink(missing_ok=True)
