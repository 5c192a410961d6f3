"""Ends access: a machine leaves or undoes its joining, or an admin forgets it or shuts it out."""

import contextlib
import logging
from dataclasses import dataclass

import msgspec
from fastapi import APIRouter, Request

from adsum_hub.clock import Clock
from adsum_hub.join.joining import (
    JOINING,
    JOINING_STEP,
    MACHINE,
    NO_USER_STEP,
    Joining,
    label_of,
    served,
    worthless,
)
from adsum_hub.join.machines import JoinedMachine, MachineStore, RollWatch, State
from adsum_hub.join.rights import NoRightsError, Rights
from adsum_hub.join.tokens import HostChanged, JoinTokenStore, LabelAsked, LeaveAsked
from adsum_hub.rest.api import JSON_ONLY, REFUSED, SCHEMA, UNKNOWN, BadRequestError, add_endpoints
from adsum_hub.roster import Roster
from adsum_shared.connect import UNAVAILABLE

log = logging.getLogger(__name__)

SHARES = "This machine shares its Redis login with others, so it cannot be shut out alone."
SHARES_STEP = (
    "Change that login's password; or leave the machine out of all lists: adsum hosts forget"
)
NO_HOST = {**REFUSED, **UNKNOWN}
#: A joining that failed is undone at once. Later, an undo would make a used token good again.
UNDO_MS = 5 * 60_000


