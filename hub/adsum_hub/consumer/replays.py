"""Which missing numbers have been asked for, and whether to ask again or to give them up. Pure."""

from __future__ import annotations

from typing import Literal, NamedTuple

#: The request itself expires after WANT_TTL_MS, unseen if its collector was away.
ASK_AGAIN_MS = 4_000
#: A collector that no longer has numbers says so with a gap record. This is for one that replays
#: and still leaves the hole.
FRUITLESS_REPLAYS = 3

Verdict = Literal["ask", "wait", "lost"]


class _Asked(NamedTuple):
    spool_id: str
    missing: int
    incarnation: int
    at: int
    replays: int


class Replays:
    def __init__(self) -> None:
        self._asked: dict[str, _Asked] = {}

    def hole(
        self, host_id: str, spool_id: str, missing: int, incarnation: int, now: int
    ) -> Verdict:
        """A batch of this incarnation begins after the number `missing`.

        Entries behind the hole that were in the stream before we asked teach nothing new: only one
        of a higher incarnation is an answer. (Rejected: counting every such entry. A long backlog
        behind a hole was then given up while its replay lay further on.)
        """
        asked = self._asked.get(host_id)
        if asked is None or (asked.spool_id, asked.missing) != (spool_id, missing):
            self._asked[host_id] = _Asked(spool_id, missing, incarnation, now, 0)
            return "ask"
        if incarnation > asked.incarnation:
            if asked.replays + 1 >= FRUITLESS_REPLAYS:
                del self._asked[host_id]
                return "lost"
            self._asked[host_id] = _Asked(spool_id, missing, incarnation, now, asked.replays + 1)
            return "ask"
        if now - asked.at >= ASK_AGAIN_MS:
            self._asked[host_id] = asked._replace(at=now)
            return "ask"
        return "wait"

    def filled(self, host_id: str) -> None:
        self._asked.pop(host_id, None)
