"""The secret that hubs of the tests share, and what they seal records with."""

from __future__ import annotations

from pathlib import Path

from adsum_hub.auth.seal import RecordSeal, RevokedCredentials
from adsum_hub.clock import Clock

SECRET = "a secret of the tests, 32 bytes or more"


def seal(file: Path | None = None, *, secret: str = SECRET, clock: Clock = lambda: 0) -> RecordSeal:
    """clock: at 0 no revocation has ended."""
    return RecordSeal(secret.encode(), RevokedCredentials(file, clock))
