"""What to tell people when Redis does not do what it is asked: the cause, and the next step."""

from __future__ import annotations

import re

from redis.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    TimeoutError,
)

from adsum_shared.connect import BrokerTooOldError
from adsum_shared.redis_errors import told_of

_Kinds = tuple[type[Exception], ...]

#: The client cuts some words off and makes classes of them, so both are looked for.
_STATES: tuple[tuple[_Kinds, tuple[str, ...], str], ...] = (
    (
        (OutOfMemoryError,),
        ("OOM",),
        "is out of memory. Start a hub if none runs, so that streams are trimmed, "
        "or raise its maxmemory.",
    ),
    (
        (ReadOnlyError,),
        ("READONLY",),
        "is a read-only replica. Point ADSUM_REDIS_URL at the primary.",
    ),
    (
        (),
        ("MISCONF",),
        "cannot save to its disk and takes no writes. Look at its log and its free space.",
    ),
    ((BusyLoadingError,), ("LOADING",), "is still loading its data. Wait."),
    ((), ("BUSY",), "is busy with a script. Wait; if it lasts, look at its log."),
    (
        (),
        ("MASTERDOWN", "NOREPLICAS", "CLUSTERDOWN"),
        "has lost some of its servers and refuses this for now. Start them.",
    ),
)


def describe(error: Exception, address: str, kept: str) -> str:
    """One sentence for the cause, one for the next step; names no secret.

    address: as `connect.address_of` shows it. kept: the sentence on what becomes of the data.
    """
    text = str(error)
    if isinstance(error, BrokerTooOldError):
        return text
    if (told := told_of(error)) is not None:
        return f"Redis at {address} {told} {kept}"
    if isinstance(error, NoPermissionError) or _says(text, "NOPERM"):
        return (
            f"Redis at {address} forbids this user a command ({text}). "
            "Give this machine's user the rights docs/protocol.md lists."
        )
    if isinstance(error, AuthenticationError) or _says(text, "NOAUTH", "WRONGPASS"):
        return (
            f"Redis at {address} refused the password. "
            "Put the right one into the URL: redis://user:password@host:port (ADSUM_REDIS_URL)."
        )
    return f"{_state(error, text, address)} {kept}"


def _state(error: Exception, text: str, address: str) -> str:
    for kinds, words, sentences in _STATES:
        if isinstance(error, kinds) or _says(text, *words):
            return f"Redis at {address} {sentences}"
    if "max number of clients" in text:
        return f"Redis at {address} has no connection left. Raise its maxclients."
    if isinstance(error, TimeoutError | OSError) or "onnect" in text:
        return (
            f"Redis at {address} cannot be reached ({text or type(error).__name__}). "
            "Start it, or correct ADSUM_REDIS_URL."
        )
    return f"Redis at {address} answered: {text or type(error).__name__}."


def _says(text: str, *words: str) -> bool:
    """Redis begins with the word; where a script was refused, 6.2 has it inside, after a dash."""
    return any(re.search(rf"(?:^|-){word}\b", text) for word in words)
