"""Does in sessions of this machine what people elsewhere want done: prompts, the queue, interrupts.

One thing at a time is done in a session. A command is obeyed at most once, also if the collector is
restarted meanwhile: its id is on disk before anything is done, and so is that a message is handed over.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import stat
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, Protocol
from weakref import WeakValueDictionary

import psutil

from adsum_collector.control.consent import LiveConsent
from adsum_collector.control.queue import LASTS_MS, PromptQueue, Queued
from adsum_collector.control.seats import Seat, Seats
from adsum_collector.control.terminal import (
    KeysPressedError,
    TmuxPane,
    draft_in,
    interrupt,
    is_in_front,
    pane_of,
    type_prompt,
)
from adsum_collector.errors import SpoolUnavailable
from adsum_collector.processes import AgentProcess
from adsum_shared import WallClock
from adsum_shared.characters import CONTROL
from adsum_shared.commands import MOST_PROMPT, Command, NotObeyedError
from adsum_shared.signals import (
    AnySignal,
    PromptSubmitted,
    QueuedItem,
    QueueReported,
)

log = logging.getLogger(__name__)

#: Commands that are being obeyed, or wait for it.
MOST_AT_ONCE: Final = 32
#: Between two looks at what waits; between two tries to hand over the same: twice as long each time.
LOOK_S: Final = 0.5
AGAIN_MS: Final = 5_000
MOST_AGAIN_MS: Final = 60_000
#: Between two looks at how sessions can be reached.
WAYS_MS: Final = 5_000
#: Within which a message that was handed over at rest begins a turn, and an interrupt ends one.
TAKEN_MS: Final = 20_000
INTERRUPTED_S: Final = 5.0
#: Within which a session that has just begun shows its prompt box, on a busy machine too.
BEGINS_S: Final = 5.0
#: What takes longer is under way, and said to be.
SLOW_S: Final = 3.0
#: Prompts of which is waited to hear that their session took them.
MOST_AWAITED: Final = 64
#: By these a prompt is recognised, which witnesses cut and wrap in their own ways.
KNOWN_BY: Final = 100
INBOX_S: Final = 3.0

Way = Literal["terminal", "inbox"]
#: Obeys one command. Raises NotObeyedError, OSError: nothing was done.
Obey = Callable[[Command], Awaitable[None]]


class Reports(Protocol):
    """Where is told what came of a command, and what is so of a session.

    require_prompting: raises NotObeyedError if its author may not prompt there alone, at this moment.
    write_down: in the trail, before it is done. Raises OSError.
    """

    def report(self, command: Command, outcome: str, reason: str | None = None) -> None: ...
    def tell(self, agent: str, signal: AnySignal) -> None: ...
    async def require_prompting(self, command: Command) -> None: ...
    async def write_down(self, command: Command) -> None: ...


class Awaited(NamedTuple):
    """A message that was handed over and not yet seen to be taken. at: ms. item: of the queue."""

    command: Command
    text: str
    at: int
    item: bool


class Actions:
    """verbs: what is done for each; others may be added before it runs. now: ms of wall clock."""

    def __init__(
        self, seats: Seats, queue: PromptQueue, consent: LiveConsent, *, now: WallClock
    ) -> None:
        self._seats, self._queue, self._consent, self._now = seats, queue, consent, now
        self.reports: Reports
        #: given all that any witness says; each returns at once
        self.listeners: list[Callable[[Sequence[AnySignal]], None]] = []
        self.verbs: dict[str, Obey] = {
            "prompt": self._prompt,
            "queue": self._put_in,
            "withdraw": self._take_back,
            "move": self._move,
            "interrupt": self._interrupt,
        }
        self._todo: asyncio.Queue[Command] = asyncio.Queue(MOST_AT_ONCE)
        self._under_way = 0
        #: by session; kept by whoever holds it or waits for it
        self._alone: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._writing = asyncio.Lock()
        self._shown = 0
        #: by command; what waits for its session's own word
        self._awaited: OrderedDict[str, Awaited] = OrderedDict()
        #: by session: when something was handed over last; ms
        self._handed: dict[str, int] = {}
        #: by session: when to try again after one in vain, and how long after that one; ms
        self._again: dict[str, tuple[int, int]] = {}
        #: by session: its process, and how a prompt reaches that
        self._ways: dict[str, tuple[AgentProcess, Way | None]] = {}
        self._looked = 0

    async def accept(self, command: Command) -> None:
        """Uses its id up. Raises NotObeyedError, OSError: it will not be obeyed."""
        await self._changed(self._queue.use, command.id)
        if command.verb not in self.verbs:
            raise NotObeyedError(f"this machine's collector cannot `{command.verb}` yet")
        if self._under_way >= MOST_AT_ONCE:
            raise NotObeyedError("too much is asked of this machine at once: try again")
        text = command.text or ""
        if CONTROL.search(text) or len(text) > MOST_PROMPT:
            raise NotObeyedError("the text is too long, or holds control characters")

    def begin(self, command: Command) -> None:
        """What `accept` let through is done soon; what came of it is reported. Returns at once."""
        self._todo.put_nowait(command)
        self._under_way += 1

    def hear(self, signals: Sequence[AnySignal]) -> None:
        """All that any witness of this machine says, once. Returns at once."""
        for signal in signals:
            if isinstance(signal, PromptSubmitted) and signal.text and self._awaited:
                self._taken(signal.session_id, signal.text)
        for each in self.listeners:
            each(signals)

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._tend(), name="queue")
            while True:
                command = await self._todo.get()
                tasks.create_task(self._end(command), name=command.verb)

    async def _end(self, command: Command) -> None:
        later = asyncio.get_running_loop().call_later
        slow = later(SLOW_S, self.reports.report, command, "under_way")
        if command.verb == "interrupt":  # says `sent` before
            slow.cancel()
        try:
            await self.obey(command)
        finally:
            slow.cancel()
            self._under_way -= 1

    async def obey(self, command: Command) -> None:
        """Does it, alone in its session, and reports what came of it. Nothing raises."""
        async with self._only(command.session_id):
            try:
                self._require_full()
                await self.verbs[command.verb](command)
            except NotObeyedError as error:
                self.reports.report(command, "refused", str(error))
            except (OSError, SpoolUnavailable) as error:
                self.reports.report(command, "refused", f"it cannot be done ({error})")
            except Exception as error:  # noqa: BLE001 - the root of one command: it ends no other
                self.reports.report(command, "refused", _unexpected(command.verb, error))

    def _only(self, session_id: str) -> asyncio.Lock:
        """One thing at a time is done in a session."""
        return self._alone.setdefault(session_id, asyncio.Lock())

    def _require_full(self) -> None:
        if self._consent.level != "full":
            raise NotObeyedError("this machine's owner does not allow it any more")

    # Prompts.

    async def _prompt(self, command: Command) -> None:
        """Now, if it can be said now; a turn that runs in a terminal is waited for."""
        seat = await self._seat(command.session_id)
        pane = await _pane(seat)
        clock = asyncio.get_running_loop().time
        until = clock() + BEGINS_S
        # It shows no prompt box yet. (Rejected: to refuse; whoever starts a session elsewhere and
        # prompts it at once would have to find out when it can be.)
        while pane is not None and seat.status is None and clock() < until:
            await asyncio.sleep(LOOK_S)
            seat = await self._seat(command.session_id)
        if (pane is not None or seat.line is not None) and seat.status == "busy":
            await self._put_in(command)
        else:
            await self._hand_over(command, seat, pane)

    async def _hand_over(
        self, command: Command, seat: Seat, pane: TmuxPane | None, *, item: bool = False
    ) -> None:
        """item: of the queue, so it is marked on disk before, once nothing stands in the way.

        Raises NotObeyedError, OSError: the session has not been given it.
        """
        session_id, text = command.session_id, (command.text or "").strip()
        if not text:
            raise NotObeyedError("there is nothing to say in it")
        self._require_full()
        await self.reports.require_prompting(command)
        awaited = Awaited(command, text, self._now(), item)
        self._awaited[command.id] = awaited  # its hook may be faster than what gave it
        try:
            if pane is not None and seat.status != "shell":
                why = await self._type(awaited, seat, pane)
            elif seat.line is not None:
                if seat.status != "idle":
                    raise NotObeyedError(_NOT_IDLE[seat.status or "busy"])
                await self._mark(awaited)
                why = await seat.line.say(session_id, text)
            elif seat.inbox is not None:
                async with _connected(seat.inbox) as line:
                    await self._mark(awaited)
                    why = await _write(line, seat.agent.message(text, command.by))
            else:
                raise NotObeyedError(_UNREACHABLE)
        except BaseException:
            self._awaited.pop(command.id, None)
            raise
        self._handed[session_id] = awaited.at
        if command.id in self._awaited:
            self.reports.report(command, "sent", why)
        while len(self._awaited) > MOST_AWAITED:
            self._awaited.popitem(last=False)

    async def _type(self, awaited: Awaited, seat: Seat, pane: TmuxPane) -> str | None:
        """What is to be said of it beside that it was sent."""
        session_id, keyboard = awaited.command.session_id, seat.agent.keyboard
        if seat.status != "idle" or keyboard is None:
            raise NotObeyedError(_NOT_IDLE.get(seat.status or "", "its registry does not say idle"))

        def rests() -> bool:
            return self._is_so(session_id, seat, "idle") and is_in_front(pane, seat.pid)

        draft = await asyncio.to_thread(draft_in, pane, keyboard, rests)
        await self._mark(awaited)
        vim = await asyncio.to_thread(_types_in_vim, seat)
        given = (pane, keyboard, awaited.text, draft, rests)
        return None if await asyncio.to_thread(type_prompt, *given, vim=vim) else _NOT_SEEN

    async def _mark(self, awaited: Awaited) -> None:
        if awaited.item:
            await self._changed(self._queue.mark, awaited.command.id, "sent")
            self._show(awaited.command.session_id)

    def _is_so(self, session_id: str, seat: Seat, status: str) -> bool:
        now = self._seats.of(session_id)
        return now is not None and now.pid == seat.pid and now.status == status

    def _taken(self, session_id: str, text: str) -> None:
        """The session says that it was given this; whoever else typed, typed something else."""
        said = _known(text)
        for name, each in list(self._awaited.items()):
            wanted = _known(each.text)
            # a short one may be a part of whatever somebody types
            same = said.endswith(wanted) if len(wanted) <= KNOWN_BY else wanted[:KNOWN_BY] in said
            if each.command.session_id != session_id or not same:
                continue
            del self._awaited[name]
            self.reports.report(each.command, "took_effect")
            return

    async def _interrupt(self, command: Command) -> None:
        seat = await self._seat(command.session_id)
        pane = await _pane(seat)
        keyboard = seat.agent.keyboard
        if seat.status != "busy":
            raise NotObeyedError(_NOT_BUSY.get(seat.status or "", "nothing runs in it"))
        if seat.line is not None:
            await seat.line.interrupt(command.session_id)
        elif pane is None or keyboard is None:
            raise NotObeyedError("it runs in no tmux, and nothing else can interrupt it")
        else:

            def works() -> bool:
                return self._is_so(command.session_id, seat, "busy") and is_in_front(pane, seat.pid)

            await asyncio.to_thread(interrupt, pane, keyboard, works)
        self.reports.report(command, "sent")
        until = asyncio.get_running_loop().time() + INTERRUPTED_S
        while asyncio.get_running_loop().time() < until:
            now = await asyncio.to_thread(self._seats.of, command.session_id)
            if (
                now is not None
                and now.pid == seat.pid
                and (now.status != "busy" or now.at > seat.at)
            ):
                self.reports.report(command, "took_effect")
                return
            await asyncio.sleep(0.05)

    async def _seat(self, session_id: str) -> Seat:
        found = await asyncio.to_thread(self._seats.of, session_id)
        if found is None:
            self._seats.require_reach(session_id)
            raise NotObeyedError("no process of it is registered here: it has ended, or just begun")
        return found

    # The queue.

    async def _put_in(self, command: Command) -> None:
        now, session_id = self._now(), command.session_id
        text = (command.text or "").strip()
        if not text:
            raise NotObeyedError("there is nothing to say in it")
        self._seats.require_sound(session_id, text)
        self._seats.require_reach(session_id)
        item = Queued(command.id, session_id, text, command.by, now, now + LASTS_MS)
        await self._changed(self._queue.add, item, command.place)
        self.reports.report(command, "queued")
        self._show(session_id)

    async def _take_back(self, command: Command) -> None:
        session_id = command.session_id
        item = await self._changed(self._queue.take_out, session_id, command.item or "")
        self.reports.report(_of_item(item), "withdrawn", f"by {command.by}")
        self.reports.report(command, "took_effect")
        self._show(session_id)

    async def _move(self, command: Command) -> None:
        place, session_id = command.place or 0, command.session_id
        await self._changed(self._queue.move, session_id, command.item or "", place)
        self.reports.report(command, "took_effect")
        self._show(session_id)

    async def _tend(self) -> None:
        """Hands over what waits when its time has come, and takes out what waited too long."""
        await self._end_interrupted()
        while True:
            try:
                for item in await self._changed(self._queue.expire, self._now()):
                    self.reports.report(_of_item(item), "expired", "it waited too long")
                    self._show(item.session_id)
                if self._now() - self._looked >= WAYS_MS:
                    await self._look_for_ways()
                for session_id in self._queue.sessions:
                    await self._next_of(session_id)
            except OSError as error:
                log.warning("the queue cannot be tended: %s", error)
            await asyncio.sleep(LOOK_S)

    async def _end_interrupted(self) -> None:
        """What was being handed over when the collector ended is not handed over again."""
        for session_id in self._queue.sessions:
            for item in self._queue.of(session_id):
                if item.state != "waiting":
                    why = "the collector was restarted as it was handed over"
                    await self._changed(self._queue.remove, item.id)
                    self.reports.report(_of_item(item), "sent", why)
        for session_id in sorted(self._queue.told | {*self._queue.sessions}):
            self._show(session_id)

    async def _next_of(self, session_id: str) -> None:
        """Its next message, if it rests and has had a turn since the last."""
        async with self._only(session_id):
            item, now = next(iter(self._queue.of(session_id)), None), self._now()
            if item is None:
                return  # taken back while it was waited for
            try:
                if item.state != "waiting":
                    await self._settle(item, now)
                elif now >= self._again.get(session_id, (0, 0))[0]:
                    await self._give_next(item, now)
            except OSError:
                raise
            except Exception as error:  # noqa: BLE001 - the root of one message: it ends no other
                await self._drop(item, "refused", _unexpected("queue", error))

    async def _give_next(self, item: Queued, now: int) -> None:
        session_id = item.session_id
        seat = await asyncio.to_thread(self._seats.of, session_id)
        rests = seat is not None and seat.status in ("idle", "shell")
        since = self._handed.get(session_id, 0)
        full = self._consent.level == "full"
        if not full or seat is None or not rests or (seat.at <= since and now - since < TAKEN_MS):
            return
        try:
            self._seats.require_sound(session_id, item.text)
        except NotObeyedError as error:  # it was taken by a collector that did not ask
            await self._drop(item, "refused", str(error))
            return
        try:
            await self._hand_over(_of_item(item), seat, await _pane(seat), item=True)
            self._again.pop(session_id, None)
        except KeysPressedError as error:
            await self._drop(item, "refused", str(error))
        except (NotObeyedError, OSError) as error:
            log.debug("%s is not handed over yet: %s", item.id, error)
            waits = min(2 * self._again.get(session_id, (0, 0))[1] or AGAIN_MS, MOST_AGAIN_MS)
            self._again[session_id] = (self._now() + waits, waits)
            if self._queue.of(session_id)[:1] != [item]:  # marked
                await self._changed(self._queue.mark, item.id, "waiting")
                self._show(session_id)

    async def _drop(self, item: Queued, outcome: str, why: str) -> None:
        await self._changed(self._queue.remove, item.id)
        self.reports.report(_of_item(item), outcome, why)
        self._show(item.session_id)

    async def _settle(self, item: Queued, now: int) -> None:
        """It was taken, or nobody says so for too long: at most once it is handed over."""
        awaited = self._awaited.get(item.id)
        if awaited is not None and now - awaited.at < TAKEN_MS:
            return
        if awaited is not None:
            why = "the session has not said that it took it"
            self.reports.report(awaited.command, "sent", why)
        await self._changed(self._queue.remove, item.id)
        self._show(item.session_id)

    async def _look_for_ways(self) -> None:
        """How each session can be reached, told to hubs where that is news."""
        self._looked = self._now()
        full = self._consent.level == "full"
        processes = dict(self._seats.processes.look()) if full else {}
        for session_id in self._ways.keys() - processes.keys():
            if self._ways.pop(session_id)[1] is not None:
                self._show(session_id)
        for session_id, process in processes.items():
            known = self._ways.get(session_id)
            if known is not None and known[0] == process:
                continue
            way = await self._way_to(session_id)
            self._ways[session_id] = (process, way)
            if way is not None or (known and known[1]):
                self._show(session_id)
            if way is None:
                del self._ways[session_id]  # it may have only begun: looked at again
        self._forget_others({*processes, *self._queue.sessions})
        reached = {session_id for session_id, (_, way) in self._ways.items() if way}
        await self._changed(self._queue.note_told, frozenset(reached))

    def _forget_others(self, kept: set[str]) -> None:
        self._handed = {each: at for each, at in self._handed.items() if each in kept}
        self._again = {each: at for each, at in self._again.items() if each in kept}

    async def _way_to(self, session_id: str) -> Way | None:
        seat = await asyncio.to_thread(self._seats.of, session_id)
        if seat is None:
            return None
        if seat.line is not None or await _pane(seat) is not None:
            return "terminal"  # said as its user would say it
        return "inbox" if seat.inbox is not None else None

    async def _changed(self, change: Callable[..., Any], *given: object) -> Any:
        async with self._writing:
            return await asyncio.to_thread(change, *given)

    def _show(self, session_id: str) -> None:
        """What waits, as it stands now."""
        self._shown = at = max(self._now(), self._shown + 1)
        items = [
            QueuedItem(each.id, each.text, each.by, each.at, each.until, each.state)
            for each in self._queue.of(session_id)
        ]
        _, way = self._ways.get(session_id, (None, None))
        signal = QueueReported(session_id=session_id, at=at, seen=at, items=items, way=way)
        self.reports.tell(self._seats.agent_of(session_id), signal)


_UNREACHABLE: Final = "it runs in no tmux and takes no messages, so nothing can be said to it"
_AS_ANOTHER: Final = "it was told as a message of another session"
_NOT_SEEN: Final = "it was typed, and not seen to be taken: look what stands at its prompt"
_NOT_IDLE: Final = {
    "busy": "it works: queue it instead",
    "waiting": "a dialog stands at its terminal: answer that first, or queue it",
}
_NOT_BUSY: Final = {
    "idle": "nothing runs in it",
    "waiting": "it asks something at its terminal: deny that, and end the turn by it",
}


def _of_item(item: Queued) -> Command:
    """The command that queued it, as far as anybody asks."""
    return Command(
        id=item.id,
        host_id="",
        session_id=item.session_id,
        verb="queue",
        by=item.by,
        text=item.text,
    )


def _known(text: str) -> str:
    return "".join(text.split())


def _types_in_vim(seat: Seat) -> bool:
    try:
        process = psutil.Process(seat.pid)
        return seat.agent.types_in_vim(Path(process.cwd()), process.environ())
    except psutil.Error:
        return False


async def _pane(seat: Seat) -> TmuxPane | None:
    return None if seat.agent.keyboard is None else await asyncio.to_thread(pane_of, seat.pid)


@contextlib.asynccontextmanager
async def _connected(inbox: Path) -> AsyncIterator[asyncio.StreamWriter]:
    """Raises NotObeyedError, OSError."""
    found = await asyncio.to_thread(inbox.lstat)
    if not stat.S_ISSOCK(found.st_mode) or found.st_uid != os.getuid():
        raise NotObeyedError("its inbox is not this user's socket")
    try:
        async with asyncio.timeout(INBOX_S):
            _, writer = await asyncio.open_unix_connection(inbox)
    except TimeoutError as error:
        raise NotObeyedError("its inbox does not take it") from error
    try:
        yield writer
    finally:
        writer.close()


async def _write(writer: asyncio.StreamWriter, line: bytes) -> str:
    """What is to be said of it: no answer comes back, and what was written may have been read."""
    try:
        async with asyncio.timeout(INBOX_S):
            writer.write(line)
            await writer.drain()
            writer.close()
            await writer.wait_closed()
    except OSError:  # TimeoutError is one
        return f"{_AS_ANOTHER}, which may not have read it"
    return _AS_ANOTHER


def _unexpected(verb: str, error: Exception) -> str:
    log.error("`%s` failed by a fault of ours", verb, exc_info=error)
    return f"an unexpected fault ({type(error).__name__}): the collector's log tells of it"
