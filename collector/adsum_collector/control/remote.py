"""Holds requests open for people elsewhere, obeys their commands, and reports what came of each."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import secrets
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from adsum_collector.agents.base import Agent, Asked, DecisionLine, HeardRequest
from adsum_collector.agents.records import plain
from adsum_collector.control.actions import Actions
from adsum_collector.control.consent import LiveConsent, Trail
from adsum_collector.control.holds import (
    REFUSING,
    Held,
    HoldOver,
    Holds,
    OthersNeededError,
    TooLateError,
    means_the_same,
)
from adsum_collector.control.policy import UNKNOWN, LivePolicy, Matter, file_of
from adsum_collector.errors import SpoolUnavailable
from adsum_collector.intake import Intake
from adsum_shared import Timer, WallClock
from adsum_shared.commands import (
    DECISIONS,
    EXTEND,
    HOLD_VERSION,
    LEASE_MOST_S,
    Command,
    Displayed,
    NotObeyedError,
    binding_of,
)
from adsum_shared.people import BY_RULE, MACHINE, is_reserved
from adsum_shared.signals import (
    AnySignal,
    CommandReported,
    Hold,
    HoldEnded,
    MetaChanged,
    RequestClosed,
    RequestOpened,
)
from adsum_shared.state import Control

log = logging.getLogger(__name__)

#: Of what waits to be written into the spool and the trail; beyond it the oldest goes.
MOST_REPORTS: Final = 1_000
MOST_NAMES: Final = 256
#: Ids of commands that were read, so that none of them is reported as expired later.
MOST_READ: Final = 10_000
MOST_SESSIONS: Final = 4_096
#: Of a session; of one that worked in more, nobody says that none of them takes two persons.
MOST_CWDS: Final = 64
#: What makes an agent do something that nobody has seen yet.
PROMPTING: Final = frozenset(("prompt", "queue", "resume"))
#: Between two looks at deadlines and at the owner's consent.
LOOK_S: Final = 0.5
#: In the spool's state: a request of which hubs were told that it is held.
ANNOUNCED: Final = "held:"
#: What is refused unread: not each in the trail, or whoever may write to Redis could fill this disk.
MOST_ODD_TOLD: Final = 100
_ID = re.compile(r"[0-9a-f]{16,32}")
_DROPPED: Final = b""


class HoldTimes(NamedTuple):
    """Seconds for which a request is held: one that the terminal shows meanwhile, and any other.

    form_s: one of which it shows nothing; 0: it is not held.
    """

    main_s: float
    subagent_s: float
    form_s: float


class Parties(NamedTuple):
    """Who takes part, by the agent's name; the first is the default. actions: does what is no decision.

    run: see `Command.run`.
    """

    agents: Mapping[str, Agent]
    intakes: Mapping[str, Intake]
    actions: Actions | None = None
    run: str = ""


class OwnersWord(NamedTuple):
    """What the machine's owner lets be decided, by whom, and by rules."""

    consent: LiveConsent
    policy: LivePolicy


class HoldingHook(NamedTuple):
    """id: of its message, which no other ever has. at: when it fired, ms. attended: it has a terminal."""

    agent: str
    id: str
    at: int
    attended: bool = True


class HookAnswer(NamedTuple):
    """What a hook prints, and by which command. Nothing: the terminal decides."""

    body: bytes = _DROPPED
    command: Command | None = None


class Announced(msgspec.Struct, frozen=True):
    """What is kept of a held request, to say after a restart that it is held no more."""

    agent: str
    session_id: str