@dataclass(frozen=True, slots=True)
class Leaving:
    """Lets machines go: by their own wish, or by an admin's, who may also rename them.

    A machine asks to leave, to take its joining back, or to go through the hub. Who it is was looked
    up a moment ago, and somebody may shut it out in that moment. So what it becomes is written by
    `MachineStore.change`, and comes last: whatever fails before can be asked for again, by the
    credential that goes with it.
    """

    roster: Roster
    tokens: JoinTokenStore
    machines: MachineStore
    rights: Rights
    watch: RollWatch
    clock: Clock
    joining: Joining

    async def end_login(self, machine: JoinedMachine) -> HostChanged:
        """It cannot reach Redis, so it needs no user there. Raises BadRequestError."""
        if await self.machines.change(machine, _by_hub) is None:
            raise worthless()
        # Asked for a second time as well: Redis may not have answered the first.
        await self.rights.withdraw_if_any(machine.host_id)
        return HostChanged(SCHEMA, machine.host_id)

    async def let_leave(self, machine: JoinedMachine, *, undo: bool) -> HostChanged:
        """undo: the joining failed just now, so all is to be as it was before. Raises BadRequestError."""
        # One that joins anew meanwhile would be forgotten, and a login made anew would stay.
        async with self.machines.alone(machine.host_id) as alone:
            if not alone:
                raise BadRequestError(409, JOINING, JOINING_STEP)
            if not await self.machines.is_in(machine):
                raise worthless()
            await self._let_go(machine, undo=undo and self.clock() - machine.since <= UNDO_MS)
        return HostChanged(SCHEMA, machine.host_id)

    async def _let_go(self, machine: JoinedMachine, *, undo: bool) -> None:
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
        # It is done: `RollWatch.run` comes to the first two by itself.
        with contextlib.suppress(*UNAVAILABLE):
            if before is not None and lasting:  # after the change: `mend` goes by what stands there
                with contextlib.suppress(NoRightsError):  # of which `mend` tells as well
                    await self.rights.grant(before.host_id, before.digest)
            await self.watch.look()
            if undo:  # a count for people, which a second try would make wrong
                await self.tokens.discount(machine.token, self.clock())

    @served(
        "POST /machine/ingest",
        "The machine whose credential is shown cannot reach Redis: it needs no user there",
        MACHINE,
        dependencies=[JSON_ONLY],
    )
    async def go_through_hub(self, request: Request) -> HostChanged:
        return await self.end_login(await self.joining.asking(request))

    @served(
        "POST /machine/leave",
        "The machine whose credential is shown leaves; all of it goes from the lists",
        MACHINE,
    )
    async def leave(self, request: Request, asked: LeaveAsked) -> HostChanged:
        return await self.let_leave(await self.joining.asking(request), undo=asked.undo)

    @served(
        "POST /hosts/{host_id}/rename",
        "A host is called by another name everywhere; an empty one gives it its own back",
        NO_HOST,
    )
    async def rename_host(self, host_id: str, asked: LabelAsked) -> HostChanged:
        await self._require(host_id)
        label = label_of(asked.label)
        if label and self.roster.bears(label, host_id):
            raise BadRequestError(409, "Another machine is called so.", "Give another name.")
        await self.machines.name(host_id, label)
        await self.watch.look()
        return HostChanged(SCHEMA, host_id)

    @served(
        "POST /hosts/{host_id}/forget",
        "A host goes, with all there is of it; it comes back only by joining",
        NO_HOST,
        dependencies=[JSON_ONLY],
    )
    async def forget_host(self, host_id: str) -> HostChanged:
        await self._require(host_id)
        await self.rights.withdraw_if_any(host_id)
        await self.machines.forget(host_id)
        await self.watch.look()
        return HostChanged(SCHEMA, host_id)

    @served(
        "POST /hosts/{host_id}/revoke",
        "A machine's credential is good no more, and its identity may not join again",
        NO_HOST,
        dependencies=[JSON_ONLY],
    )
    async def revoke_host(self, host_id: str) -> HostChanged:
        return await self._shut_out(host_id, "revoked")

    @served(
        "POST /hosts/{host_id}/reset",
        "A machine's credential is good no more, and its identity may join anew",
        NO_HOST,
        dependencies=[JSON_ONLY],
    )
    async def reset_host(self, host_id: str) -> HostChanged:
        return await self._shut_out(host_id, "reset")

    async def _shut_out(self, host_id: str, state: State) -> HostChanged:
        """Raises BadRequestError: it has not joined."""
        machine = await self.machines.find(host_id)
        if machine is None:
            await self._require(host_id)
            cause = "This host has not joined, so it has no credential of its own."
            step = "It writes as whoever knows the Redis URL. `adsum hosts forget` leaves it out."
            raise BadRequestError(409, cause, step)
        if machine.way == "acl":
            try:
                await self.rights.withdraw(host_id)
            except NoRightsError as error:
                cause = f"Its user in Redis cannot be taken away: {error}."
                raise BadRequestError(409, cause, NO_USER_STEP) from error
        elif machine.way == "shared" and state == "revoked":
            raise BadRequestError(409, SHARES, SHARES_STEP)
        elif machine.way == "ingest":
            # One of an earlier way, which Redis did not answer about when it was to go.
            await self.rights.withdraw_if_any(host_id)
        await self.machines.put(msgspec.structs.replace(machine, state=state, before=None))
        if state == "revoked":  # one that may join anew goes on where its stream ends
            await self.machines.clear(host_id)
        await self.tokens.retire(machine.token)  # after it: what is freed until then is seen
        await self.watch.look()
        log.info("%s (%s) is shut out: %s", host_id, machine.label, state)
        return HostChanged(SCHEMA, host_id)

    async def pause(self, host_id: str) -> bool:
        """Keeps it out of Redis for a while, at all hubs; whether it can: not if it shares a login."""
        machine = await self.machines.find(host_id)
        if machine is None or machine.way == "shared" or machine.state != "in":
            return False
        await self.machines.pause(host_id)
        await self.rights.withdraw_if_any(host_id)
        return True

    async def _require(self, host_id: str) -> None:
        if host_id in self.roster.hosts or await self.machines.find(host_id) is not None:
            return
        raise BadRequestError(404, f"There is no host {host_id[:40]!r}.", "List them: adsum hosts")


def _by_hub(now: JoinedMachine) -> JoinedMachine:
    """One that shares a login keeps it in mind: it was given that, and knows it."""
    return msgspec.structs.replace(now, way="ingest") if now.way == "acl" else now


def _restored(now: JoinedMachine) -> JoinedMachine | None:
    return None if now.fresh else now.before


def _gone(_: JoinedMachine) -> None:
    return None


def leaving_of(joining: Joining) -> Leaving:
    watch = joining.watch
    return Leaving(
        joining.roster, joining.tokens, watch.machines, watch.rights, watch, joining.clock, joining
    )


def join_router(joining: Joining) -> APIRouter:
    router = add_endpoints(APIRouter(prefix="/api/v1", tags=["v1"]), joining, Joining)
    return add_endpoints(router, leaving_of(joining))
