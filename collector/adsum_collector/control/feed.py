"""Reads what hubs hand to this machine, out of Redis or by ingest: commands, whose author it checks, and reports."""

import asyncio
import logging
from typing import Final

from redis.exceptions import ResponseError

from adsum_collector.control.remote import RemoteControl
from adsum_collector.delivery.transports import Transport, TransportConnection
from adsum_collector.errors import DeliveryError
from adsum_collector.intake import ReportIntake
from adsum_collector.state_dir import HasHostId
from adsum_shared.commands import (
    DECISION_TTL_MS,
    REPORT_FIELD,
    ExpiredError,
    NotObeyedError,
    opened,
)
from adsum_shared.connect import UNAVAILABLE, backoff, wanted
from adsum_shared.host_keys import FoundCommand, KeysRequest, OddReplyError
from adsum_shared.redis_errors import BrokerTooOldError

log = logging.getLogger(__name__)

#: Well within what is waited for any answer, by either way.
WAIT_S: Final = 3.0
#: Between two looks whether control is on; and at most between two tries.
LOOK_S: Final = 1.0
MOST_PAUSE_S: Final = 5.0
#: So far back a new connection looks for commands that nobody read meanwhile, to report them as expired.
MISSED_MS: Final = 600_000
_PASSING = (*UNAVAILABLE, BrokerTooOldError, DeliveryError, OddReplyError, ResponseError)


class CommandFeed:
    """machine: this one, whose id may become another. problem: why commands do not arrive.

    It listens while control is on, or a session here has a token to report at a hub.
    """

    def __init__(
        self,
        transport: Transport,
        machine: HasHostId,
        control: RemoteControl,
        reports: ReportIntake,
    ) -> None:
        self._transport, self._machine = transport, machine
        self._control, self._reports = control, reports
        self.problem: str | None = None

    async def run(self) -> None:
        pauses = backoff(most_s=MOST_PAUSE_S)
        while wanted():
            if not self._is_wanted():
                self.problem = None
                await asyncio.sleep(LOOK_S)
                continue
            try:
                async with self._transport.open() as line:
                    await self._follow(line)
            except _PASSING as error:
                if self.problem is None:
                    log.warning("commands cannot be read: %s", error)
                    pauses = backoff(most_s=MOST_PAUSE_S)
                self.problem = str(error)
                waits = error.wait_s if isinstance(error, DeliveryError) else 0.0
                await asyncio.sleep(max(next(pauses), waits))

    async def _follow(self, line: TransportConnection) -> None:
        """Obey what follows the stream's end at this moment. What was given before is reported as expired.

        A connection that breaks is not mended: behind the new one there may be another Redis, whose
        stream ends elsewhere.
        """
        host_id = self._machine.host_id
        told = await line.ask(host_id, KeysRequest(commands=""))
        if not told.end:
            raise OddReplyError("the hub is older and hands on no commands. Upgrade it")
        end = f"{told.now_ms}-0" if _is_ahead(told.end, told.now_ms) else told.end
        last = min(end, f"{max(0, told.now_ms - MISSED_MS)}-0", key=_order)
        self.problem = None
        while wanted() and self._is_wanted() and self._machine.host_id == host_id:
            told = await line.ask(host_id, KeysRequest(commands=last, wait_s=WAIT_S))
            found = [each for each in told.commands or () if not _is_ahead(each.id, told.now_ms)]
            last = found[-1].id if found else last
            now_ms = told.now_ms
            if found:  # the answer may have lain here while this process was stopped
                now_ms = (await line.ask(host_id, KeysRequest(commands=""))).now_ms
            # what people decide goes before what agents report, who may report a lot
            for each in sorted(found, key=lambda each: REPORT_FIELD in each.fields):
                await self._take(host_id, each, now_ms, missed=_order(each.id) <= _order(end))
            if len(found) < len(told.commands or ()):  # read again until a hub has deleted them
                await asyncio.sleep(LOOK_S)

    def _is_wanted(self) -> bool:
        return self._control.is_on() or self._reports.public is not None

    async def _take(
        self, host_id: str, found: FoundCommand, now_ms: int, *, missed: bool = False
    ) -> None:
        """missed: it was given before this connection."""
        try:
            age_ms = now_ms - _order(found.id)[0]
            if REPORT_FIELD in found.fields:
                if not missed:
                    await self._reports.relay(found.fields, age_ms)
                return
            command = opened(found.fields, host_id, self._control.consent.keys, age_ms)
            if missed:
                raise ExpiredError(command)
        except ExpiredError as error:
            self._control.expire(error.command)
            return
        except (NotObeyedError, ValueError) as error:
            if not missed:  # an earlier connection may have refused it
                self._control.refuse(str(error))
            return
        try:
            await self._control.obey(command)
        except Exception as error:  # the root of one command: it ends no other
            log.exception("`%s` failed by a fault of ours", command.verb)
            self._control.report(
                command, "refused", f"an unexpected fault ({type(error).__name__})"
            )


def _order(entry_id: str) -> tuple[int, int]:
    """Raises ValueError."""
    ms, _, number = entry_id.partition("-")
    return int(ms), int(number)


def _is_ahead(entry_id: str, now_ms: int) -> bool:
    """Whether it is dated so far ahead that no command would be read behind it. now_ms: 0: not known."""
    return bool(now_ms) and _order(entry_id)[0] > now_ms + DECISION_TTL_MS
