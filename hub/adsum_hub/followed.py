"""The hosts that a hub follows, by id, and those that it does not follow any more."""

from __future__ import annotations

from adsum_hub.host import Host


class Followed(dict[str, Host]):
    """barred: forgotten; whoever writes under such an id is not followed.

    A host that was let go is still found by whoever was at work for it in that moment, and waits for
    Redis. What is done to it then nobody sees.
    """

    def __init__(self) -> None:
        super().__init__()
        self.barred: frozenset[str] = frozenset()
        self._gone: dict[str, Host] = {}

    def knows(self, host_id: str) -> bool:
        """Whether discovery has nothing to do for it."""
        return host_id in self or host_id in self.barred

    def let_go(self, host_id: str) -> None:
        self._gone[host_id] = self.pop(host_id)

    def __missing__(self, host_id: str) -> Host:
        return self._gone[host_id]
