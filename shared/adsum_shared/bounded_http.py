"""HTTP connections with bounds on number, size and time before a byte of them is parsed.

Both servers speak HTTP through this one class. A bound of the application comes too late: its turn
comes only when a request's head is whole, and a head that never ends costs ever more to parse.
"""

from __future__ import annotations

import asyncio
import enum
import logging
import resource
import time
from collections import Counter
from functools import partial
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, cast

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

if TYPE_CHECKING:
    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

log = logging.getLogger(__name__)

#: Of a request's head, and of whatever else is no body: chunk headers, trailers, empty lines.
#: Browsers stop at less, and with the cookies of all ports of one name they reach 10 kB at most.
MOST_HEAD_BYTES = 32 * 1024
#: From the connection's start, or its first byte after an answer, to the end of a head.
HEAD_S = 5.0
#: In this time a body, or what a client takes of its answer, grows by so much, or the connection is
#: closed. (Rejected: a time for all of it. Over a slow line a large batch then never arrived.)
STALL_S = 20.0
LEAST_BYTES = 20_000
#: What is left of a body that has its answer already: read for so long that the answer arrives,
#: which it may not where a connection is closed on unread bytes.
LEFTOVER_S = 5.0
#: Requests that wait on one connection for the answers before them. Hardly anybody sends one ahead.
MOST_AHEAD = 16
#: Of grace for what was written before a close, if the client does not take it.
LINGER_S = 2.0
#: A process that slept finds its timers due before it has read what came meanwhile.
GRACE_S = 0.1
#: One line in the log for each reason in this time.
SAID_S = 60.0
FEWEST = 16

#: Read by people too, whose browser has collected too many cookies.
TOO_LONG = (
    f"more than {MOST_HEAD_BYTES >> 10} kB of headers; in a browser, clear this site's cookies"
)

_ANSWERS = {408: b"Request Timeout", 400: b"Bad Request", 431: b"Request Header Fields Too Large"}


class Stage(enum.Enum):
    """What a connection is at. In this order they give way to a new one; ANSWERING never does."""

    ASKING = enum.auto()  # no whole head yet, of a first request or of another
    IDLE = enum.auto()  # answered
    SENDING = enum.auto()  # its body is still to come
    ANSWERING = enum.auto()


_YIELDING = (Stage.ASKING, Stage.IDLE, Stage.SENDING)


class ConnectionLimits:
    """All connections of one server, and which of them gives way when there are too many.

    Addresses share alike, up to most_per_address, so that a stranger's flood closes its own first.
    Loopback is no address in this sense: the browser, the CLI and the hooks of this machine's user
    come from it, a proxy with everybody behind it, and other local users. A share of it would let
    one of them shut the others out, so there only `most` holds, and who has asked nothing goes first.
    WebSockets count among `most` and not in a share: theirs is the application's to bound, and a
    hundred people of one office may have as many pages open.
    """

    def __init__(self, most: int, most_per_address: int | None = None) -> None:
        self._most = most
        self._most_per_address = most_per_address or most
        self._of: Counter[str] = Counter()
        # dicts for their order: whoever came to a stage first is the first to go
        self._at: dict[Stage, dict[BoundedHttp, None]] = {stage: {} for stage in Stage}
        self._said: dict[str, float] = {}
        self.closed: Counter[str] = Counter()

    def admit(self, new: BoundedHttp, open_now: int) -> bool:
        """Whether it may stay. open_now: with the new one."""
        address = new.address
        self._of[address] += 1
        victim: BoundedHttp | None
        if self._of[address] > self._most_per_address and not _is_shared(address):
            why = f"{self._most_per_address} connections from one address are open"
            victim = self._first(address)
        elif open_now > self._most:
            why = f"{self._most} connections are open, as many as this process takes"
            victim = self._first(None)
        else:
            self._at[new.stage][new] = None
            return True
        gone = victim or new
        self.note(f"{why}; who has asked nothing is closed first", gone.address, logging.WARNING)
        self._at[new.stage][new] = None
        if victim is None:
            self.forget(new)
            return False
        victim.drop()
        return True

    def _first(self, address: str | None) -> BoundedHttp | None:
        for stage in _YIELDING:
            for each in self._at[stage]:
                if address is None or each.address == address:
                    return each
        return None

    def move(self, connection: BoundedHttp, stage: Stage) -> None:
        if connection in self._at[connection.stage]:
            del self._at[connection.stage][connection]
            connection.stage = stage
            self._at[stage][connection] = None

    def forget(self, connection: BoundedHttp) -> None:
        """Any number of times."""
        if connection in self._at[connection.stage]:
            del self._at[connection.stage][connection]
            self._of[connection.address] -= 1
            if not self._of[connection.address]:
                del self._of[connection.address]

    def note(self, why: str, address: str, level: int = logging.INFO) -> None:
        self.closed[why] += 1
        now = time.monotonic()
        if now - self._said.get(why, -SAID_S) >= SAID_S:
            self._said[why] = now
            log.log(
                level, "connection of %s closed (%d so far): %s", address, self.closed[why], why
            )


