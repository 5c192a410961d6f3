"""Decides which command meets which request that is held open. Pure: time comes in, outcomes go out.

A request is decided once, by a command that names it, its session and the hash of what it asks, while
it is open. Whatever is doubtful is no decision: the request stays, or goes back to the terminal.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

import msgspec

from adsum_collector.agents.base import Asked
from adsum_shared.commands import EXTEND, LEASE_S, Command, NotObeyedError
from adsum_shared.people import MACHINE, is_alike
from adsum_shared.signals import (
    ALL_CHILDREN,
    AnySignal,
    ChildFinished,
    ProcessGone,
    PromptSubmitted,
    RequestClosed,
    SessionEnded,
    StatusReported,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    TurnFailed,
    TurnInterrupted,
)

K = TypeVar("K")
V = TypeVar("V")

#: Requests that are held at once; each keeps a connection, and a small process of its hook.
MOST_OPEN: Final = 64
#: Ids of commands that are never obeyed again: more than a stream keeps.
MOST_USED: Final = 10_000
MOST_ENDED: Final = 1_000
#: Decisions of which is waited to hear what came of them, and calls that a request may belong to.
MOST_SENT: Final = 256
MOST_CALLS: Final = 1_000
#: What may be decided whatever else is in doubt, and by one person: nothing runs by it.
REFUSING: Final = frozenset(("deny", "defer"))
#: What the registry calls a session that shows a dialog.
WAITING: Final = "waiting"
#: And one whose form's hook it waits for.
BUSY: Final = "busy"

Builder = Callable[[Asked, Command], bytes]


class Held(msgspec.Struct, frozen=True):
    """A request that is held open. id: 64 random bits. at: when its hook fired, ms of wall clock.

    shown: `commands.binding_of` what hubs display; a decision is bound to it. binding: random, and in the
    signal; who has it may deny, give back and renew, as of a request that is masked or not whole.
    digest: what it has in common with its call, which it does not name; None of what is no call.
    until: seconds, monotonic. waited: the registry has shown its dialog. own_id: the agent's.
    persons: how many must decide the same before anything is allowed. server: whose form it is.
    file: to which a file tool is to be applied, see `file_of`. latest: until when a lease may be renewed, as
    `until`; None: none may. extended: one was.
    """

    id: str
    agent: str
    asked: Asked
    binding: str
    shown: str
    at: int
    until: float
    digest: str | None = None
    tool_use_id: str | None = None
    waited: bool = False
    own_id: str | None = None
    persons: int = 1
    file: str = ""
    server: str | None = None
    latest: float | None = None
    extended: bool = False


class HoldOver(msgspec.Struct, frozen=True):
    """reason: see `signals.HoldEnded`."""

    held: Held
    reason: str


class Effect(msgspec.Struct, frozen=True):
    """What came of a decision. outcome: took_effect, overruled."""

    held: Held
    command: Command
    outcome: str


class Holds:
    """Time is given in seconds that never go back."""

    def __init__(self) -> None:
        self.open: dict[str, Held] = {}
        #: request -> person -> what they decided, which waits for another to decide the same
        self._agreed: dict[str, list[Command]] = {}
        self._sent: OrderedDict[str, tuple[Held, Command]] = OrderedDict()
        self._used: OrderedDict[str, None] = OrderedDict()
        self._ended: OrderedDict[str, str] = OrderedDict()
        self._calls: OrderedDict[tuple[str, str | None, str], str] = OrderedDict()

    @property
    def is_full(self) -> bool:
        return len(self.open) >= MOST_OPEN

    def knows(self, request_id: str) -> bool:
        """An id is held once."""
        return request_id in self.open or request_id in self._ended

    def hold(self, held: Held) -> Held:
        """For the caller to refuse: `is_full`, and an id that is in use."""
        asked = held.asked
        key = (asked.session_id, asked.agent_id, held.digest or "")
        # taken out: the next request that looks the same is another call's
        tool_use_id = held.tool_use_id or self._calls.pop(key, None)
        self.open[held.id] = held = msgspec.structs.replace(held, tool_use_id=tool_use_id)
        return held

    def decide(
        self, command: Command, now: float, build: Builder, least: int = 1
    ) -> tuple[Held, bytes]:
        """The request that this command decides, which is closed by it, and what its hook prints.

        least: how many must decide the same by now, whatever was so when it was held.
        Raises NotObeyedError; then nothing was done, but for the command's id, which is used up.
        """
        if command.id in self._used:
            raise NotObeyedError("this command was given before")
        _keep(self._used, command.id, None, MOST_USED)
        held = self.open.get(command.request_id or "")
        if held is None:
            reason = self._ended.get(command.request_id or "")
            raise TooLateError(f"the request is no longer open: {reason or 'nobody holds it here'}")
        asked = held.asked
        if command.session_id != asked.session_id:
            raise NotObeyedError("the request is another session's")
        if not _is_bound(held, command):
            raise NotObeyedError("what was shown is not what is asked")
        if now >= held.until:
            raise TooLateError("its time was over")
        if command.verb not in asked.verbs:
            raise NotObeyedError(f"the request does not take `{command.verb}`")
        body = build(asked, command)
        persons = max(held.persons, least)
        if persons > 1 and command.verb not in REFUSING:
            self._require_others(held, command, persons)
        self._end(held, "decided" if body else "handed back")
        if body:
            # of two requests of one call, each has the agent's own name
            key = held.own_id or held.tool_use_id or f"?{held.id}"
            _keep(self._sent, f"{asked.session_id} {key}", (held, command), MOST_SENT)
        return held, body

    def extend(self, command: Command, now: float) -> Held | None:
        """Hold the request that this names for LEASE_S more. None: it is not open, or takes no lease.

        Return it as it was before.
        """
        held = self.open.get(command.request_id or "")
        if held is None or held.latest is None or command.id in self._used:
            return None
        _keep(self._used, command.id, None, MOST_USED)
        is_its_own = command.session_id == held.asked.session_id
        if not (is_its_own and _is_bound(held, command) and now < held.until):
            return None
        until = max(held.until, min(now + LEASE_S, held.latest))
        self.open[held.id] = msgspec.structs.replace(held, until=until, extended=True)
        return held

    def _require_others(self, held: Held, command: Command, persons: int) -> None:
        """Raises NotObeyedError: too few have decided the same so far."""
        if command.by == MACHINE:
            raise NotObeyedError(
                f"{persons} persons decide here, and the hub's own machine is none: adsum login"
            )
        same = [it for it in self._agreed.get(held.id, ()) if means_the_same(it, command)]
        if any(is_alike(it.by, command.by) for it in same):
            raise NotObeyedError("you have decided so already: it takes another person")
        if len(same) + 1 < persons:
            raise OthersNeededError(f"{len(same) + 1} of {persons}: it takes another person")

    def agree(self, command: Command) -> Command | None:
        """Counts it until its request is over. What the same person had decided before."""
        agreed = self._agreed.setdefault(command.request_id or "", [])
        before = next((it for it in agreed if is_alike(it.by, command.by)), None)
        agreed[:] = [*(it for it in agreed if it is not before), command]
        return before

    def take_agreed(self, request_id: str) -> list[Command]:
        """What was counted for a request that is over."""
        return self._agreed.pop(request_id, [])

    def expire(self, now: float) -> list[HoldOver]:
        return [self._end(each, "expired") for each in self._those(lambda h: now >= h.until)]

    def release(self, request_id: str, reason: str) -> list[HoldOver]:
        held = self.open.get(request_id)
        return [self._end(held, reason)] if held else []

    def release_all(self, reason: str) -> list[HoldOver]:
        return [self._end(each, reason) for each in list(self.open.values())]

    def hear(self, signals: Sequence[AnySignal]) -> tuple[list[HoldOver], list[Effect]]:
        """What these signals end, and what they tell of decisions that were sent."""
        ended: list[HoldOver] = []
        effects: list[Effect] = []
        for signal in signals:
            if isinstance(signal, ToolStarted):
                self._note_call(signal)
            if isinstance(signal, ToolFinished) and signal.digest is not None:
                self._calls.pop((signal.session_id, signal.agent_id, signal.digest), None)
            if isinstance(signal, ToolFinished | RequestClosed):
                effects += self._effect(signal)
            if isinstance(signal, ToolFinished) and signal.server and not signal.is_interrupt:
                effects += self._form_taken(signal)
            elif isinstance(signal, TurnInterrupted):
                effects += self._stopped(signal)
            if self.open:
                ended += self._retired(signal)
        return ended, effects

    def _note_call(self, signal: ToolStarted) -> None:
        """A hook of the request may overtake that of its call, so both wait for each other."""
        if signal.digest is None:
            return
        key = (signal.session_id, signal.agent_id, signal.digest)
        _keep(self._calls, key, signal.tool_use_id, MOST_CALLS)
        for held in self._of(signal.session_id):
            same = held.digest == signal.digest and held.asked.agent_id == signal.agent_id
            if same and held.tool_use_id is None:
                changed = msgspec.structs.replace(held, tool_use_id=signal.tool_use_id)
                self.open[held.id] = changed
        for name, (held, command) in list(
            self._sent.items()
        ):  # decided before its call was heard of
            asked = held.asked
            nameless = held.tool_use_id is None and held.own_id is None
            if nameless and key == (asked.session_id, asked.agent_id, held.digest):
                del self._sent[name]
                named = msgspec.structs.replace(held, tool_use_id=signal.tool_use_id)
                _keep(
                    self._sent,
                    f"{signal.session_id} {signal.tool_use_id}",
                    (named, command),
                    MOST_SENT,
                )

    def _retired(self, signal: AnySignal) -> list[HoldOver]:
        """Somebody else was first, or nobody asks any more."""
        found: list[HoldOver] = []
        for held in self._of(signal.session_id):
            if reason := _reason(held, signal):
                found.append(self._end(held, reason))
            elif _shows(held, signal):
                self.open[held.id] = msgspec.structs.replace(held, waited=True)
        return found

    def _effect(self, signal: ToolFinished | RequestClosed) -> list[Effect]:
        """By what the agent itself wrote of who decided; hooks do not say, so nothing is known then.

        Rejected: to take a call that ran for one that was allowed from here. A key pressed some
        milliseconds before lets it run as well.
        """
        name = signal.request_id if isinstance(signal, RequestClosed) else signal.tool_use_id
        found = self._sent.get(f"{signal.session_id} {name}")
        if found is None:
            return []
        held, command = found
        if isinstance(signal, RequestClosed):
            accepted, ours = signal.outcome == "accept", signal.outcome is not None
        elif signal.decided_by is None:
            return []
        else:
            # a denial that ends the turn is recorded as one at the keyboard is
            accepted, ours = signal.accepted is True, signal.decided_by == "hook" or command.stop
        del self._sent[f"{signal.session_id} {name}"]
        # another hook of the user's may have said the opposite
        took = ours and accepted == (command.verb != "deny")
        return [Effect(held, command, "took_effect" if took else "overruled")]

    def _form_taken(self, signal: ToolFinished) -> list[Effect]:
        """The call of a server whose form was answered is over, and no word came of who answered.

        A CLI may tell of a form that its terminal answered, and of none that a hook did (seen).
        """
        about = (signal.session_id, signal.agent_id, signal.server)
        for name, (held, command) in self._sent.items():
            asked = (held.asked.session_id, held.asked.agent_id, held.server)
            if held.own_id and asked == about and signal.at > held.at:
                del self._sent[name]
                return [Effect(held, command, "took_effect")]
        return []

    def _stopped(self, signal: TurnInterrupted) -> list[Effect]:
        """A denial that ends the turn is recorded as Esc is, by nobody's name: what it asks for is so."""
        found = [
            (name, held, command)
            for name, (held, command) in self._sent.items()
            if command.stop and held.asked.session_id == signal.session_id
            if held.asked.agent_id == signal.agent_id and signal.at > held.at
        ]
        for name, _, _ in found:
            del self._sent[name]
        return [Effect(held, command, "took_effect") for _, held, command in found]

    def _of(self, session_id: str) -> list[Held]:
        return self._those(lambda held: held.asked.session_id == session_id)

    def _those(self, meant: Callable[[Held], bool]) -> list[Held]:
        return [held for held in self.open.values() if meant(held)]

    def _end(self, held: Held, reason: str) -> HoldOver:
        del self.open[held.id]
        _keep(self._ended, held.id, reason, MOST_ENDED)
        return HoldOver(held, reason)


