"""The one way in: it filters what a witness reports by privacy, encodes it and makes it durable."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeVar

import msgspec

from adsum_collector.agents.base import Adapt
from adsum_collector.agents.records import Private
from adsum_collector.processes import state_changes
from adsum_collector.spool.spool import Spool
from adsum_shared.signals import DEFAULT_AGENT, AnySignal, encode_signal, is_session_id

log = logging.getLogger(__name__)

T = TypeVar("T")

#: Larger bodies are understood in a thread, while other sessions' hooks are answered.
MOST_BYTES_ON_LOOP = 64 << 10


async def understand(read: Callable[[bytes, int], T], raw: bytes, now: int) -> T:
    """What `read` makes of it; `read` keeps no state. Raises what that raises."""
    if len(raw) > MOST_BYTES_ON_LOOP:
        return await asyncio.to_thread(read, raw, now)
    return read(raw, now)


class Intake:
    """private: what of a signal may leave this machine. agent: whose witnesses report here."""

    def __init__(self, spool: Spool, private: Private, agent: str = DEFAULT_AGENT) -> None:
        self.spool, self.private, self._agent = spool, private, agent
        #: given all that comes in; returns at once
        self.hear: Callable[[Sequence[AnySignal]], None] = lambda _signals: None
        #: signals that are on disk
        self.accepted = 0
        #: signals of a session that has no usable id
        self.left_out = 0

    async def accept(
        self,
        signals: Sequence[AnySignal],
        message_id: str | None = None,
        state: Mapping[str, bytes | None] | None = None,
    ) -> int:
        """The last signal's number in the spool, once it is on disk. Raises SpoolUnavailable.

        state: what is true with these signals, kept in the same commit.

        Signals that every hub would drop for their session's id are left out here. Their sender is
        answered as for any others: a refusal shows in the user's terminal and mends nothing.
        """
        if not all(is_session_id(signal.session_id) for signal in signals):
            signals = self._usable(signals)
        if not signals and not state:
            return self.spool.last_seq
        # before the disk: whoever decides meanwhile must not decide what is over
        self.hear(signals)
        if self._agent != DEFAULT_AGENT:
            signals = [msgspec.structs.replace(signal, agent=self._agent) for signal in signals]
        number = await self.spool.append(
            [encode_signal(self.private(signal)) for signal in signals],
            message_id=message_id,
            state={**(state or {}), **state_changes(signals)},
        )
        self.accepted += len(signals)
        return number

    def _usable(self, signals: Sequence[AnySignal]) -> Sequence[AnySignal]:
        usable = [signal for signal in signals if is_session_id(signal.session_id)]
        if not self.left_out:
            wrong = next(s.session_id for s in signals if not is_session_id(s.session_id))
            log.warning(
                "signals are left out: a session id of %d characters, %.40r, is none (said once; "
                "/readyz counts them)",
                len(wrong),
                wrong,
            )
        self.left_out += len(signals) - len(usable)
        return usable


class HookDoor(NamedTuple):
    """Where one agent's hooks come in, by whichever way.

    heard: given what a hook said once it has its answer; returns at once.
    """

    hook: Adapt
    intake: Intake
    heard: Callable[[Sequence[AnySignal]], None] = lambda _signals: None
