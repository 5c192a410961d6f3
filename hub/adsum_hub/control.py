"""Gives what people decide, and what they want done, to the machines as signed commands."""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple

import msgspec
from fastapi import APIRouter, Query, Request
from redis.exceptions import ResponseError

from adsum_hub.auth.gate import GRANT, Grant
from adsum_hub.clock import Clock
from adsum_hub.command_keys import CommandKeyError, CommandKeys
from adsum_hub.command_stream import Decides, append
from adsum_hub.facts import Facts
from adsum_hub.host import Host
from adsum_hub.rest.api import (
    AWAY_STEP,
    REFUSED,
    SCHEMA,
    UNKNOWN,
    BadRequestError,
    add_endpoints,
    endpoint,
)
from adsum_hub.roster import Roster
from adsum_hub.views import REFUSING, command_views
from adsum_shared import streams
from adsum_shared.characters import CONTROL
from adsum_shared.commands import (
    ACTIONS,
    DECISION_TTL_MS,
    DECISIONS,
    EXTEND,
    MOST_BYTES,
    MOST_PROMPT,
    Command,
    signed,
)
from adsum_shared.connect import Redis
from adsum_shared.state import CommandView, Group, HoldView, RequestView, SessionView

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

log = logging.getLogger(__name__)

#: What a machine reports of a command that decided nothing.
NOTHING_DONE = frozenset({"refused", "expired", "withdrawn", "too_late"})
#: Nothing more is heard of a command after one of these.
FINAL = NOTHING_DONE | {"took_effect", "overruled", "seconded"}
#: One person's of two: it leaves the request to the next.
AWAITS_SECOND = "awaits_second"
GIVEN = "given"
EXPIRED = "expired"
#: Commands of this hub's that are found before their machine has reported them.
MOST_GIVEN = 1_000
MOST_WAIT_S = 30
LOOK_S = 0.05
#: Of what a machine says keeps commands from it.
MOST_PROBLEM = 300
#: Of a reason, an answer or a note.
MOST_TEXT = 4_000
#: What each verb takes beside the request and its binding.
PARAMETERS: dict[str, frozenset[str]] = {
    "allow": frozenset(),
    "always": frozenset(),
    "deny": frozenset({"text", "stop"}),
    "answer": frozenset({"answers", "notes"}),
    "plan": frozenset({"text", "mode"}),
    "elicit": frozenset({"content"}),
    "defer": frozenset(),
    EXTEND: frozenset(),
    "prompt": frozenset({"text"}),
    "queue": frozenset({"text", "place"}),
    "withdraw": frozenset({"item"}),
    "move": frozenset({"item", "place"}),
    "interrupt": frozenset(),
    "suspend": frozenset(),
    "resume": frozenset({"text"}),
}
#: Without which an action is none.
NEEDED = {"prompt": ("text",), "queue": ("text",), "withdraw": ("item",), "move": ("item", "place")}
MOST_PLACE = 1_000
TERMINAL = "Answer it at its terminal: adsum attach"


