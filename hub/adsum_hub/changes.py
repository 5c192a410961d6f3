"""What has changed since it was last told."""

from __future__ import annotations

import msgspec

from adsum_shared.state import HostView, SessionView


class Changes(msgspec.Struct, frozen=True):
    """more: there is more to tell; ask again soon."""

    sessions: tuple[SessionView, ...] = ()
    gone: tuple[str, ...] = ()
    hosts: tuple[HostView, ...] = ()
    gone_hosts: tuple[str, ...] = ()
    more: bool = False

    def __bool__(self) -> bool:
        return bool(self.sessions or self.gone or self.hosts or self.gone_hosts)
