"""What is done with hosts that are there: named, forgotten, shut out."""

from __future__ import annotations

import logging
from dataclasses import dataclass

import msgspec

from adsum_hub.join.asked import label_of
from adsum_hub.join.machines import Machines, State
from adsum_hub.join.rights import NoRightsError, Rights
from adsum_hub.join.tokens import JoinTokenStore
from adsum_hub.join.watch import Watch
from adsum_hub.join.words import NO_USER_STEP, SHARES, SHARES_STEP
from adsum_hub.rest.answers import SCHEMA
from adsum_hub.rest.bodies import BadRequestError
from adsum_hub.rest.join_answers import HostChanged
from adsum_hub.roster import Roster

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class JoinedHosts:
    roster: Roster
    machines: Machines
    rights: Rights
    watch: Watch
    tokens: JoinTokenStore

    async def rename(self, host_id: str, label: str) -> HostChanged:
        await self._require(host_id)
        await self.machines.name(host_id, label_of(label))
        await self.watch.look()
        return HostChanged(SCHEMA, host_id)

    async def forget(self, host_id: str) -> HostChanged:
        await self._require(host_id)
        return await self.remove(host_id)

    async def shut_out(self, host_id: str, *, for_good: bool) -> HostChanged:
        """for_good: until somebody resets it. Raises BadRequestError: it has not joined."""
        machine = await self.machines.find(host_id)
        if machine is None:
            await self._require(host_id)
            cause = "This host has not joined, so it has no credential of its own."
            step = "It writes as whoever knows the Redis URL. `adsum hosts forget` leaves it out."
            raise BadRequestError(409, cause, step)
        if machine.way == "acl":
            await self._withdraw(host_id)
        elif machine.way == "shared" and for_good:
            raise BadRequestError(409, SHARES, SHARES_STEP)
        elif machine.way == "ingest":
            # One of an earlier way, which Redis did not answer about when it was to go.
            await self.rights.withdraw_if_any(host_id)
        state: State = "revoked" if for_good else "reset"
        await self.machines.put(msgspec.structs.replace(machine, state=state, before=None))
        await self.tokens.retire(machine.token)  # after it: what is freed until then is seen
        await self.watch.look()
        log.info("%s (%s) is shut out: %s", host_id, machine.label, state)
        return HostChanged(SCHEMA, host_id)

    async def _withdraw(self, host_id: str) -> None:
        try:
            await self.rights.withdraw(host_id)
        except NoRightsError as error:
            cause = f"Its user in Redis cannot be taken away: {error}."
            raise BadRequestError(409, cause, NO_USER_STEP) from error

    async def remove(self, host_id: str) -> HostChanged:
        await self.rights.withdraw_if_any(host_id)
        await self.machines.forget(host_id)
        await self.watch.look()
        return HostChanged(SCHEMA, host_id)

    async def _require(self, host_id: str) -> None:
        if host_id in self.roster.hosts or await self.machines.find(host_id) is not None:
            return
        raise BadRequestError(404, f"There is no host {host_id[:40]!r}.", "List them: adsum hosts")
