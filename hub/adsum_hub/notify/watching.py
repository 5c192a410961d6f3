"""From what the roster tells to what is pending: which sessions and machines call for a human."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence

from adsum_hub.changes import Changes
from adsum_hub.clock import Clock
from adsum_hub.notify.cases import Case, case_of_host, case_of_session
from adsum_hub.notify.decide import decide
from adsum_hub.notify.pending import Pending
from adsum_hub.notify.rules import Rule
from adsum_hub.roster import Roster

#: Looked at in one go; everybody else has a turn in between.
SLICE = 200
MOST_COVERED = 10_000


class Watching:
    """covered: told by what was told before; only to be marked. back: machines that are."""

    def __init__(self, roster: Roster, rules: Sequence[Rule], clock: Clock) -> None:
        self.pending = Pending()
        self.covered: deque[tuple[str, Case]] = deque(maxlen=MOST_COVERED)
        self.back: set[str] = set()
        self.woken = asyncio.Event()
        self._roster = roster
        self._rules = rules
        self._host_rules = [rule.id for rule in rules if rule.on == "host_offline"]
        self._clock = clock
        #: ids only: a session that changes a thousand times is looked at once
        self._sessions: dict[str, None] = {}
        self._hosts: dict[str, None] = {}
        self._offline: dict[str, int] = {}
        self._live: set[str] = set()

    def heard(self, changes: Changes) -> None:
        """Called while the page is being told, so it only notes what to look at."""
        self._sessions |= {view.id: None for view in changes.sessions}
        self._sessions |= dict.fromkeys(changes.gone)
        self._hosts |= {view.id: None for view in changes.hosts}
        self._hosts |= dict.fromkeys(changes.gone_hosts)
        self.woken.set()

    async def absorb(self, begun: Mapping[str, int]) -> None:
        """begun: rule id -> since when there is such a rule."""
        while self._hosts or self._sessions:
            now = self._clock()
            for _ in range(min(SLICE, len(self._hosts))):
                key, _ = self._hosts.popitem()
                self._enter(key, self._host_case(key, begun, now), begun, now)
            for _ in range(min(SLICE, len(self._sessions))):
                key, _ = self._sessions.popitem()
                self._enter(key, self._session_case(key), begun, now)
            await asyncio.sleep(0)

    def _enter(self, key: str, case: Case | None, begun: Mapping[str, int], now: int) -> None:
        if case is None:
            self.pending.leave(key)
            return
        known = self.pending.standing.get(key)
        # It has delivered, and now it needs somebody: what was told of the one says nothing here.
        told = known.told if known is not None and known.case.on == case.on else {}
        before = known.case if known is not None else None
        decision = decide(self._rules, before, case, now, told=told, begun=begun)
        self.pending.enter(case, decision)
        self.covered.extend((channel, case) for channel in decision.covered)

    def _session_case(self, key: str) -> Case | None:
        view = self._roster.views.get(key)
        host = self._roster.hosts.get(view.host_id) if view is not None else None
        if view is None or host is None:
            return None
        state = host.states.get(view.session_id)
        if state is None or state.state != view.state.state:
            return case_of_session(view, view.state.since)  # what the hub itself says of it
        return case_of_session(view, state.since)

    def _host_case(self, key: str, begun: Mapping[str, int], now: int) -> Case | None:
        view = self._roster.host_views.get(key)
        if not self._host_rules:
            return None
        if view is None or view.reachability != "offline":
            self._offline.pop(key, None)
            if view is not None and key not in self._live:
                self._live.add(key)
                self.back.add(key)
            return None
        self._live.discard(key)
        if view.last_seen < min(begun.get(rule, now) for rule in self._host_rules):
            return None  # it was so before anybody asked to be told
        return case_of_host(view, max(view.last_seen, self._offline.setdefault(key, now)))