class CommandAsked(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What a person decides or wants done; see `Command`.

    request_id, binding: of the very request that was shown; of decisions alone. text: a reason to
    deny, a plan that was edited, a prompt. item: of the session's queue. place: in it, 0 is next.
    """

    most_bytes: ClassVar[int] = MOST_BYTES

    verb: str
    request_id: str = ""
    binding: str = ""
    text: str | None = None
    stop: bool = False
    answers: dict[str, list[str]] | None = None
    notes: dict[str, str] | None = None
    mode: str | None = None
    content: dict[str, Any] | None = None
    item: str | None = None
    place: int | None = None


class CommandTold(msgspec.Struct):
    """A command and what has become of it. Its outcome is `given` until its machine reports one.

    final: nothing more will be heard of it.
    """

    schema: int
    now: int
    command: CommandView
    final: bool


class CommandsTold(msgspec.Struct):
    """What was decided and done in a session, newest last: the latest that its machine reported.

    What this hub has given and no machine has reported yet is among them, as `given`.
    """

    schema: int
    now: int
    commands: list[CommandView]


class _Place(NamedTuple):
    host: Host
    facts: Facts
    view: SessionView


@dataclass(frozen=True, slots=True)
class Decisions:
    """Turns what a person decides or wants done into one signed command.

    A decision is given if the request is as it was shown, an action where the owner allows those.

    Whatever can be known is checked here, for a clear answer. What counts is checked by the
    collector, which knows whether the request is still open.
    """

    roster: Roster
    clock: Clock
    redis: Redis
    keys: CommandKeys
    given: OrderedDict[str, tuple[str, CommandView]] = field(default_factory=OrderedDict)

    @endpoint(
        "POST /sessions/{session_id:path}/commands",
        "Decides what a session asks its human, or has something done in it; answered before it has "
        "had any effect",
        {**REFUSED, **UNKNOWN, 410: "It is asked no more, or the session is over"},
        status=202,
    )
    async def give(self, session_id: str, request: Request, asked: CommandAsked) -> CommandTold:
        """Raises BadRequestError."""
        key = await self._key()
        place = self._place(session_id)
        _require_control(place.host, asked.verb)
        if asked.verb in ACTIONS:
            _require_full(place.host, asked.verb)
            _require_possible(asked, place.view)
            _require_fitting(asked)
        else:
            request_view = _asked_for(place.view, asked.request_id)
            _require_decidable(request_view, asked, self.clock(), place.host.label)
            _require_sound(asked, request_view)
        grant: Grant | None = request.scope.get(GRANT)
        _require_another(place.facts, asked, grant)
        told = msgspec.to_builtins(asked)
        command = msgspec.convert(
            {
                **told,
                "id": secrets.token_hex(16),
                "host_id": place.host.id,
                "session_id": place.facts.session_id,
                "run": place.host.beat.nonce if place.host.beat else "",
                "by": grant.name if grant is not None else "somebody",
            },
            Command,
        )
        await self._send(place, command, key)
        about = command.request_id or "itself"
        level = logging.DEBUG if command.verb == EXTEND else logging.INFO
        log.log(level, "%s: %s for %s of %s", command.by, command.verb, about, place.view.id)
        at, verb = self.clock(), command.verb
        view = CommandView(command.id, verb, command.by, at, GIVEN, request_id=command.request_id)
        if verb != EXTEND:  # nothing is reported of it
            self.given[command.id] = place.view.id, view
        if len(self.given) > MOST_GIVEN:
            self.given.popitem(last=False)
        return CommandTold(SCHEMA, at, view, final=False)

    @endpoint(
        "GET /sessions/{session_id:path}/commands/{command_id}",
        "What has become of a command; `wait`: seconds until it is final, at most",
        UNKNOWN,
    )
    async def outcome(
        self,
        session_id: str,
        command_id: str,
        wait: Annotated[float, Query(ge=0, le=MOST_WAIT_S)] = 0.0,
    ) -> CommandTold:
        """Raises BadRequestError."""
        until = asyncio.get_running_loop().time() + wait
        while True:
            view = self._told(self._place(session_id), command_id)
            final = view is not None and view.outcome in FINAL
            if final or asyncio.get_running_loop().time() >= until:
                break
            await asyncio.sleep(LOOK_S)
        if view is None:
            step = (
                "It was given long ago, or at another hub, whose machine has not reported it yet."
            )
            raise BadRequestError(404, f"There is no command {command_id[:40]!r} here.", step)
        return CommandTold(SCHEMA, self.clock(), view, final)

    @endpoint(
        "GET /sessions/{session_id:path}/commands",
        "What people and rules decided in a session, and what came of it",
        UNKNOWN,
    )
    async def commands(self, session_id: str) -> CommandsTold:
        """Raises BadRequestError."""
        place = self._place(session_id)
        told = command_views(place.facts, place.host.clock.offset_ms)
        known = {each.id for each in told}
        given = (view for session, view in self.given.values() if session == place.view.id)
        new = [self._aged(place, each) for each in given if each.id not in known]
        return CommandsTold(SCHEMA, self.clock(), sorted([*told, *new], key=lambda it: it.at))

    def _place(self, named: str) -> _Place:
        """named: HOST_ID:SESSION_ID, or with a slash between. Raises BadRequestError."""
        key = named if ":" in named else named.replace("/", ":", 1)
        found, view = self.roster.find(key), self.roster.views.get(key)
        if found is None or view is None:
            step = "List them at /api/v1/sessions; an id is HOST_ID:SESSION_ID."
            raise BadRequestError(404, f"There is no session {named[:200]!r} that lives.", step)
        return _Place(*found, view)

    def _told(self, place: _Place, command_id: str) -> CommandView | None:
        """What its machine says; else that this hub has given it."""
        if command_id in place.facts.commands:
            views = command_views(place.facts, place.host.clock.offset_ms)
            return next(view for view in views if view.id == command_id)
        session, view = self.given.get(command_id, ("", None))
        return self._aged(place, view) if view and session == place.view.id else None

    def _aged(self, place: _Place, view: CommandView) -> CommandView:
        """Mark a decision as expired if its machine was heard of after the time to obey it, and reported nothing.

        A report that arrives later replaces this. Actions take longer to be reported.
        """
        is_over = place.host.clock.last_seen > view.at + DECISION_TTL_MS
        if view.verb not in DECISIONS or not is_over:
            return view
        reason = "the machine did not report it in time"
        return msgspec.structs.replace(view, outcome=EXPIRED, reason=reason)

    async def _key(self) -> Ed25519PrivateKey:
        """Raises BadRequestError."""
        try:
            return await self.keys.own()
        except CommandKeyError as error:
            step = "See the hub's log; until then answer it at its terminal."
            raise BadRequestError(409, f"This hub can sign nothing: {error}", step) from error

    async def _send(self, place: _Place, command: Command, key: Ed25519PrivateKey) -> None:
        """Raises BadRequestError, UNAVAILABLE."""
        decides = None
        if command.verb in DECISIONS:
            decided = streams.decided(place.host.id, command.request_id or "")
            held: Any = await self.redis.get(decided)
            left_ms = await self.redis.pttl(decided)
            before = held.decode() if held else ""
            if before and not self._came_to_nothing(place, before, streams.DECIDED_MS - left_ms):
                raise self._decided(place, before)
            decides = Decides(command.request_id or "", command.id, before)
        try:
            other = await append(self.redis, place.host.id, signed(command, key), decides)
        except ResponseError as error:
            raise _not_taken(error) from error
        if other:
            raise self._decided(place, other)

    def _came_to_nothing(self, place: _Place, command_id: str, age_ms: int) -> bool:
        """Whether the request can be decided anew. age_ms: of the decision, by Redis's clock.

        One that nobody reported is too old to be obeyed. If it was obeyed and its report is still on its
        way, the collector refuses the new one: a request is decided once.
        """
        told = place.facts.commands.get(command_id)
        free = NOTHING_DONE | {AWAITS_SECOND}
        return age_ms > DECISION_TTL_MS if told is None else told.outcome in free

    def _decided(self, place: _Place, command_id: str) -> BadRequestError:
        view = self._told(place, command_id)
        by = f" by {view.by} ({view.verb})" if view is not None else ""
        step = "What became of it is shown at the session."
        return BadRequestError(409, f"This was decided already{by}.", step)


def control_router(decisions: Decisions) -> APIRouter:
    """Before the roster's own: the pattern of a session takes every path below it."""
    router = APIRouter(prefix="/api/v1", tags=["v1"])
    return add_endpoints(add_endpoints(router, decisions), decisions.keys)


def _require_control(host: Host, verb: str) -> None:
    """Raises BadRequestError."""
    if host.reachability == "offline":
        cause = f"{host.label} is offline, so nothing that is decided here would reach it."
        raise BadRequestError(409, cause, TERMINAL)
    if host.beat is None or host.beat.control == "off":
        cause = f"On {host.label} nothing can be decided from elsewhere."
        level = "full" if verb in ACTIONS else "approve"
        step = f"Its owner can allow it there: adsum control {level}"
        raise BadRequestError(409, cause, step)
    if host.beat.commands_problem is not None:
        cause = f"{host.label} cannot read commands: {host.beat.commands_problem[:MOST_PROBLEM]}"
        step = f"Where machines share a login of Redis, run there: adsum join. {TERMINAL}"
        raise BadRequestError(409, cause, step)


def _not_taken(error: ResponseError) -> BadRequestError:
    cause = f"Redis did not take the command ({error}), so nothing was done."
    return BadRequestError(503, cause, AWAY_STEP)


def _require_full(host: Host, verb: str) -> None:
    """Raises BadRequestError."""
    if host.beat is None or host.beat.control != "full":
        cause = f"On {host.label} requests can be answered from elsewhere, but not `{verb}`."
        raise BadRequestError(409, cause, "Its owner can allow it there: adsum control full")


def _require_possible(asked: CommandAsked, view: SessionView) -> None:
    """Raises BadRequestError: it is not the time for that, or the session has no such thing in its queue.

    What is said to a suspended session takes it up again.
    """
    state, verb = view.state.state, asked.verb
    if (state == "session_ended" and verb in ("prompt", "interrupt", "suspend")) or (
        state == "suspended" and verb in ("interrupt", "suspend")
    ):
        step = "Take it up again: adsum resume" if state == "suspended" else "Look again."
        raise BadRequestError(410, "This session is over, so nothing can be done in it.", step)
    if verb == "resume" and state != "suspended":
        cause = "This session is not suspended, so it cannot be taken up again from here."
        raise BadRequestError(
            409, cause, "Prompt it. If its terminal is gone, take it up again there."
        )
    if verb == "suspend":
        _require_rest(view)
    if state == "session_ended" and verb == "queue":
        cause = "This session is over: nothing that waits for it would be read."
        raise BadRequestError(410, cause, "Start another, or resume it.")
    if asked.item is not None and all(each.id != asked.item for each in view.queue):
        cause = f"Nothing called {asked.item[:40]!r} waits for this session."
        raise BadRequestError(410, cause, "It was handed over or taken back. Look at it again.")


def _require_rest(view: SessionView) -> None:
    """Raises BadRequestError: something would be lost. Its machine looks once more, and knows better."""
    step = "Suspend it when its turn is over."
    if view.state.group is Group.AUTONOMOUS:
        raise BadRequestError(409, f"It works ({view.state.label}).", step)
    if view.requests:
        raise BadRequestError(409, "It asks something.", "Answer that first.")
    if any(each.status == "running" for each in view.children):
        cause = "Something it started runs in the background, and would be ended."
        raise BadRequestError(409, cause, "Wait for that, or stop it.")
    if view.queue:
        raise BadRequestError(409, "A message waits for it.", "Take that back, or wait.")


def _require_fitting(asked: CommandAsked) -> None:
    """Raises BadRequestError: what is given does not belong to the action, or is not sound."""
    if asked.request_id or asked.binding:
        cause = f"`{asked.verb}` is for a session, not for one of its requests."
        raise BadRequestError(400, cause, "Leave out `request_id` and `binding`.")
    _require_belonging(asked)
    for name in NEEDED.get(asked.verb, ()):
        if getattr(asked, name) in (None, "") or not str(getattr(asked, name)).strip():
            raise BadRequestError(400, f"`{name}` is missing.", f"Give `{name}` with it.")
    _require_plain(asked, MOST_PROMPT)
    if asked.place is not None and not 0 <= asked.place <= MOST_PLACE:
        raise BadRequestError(400, "There is no such place.", "0 is the next, 1 the one after it.")


def _require_belonging(asked: CommandAsked) -> None:
    """Raises BadRequestError."""
    given = msgspec.to_builtins(asked).keys() - {"verb", "request_id", "binding"}
    if odd := given - PARAMETERS[asked.verb]:
        cause = f"`{asked.verb}` takes no {', '.join(sorted(odd))}."
        raise BadRequestError(400, cause, "See /openapi.json.")


def _require_plain(asked: CommandAsked, most: int) -> None:
    """Raises BadRequestError."""
    for text in _texts(asked):
        if CONTROL.search(text):
            step = "Take them out: a terminal would obey them."
            raise BadRequestError(400, "There are control characters in it.", step)
        if len(text) > most:
            step = f"Give at most {most} characters."
            raise BadRequestError(400, "A text in it is too long.", step)


def _asked_for(view: SessionView, request_id: str) -> RequestView:
    """Raises BadRequestError."""
    if not request_id:
        cause, step = "`request_id` is missing.", "Name the request that was shown."
        raise BadRequestError(400, cause, step)
    over = view.state.state in ("session_ended", "suspended")
    found = next((each for each in view.requests if each.id == request_id), None)
    if found is None or over:
        cause = "This is asked no more: it was answered, or the session went on."
        raise BadRequestError(410, cause, "Look at the session again.")
    return found


def _require_decidable(
    request: RequestView, asked: CommandAsked, now: int, machine: str
) -> HoldView:
    """Raises BadRequestError."""
    verb, hold = asked.verb, request.hold
    if verb not in DECISIONS and verb != EXTEND:
        step = f"Give one of {', '.join(PARAMETERS)}."
        raise BadRequestError(400, f"{verb[:40]!r} is no decision.", step)
    if hold is None:
        raise BadRequestError(409, "This cannot be answered from elsewhere.", TERMINAL)
    if now >= hold.until:
        raise BadRequestError(410, "The time to answer this from elsewhere is over.", TERMINAL)
    if not asked.binding:
        step = "Give the `binding` of the request as it was shown."
        raise BadRequestError(400, "`binding` is missing.", step)
    if not hmac.compare_digest(asked.binding.encode(), hold.binding.encode()):
        cause = "What was shown is not what is asked now."
        raise BadRequestError(409, cause, "Look at the session again.")
    if verb not in hold.verbs:
        cause, step = f"It takes no `{verb}`", f"Give one of {', '.join(hold.verbs)}."
        if verb not in REFUSING and hold.partial:
            cause, step = "Not all of what is asked is shown here", TERMINAL
        elif verb not in REFUSING and hold.outdated:
            cause = f"The collector on {machine} is too old to check what you were shown, or it asked before this hub was upgraded"
            step = f"Upgrade Adsum on {machine}: adsum upgrade"
        raise BadRequestError(409, f"{cause}, so it was not decided.", step)
    return hold


def _require_another(facts: Facts, asked: CommandAsked, grant: Grant | None) -> None:
    """Raises BadRequestError: of two persons who must decide the same, this one has.

    Not for what has words of its own: whoever comes round to the other's says the same verb again.
    """
    if asked.verb not in ("allow", "always"):
        return
    name = grant.name if grant is not None else ""
    for told in facts.commands.values():
        waits = told.outcome == AWAITS_SECOND and told.request_id == asked.request_id
        if waits and (told.by, told.verb) == (name, asked.verb):
            step = "Ask another person to decide the same: it is their names that count."
            raise BadRequestError(
                409, "You have decided so already: it takes another person.", step
            )


def _require_sound(asked: CommandAsked, request: RequestView) -> None:
    """Raises BadRequestError: what is given does not belong to the verb, or is no answer to it."""
    _require_belonging(asked)
    _require_plain(asked, MOST_BYTES // 4 if asked.verb == "plan" else MOST_TEXT)
    payload = request.payload or {}
    if asked.verb == "answer":
        _require_complete(asked, payload)
    if asked.verb == "elicit":
        _require_filled(asked.content or {}, payload)
    if asked.verb == "plan" and asked.text is not None and not asked.text.strip():
        raise BadRequestError(400, "The plan is empty.", "To send it back: deny it, with a reason.")


def _texts(asked: CommandAsked) -> Iterator[str]:
    yield from (each for each in (asked.text, asked.mode, asked.item) if each is not None)
    for question, labels in (asked.answers or {}).items():
        yield from (question, *labels)
    for question, note in (asked.notes or {}).items():
        yield from (question, note)
    for name, value in (asked.content or {}).items():
        yield from (name, *([value] if isinstance(value, str) else []))


def _require_complete(asked: CommandAsked, payload: dict[str, Any]) -> None:
    """Every question has its answer: the agent would take what is missing for no answer at all."""
    told = payload.get("questions")
    records = [each for each in told if isinstance(each, dict)] if isinstance(told, list) else []
    questions = {str(each.get("question")): each for each in records}
    given = asked.answers or {}
    step = "Answer each question by `answers`: the question's text -> a list of labels or words."
    for text, question in questions.items():
        chosen = given.get(text, [])
        if not chosen or not all(each.strip() for each in chosen):
            raise BadRequestError(400, f"Not answered: {text[:80]!r}.", step)
        if len(chosen) > 1 and question.get("multiSelect") is not True:
            cause = f"It takes one answer only: {text[:80]!r}."
            raise BadRequestError(400, cause, step)
    if odd := (given.keys() | (asked.notes or {}).keys()) - questions.keys():
        raise BadRequestError(400, f"Nobody asked {min(odd)[:80]!r}.", step)


def _require_filled(content: dict[str, Any], payload: dict[str, Any]) -> None:
    schema = payload.get("requested_schema")
    schema = schema if isinstance(schema, dict) else {}
    fields, required = schema.get("properties"), schema.get("required")
    step = "Fill in the form's fields by `content`: their names -> their values."
    for name in required if isinstance(required, list) else ():
        if content.get(name) in (None, ""):
            raise BadRequestError(400, f"Not filled in: {str(name)[:80]!r}.", step)
    for name, value in content.items():
        if not isinstance(fields, dict) or name not in fields:
            raise BadRequestError(400, f"The form has no field {name[:80]!r}.", step)
        if not isinstance(value, str | int | float | bool):
            raise BadRequestError(400, f"{name[:80]!r} takes one value.", step)
