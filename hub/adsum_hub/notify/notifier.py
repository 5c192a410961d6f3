"""The notifier: tells people what calls for them, once its time has come and if it still stands."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence

from adsum_hub.changes import Changes
from adsum_hub.clock import Clock
from adsum_hub.notify.cases import Case
from adsum_hub.notify.marks import Marks
from adsum_hub.notify.pace import Pace
from adsum_hub.notify.rules import STALE_MS, Channel, Config
from adsum_hub.notify.speaking import Outcome, Speaker
from adsum_hub.notify.watching import Watching
from adsum_hub.notify.words import TEST, message_of
from adsum_hub.roster import Roster
from adsum_shared.connect import UNAVAILABLE, Redis, wanted

#: No message is so urgent that every change would have to be looked at for itself.
REST_S = 0.2
LOOK_S = 1.0
#: After what was stored is in the list, what lies in the streams comes: some of it is over by then.
SETTLE_MS = 3_000
#: Another hub tells of it. Should it die over that, we know so much later.
HELD_MS = 5_000
AGAIN_MS = 2_000
RENEW_MS = 3_600_000
SLICE = 500
NO_REDIS = Outcome("Redis does not answer.")


class Notifier:
    """ready: whether the list is true.

    What is pending is never stored: it is what stands in the roster and bears no mark. So it
    outlives a hub, and is no larger than what stands, however long a channel is silent.
    """

    def __init__(
        self,
        roster: Roster,
        config: Config,
        speakers: Mapping[str, Speaker],
        redis: Redis,
        clock: Clock,
        ready: Callable[[], bool],
    ) -> None:
        self.config = config
        self.speakers = speakers
        self.paces = {channel.name: Pace() for channel in config.channels}
        self._watching = Watching(roster, config.rules, clock)
        self.pending = self._watching.pending
        self._marks = Marks(redis)
        self._clock = clock
        self._ready = ready
        self._ready_at: int | None = None
        #: a rule that is new holds from here on: also for what is asked while this hub finds its feet
        self._started = clock()
        self._begun: dict[str, int] = {}
        self._renew_at = 0
        self._busy: set[str] = set()

    def heard(self, changes: Changes) -> None:
        self._watching.heard(changes)

    async def run(self) -> None:
        woken = self._watching.woken
        async with asyncio.TaskGroup() as group:
            while wanted():
                pause = await self.look(group)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(woken.wait(), pause)
                woken.clear()
                await asyncio.sleep(REST_S)

    async def look(self, group: asyncio.TaskGroup) -> float:
        """Returns the seconds until there is something to do, if nothing is heard before."""
        if not self._is_ready(self._clock()):
            return LOOK_S
        try:
            await self._remember(self._clock())
        except UNAVAILABLE:
            return LOOK_S
        await self._watching.absorb(self._begun)
        now, pause = self._clock(), LOOK_S
        for channel in self.config.channels:
            due = self.pending.next(channel.name)
            if channel.name in self._busy or due is None:
                continue
            at = max(due, self.paces[channel.name].free_at(now))
            if at > now:
                pause = min(pause, (at - now) / 1000)
            else:
                self._busy.add(channel.name)
                group.create_task(self._tell(channel), name=f"notify {channel.name}")
        return pause

    def _is_ready(self, now: int) -> bool:
        if not self._ready():
            self._ready_at = None
        elif self._ready_at is None:
            self._ready_at = now + SETTLE_MS
        return self._ready_at is not None and now >= self._ready_at

    async def _remember(self, now: int) -> None:
        """Since when there are these rules, and the marks that are to be set or taken off."""
        if now >= self._renew_at:
            since = now if self._begun else self._started
            begun = await self._marks.begin({rule.id for rule in self.config.rules}, since)
            # After a loss of all of Redis this hub still knows what it has told since.
            self._begun = {rule: min(at, self._begun.get(rule, at)) for rule, at in begun.items()}
            self._renew_at = now + RENEW_MS
        covered, back = list(self._watching.covered), set(self._watching.back)
        if not covered and not back:
            return
        names = {name: await each.name() for name, each in self.speakers.items()}
        await self._marks.tell(
            [case.mark(called) for name, case in covered if (called := names[name])]
        )
        # When they are gone again, that is another matter.
        gone = [Case("host_offline", key, "offline", 0, 0, "", "") for key in back]
        await self._marks.free(
            [case.mark(called) for case in gone for called in names.values() if called]
        )
        self._watching.back -= back
        for _ in covered:
            self._watching.covered.popleft()

    async def _tell(self, channel: Channel) -> None:
        """One message of all that is due. While one is on its way, or none gets through, more wait."""
        now = self._clock()
        due = [
            each for each in self.pending.take(channel.name, now) if now - each.since <= STALE_MS
        ]
        try:
            called, claimed = await self._claim(channel, await self._not_quiet(channel, due))
            if called is not None and claimed:
                try:
                    outcome = await self.speakers[channel.name].say(
                        message_of(claimed, channel.content, self.pending.needing)
                    )
                except UNAVAILABLE:
                    outcome = NO_REDIS
                await self._settle(channel, called, claimed, outcome)
        finally:
            self.speakers[channel.name].health.tell(channel.name)
            self._busy.discard(channel.name)
            self._watching.woken.set()

    async def _not_quiet(self, channel: Channel, due: Sequence[Case]) -> list[Case]:
        """What had to wait until now may have come into quiet hours."""
        loud = []
        for number, case in enumerate(due):
            now = self._clock()
            at = min(
                (
                    rule.after_quiet(now)
                    for rule in self.config.rules
                    if channel.name in rule.channels and rule.matches(case)
                ),
                default=now,
            )
            if at > now:
                self.pending.put(case, channel.name, at)
            else:
                loud.append(case)
            if number % SLICE == SLICE - 1:
                await asyncio.sleep(0)
        return loud

    async def _claim(self, channel: Channel, due: Sequence[Case]) -> tuple[str | None, list[Case]]:
        """What this hub is to tell. Where nobody listens there is nothing to remember either."""
        if not due:
            return None, []
        try:
            called = await self.speakers[channel.name].name()
            if called is None:
                return None, []
            claims = await self._marks.claim([case.mark(called) for case in due])
        except UNAVAILABLE:
            self._put_back(channel, due, self._clock() + AGAIN_MS)
            return None, []
        won: list[Case] = []
        for case, claim in zip(due, claims, strict=True):
            if claim == "won":
                won.append(case)
            elif claim == "told":
                self.pending.told(case, channel.name, self._clock())
            else:
                self.pending.put(case, channel.name, self._clock() + HELD_MS)
        return called, [case for case in won if self.pending.still(case)]

    async def _settle(
        self, channel: Channel, called: str, claimed: Sequence[Case], outcome: Outcome
    ) -> None:
        marks, pace = [case.mark(called) for case in claimed], self.paces[channel.name]
        if outcome.error is not None:
            self._put_back(channel, claimed, pace.failed(self._clock(), outcome.again_s))
            with contextlib.suppress(*UNAVAILABLE):  # else they lapse
                await self._marks.free(marks)
            return
        pace.spent(self._clock())
        for case in claimed:
            self.pending.told(case, channel.name, self._clock())
        try:
            await self._marks.tell(marks)
        except UNAVAILABLE:
            self._watching.covered.extend((channel.name, case) for case in claimed)

    def _put_back(self, channel: Channel, cases: Sequence[Case], at: int) -> None:
        for case in cases:
            self.pending.put(case, channel.name, at)

    async def test(self, names: Sequence[str]) -> dict[str, str | None]:
        """Channel -> what went wrong, None if nothing did. Raises what Redis raises."""
        found = {}
        for name in names:
            speaker = self.speakers[name]
            listens = await speaker.name() is not None
            problem = speaker.health.error or "No browser has subscribed yet."
            found[name] = (await speaker.say(TEST)).error if listens else problem
            speaker.health.tell(name)
        return found
