"""A machine leaves, takes its joining back, or goes through the hub: what it asks for itself.

Who it is was looked up a moment ago, and somebody may shut it out in that moment. So what it becomes
is written by `Machines.change`, and nothing of what only a member may have done comes before that.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from adsum_hub.answers import SCHEMA
from adsum_hub.clock import Clock
from adsum_hub.join.asked import worthless
from adsum_hub.join.hosts import JoinedHosts
from adsum_hub.join.machines import Machine, Machines
from adsum_hub.join.rights import Rights
from adsum_hub.join.tokens import JoinTokenStore
from adsum_hub.join.watch import Watch
from adsum_hub.join_answers import HostChanged

#: A joining that failed is undone at once. Later, an undo would make a used token good again.
UNDO_MS = 5 * 60_000


@dataclass(frozen=True, slots=True)
class Leaving:
    tokens: JoinTokenStore
    machines: Machines
    rights: Rights
    watch: Watch
    hosts: JoinedHosts
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
        undo = undo and self.clock() - machine.since <= UNDO_MS
        before = machine.before if undo else None
        lasting = before is not None and before.way == "acl" and before.state == "in"
        if not lasting:  # first: of a machine that has not joined nobody would know a user
            await self.rights.withdraw_if_any(machine.host_id)
        if await self.machines.change(machine, _restored if undo else _gone) is None:
            raise worthless()
        if undo:
            await self.tokens.free(machine.token, machine.host_id, self.clock())
        if not undo or machine.fresh:
            return await self.hosts.let_go(machine.host_id, left=True)
        if before is not None and lasting:  # last: `mend` goes by what stands there
            await self.rights.grant(before.host_id, before.digest)
        await self.watch.look()
        return HostChanged(SCHEMA, machine.host_id)


def _by_hub(now: Machine) -> Machine:
    """One that shares a login keeps it in mind: it was given that, and knows it."""
    return msgspec.structs.replace(now, way="ingest") if now.way == "acl" else now


def _restored(now: Machine) -> Machine | None:
    return None if now.fresh else now.before


def _gone(_: Machine) -> None:
    return None
