"""Commands: what a hub asks of one machine's collector, and how they are bound, signed and bounded.

A command is a verb with parameters, never a hook's answer: the collector builds that. On the stream
`streams.commands` it is an entry of three fields: `c` its JSON, `s` the signature over that and the
machine's id, `k` the id of the key. Nothing is decided by what does not pass `opened`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

#: defer: the request goes back to the terminal.
Decision = Literal["allow", "always", "deny", "answer", "plan", "elicit", "defer"]
Action = Literal["prompt", "queue", "withdraw", "move", "interrupt", "suspend", "resume"]
Verb = Literal[Decision, Action]

DECISIONS: Final = frozenset(("allow", "always", "deny", "answer", "plan", "elicit", "defer"))
ACTIONS: Final = frozenset(
    ("prompt", "queue", "withdraw", "move", "interrupt", "suspend", "resume")
)

#: Of one command's JSON. A plan that was edited is the longest that it may hold.
MOST_BYTES: Final = 256 << 10
#: A decision that is older when it arrives is not obeyed: whoever gave it was told that it failed.
DECISION_TTL_MS: Final = 10_000
#: Of a prompt, or what is queued, in characters: more is a file, and takes the terminal too long.
MOST_PROMPT: Final = 10_000


class NotObeyedError(Exception):
    """The command is not obeyed. The text says why."""


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


def binding_of(session_id: str, cwd: str, tool: str, given: Any) -> str:
    """The hash that binds a decision to the very request that was shown. given: the tool's whole input."""
    parts = msgspec.json.encode([session_id, cwd, tool, given], order="sorted")
    return hashlib.sha256(parts).hexdigest()


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

    keys: by id. age_ms: of the entry, by Redis's clock. Raises NotObeyedError.
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
    if not -DECISION_TTL_MS <= age_ms <= most_ms:
        raise NotObeyedError("it came too late")
    return command


def _covered(host_id: str, raw: bytes) -> bytes:
    return b"adsum command\0" + host_id.encode() + b"\0" + raw
