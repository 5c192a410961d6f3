"""The roll kept current: names, who is forgotten or shut out, and the machines' users in Redis."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from adsum_hub import host_troubles, portraits
from adsum_hub.clock import Clock
from adsum_hub.host import Host
from adsum_hub.join.kept import KeptRoll
from adsum_hub.join.machines import Machine, Machines, Roll
from adsum_hub.join.rights import NoRightsError, Rights
from adsum_hub.roster import Roster
from adsum_hub.snapshots.fields import Snapshot
from adsum_shared.connect import UNAVAILABLE, wanted

log = logging.getLogger(__name__)

INTERVAL_S = 2.0
#: Between two looks at users: what Redis has lost of them after a restart is back after this.
MEND_S = 5.0
SWEEP_S = 60.0
_SHUT_OUT = {"revoked": host_troubles.REVOKED, "reset": host_troubles.RESET}


class Watch:
    """told(): something has changed that is shown. kept: for what Redis may lose."""

    def __init__(
        self,
        roster: Roster,
        machines: Machines,
        rights: Rights,
        clock: Clock,
        told: Callable[[], None],
        kept: KeptRoll,
    ) -> None:
        self._roster = roster
        self._kept = kept
        self._machines = machines
        self._rights = rights
        self._clock = clock
        self._told = told
        self._swept: frozenset[str] = frozenset()
        self._mend_due = self._sweep_due = self._find_due = 0.0
        self._refusal = ""

    async def run(self) -> None:
        while wanted():
            try:
                roll = await self.look()
                await self._tend(roll)
            except UNAVAILABLE as error:
                log.debug("the roll could not be read: %s", error)
            await asyncio.sleep(INTERVAL_S)

    async def find(self, host_id: str) -> Machine | None:
        """As it stands in Redis; where that has lost everything, as it stood there."""
        machine = await self._machines.find(host_id)
        now = asyncio.get_running_loop().time()
        # Rarely: to ask for a machine that there is not costs whoever asks nothing.
        if machine is None and now >= self._find_due and await self._machines.is_lost():
            self._find_due = now + INTERVAL_S
            await self.look()
            machine = await self._machines.find(host_id)
        return machine

    async def look(self) -> Roll:
        """What is stored is shown from now on."""
        roll = await self._roll()
        hosts = self._roster.hosts
        hosts.barred = roll.forgotten
        changed = [expel(self._roster, each, self._clock()) for each in roll.forgotten & set(hosts)]
        for host in hosts.values():
            changed.append(self._name(host, roll.labels.get(host.id)))
            changed.append(_mark(host, roll.machines.get(host.id)))
        if any(changed):
            self._told()
        return roll

    async def _roll(self) -> Roll:
        roll, lost = await self._machines.roll(), self._kept.roll
        if not roll.mark and (roll.machines or (lost is not None and lost.machines)):
            # Without it nobody can tell those that a Redis has lost from those that have left.
            await self._machines.restore(lost or roll)
            if lost is not None:
                log.warning("Redis had lost who has joined: %d machines", len(lost.machines))
            roll = await self._machines.roll()
        if roll.mark:
            self._kept.keep(roll, asyncio.get_running_loop().time())
        return roll

    def _name(self, host: Host, label: str | None) -> bool:
        if host.given == label:
            return False
        host.given = label
        host.label = label or (host.beat.label if host.beat else host.label)
        self._roster.revive(host)
        return True

    async def _tend(self, roll: Roll) -> None:
        now = asyncio.get_running_loop().time()
        if now >= self._sweep_due:
            self._sweep_due, self._swept = now + SWEEP_S, frozenset()
        await self._machines.sweep(sorted(roll.forgotten - self._swept))
        self._swept = roll.forgotten
        if now < self._mend_due or not (roll.machines or roll.forgotten):
            return
        self._mend_due = now + MEND_S
        members = {
            each.host_id: each.digest
            for each in roll.machines.values()
            if each.way == "acl" and each.state == "in"
        }
        # Those that go another way too: what there is of a user of theirs is of an earlier one.
        barred = roll.forgotten | (roll.machines.keys() - members.keys())
        try:
            await self._rights.mend(members.items(), barred, self._machines.entitled)
            self._refusal = ""
        except NoRightsError as error:
            if not members:  # nobody waits for it, and Redis notes each refusal
                self._mend_due = now + SWEEP_S
            if members and self._refusal != str(error):
                log.warning("machines that joined may be shut out: %s", error)
                self._refusal = str(error)


def _mark(host: Host, machine: Machine | None) -> bool:
    """Whether it is shut out, for people. Whether that is news."""
    text = _SHUT_OUT.get(machine.state) if machine is not None else None
    if host.troubles.get("access") == text:
        return False
    if text is None:
        del host.troubles["access"]
    else:
        host.troubles["access"] = text
    return True


def expel(roster: Roster, host_id: str, now: int) -> bool:
    """As if it had never been: its sessions go from every list and sum."""
    host = roster.hosts[host_id]
    had = list(host.facts)
    roster.reload(host_id, Snapshot(), now)
    for key in had:
        roster.accounts.spending.update((host_id, key), None)
        portraits.forget(host_id, key)
    roster.hosts.let_go(host_id)
    log.info("host %s is forgotten, with %d sessions", host_id, len(had))
    return True
