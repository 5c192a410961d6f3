"""The cases that stand, and which channel is due to be told of which and when. Pure."""

from __future__ import annotations

import heapq

import msgspec

from adsum_hub.notify.cases import Case, Telling
from adsum_hub.notify.decide import Decision

#: Outdated entries a heap may hold beside those that count, before it is built anew.
SLACK = 1_000


class Standing(msgspec.Struct):
    """due: channel -> when. told: channel -> state -> what it was told last."""

    case: Case
    due: dict[str, int]
    told: dict[str, dict[str, Telling]]


class Pending:
    """As large as the cases that stand, whatever happens: what has passed leaves nothing behind."""

    def __init__(self) -> None:
        self.standing: dict[str, Standing] = {}
        self._heaps: dict[str, list[tuple[int, str]]] = {}

    def __len__(self) -> int:
        return sum(len(each.due) for each in self.standing.values())

    @property
    def needing(self) -> int:
        """Sessions that need a human, whether anybody is to be told of them or not."""
        return sum(each.case.on == "needs_you" for each in self.standing.values())

    def enter(self, case: Case, decision: Decision) -> None:
        """Its latest words are kept also where nothing else has changed."""
        known = self.standing.get(case.key)
        if known is None:
            known = self.standing[case.key] = Standing(case, {}, {})
        elif decision.cancelled:
            known.due.clear()
            if known.case.on != case.on:
                known.told.clear()
        known.case = case
        for channel, at in decision.pending.items():
            self.put(case, channel, at)

    def leave(self, key: str) -> Case | None:
        standing = self.standing.pop(key, None)
        return standing.case if standing else None

    def put(self, case: Case, channel: str, at: int) -> None:
        """Also to put off. Nothing if the case does not stand any more."""
        if not self.still(case):
            return
        self.standing[case.key].due[channel] = at
        heap = self._heaps.setdefault(channel, [])
        heapq.heappush(heap, (at, case.key))
        if len(heap) > 2 * len(self.standing) + SLACK:
            live = ((each.due.get(channel), name) for name, each in self.standing.items())
            self._heaps[channel] = [(due, name) for due, name in live if due is not None]
            heapq.heapify(self._heaps[channel])

    def take(self, channel: str, now: int) -> list[Case]:
        """Those due on a channel, no longer pending; `put` puts one back."""
        heap, cases = self._heaps.get(channel, []), []
        while heap and heap[0][0] <= now:
            at, key = heapq.heappop(heap)
            standing = self.standing.get(key)
            if standing is not None and standing.due.get(channel) == at:
                del standing.due[channel]
                cases.append(standing.case)
        return cases

    def told(self, case: Case, channel: str, now: int) -> None:
        standing = self.standing.get(case.key)
        if standing is not None and standing.case.on == case.on:
            standing.told.setdefault(channel, {})[case.state] = Telling(case.urgency, now)

    def still(self, case: Case) -> bool:
        standing = self.standing.get(case.key)
        return standing is not None and standing.case.identity == case.identity

    def waiting(self, channel: str) -> int:
        return sum(channel in each.due for each in self.standing.values())

    def next(self, channel: str) -> int | None:
        heap = self._heaps.get(channel, [])
        while heap:
            at, key = heap[0]
            standing = self.standing.get(key)
            if standing is not None and standing.due.get(channel) == at:
                return at
            heapq.heappop(heap)
        return None
