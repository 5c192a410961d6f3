"""Our place in the stream: found when connecting, looked after every second, left to others if need be."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable

import msgspec

from adsum_collector.delivery.inbox import Inbox
from adsum_collector.delivery.problems import HUBS_FIRST, LEFT, DeliveryProblem
from adsum_collector.delivery.resume import (
    CollectorRun,
    EntryId,
    Head,
    HubProgress,
    Runs,
    read_runs,
    wanted_after,
    where_to_resume,
    written,
)
from adsum_collector.errors import StreamMovedError, StreamUnusableError
from adsum_collector.spool.spool import Spool
from adsum_shared.envelope import encode_gap

log = logging.getLogger(__name__)

#: A request's key outlives our answer by a little: this long the same one is the old one.
SAME_WANT_S = 3.0


class _Leaving(msgspec.Struct, frozen=True):
    """A spool that is left, why, the one that follows it, and the id of that one's first entry."""

    spool_id: str
    reason: str
    next_id: str
    fence: EntryId


class Place:
    """sent: the last number of our spool that is in the stream. now: seconds of wall clock.

    free: whether we may publish. moved: others have written since: `find` before the next entry.
    """

    def __init__(
        self, spool: Spool, nonce: str, problem: DeliveryProblem, now: Callable[[], float]
    ) -> None:
        self._spool = spool
        self._nonce = nonce
        self._problem = problem
        self._now = now
        self._held = (spool.spool_id, spool.last_seq)
        self._runs = Runs()
        self._leaving: _Leaving | None = None
        self._answered_want: tuple[bytes, float] = (b"", 0.0)
        self.head: EntryId | None = None
        self.spool_id = ""
        self.incarnation = 0
        self.sent = 0
        self.replays = 0
        self.free = False
        self.moved = False

    async def join(self) -> None:
        """Enter our run into the spool's list, before it accepts anything. Raises SpoolUnavailable."""
        spool = self._spool
        spool_id = spool.spool_id
        runs = read_runs(spool.state, spool_id)
        if self._nonce not in runs:
            last = self._held[1] if self._held[0] == spool_id else spool.last_seq
            joined = runs.joined_by(self._nonce, last)
            await spool.append([], state=written(spool.state, spool_id, joined))
            runs = Runs(joined)
        self._runs = runs

    async def find(self, inbox: Inbox) -> None:
        """Where to go on, or why not to: then `free` is False, and this is to be called again."""
        await self.join()
        spool = self._spool
        if self.spool_id != spool.spool_id:
            self.spool_id, self.sent = spool.spool_id, 0
        self.free = self.moved = False
        head = await inbox.head()
        self.head = head.id if head else None
        if head is not None and not head.id.leaves_room:
            self._problem.held_up(str(StreamUnusableError(inbox.key)))
            return
        stored = await inbox.stored(self.spool_id)
        if reason := self._leaves(head) or self._why_to_leave(head, stored):
            await self._leave(inbox, reason, head, stored)
        else:
            await self._go_on(head, stored)

    async def _go_on(self, head: Head | None, stored: HubProgress) -> None:
        self._leaving = None
        place = where_to_resume(
            incarnation=self._spool.incarnation,
            spool_id=self.spool_id,
            sent=self.sent,
            head=head,
            applied=stored.applied,
        )
        if place.incarnation != self._spool.incarnation:
            await self._spool.set_incarnation(place.incarnation)
        self.incarnation = place.incarnation
        self.sent = place.after
        self._problem.held_up(None)
        self.free = True

    def author(self) -> tuple[str, int | None]:
        """The run whose the next number is, and the last number of that run, if it is over.

        An entry holds numbers of one run.
        """
        return self._runs.author(self.sent + 1)

    async def send(self, inbox: Inbox, last: int, fields: dict[bytes, bytes]) -> None:
        """The next entry, which ends with number `last`. Raises StreamMovedError."""
        entry = EntryId(self.incarnation, last)
        await inbox.add(entry, fields)
        self.head, self.sent = entry, last

    async def look(self, inbox: Inbox) -> None:
        """Learns what hubs have stored for good, what they want again, and who else is here."""
        if not self.free:
            await self.find(inbox)
            return
        other, stored, want = await inbox.look(self.spool_id, self.head, others=not self.moved)
        poisoned = other is not None and not other.id.leaves_room
        if poisoned or self._why_to_leave(other, stored):
            await self.find(inbox)
            return
        if other is not None:
            # A higher incarnation costs a commit, so it waits until we have something to send.
            self.moved = True
            if other.nonce not in self._runs:
                self._problem.report(StreamMovedError())
        if self._spool.spool_id == self.spool_id:
            await self._spool.acknowledge(min(stored.applied, self.sent))
            await self._replay(want)

    async def check(self, inbox: Inbox) -> None:
        """A stream deleted or evicted under a living connection is no error of any command."""
        head = await inbox.head()
        if (head.id if head else None) != self.head:
            log.warning("the stream is not where we left it; looking for our place again")
            await self.find(inbox)

    async def _replay(self, want: bytes | None) -> None:
        after = wanted_after(want, self.spool_id, self._spool.last_seq)
        if want is None or after is None:
            return
        before, answered_at = self._answered_want
        if want == before and 0 <= self._now() - answered_at < SAME_WANT_S:
            return
        log.warning("a hub asked to replay after number %d", after)
        self._answered_want = (want, self._now())
        self.replays += 1
        # Higher ids, or readers that are past the old ones would never see the replay.
        self.incarnation += 1
        await self._spool.set_incarnation(self.incarnation)
        self.sent = after

    def _why_to_leave(self, head: Head | None, stored: HubProgress) -> str | None:
        ours = head if head and head.spool_id == self.spool_id else None
        return self._runs.why_to_leave(ours, stored, self._spool.last_seq)

    async def _leave(
        self, inbox: Inbox, reason: str, head: Head | None, stored: HubProgress
    ) -> None:
        """Our numbers are given out elsewhere too: go on under a spool_id of our own.

        First hubs have to speak on all that lies in the stream, or we could not tell what of ours
        they have. The new spool's first entry goes ahead and closes the stream to whatever of ours
        is still under way: its id is above all we have tried.
        """
        self._problem.notice(LEFT[reason])
        self._problem.held_up(HUBS_FIRST)
        if not self._leaves(head):
            newest = max(self._spool.incarnation, head.id.incarnation if head else 0)
            known = self._leaving and self._leaving.spool_id == self.spool_id
            next_id = self._leaving.next_id if self._leaving and known else secrets.token_hex(8)
            fence = EntryId(newest + 1, 1)
            self._leaving = _Leaving(self.spool_id, reason, next_id, fence)
            await inbox.add(fence, self._gap(next_id, reason))
            self.head = fence
        elif self._leaving and stored.cursor >= self._leaving.fence:
            await self._begin_anew(self._leaving, stored)
            await self.find(inbox)

    def _leaves(self, head: Head | None) -> str | None:
        """Why the spool is left, if its successor's first entry lies in the stream already."""
        leaving = self._leaving
        if leaving is None or leaving.spool_id != self.spool_id:
            return None
        return leaving.reason if head is not None and head.id >= leaving.fence else None

    async def _begin_anew(self, leaving: _Leaving, stored: HubProgress) -> None:
        if self._spool.spool_id != self.spool_id:
            return  # it was damaged meanwhile: these are not its numbers
        ours = self._runs.delivered(stored.runs or {}, self._spool.last_seq)
        await self._spool.begin_anew(
            leaving.reason,
            leaving.fence.incarnation,
            without=ours,
            spool_id=leaving.next_id,
            state=written(self._spool.state, leaving.next_id, [CollectorRun(self._nonce)]),
        )
        log.warning("a new spool begins; hubs had of the old one: %s", ours)
        if self._spool.spool_id == leaving.next_id:
            self.spool_id, self.sent = leaving.next_id, 1

    def _gap(self, spool_id: str, reason: str) -> dict[bytes, bytes]:
        return encode_gap(
            spool_id=spool_id,
            first=1,
            last=1,
            nonce=self._nonce,
            sent_at=int(self._now() * 1000),
            reason=reason,
        )
