"""What has changed since it was last told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import msgspec

from adsum_hub.views import same_host
from adsum_shared.state import HostView, SessionView

#: Hosts of which nothing is heard are looked at no more often: it took longer than any signal.
HOSTS_MS = 100


class Changes(msgspec.Struct, frozen=True):
    """more: there is more to tell; ask again soon."""

    sessions: tuple[SessionView, ...] = ()
    gone: tuple[str, ...] = ()
    hosts: tuple[HostView, ...] = ()
    gone_hosts: tuple[str, ...] = ()
    more: bool = False

    def __bool__(self) -> bool:
        return bool(self.sessions or self.gone or self.hosts or self.gone_hosts)


class Viewed(Protocol):
    def view(self, now: int) -> HostView: ...


class Machines:
    """Hosts as they were last told. heard: of which something has come since."""

    def __init__(self, views: dict[str, HostView]) -> None:
        self.heard: set[str] = set()
        self._views = views
        self._looked_at = 0

    def changes(
        self, hosts: Mapping[str, Viewed], now: int
    ) -> tuple[tuple[HostView, ...], tuple[str, ...]]:
        """What is another now, and who is gone."""
        looked_at = [each for each in self.heard if each in hosts]
        self.heard.clear()
        if not 0 <= now - self._looked_at < HOSTS_MS:
            self._looked_at, looked_at = now, list(hosts)
        changed: list[HostView] = []
        for host_id in looked_at:
            view, before = hosts[host_id].view(now), self._views.get(host_id)
            if before is None or not same_host(before, view):
                changed.append(view)
            self._views[host_id] = view
        gone = tuple(self._views.keys() - hosts.keys())
        for host_id in gone:
            del self._views[host_id]
        return tuple(changed), gone
