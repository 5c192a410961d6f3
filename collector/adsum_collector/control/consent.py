"""Keeps what this machine's owner lets be done from elsewhere, until when, and whose word counts.

It lies in a file of the state directory, changed by `adsum control` alone: nothing that comes over a
network writes it. A file that cannot be read, belongs to somebody else or is odd means off.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from adsum_shared import Timer
from adsum_shared.private_files import open_private, write_private
from adsum_shared.state import Control

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

FILE: Final = "control.json"
MOST_BYTES: Final = 64 << 10
MOST_KEYS: Final = 32
_KEY = re.compile(r"[0-9a-f]{64}")


class Consent(msgspec.Struct, frozen=True):
    """since, until: seconds of wall clock; until None: until it is changed.

    keys: of the hubs whose commands count, key id -> public key in hex.
    """

    level: Control = "off"
    since: float = 0.0
    until: float | None = None
    keys: dict[str, str] = {}

    def at(self, wall: float) -> Control:
        """A clock that was set back behind its beginning ends it: nobody knows how long it holds."""
        over = self.until is not None and not self.since <= wall < self.until
        return "off" if over or not self.keys else self.level

    def public_keys(self) -> dict[str, Ed25519PublicKey]:
        """Those whose id is their own; a key under another's id is nobody's."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        from adsum_shared.commands import key_id

        plain = (each for each in self.keys.values() if _KEY.fullmatch(each))
        found = [Ed25519PublicKey.from_public_bytes(bytes.fromhex(each)) for each in plain]
        return {named: key for key in found if (named := key_id(key)) in self.keys}


def read_consent(state_dir: Path) -> Consent:
    """Off where there is none, or one that nobody can rely on."""
    try:
        with os.fdopen(open_private(state_dir / FILE, os.O_RDONLY), "rb") as file:
            if os.fstat(file.fileno()).st_mode & 0o077:
                return Consent()
            raw = file.read(MOST_BYTES + 1)
        found = msgspec.json.decode(raw, type=Consent)
    except (OSError, ValueError, RecursionError):
        return Consent()
    return found if len(raw) <= MOST_BYTES and len(found.keys) <= MOST_KEYS else Consent()


def keep_consent(state_dir: Path, consent: Consent) -> None:
    """Raises OSError."""
    write_private(state_dir / FILE, msgspec.json.encode(consent))


class LiveConsent:
    """As it is at the moment, whoever changes the file. wall: of the clock; timer: seconds, monotonic.

    allowed: False where what is asked may not leave the machine, so nobody could decide it.
    """

    def __init__(self, state_dir: Path, *, wall: Timer, timer: Timer, allowed: bool = True) -> None:
        self._state_dir = state_dir
        self._wall, self._timer = wall, timer
        self._allowed = allowed
        self._stamp: tuple[int, int, int] | None = None
        self._ends = 0.0
        self._consent = Consent()
        self._keys: dict[str, Ed25519PublicKey] = {}

    @property
    def level(self) -> Control:
        """Off as soon as either clock says so: the wall's may be set back while we run."""
        self._renew()
        consent = self._consent
        if not self._allowed or (consent.until is not None and self._timer() >= self._ends):
            return "off"
        return consent.at(self._wall())

    @property
    def keys(self) -> dict[str, Ed25519PublicKey]:
        self._renew()
        return self._keys

    def _renew(self) -> None:
        try:
            found = os.lstat(self._state_dir / FILE)
            stamp = (found.st_ino, found.st_mtime_ns, found.st_mode)
        except OSError:
            stamp = (0, 0, 0)
        if stamp == self._stamp:
            return
        self._stamp, self._consent = stamp, read_consent(self._state_dir)
        self._ends = self._timer() + max(0.0, (self._consent.until or 0.0) - self._wall())
        try:
            self._keys = self._consent.public_keys()
        except ValueError:
            self._keys = {}
