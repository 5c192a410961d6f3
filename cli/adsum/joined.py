"""That this machine has joined a hub, and what it was given for it: a file for its user alone."""

from __future__ import annotations

from pathlib import Path

import msgspec

from adsum.config import read_settings
from adsum_collector.identity import write_private
from adsum_collector.settings import CollectorSettings

FILE = "machine.json"


class Joined(msgspec.Struct, frozen=True):
    """redis_url holds the machine's login. ca: a file with who may have signed for the hub."""

    hub: str
    host_id: str
    label: str
    redis_url: str
    secret: str
    ca: str | None = None


def joined(state_dir: Path) -> Joined | None:
    """None also for what cannot be read: then it joins anew."""
    try:
        return msgspec.json.decode((state_dir / FILE).read_bytes(), type=Joined)
    except (OSError, msgspec.DecodeError):
        return None


def keep(state_dir: Path, what: Joined) -> None:
    """Raises OSError."""
    write_private(state_dir / FILE, msgspec.json.encode(what))


def broker_of(state_dir: Path | None, redis_url: str | None) -> str | None:
    """For the collector: the URL that was set, else what joining gave; None: neither."""
    settings = read_settings(CollectorSettings, state_dir=state_dir, redis_url=redis_url)
    if settings.redis_url:
        return redis_url
    found = joined(settings.state_dir)
    return found.redis_url if found else None
