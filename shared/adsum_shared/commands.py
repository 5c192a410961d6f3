"""What passes between a hub and one session beside signals: commands to it, and what its agent reports of its work.

A command is what a hub asks of one machine's collector: a verb with parameters, never a hook's answer, which
the collector builds. On the stream `streams.commands` it is an entry of three fields: `c` its JSON, `s` the
signature over that and the machine's id, `k` the id of the key. Nothing is decided by what does not pass
`opened`.

A report is checked alike wherever it enters. The token that lets it in names one session, signed by that
session's machine. A hub checks it by the public key in the machine's heartbeat, so nothing that opens
anything lies in Redis, and it opens nothing but this.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, get_args

import msgspec

from adsum_shared import AdsumError
from adsum_shared.characters import CONTROL

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )


#: defer: the request goes back to the terminal.
Decision = Literal["allow", "always", "deny", "answer", "plan", "elicit", "defer"]
Action = Literal["prompt", "queue", "withdraw", "move", "interrupt", "suspend", "resume"]
#: Keeps a request held while somebody looks at it. It decides nothing.
Extension = Literal["extend"]
Verb = Literal[Decision, Action, Extension]

DECISIONS: Final = frozenset(("allow", "always", "deny", "answer", "plan", "elicit", "defer"))
ACTIONS: Final = frozenset(
    ("prompt", "queue", "withdraw", "move", "interrupt", "suspend", "resume")
)
EXTEND: Final = "extend"
#: So long a request is held after each `extend`, and at most so long in all.
LEASE_S: Final = 10
LEASE_MOST_S: Final = 300
#: Between two of whoever looks at it.
EXTEND_EVERY_S: Final = 4
#: The decisions after which the agent does what it asked to do.
ALLOWING: Final = frozenset(("allow", "always", "plan"))

#: Of one command's JSON. A plan that was edited is the longest that it may hold.
MOST_BYTES: Final = 256 << 10
#: A decision that is older when it arrives is not obeyed: whoever gave it was told that it failed.
DECISION_TTL_MS: Final = 10_000
#: Of a prompt, or what is queued, in characters: more is a file, and takes the terminal too long.
MOST_PROMPT: Final = 10_000


class NotObeyedError(Exception):
    """The command is not obeyed. The text says why."""


class ExpiredError(NotObeyedError):
    """A hub has signed it for this machine, and it arrived too late."""

    def __init__(self, command: Command) -> None:
        super().__init__("it came too late")
        self.command = command


class Command(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """id: 128 random bits in hex, used once. by: who gave it, for the trail and the agent.

    request_id, binding: of the held request that a decision is for. ttl_ms: how old it may be when
    it arrives, by Redis's clock: no two machines' clocks are compared. run: which run of the machine's
    collector it is for, by its beat: none obeys what was given to one before it, whoever repeats it.
    text: a prompt, a reason, a plan that was edited. stop: the turn ends with the denial. answers:
    question -> labels or free text. notes: question -> a note. mode: in which a plan is carried out.
    content: of a form; its fields. item: of the queue. place: where in the queue, 0 is next.
    """

    id: str
    host_id: str
    session_id: str
    verb: Verb
    by: str
    ttl_ms: int = DECISION_TTL_MS
    run: str = ""
    request_id: str | None = None
    binding: str | None = None
    text: str | None = None
    stop: bool = False
    answers: dict[str, list[str]] | None = None
    notes: dict[str, str] | None = None
    mode: str | None = None
    content: dict[str, Any] | None = None
    item: str | None = None
    place: int | None = None


#: Of `signals.Hold`. A collector whose holds have it compares `binding_of` all that is shown.
HOLD_VERSION: Final = 1


class Displayed(NamedTuple):
    """What a person sees of a request, after masking. always: the rules that `always` would add."""

    session_id: str
    cwd: str
    kind: str
    tool: str | None
    role: str
    summary: str | None
    payload: dict[str, Any] | None
    always: tuple[str, ...]


def binding_of(shown: Displayed) -> str:
    """Return the SHA-256, in hex, that binds a decision to what was shown.

    The hub computes it from what it displays and signs it, the collector from what it sent. The order of
    keys does not count; 1 and 1.0 differ. Raises UnicodeEncodeError for a lone surrogate.
    """
    parts = msgspec.json.encode(shown, order="sorted")
    return hashlib.sha256(b"adsum shown 1\0" + parts).hexdigest()


def key_id(public: Ed25519PublicKey) -> str:
    """Its fingerprint, short enough to be read out."""
    return hashlib.sha256(public.public_bytes_raw()).hexdigest()[:16]


def signed(command: Command, key: Ed25519PrivateKey) -> dict[bytes, bytes]:
    """The fields of its entry."""
    raw = msgspec.json.encode(command)
    return {
        b"c": raw,
        b"s": key.sign(_covered(command.host_id, raw)),
        b"k": key_id(key.public_key()).encode(),
    }


def opened(
    fields: Mapping[bytes, bytes], host_id: str, keys: Mapping[str, Ed25519PublicKey], age_ms: int
) -> Command:
    """The command of an entry, if it is for this machine, from a key that is pinned, and not too old.

    keys: by id. age_ms: of the entry, by Redis's clock. Raises NotObeyedError, ExpiredError.
    """
    from cryptography.exceptions import InvalidSignature

    raw, signature = fields.get(b"c", b""), fields.get(b"s", b"")
    key = keys.get(fields.get(b"k", b"").decode("ascii", "replace"))
    if len(raw) > MOST_BYTES:
        raise NotObeyedError("the command is too long")
    if key is None:
        raise NotObeyedError("it is signed by no hub that this machine trusts")
    try:
        key.verify(signature, _covered(host_id, raw))
        command = msgspec.json.decode(raw, type=Command)
    except InvalidSignature:
        raise NotObeyedError("its signature is wrong") from None
    except (msgspec.DecodeError, RecursionError) as error:
        raise NotObeyedError(f"it cannot be read: {error}") from error
    if command.host_id != host_id:
        raise NotObeyedError("it is for another machine")
    is_decision = command.verb in DECISIONS
    most_ms = min(command.ttl_ms, DECISION_TTL_MS) if is_decision else command.ttl_ms
    if age_ms > most_ms:
        raise ExpiredError(command)
    if age_ms < -DECISION_TTL_MS:
        raise NotObeyedError("it came too late")
    return command


def _covered(host_id: str, raw: bytes) -> bytes:
    return b"adsum command\0" + host_id.encode() + b"\0" + raw


ReportStatus = Literal["passed", "blocked", "failed"]
STATUSES: Final[tuple[str, ...]] = get_args(ReportStatus)
#: Of the field of a machine's stream of commands that holds a report, a signal's JSON.
REPORT_FIELD: Final = b"r"
#: One that is older when its machine reads it is dropped: whoever gave it was told that it failed.
REPORT_TTL_MS: Final = 10_000
#: `Alive.event` of what an agent says by itself of being at work or not.
HEARTBEAT: Final = "heartbeat"
REPORT_PREFIX: Final = "adsum_report."
ISSUE_MAX: Final = 200
NOTES_MAX: Final = 4_000
REPORTER_MAX: Final = 80
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
    require_text("name", report.by, REPORTER_MAX, lines=False)


def require_text(name: str, text: str | None, most: int, *, lines: bool = True) -> None:
    """lines: it may have several. Raises ReportError."""
    if text is None:
        return
    if len(text) > most:
        cause = f"The {name} has {len(text):,} characters."
        raise ReportError(cause, f"Give at most {most:,}.")
    if CONTROL.search(text) or not (lines or text.isprintable()):
        step = "Take them out." if lines else "Give one line, without them."
        raise ReportError(f"There are control characters in the {name}.", step)


class TokenOf(NamedTuple):
    """What a token says that it is for; whether it is one, `is_token` tells."""

    host_id: str
    session_id: str
    signature: bytes


def make_token(key: Ed25519PrivateKey, host_id: str, session_id: str) -> str:
    signature = base64.urlsafe_b64encode(key.sign(_covered_by_token(host_id, session_id)))
    return f"{REPORT_PREFIX}{host_id}.{session_id}.{signature.decode().rstrip('=')}"


def read_token(token: str) -> TokenOf | None:
    """None: it does not look like one."""
    if not token.startswith(REPORT_PREFIX):
        return None
    host_id, _, rest = token.removeprefix(REPORT_PREFIX).partition(".")
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
        public.verify(token.signature, _covered_by_token(token.host_id, token.session_id))
    except InvalidSignature:
        return False
    return True


def _covered_by_token(host_id: str, session_id: str) -> bytes:
    return b"adsum report\0" + host_id.encode() + b"\0" + session_id.encode()
