"""A machine leaves, takes its joining back, or goes through the hub: what it asks for itself.

Who it is was looked up a moment ago, and somebody may shut it out in that moment. So what it becomes
is written by `Machines.change`, and comes last: whatever fails before can be asked for again, by the
credential that goes with it.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

import msgspec

from adsum_hub.clock import Clock
from adsum_hub.join.asked import worthless
from adsum_hub.join.machines import Machine, Machines
from adsum_hub.join.rights import NoRightsError, Rights
from adsum_hub.join.tokens import JoinTokenStore
from adsum_hub.join.watch import Watch
from adsum_hub.join.words import JOINING, JOINING_STEP
from adsum_hub.rest.answers import SCHEMA
from adsum_hub.rest.bodies import BadRequestError
from adsum_hub.rest.join_answers import HostChanged
from adsum_shared.connect import UNAVAILABLE

#: A joining that failed is undone at once. Later, an undo would make a used token good again.
UNDO_MS = 5 * 60_000


@dataclass(frozen=True, slots=True)
class Leaving:
    tokens: JoinTokenStore
    machines: Machines
    rights: Rights
    watch: Watch
    clock: Clock

    async def go_through_hub(self, machine: Machine) -> HostChanged:
        """It cannot reach Redis, so it needs no user there. Raises BadRequestError."""
        if await self.machines.change(machine, _by_hub) is None:
            raise worthless()
        # Asked for a second time as well: Redis may not have answered the first.
        await self.rights.withdraw_if_any(machine.host_id)
        return HostChanged(SCHEMA, machine.host_id)

    async def leave(self, machine: Machine, *, undo: bool) -> HostChanged:
        """undo: the joining failed just now, so all is to be as it was before. Raises BadRequestError."""
        # One that joins anew meanwhile would be forgotten, and a login made anew would stay.
        async with self.machines.alone(machine.host_id) as alone:
            if not alone:
                raise BadRequestError(409, JOINING, JOINING_STEP)
            if not await self.machines.is_in(machine):
                raise worthless()
            await self._let_go(machine, undo=undo and self.clock() - machine.since <= UNDO_MS)
        return HostChanged(SCHEMA, machine.host_id)

    async def _let_go(self, machine: Machine, *, undo: bool) -> None:
        before = machine.before if undo else None
        lasting = before is not None and before.way == "acl" and before.state == "in"
        if not lasting:
            await self.rights.withdraw_if_any(machine.host_id)
        if undo:
            await self.tokens.free(machine.token, machine.host_id, self.clock())
        if not undo or machine.fresh:
            await self.machines.forget(machine.host_id, left=True)
        if await self.machines.change(machine, _restored if undo else _gone) is None:
            raise worthless()
        with contextlib.suppress(*UNAVAILABLE):  # it is done: `Watch.run` comes to both by itself
            if before is not None and lasting:  # after the change: `mend` goes by what stands there
                with contextlib.suppress(NoRightsError):  # of which `mend` tells as well
                    await self.rights.grant(before.host_id, before.digest)
            await self.watch.look()
            if undo:  # a count for people, which a second try would make wrong
                await self.tokens.discount(machine.token, self.clock())


def _by_hub(now: Machine) -> Machine:
    """One that shares a login keeps it in mind: it was given that, and knows it."""
    return msgspec.structs.replace(now, way="ingest") if now.way == "acl" else now


def _restored(now: Machine) -> Machine | None:
    return None if now.fresh else now.before


def _gone(_: Machine) -> None:
    return None
