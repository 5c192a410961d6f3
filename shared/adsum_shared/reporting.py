"""What agents report of their own work: checked alike wherever it enters, and the token that lets it in.

A token names one session, signed by that session's machine. A hub checks it by the public key in the
machine's heartbeat, so nothing that opens anything lies in Redis, and it opens nothing but this.
"""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, get_args

import msgspec

from adsum_shared.errors import AdsumError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

ReportStatus = Literal["passed", "blocked", "failed"]
STATUSES: Final[tuple[str, ...]] = get_args(ReportStatus)
#: Of the field of a machine's stream of commands that holds a report, a signal's JSON.
FIELD: Final = b"r"
#: One that is older when its machine reads it is dropped: whoever gave it was told that it failed.
TTL_MS: Final = 10_000
#: `Alive.event` of what an agent says by itself of being at work or not.
HEARTBEAT: Final = "heartbeat"
PREFIX: Final = "adsum_report."
ISSUE_MAX: Final = 200
NOTES_MAX: Final = 4_000
NAME_MAX: Final = 80
#: But for line breaks and tabs; and what turns the direction of text, so that it reads otherwise.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_HOST = re.compile(r"[\w-]{1,64}", re.ASCII)


class ReportError(AdsumError):
    """It is not taken: why, and what to do."""

    def __init__(self, cause: str, step: str) -> None:
        super().__init__(f"{cause} {step}")
        self.cause, self.step = cause, step


class SelfReport(msgspec.Struct, frozen=True, omit_defaults=True):
    """issue: what it is about, in the words of whoever keeps issues. by: the name of who reports."""

    status: str
    issue: str | None = None
    notes: str | None = None
    by: str | None = None


def require_sound(report: SelfReport) -> None:
    """Raises ReportError."""
    if report.status not in STATUSES:
        step = f"Give one of {', '.join(STATUSES)}."
        raise ReportError(f"{report.status[:40]!r} is no status of a report.", step)
    require_text("issue", report.issue, ISSUE_MAX, lines=False)
    require_text("notes", report.notes, NOTES_MAX)
    require_text("name", report.by, NAME_MAX, lines=False)


def require_text(name: str, text: str | None, most: int, *, lines: bool = True) -> None:
    """lines: it may have several. Raises ReportError."""
    if text is None:
        return
    if len(text) > most:
        cause = f"The {name} has {len(text):,} characters."
        raise ReportError(cause, f"Give at most {most:,}.")
    if _CONTROL.search(text) or not (lines or text.isprintable()):
        step = "Take them out." if lines else "Give one line, without them."
        raise ReportError(f"There are control characters in the {name}.", step)


class TokenOf(NamedTuple):
    """What a token says that it is for; whether it is one, `is_token` tells."""

    host_id: str
    session_id: str
    signature: bytes


def make_token(key: Ed25519PrivateKey, host_id: str, session_id: str) -> str:
    signature = base64.urlsafe_b64encode(key.sign(_covered(host_id, session_id)))
    return f"{PREFIX}{host_id}.{session_id}.{signature.decode().rstrip('=')}"


def read_token(token: str) -> TokenOf | None:
    """None: it does not look like one."""
    if not token.startswith(PREFIX):
        return None
    host_id, _, rest = token.removeprefix(PREFIX).partition(".")
    session_id, _, signature = rest.rpartition(".")
    if not _HOST.fullmatch(host_id) or not session_id or not signature.isascii():
        return None
    try:
        return TokenOf(host_id, session_id, base64.urlsafe_b64decode(signature + "=="))
    except ValueError:
        return None


def is_token(public: Ed25519PublicKey, token: TokenOf) -> bool:
    """Whether the machine with this key has made it, for this very session."""
    from cryptography.exceptions import InvalidSignature

    try:
        public.verify(token.signature, _covered(token.host_id, token.session_id))
    except InvalidSignature:
        return False
    return True


def _covered(host_id: str, session_id: str) -> bytes:
    return b"adsum report\0" + host_id.encode() + b"\0" + session_id.encode()
