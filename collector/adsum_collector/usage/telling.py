"""Sends through the intake what the ledger holds and nobody has, and then marks it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from adsum_collector.intake import Intake
from adsum_collector.usage.kept import NO_PAST, PAST_TOLD, Fork, Total
from adsum_collector.usage.ledger import Ledger
from adsum_collector.usage.past import past_signals
from adsum_collector.usage.reading import PastOf
from adsum_shared.signals import KnownSignal, MetaChanged, UsageTotalled

#: Accepted at once: what a hook that comes meanwhile has to wait for.
CHUNK: Final = 100

#: Runs it where it may block.
InThread = Callable[..., Awaitable[Any]]


class UsageTelling:
    """Between accepting and marking we may be killed: an absolute that comes twice does no harm.

    Its methods raise SpoolUnavailable and sqlite3.Error.
    """

    def __init__(
        self,
        ledger: Ledger,
        intake: Intake,
        in_thread: InThread,
        now: Callable[[], int],
        lives: Callable[[str], bool],
    ) -> None:
        self._ledger = ledger
        self._intake = intake
        self._in_thread = in_thread
        self._now = now
        self._lives = lives

    async def tell(self) -> None:
        """All that has changed, also the forks that were found."""
        forks = await self._in_thread(self._ledger.forks)
        while totals := await self._in_thread(self._ledger.untold, CHUNK):
            now = self._now()
            await self._intake.accept([_totalled(each.total, now) for each in totals])
            await self._in_thread(self._ledger.mark_told, totals, ())
        if forks:
            now = self._now()
            await self._intake.accept([_forked(fork, now) for fork in forks])
            await self._in_thread(self._ledger.mark_told, (), forks)

    async def tell_pasts(self, pasts: Sequence[PastOf]) -> None:
        """One after the other. Of a session that has come to life since: nothing."""
        now = self._now()
        over = [past for past in pasts if not self._lives(past.session_id)]
        alive = [past.path for past in pasts if self._lives(past.session_id)]
        said = [each for one in over for each in past_signals(one.past, one.session_id, now)]
        if said:
            await self._intake.accept(said)
        await self._in_thread(self._ledger.mark_pasts, [one.path for one in over], PAST_TOLD)
        await self._in_thread(self._ledger.mark_pasts, alive, NO_PAST)


def _totalled(total: Total, now: int) -> KnownSignal:
    group = total.group
    return UsageTotalled(
        session_id=group.session_id,
        at=min(total.latest, now) or now,
        seen=now,
        source="transcript",
        day=group.day,
        model=group.model,
        fast=group.fast,
        geo=group.geo,
        long=group.long,
        messages=total.messages,
        input_tokens=total.input,
        output_tokens=total.output,
        cache_read_tokens=total.cache_read,
        cache_5m_tokens=total.cache_5m,
        cache_1h_tokens=total.cache_1h,
        web_searches=total.web_searches,
    )


def _forked(fork: Fork, now: int) -> KnownSignal:
    return MetaChanged(
        session_id=fork.session_id,
        at=fork.begun or now,
        seen=now,
        source="transcript",
        forked_from=fork.forked_from,
    )