class RemoteControl:
    """now: ms of wall clock. timer: seconds, monotonic. odd: commands that could not even be read."""

    def __init__(
        self,
        parties: Parties,
        owner: OwnersWord,
        trail: Trail,
        limits: HoldTimes,
        *,
        now: WallClock,
        timer: Timer,
    ) -> None:
        self.consent, self._policy = owner
        self._parties, self._trail, self._limits = parties, trail, limits
        self._now, self._timer, self._actions = now, timer, parties.actions
        if self._actions is not None:
            self._actions.reports = self
        self._holds = Holds()
        self._answers: dict[str, asyncio.Future[HookAnswer]] = {}
        #: (session, the agent's own name of a request) -> ours
        self._names: OrderedDict[tuple[str, str], Held] = OrderedDict()
        self._reports: deque[tuple[str, AnySignal | None, dict[str, Any] | None]]
        self._reports = deque(maxlen=MOST_REPORTS)
        #: session -> where it has worked since this collector was started
        self._cwds: OrderedDict[str, set[str]] = OrderedDict()
        self._read: OrderedDict[str, None] = OrderedDict()
        self._wake = asyncio.Event()
        self._writing, self._counting = asyncio.Lock(), asyncio.Lock()
        self.odd: Counter[str] = Counter()
        for intake in parties.intakes.values():
            intake.hear = self.hear

    @property
    def level(self) -> Control:
        return self.consent.level

    def is_on(self) -> bool:
        return self.level != "off"

    def asked(self, agent: str, body: bytes) -> Asked | None:
        """What a hook that waits asks; it is asked in a thread, so nothing is kept of it."""
        return self._parties.agents[agent].asked(body)

    async def offer(
        self, asking: HoldingHook, asked: Asked | None, signals: list[AnySignal]
    ) -> Held | None:
        """Holds what a hook asks, and says so in the signal that tells of it. None: it is not held."""
        agent, message_id, at, attended = asking
        place = next((i for i, s in enumerate(signals) if isinstance(s, RequestOpened)), None)
        if asked is None or place is None or not self.is_on() or not _ID.fullmatch(message_id):
            return None
        opened = signals[place]
        assert isinstance(opened, RequestOpened)  # noqa: S101 - so it was found
        file = file_of(asked, asked.role or opened.role)
        persons = await self._persons(asked.cwd, file, *self._cwds_of(asked.session_id))
        lasts, longest = self._lasts(asked, attended=attended)
        if self._holds.is_full or self._holds.knows(message_id) or not lasts:
            return None
        asked, shown = self._as_shown(agent, asked, opened)
        hold = Hold(
            binding=secrets.token_hex(32),
            verbs=[*asked.verbs, *([EXTEND] if longest > lasts else [])],
            for_ms=int(longest * 1000),
            always=list(asked.always) or None,
            persons=persons,
            cwd=asked.cwd,
            version=HOLD_VERSION,
        )
        signals[place] = msgspec.structs.replace(shown, request_id=message_id, hold=hold)
        held = Held(
            id=message_id,
            agent=agent,
            asked=asked,
            binding=hold.binding,
            shown=binding_of(self._sent(agent, asked, shown)),
            at=at,
            until=self._timer() + lasts,
            latest=self._timer() + longest if longest > lasts else None,
            digest=opened.digest,
            tool_use_id=opened.tool_use_id,
            own_id=opened.request_id,
            persons=persons,
            file=file,
            server=opened.server,
        )
        self._holds.hold(held)
        if held.own_id:
            self._names[asked.session_id, held.own_id] = held
            if len(self._names) > MOST_NAMES:
                self._names.popitem(last=False)
        self._answers[held.id] = asyncio.get_running_loop().create_future()
        self._note(held, "held", about=asked.tool)
        return held

    def _lasts(self, asked: Asked, *, attended: bool) -> tuple[float, float]:
        """Return the seconds for which it is held by itself, and while somebody elsewhere looks at it."""
        main_s, subagent_s, form_s = self._limits
        if asked.hidden and attended:
            return form_s, max(form_s, LEASE_MOST_S)
        lasts = main_s if attended and (asked.in_sight or not asked.agent_id) else subagent_s
        return lasts, lasts

    async def _persons(self, *places: str) -> int:
        """How many decide in these together. In a thread: a mount that hangs must not stop all hooks."""
        policy = self._policy.current
        return await asyncio.to_thread(policy.persons, *places) if policy.two_persons else 1

    def _cwds_of(self, session_id: str) -> list[str]:
        """Return the directories the session has worked in since this collector started; UNKNOWN if too many or none."""
        places = sorted(self._cwds.get(session_id, ()))
        return places if 0 < len(places) < MOST_CWDS else [UNKNOWN]

    def _as_shown(
        self, agent: str, asked: Asked, opened: RequestOpened
    ) -> tuple[Asked, RequestOpened]:
        """Return both with the whole input. A request that masking changes cannot be allowed."""
        if not asked.whole:
            return asked, opened
        shown = msgspec.structs.replace(opened, payload=plain(asked.given))
        sent = self._sent(agent, asked, shown)
        if (sent.payload, sent.cwd, sent.always) == (asked.given, asked.cwd, asked.always):
            return asked, shown
        verbs = tuple(verb for verb in asked.verbs if verb in REFUSING)
        return msgspec.structs.replace(asked, verbs=verbs, always=()), shown

    def _sent(self, agent: str, asked: Asked, opened: RequestOpened) -> Displayed:
        """Return what hubs show of it, after masking."""
        hold = Hold("", [], always=list(asked.always), cwd=asked.cwd)
        sent = self._parties.intakes[agent].private(msgspec.structs.replace(opened, hold=hold))
        cwd, always = (sent.hold.cwd, sent.hold.always) if sent.hold else ("", None)
        return Displayed(
            *(sent.session_id, cwd, sent.request_kind, sent.tool, sent.role, sent.summary),
            *(sent.payload, tuple(always or ())),
        )

    def announced(self, held: Held) -> dict[str, bytes | None]:
        """To be kept in the spool with the signal that tells of it."""
        kept = Announced(held.agent, held.asked.session_id)
        return {ANNOUNCED + held.id: msgspec.json.encode(kept)}

    def withdraw(self, held: Held) -> None:
        """Nobody was told of it."""
        self._holds.release(held.id, "gone")
        self._answers.pop(held.id, None)

    async def hold(self, agent: str, asking: HeardRequest) -> None:
        """See `base.Desk`."""
        asked, opened, line = asking
        hook, told = HoldingHook(agent, secrets.token_hex(12), opened.at), list[AnySignal]([opened])
        held = await self.offer(hook, asked, told)
        if held is None:
            return
        try:
            await self._parties.intakes[agent].accept(told, state=self.announced(held))
        except BaseException:
            self.withdraw(held)
            raise
        await self.wait(held, line, line)

    async def wait(
        self,
        held: Held,
        reader: DecisionLine | asyncio.StreamReader,
        writer: DecisionLine | asyncio.StreamWriter,
    ) -> None:
        """Until it is decided or over; the connection's end means that its hook has gone."""
        answer = self._answers[held.id]
        gone = asyncio.ensure_future(reader.read(1))
        either: set[asyncio.Future[Any]] = {answer, gone}
        try:
            await self._by_rule(held)
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if not answer.done():
                self._finish(self._holds.release(held.id, "gone"))
                return
            body, command = answer.result()
            if command is None or gone.done():
                if command is not None:
                    self._tell(held, command, "too_late", "its hook had ended")
                return
            try:
                writer.write(body + b"\n")
                await writer.drain()
            except (OSError, RuntimeError):
                self._tell(held, command, "too_late", "its hook had ended")
            else:
                self._tell(held, command, "sent")
        finally:
            gone.cancel()
            self._answers.pop(held.id, None)
            # a collector that stops, or this task that fails, has not decided
            self._finish(self._holds.release(held.id, "restarted"))

    async def _by_rule(self, held: Held) -> None:
        """What the owner's rules decide, as if a person had: by the same checks, and in the trail."""
        clock = time.localtime(self._now() / 1000)
        places = held.file, *self._cwds_of(held.asked.session_id)
        matter = Matter(held.asked, clock.tm_hour * 60 + clock.tm_min, places=places)
        rule, tried = await asyncio.to_thread(self._policy.current.judge, matter)
        for each in tried:
            told = {"verb": each.decision, "by": f"{BY_RULE}{each.name}", "outcome": "tried"}
            self._note(held, "tried", about=held.asked.tool, **told)
        if rule is None:
            return
        command = Command(
            id=secrets.token_hex(16),
            host_id="",
            session_id=held.asked.session_id,
            verb=rule.decision,
            by=f"{BY_RULE}{rule.name}",
            request_id=held.id,
            binding=held.shown,
            text=rule.reason,
        )
        await self._obey(command)

    async def obey(self, command: Command) -> None:
        """Decides what this names, or has it done, once; reports it either way. It comes from a hub."""
        self._note_read(command)
        if is_reserved(command.by) and command.by != MACHINE:
            self.report(
                command, "refused", "no person is called so: it names a rule, rest or a machine"
            )
        elif not command.run and self._parties.run:
            why = "the hub that gave it is older than this collector: upgrade the hub"
            self.report(command, "refused", why)
        elif command.run != self._parties.run:
            self.report(command, "refused", "it was given before this collector was started")
        elif command.verb in DECISIONS:
            await self._obey(command)
        elif command.verb == EXTEND:
            self._extend(command)
        else:
            await self._act(command)

    def _extend(self, command: Command) -> None:
        """Hold a request while somebody looks at it. Nobody waits for the outcome, so none is reported."""
        held = self._holds.extend(command, self._timer()) if self.is_on() else None
        if held is not None and not held.extended:
            told = {"verb": command.verb, "by": command.by, "outcome": "extended"}
            self._note(held, "command", about=held.asked.tool, **told)

    def expire(self, command: Command) -> None:
        """Report a command that this run read too late, or never, so that its request can be decided anew.

        One that was read in time is left alone: whoever may write to Redis could put it back there.
        """
        ours = command.run == self._parties.run and command.verb != EXTEND
        if ours and command.id not in self._read:
            self._note_read(command)
            self.report(command, "expired", "this machine did not read it in time")

    def _note_read(self, command: Command) -> None:
        self._read[command.id] = None
        if len(self._read) > MOST_READ:
            self._read.popitem(last=False)

    async def _obey(self, command: Command) -> None:
        open_now = self._holds.open.get(command.request_id or "")
        # what its owner has written since it was held counts as well
        cwds = self._cwds_of(command.session_id)
        least = await self._persons(open_now.asked.cwd, open_now.file, *cwds) if open_now else 1
        try:
            async with self._counting:  # of two at once, the second must know of the first
                found = await self._decided(command, least)
        except NotObeyedError as error:
            late = isinstance(error, TooLateError)
            self.report(command, "too_late" if late else "refused", str(error))
            return
        if found is not None:
            await self._carry_out(command, *found)

    async def _decided(self, command: Command, least: int) -> tuple[Held, bytes] | None:
        """None: it is one person's of two, and counted. Raises NotObeyedError."""
        if not self.is_on():
            raise NotObeyedError("control is off on this machine")
        fault = self._policy.current.fault
        if fault and command.verb not in REFUSING:
            raise NotObeyedError(f"what this machine's owner wrote cannot be read: {fault}")
        try:
            return self._holds.decide(command, self._timer(), self._body, least)
        except OthersNeededError as error:
            await self._count(command, str(error))
            return None

    async def _carry_out(self, command: Command, held: Held, body: bytes) -> None:
        told = {"outcome": "decided", "about": held.asked.tool}
        try:
            mark = await self._written(_about(command) | told, "command")
        except OSError as error:
            # what nobody could account for later is no decision
            self.report(command, "refused", f"the trail cannot be written ({error})")
            self._finish([HoldOver(held, "handed back")])
            return
        answer = self._answers.get(held.id)
        if answer is None or answer.done() or not self.is_on():
            self.report(command, "too_late", "its hook had ended")
            self._finish([HoldOver(held, "gone")])
        elif body:
            answer.set_result(HookAnswer(body, command))
            self._finish([HoldOver(held, "decided")], command)
        else:
            self._finish([HoldOver(held, "handed back")])
            self._tell(held, command, "took_effect", "it is decided at the terminal", trail=mark)

    async def _act(self, command: Command) -> None:
        """Hands it on, once it stands in the trail; what nobody could account for is not done."""
        try:
            if self._actions is None or self.level != "full":
                raise NotObeyedError(f"this machine's owner does not allow `{command.verb}`")
            await self.require_prompting(command)
            await self._actions.accept(command)
            await self.write_down(command)
        except NotObeyedError as error:
            self.report(command, "refused", str(error))
        except OSError as error:
            self.report(command, "refused", f"it cannot be written down ({error})")
        else:
            self._actions.begin(command)

    async def write_down(self, command: Command) -> None:
        """That it is accepted. Raises OSError: what nobody could account for is not done."""
        told = {"outcome": "accepted", "about": command.text or command.item or ""}
        await self._written(_about(command) | told, "command")

    async def require_prompting(self, command: Command) -> None:
        """Raises NotObeyedError: who prompts could have done what two persons must decide."""
        policy = self._policy.current
        if command.verb not in PROMPTING or not (policy.two_persons or policy.fault):
            return
        if policy.fault:
            raise NotObeyedError(f"what this machine's owner wrote cannot be read: {policy.fault}")
        if await self._persons(*self._cwds_of(command.session_id)) > 1:
            raise NotObeyedError(
                "two persons decide in this session, so nobody alone may prompt it"
            )

    async def _count(self, command: Command, reason: str) -> None:
        """It is one person's of two: it counts once it stands in the trail."""
        try:
            mark = await self._written(_about(command) | {"outcome": "counted"}, "command")
        except OSError as error:
            self.report(command, "refused", f"the trail cannot be written ({error})")
            return
        if command.request_id not in self._holds.open:  # it ended while that was written
            self.report(command, "too_late", "it was over before another decided the same")
            return
        if before := self._holds.agree(command):
            self.report(before, "withdrawn", "decided otherwise by the same person")
        self.report(command, "awaits_second", reason, trail=mark)

    def asks(self, session_id: str) -> str | None:
        """What keeps a session from being ended: a request of it, or of its subagents, is held."""
        held = any(each.asked.session_id == session_id for each in self._holds.open.values())
        return "it asks something: answer that first" if held else None

    def _body(self, asked: Asked, command: Command) -> bytes:
        held = self._holds.open[command.request_id or ""]
        try:
            return self._parties.agents[held.agent].answer(asked, command)
        except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
            # What an agent asks has any shape; what is not understood is not answered.
            raise NotObeyedError(f"no answer can be made of it ({error})") from error

    def refuse(self, why: str) -> None:
        """Of a command that passed no check, and so says nothing that could be believed."""
        self.odd[why] += 1
        if self.odd.total() <= MOST_ODD_TOLD:
            log.warning("a command is not obeyed: %s", why)
            self._queue("", None, what="command", outcome="refused", about=why)

    def hear(self, signals: Sequence[AnySignal]) -> None:
        """All that any witness of this machine says, once. Returns at once."""
        if self._actions is not None:
            self._actions.hear(signals)
        ended, effects = self._holds.hear(signals)
        self._finish(ended)
        for effect in effects:
            self._tell(effect.held, effect.command, effect.outcome)
        for each in signals:
            if isinstance(each, MetaChanged) and each.cwd:
                places = self._cwds.setdefault(each.session_id, set())
                if len(places) < MOST_CWDS:
                    places.add(each.cwd)
                self._cwds.move_to_end(each.session_id)
                if len(self._cwds) > MOST_SESSIONS:
                    self._cwds.popitem(last=False)
            if isinstance(each, RequestClosed) and each.request_id is not None:
                held = self._names.pop((each.session_id, each.request_id), None)
                if held is not None:  # hubs know it by our name
                    named = msgspec.structs.replace(each, request_id=held.id)
                    self.tell(held.agent, named)

    async def run(self) -> None:
        """Until cancelled: deadlines, the owner's consent, and what is to be written."""
        await self._say_restarted()
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S if self._holds.open else None):
                    await self._wake.wait()
            self._wake.clear()
            if not self.is_on():
                self._finish(self._holds.release_all("handed back"))
            self._finish(self._holds.expire(self._timer()))
            await self._write()

    async def _say_restarted(self) -> None:
        for agent, intake in self._parties.intakes.items():
            state = intake.spool.state
            for key in [each for each in state if each.startswith(ANNOUNCED)]:
                try:
                    kept = msgspec.json.decode(state[key], type=Announced)
                except msgspec.DecodeError:
                    continue
                request_id = key.removeprefix(ANNOUNCED)
                if kept.agent == agent and request_id not in self._holds.open:
                    ended = self._ended_signal(kept.session_id, request_id, "restarted")
                    self._queue(agent, ended, what="ended", outcome="restarted")
        self._wake.set()

    def _finish(self, ended: Sequence[HoldOver], by: Command | None = None) -> None:
        """Their hooks, if they still wait, leave it to the terminal; hubs are told. by: decided it."""
        for held, reason in ((each.held, each.reason) for each in ended):
            answer = self._answers.get(held.id)
            if answer is not None and not answer.done():
                answer.set_result(HookAnswer())
            for each in self._holds.take_agreed(held.id):
                if by is not None and means_the_same(each, by):
                    self.report(each, "seconded", f"by {by.by}")
                else:
                    self.report(each, "too_late", "it was over before another decided the same")
            signal = self._ended_signal(held.asked.session_id, held.id, reason)
            self._queue(held.agent, signal, what="ended", outcome=reason)

    def _ended_signal(self, session_id: str, request_id: str, reason: str) -> HoldEnded:
        now = self._now()
        return HoldEnded(
            session_id=session_id, at=now, seen=now, request_id=request_id, reason=reason
        )

    def _tell(
        self, held: Held, command: Command, outcome: str, reason: str | None = None, **more: Any
    ) -> None:
        self.report(command, outcome, reason, agent=held.agent, **more)

    def report(
        self,
        command: Command,
        outcome: str,
        reason: str | None = None,
        agent: str | None = None,
        trail: str | None = None,
    ) -> None:
        now = self._now()
        if reason is not None:  # it may quote what the system says, in whatever bytes
            reason = reason.encode(errors="replace").decode()
        signal = CommandReported(
            session_id=command.session_id,
            at=now,
            seen=now,
            command_id=command.id,
            verb=command.verb,
            outcome=outcome,
            by=command.by,
            request_id=command.request_id,
            reason=reason,
            trail=trail,
        )
        name = agent or next(iter(self._parties.intakes))
        what = "effect" if outcome in ("took_effect", "overruled") else "command"
        told = _about(command) | {"outcome": outcome, "about": reason or ""}
        self._queue(name, signal, what=what, **told)

    def tell(self, agent: str, signal: AnySignal) -> None:
        """Hubs, of what is no command's outcome."""
        self._reports.append((agent, signal, None))
        self._wake.set()

    def _note(self, held: Held, what: str, **told: Any) -> None:
        named = {"session_id": held.asked.session_id, "request_id": held.id}
        self._queue(held.agent, None, what=what, **named, **told)

    def _queue(self, agent: str, signal: AnySignal | None, **line: Any) -> None:
        if isinstance(signal, HoldEnded):
            line |= {"session_id": signal.session_id, "request_id": signal.request_id}
        self._reports.append((agent, signal, line))
        self._wake.set()

    async def _write(self) -> None:
        while self._reports:
            agent, signal, line = self._reports.popleft()
            mark = None
            try:
                if line is not None:
                    what = line.pop("what")
                    mark = await self._written(line, what)
            except OSError as error:
                log.warning("the trail cannot be written: %s", error)
            if signal is None:
                continue
            state: dict[str, bytes | None] = {}
            if isinstance(signal, HoldEnded):
                state = {ANNOUNCED + signal.request_id: None}
            elif isinstance(signal, CommandReported) and signal.trail is None:
                signal = msgspec.structs.replace(signal, trail=mark)
            try:
                await self._parties.intakes[agent].accept([signal], state=state)
            except SpoolUnavailable:
                log.warning("a report of control is lost: the spool cannot be written to")
            except (ValueError, OverflowError) as error:
                log.warning("a report of control is lost: %s", error)

    async def _written(self, line: Mapping[str, Any], what: str) -> str:
        """The line's hash, once it is on disk. Raises OSError."""
        async with self._writing:
            return await asyncio.to_thread(self._trail.add, self._now(), what, **line)


def _about(command: Command) -> dict[str, Any]:
    return {
        "session_id": command.session_id,
        "request_id": command.request_id or "",
        "command_id": command.id,
        "verb": command.verb,
        "by": command.by,
    }