class TooLateError(NotObeyedError):
    """The request is over: somebody else was first, or time was."""


class OthersNeededError(NotObeyedError):
    """It is sound, and one person's alone: it counts once another has decided the same."""


def _is_bound(held: Held, command: Command) -> bool:
    """Whether the command is for what is asked; what lets nothing run may bear the request's own binding."""
    given = (command.binding or "").encode()
    if secrets.compare_digest(held.shown.encode(), given):
        return True
    harmless = command.verb in REFUSING or command.verb == EXTEND
    return harmless and secrets.compare_digest(held.binding.encode(), given)


def means_the_same(one: Command, other: Command) -> bool:
    bare = {"id": "", "by": "", "ttl_ms": 0, "run": ""}
    return msgspec.structs.replace(one, **bare) == msgspec.structs.replace(other, **bare)


def _shows(held: Held, signal: AnySignal) -> bool:
    """The registry tells of the request's dialog; a subagent has none while it is held."""
    waits = isinstance(signal, StatusReported) and signal.status == WAITING
    return waits and signal.at >= held.at and not held.asked.agent_id


def _reason(held: Held, signal: AnySignal) -> str | None:
    """Why this signal of the request's session ends it; None if it does not.

    By what happens in the request's own thread alone: closing on any activity would take away other
    requests that are still asked. What ends a turn counts only if it came after the request, since a
    transcript is read later than a hook is heard.
    """
    child = held.asked.agent_id
    match signal:
        case SessionEnded() | ProcessGone():
            return "gone"
        case ToolFinished():
            same = signal.tool_use_id == held.tool_use_id
            return "answered" if held.tool_use_id is not None and same else None
        case RequestClosed():
            return "answered" if held.own_id and signal.request_id == held.own_id else None
        case TurnEnded() | TurnFailed() | TurnInterrupted():
            over = "handed back" if held.asked.hidden else "answered"
            return over if signal.agent_id == child and signal.at > held.at else None
        case ChildFinished():
            # a subagent's dialog goes with it
            ours = child is not None and signal.child_id in (child, ALL_CHILDREN)
            return "gone" if ours and signal.child_kind == "agent" and signal.at > held.at else None
        case PromptSubmitted():
            # Somebody sits at the terminal, where it does not show while it is held.
            hidden = held.asked.hidden or (child is not None and not held.asked.in_sight)
            here = hidden and signal.origin != "system" and signal.at > held.at
            return "handed back" if here else None
        case StatusReported():
            later = held.asked.hidden and signal.at > held.at
            rests = later and signal.status not in (None, BUSY)
            # Yes and "always" leave no other trace while their tool runs.
            left = held.waited and signal.status not in (None, WAITING)
            return "handed back" if rests else "answered" if left and not child else None
        case _:
            return None


def _keep(where: OrderedDict[K, V], key: K, value: V, most: int) -> None:
    where[key] = value
    while len(where) > most:
        where.popitem(last=False)
