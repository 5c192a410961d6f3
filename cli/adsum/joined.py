"""Keeps which hub this machine has joined, with its credential, in a file for its user alone."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from adsum.config import read_settings
from adsum_collector.delivery.transports import HubPlace
from adsum_collector.settings import CollectorSettings
from adsum_shared.private_files import write_private

FILE = "machine.json"


class Joined(msgspec.Struct, frozen=True):
    """redis_url holds the machine's login. ca: a file with who may have signed for the hub.

    via: how its signals go; ingest: through the hub, and redis_url is empty.
    """

    hub: str
    host_id: str
    label: str
    redis_url: str
    secret: str
    ca: str | None = None
    via: Literal["redis", "ingest"] = "redis"

    @property
    def ingest(self) -> HubPlace | None:
        return HubPlace(self.hub, self.secret, self.ca) if self.via == "ingest" else None


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
    return (found.redis_url or None) if found else None


def ingest_of(state_dir: Path | None, redis_url: str | None) -> HubPlace | None:
    """For the collector: the hub that its signals go through; None: they go to Redis."""
    settings = read_settings(CollectorSettings, state_dir=state_dir, redis_url=redis_url)
    found = joined(settings.state_dir)
    return found.ingest if found and not settings.redis_url else None
