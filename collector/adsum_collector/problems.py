"""What to tell people when the broker does not take our batches. Pure; names no secret."""

from __future__ import annotations

from urllib.parse import urlsplit

from redis.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    TimeoutError,
)

from adsum_shared.connect import BrokerTooOldError

_KEPT = "Nothing is lost: signals wait on this disk."


def address_of(url: str) -> str:
    """The URL without user and password."""
    parts = urlsplit(url)
    if parts.scheme == "unix":
        return f"unix:{parts.path}"
    return f"{parts.scheme}://{parts.hostname or 'localhost'}:{parts.port or 6379}"


def describe(error: Exception, address: str) -> str:
    """One sentence for the cause, one for the next step."""
    text = str(error)
    if isinstance(error, BrokerTooOldError):
        return text
    if isinstance(error, NoPermissionError) or text.startswith("NOPERM"):
        return (
            f"Redis at {address} forbids this user a command ({text}). "
            "Give this machine's user the rights docs/protocol.md lists."
        )
    if isinstance(error, AuthenticationError) or text.startswith(("NOAUTH", "WRONGPASS")):
        return (
            f"Redis at {address} refused the password. "
            "Put the right one into the URL: redis://user:password@host:port (ADSUM_REDIS_URL)."
        )
    return _describe_state(error, text, address)


def _describe_state(error: Exception, text: str, address: str) -> str:
    if isinstance(error, OutOfMemoryError) or text.startswith("OOM"):
        return (
            f"Redis at {address} is out of memory. Start a hub, so that streams are trimmed, "
            f"or raise its maxmemory. {_KEPT}"
        )
    if isinstance(error, ReadOnlyError) or text.startswith("READONLY"):
        return (
            f"Redis at {address} is a read-only replica. "
            f"Point ADSUM_REDIS_URL at the primary. {_KEPT}"
        )
    if text.startswith("MISCONF"):
        return (
            f"Redis at {address} cannot save to its disk and takes no writes. "
            f"Look at its log and its free space. {_KEPT}"
        )
    if isinstance(error, BusyLoadingError) or text.startswith("LOADING"):
        return f"Redis at {address} is still loading its data. Wait. {_KEPT}"
    if isinstance(error, TimeoutError | OSError) or "onnect" in text:
        return (
            f"Redis at {address} cannot be reached ({text or type(error).__name__}). "
            f"Start it, or correct ADSUM_REDIS_URL. {_KEPT}"
        )
    return f"Redis at {address} answered: {text or type(error).__name__}. {_KEPT}"
