"""The one way in: whatever a witness reports is made private, encoded and durable here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from adsum_collector.agents.transcript import Private
from adsum_collector.processes import state_changes
from adsum_collector.spool.spool import Spool
from adsum_shared.signals import AnySignal, encode_signal


class Intake:
    """private: what of a signal may leave this machine."""

    def __init__(self, spool: Spool, private: Private) -> None:
        self._spool = spool
        self.private = private
        #: signals that are on disk
        self.accepted = 0

    async def accept(
        self,
        signals: Sequence[AnySignal],
        message_id: str | None = None,
        state: Mapping[str, bytes | None] | None = None,
    ) -> int:
        """The last signal's number in the spool, once it is on disk. Raises SpoolUnavailable.

        state: what is true with these signals, kept in the same commit.
        """
        if not signals and not state:
            return self._spool.last_seq
        number = await self._spool.append(
            [encode_signal(self.private(signal)) for signal in signals],
            message_id=message_id,
            state={**(state or {}), **state_changes(signals)},
        )
        self.accepted += len(signals)
        return number