def _is_shared(address: str) -> bool:
    try:
        return ip_address(address).is_loopback
    except ValueError:  # a unix socket has none
        return True


def bounded_http(most: int, reserve: int, most_per_address: int | None = None) -> Any:
    """For uvicorn's `http`. reserve: how many descriptors this process needs for other things.

    Connections are fewer than the descriptors that the process may have: where none is left, nobody
    can be accepted any more, not even to be told so.
    """
    allowed = descriptors_for(most + reserve)
    within = max(FEWEST, min(most, allowed - reserve))
    if within < most:
        log.warning("%d connections at most, as only %d files may be open", within, allowed)
    share = None if most_per_address is None else min(most_per_address, within // 2)
    return partial(BoundedHttp, limits=ConnectionLimits(within, share))


def descriptors_for(wanted: int) -> int:
    """How many this process may have; its soft limit is raised as far as needed and permitted."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return wanted
    raised = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
    except (ValueError, OSError):
        return soft
    return raised


class BoundedHttp(HttpToolsProtocol):
    """uvicorn's own, which bounds neither a head nor its time, and answers 503 to one too many."""

    def __init__(self, *args: Any, limits: ConnectionLimits, **options: Any) -> None:
        super().__init__(*args, **options)
        self.limits = limits
        self.stage = Stage.ASKING
        self.address = ""
        self._in_head = True
        # bytes since the last that was a whole head, a body's or a message's end
        self._overhead = 0
        self._progressed = False
        self._body_bytes = 0
        self._head_timer: asyncio.TimerHandle | None = None
        self._body_timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as in the base
        super().connection_made(transport)
        self.address = self.client[0] if self.client else ""
        if self.limits.admit(self, len(self.connections)):
            self._await_head()
        else:
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._release()
        _cancel(self._write_timer)
        super().connection_lost(exc)

    def drop(self) -> None:
        self._release()
        self.transport.abort()

    def _release(self) -> None:
        self.limits.forget(self)
        _cancel(self._head_timer)
        _cancel(self._body_timer)

    def data_received(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        while data and not self.transport.is_closing():
            room = MOST_HEAD_BYTES - self._overhead
            piece, data = (data, b"") if len(data) <= room else (data[:room], data[room:])
            self._progressed = False
            try:
                self.parser.feed_data(piece)
            except httptools.HttpParserUpgrade:
                if self._should_upgrade():
                    self._release()
                    self.handle_websocket_upgrade()
                    return
            except httptools.HttpParserError:
                self._refuse(400, "it sent no request of HTTP, or too many ahead of their answers")
                return
            self._overhead = 0 if self._progressed else self._overhead + len(piece)
            if self._overhead >= MOST_HEAD_BYTES:
                self._refuse(431, TOO_LONG)
                return
        if not self.transport.is_closing():
            self._set_timers()

    def _set_timers(self) -> None:
        if not self._in_head:
            if self._body_timer is None:
                self.limits.move(self, Stage.SENDING)
                self._await_body()
        elif self._overhead:
            if self._head_timer is None:
                if self.stage is Stage.IDLE:
                    self.limits.move(self, Stage.ASKING)
                self._await_head()
        elif self.stage is Stage.IDLE and self.timeout_keep_alive_task is None:
            # the rest of a body whose answer went out before: uvicorn waits for ever here
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    # What the parser says. An answer may be complete before its request is.

    def on_headers_complete(self) -> None:
        if len(self.pipeline) >= MOST_AHEAD:
            raise ValueError("too many requests ahead of their answers")
        self._progressed, self._in_head = True, False
        self._body_bytes = 0
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
        self.limits.move(self, Stage.ANSWERING)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._progressed = True
        self._body_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._progressed, self._in_head = True, True
        if self._body_timer is not None:
            self._body_timer.cancel()
            self._body_timer = None
        if self.stage is Stage.SENDING:
            self.limits.move(self, Stage.IDLE if self._is_answered else Stage.ANSWERING)
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self._is_answered:  # the next was sent ahead
            return
        self.limits.move(self, Stage.IDLE)
        if not self._in_head:
            _cancel(self._body_timer)
            self._body_timer = self.loop.call_later(LEFTOVER_S, self._close)
        if self.transport.is_closing() and self.transport.get_write_buffer_size():
            self.loop.call_later(STALL_S, self.transport.abort)

    @property
    def _is_answered(self) -> bool:
        """Whether no request waits for its answer."""
        # uvicorn declares it as never None, and sets None until the first head is whole
        cycle = cast("RequestResponseCycle | None", self.cycle)
        return cycle is None or cycle.response_complete

    # Times

    def _await_head(self) -> None:
        self._head_timer = self.loop.call_later(HEAD_S, self._head_is_due)

    def _head_is_due(self) -> None:
        self._head_timer = self.loop.call_later(GRACE_S, self._head_is_late)

    def _head_is_late(self) -> None:
        if self._overhead:
            self._refuse(408, f"its request had no whole head within {HEAD_S:g} s")
        else:  # opened in advance, as browsers do
            self._close()

    def _await_body(self) -> None:
        self._body_timer = self.loop.call_later(STALL_S, self._look_at_body, self._body_bytes)

    def _look_at_body(self, before: int) -> None:
        """Where nobody reads it the client cannot help it: the application bounds its own waiting."""
        if self.flow.read_paused or self._body_bytes - before >= LEAST_BYTES:
            self._await_body()
        else:
            self._stall("its body came too slowly")

    def pause_writing(self) -> None:
        super().pause_writing()
        self._await_taken()

    def resume_writing(self) -> None:
        _cancel(self._write_timer)
        super().resume_writing()

    def _await_taken(self) -> None:
        unsent = self.transport.get_write_buffer_size()
        self._write_timer = self.loop.call_later(STALL_S, self._look_at_taken, unsent)

    def _look_at_taken(self, before: int) -> None:
        if before - self.transport.get_write_buffer_size() >= LEAST_BYTES:
            self._await_taken()
        else:
            self._stall("its answer was taken too slowly")

    def timeout_keep_alive_handler(self) -> None:
        self._close()

    # Ends

    def _refuse(self, status: int, why: str) -> None:
        self.limits.note(why, self.address)
        if self._is_answered:
            body = b"This connection was closed: %s.\n" % why.encode()
            head = b"HTTP/1.1 %d %s\r\ncontent-type: text/plain\r\ncontent-length: %d\r\n"
            head %= status, _ANSWERS[status], len(body)
            self.transport.write(head + b"connection: close\r\n\r\n" + body)
        self._close()

    def _stall(self, why: str) -> None:
        self.limits.note(why, self.address)
        self.drop()

    def _close(self) -> None:
        """A close waits until all is taken that was written: not for ever."""
        if not self.transport.is_closing():
            self.transport.close()
        self.loop.call_later(LINGER_S, self.transport.abort)


def _cancel(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()
