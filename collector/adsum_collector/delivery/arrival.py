"""Recognises a state directory that was moved here, or is a copy of one in use.

A fingerprint changes for harmless reasons: a container is made anew, a machine-id is written afresh,
a disk is put into another computer. Then the machine is to go on as the one it was; a new identity
would leave its sessions behind under the old one. It is a copy for certain if the old identity is
in use while we hold its directory: somebody else renews its heartbeat. Only then do we become a
new machine. Where nobody does (the original sleeps, Redis forgot), we stay the old one; should the
original come back, both are told that they are two, each under a spool of its own.
"""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

from adsum_collector.delivery.transports import Inbox
from adsum_collector.errors import SpoolUnavailable, StartError
from adsum_collector.spool.spool import Spool
from adsum_collector.state_dir import Identity, confirm_identity, renew_identity
from adsum_shared.envelope import Beat

log = logging.getLogger(__name__)

#: Between two looks at the heartbeat. It is renewed every two seconds, and gone after ten.
LOOK_S = 0.5
#: In the spool's state: under whose identity it is told; and, until it is known whether it is a
#: copy, the last number it brought along.
HOST = "host"
ARRIVED = "arrived"


class Arrival:
    """adopt: called with the identity that this machine has from now on."""

    def __init__(
        self, state_dir: Path, identity: Identity, spool: Spool, adopt: Callable[[Identity], None]
    ) -> None:
        self._state_dir, self._identity, self._spool = state_dir, identity, spool
        self._adopt = adopt
        self._brought = spool.last_seq

    @property
    def host_id(self) -> str:
        return self._identity.host_id

    async def begin(self) -> None:
        """Before the spool accepts anything, and again if that failed. Raises SpoolUnavailable."""
        state, host = self._spool.state, self.host_id.encode()
        is_others = state.get(HOST, host) != host
        changes: dict[str, bytes | None] = {}
        if state.get(HOST) != host:
            changes[HOST] = host
        if self._identity.moved != (ARRIVED in state):
            brought = 0 if is_others else self._brought
            changes[ARRIVED] = b"%d" % brought if self._identity.moved else None
        if is_others:
            # What the directory brought along is the original's, which has it too and sends it.
            without = [(1, int(state[ARRIVED]))] if ARRIVED in state else []
            await self._spool.begin_anew("copy", 0, without=without, state=changes)
        elif changes:
            await self._spool.append([], state=changes)

    async def settle(self, inbox: Inbox) -> str | None:
        """Whether we go on as who we were. If not, what to tell people. Raises SpoolUnavailable."""
        told: str | None = None
        if self._identity.moved:
            other = await alive_elsewhere(inbox)
            if other is not None:
                told = (
                    f"This machine's state directory is a copy of {other.label}'s, which is in use "
                    "elsewhere: it has joined as a new machine. Nothing else is to be done."
                )
            self._identity = self._settled(is_copy=other is not None)
            self._adopt(self._identity)
        await self.begin()
        return told

    def _settled(self, *, is_copy: bool) -> Identity:
        identity = self._identity
        try:
            if is_copy:
                here = identity.fingerprint
                return renew_identity(self._state_dir, identity.label, fingerprint=here)
            log.info("this state directory has another machine around it, and is no copy in use")
            return confirm_identity(self._state_dir, identity)
        except (OSError, StartError) as error:
            raise SpoolUnavailable(f"{self._state_dir} cannot be written to: {error}") from error


async def alive_elsewhere(inbox: Inbox) -> Beat | None:
    """The heartbeat of our identity, if somebody renews it while we do not.

    One that only stands there is the last of a collector that was killed. Takes ten seconds then.
    """
    first = await inbox.last_beat()
    while (beat := await inbox.last_beat()) is not None and not beat.stopping:
        if beat != first:
            return beat
        await asyncio.sleep(LOOK_S)
    return None
