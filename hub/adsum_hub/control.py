"""Gives what people decide to the machines, as signed commands, and keeps the key that signs them."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import logging
import os
import re
import secrets
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple

import msgspec
from fastapi import APIRouter, Query, Request
from redis.exceptions import ResponseError

from adsum_hub.auth.gate import GRANT, Grant
from adsum_hub.clock import Clock
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
from adsum_hub.views import command_views
from adsum_shared import streams
from adsum_shared.commands import DECISION_TTL_MS, MOST_BYTES, Command, key_id, signed
from adsum_shared.connect import UNAVAILABLE, Redis, wanted
from adsum_shared.errors import AdsumError
from adsum_shared.private_files import open_private, write_private
from adsum_shared.state import CommandView, HoldView, RequestView, SessionView

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

log = logging.getLogger(__name__)

#: A Redis that was emptied has the public halves of its hubs' keys again within this time.
ANNOUNCED_S = 60.0


class CommandKeyError(AdsumError):
    """Nothing can be signed. The text names the file, the cause and the next step."""


class CommandKeysKnown(msgspec.Struct):
    """The public keys of all hubs of this Redis, in hex, by their ids. A machine pins them."""

    schema: int
    keys: dict[str, str]


class CommandKeys:
    """The key that this hub signs commands with, made when there is none; and what other hubs have.

    Its private half is in one file of the hub's. Redis has the public halves alone: whoever can
    write there could otherwise decide in anybody's name.
    """

    def __init__(self, state_dir: Path, redis: Redis) -> None:
        self._file = state_dir / "command-key.pem"
        self._redis = redis
        self._key: Ed25519PrivateKey | None = None
        self._loading = asyncio.Lock()

    async def run(self) -> None:
        """Makes the key at the hub's first start, and shows its public half for as long as it runs."""
        while wanted():
            try:
                await self.own()
                await self.known()
            except CommandKeyError as error:
                log.warning("nobody can decide anything from here: %s", error)
                return
            except UNAVAILABLE as error:
                log.debug("the key for commands could not be shown: %s", error)
            await asyncio.sleep(ANNOUNCED_S)

    async def own(self) -> Ed25519PrivateKey:
        """Raises CommandKeyError."""
        async with self._loading:
            if self._key is None:
                self._key = await asyncio.to_thread(self._load)
            return self._key

    async def known(self) -> dict[str, str]:
        """The public keys of all hubs; this one's is among them, if it has any. Raises UNAVAILABLE."""
        with contextlib.suppress(CommandKeyError):
            public = (await self.own()).public_key()
            mine = key_id(public), public.public_bytes_raw().hex()
            await self._redis.hset(streams.COMMAND_KEYS, *mine)
        stored: dict[Any, Any] = await self._redis.hgetall(streams.COMMAND_KEYS)
        found = (_key_of(*each) for each in stored.items())
        return dict(each for each in found if each is not None)

    @endpoint("GET /command-keys", "The keys by which hubs sign what people decide")
    async def command_keys(self) -> CommandKeysKnown:
        return CommandKeysKnown(SCHEMA, await self.known())

    def _load(self) -> Ed25519PrivateKey:
        """Imports what takes a tenth of a second: not for the loop."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        try:
            if not self._file.exists():
                self._make()
            with os.fdopen(open_private(self._file, os.O_RDONLY), "rb") as file:
                if os.fstat(file.fileno()).st_mode & 0o077:
                    raise CommandKeyError(
                        f"Others may read {self._file}, the key for commands. If nobody has: chmod "
                        "600 it. Else remove it, restart the hub, and switch control on anew."
                    )
                key = load_pem_private_key(file.read(), None)
        except OSError as error:
            step = "Make it a file of the user who runs the hub."
            cause = error.strerror or error
            raise CommandKeyError(
                f"The key for commands, {self._file}, cannot be used: {cause}. {step}"
            ) from error
        except (ValueError, TypeError) as error:
            raise CommandKeyError(_no_key(self._file)) from error
        if not isinstance(key, Ed25519PrivateKey):
            raise CommandKeyError(_no_key(self._file))
        return key

    def _make(self) -> None:
        """Whole or not at all, and the first of two hubs wins."""
        from cryptography.hazmat.primitives import serialization as form
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        pem = Ed25519PrivateKey.generate().private_bytes(
            form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption()
        )
        self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            write_private(self._file, pem, replace=False)


def _no_key(file: Path) -> str:
    step = "Move it away: a new one is made, which machines trust once control is switched on anew."
    return f"{file} is no key for commands. {step}"


def _key_of(named: bytes, public: bytes) -> tuple[str, str] | None:
    """An entry of Redis's, if it is a key under its own id."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        name, text = named.decode(), public.decode()
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(text))
    except ValueError:
        return None
    return (name, text) if key_id(key) == name else None


#: A decision whose machine reports nothing can be given anew: by then it is too old to be obeyed.
STALE_MS = 2 * DECISION_TTL_MS
#: What a machine reports of a command that decided nothing.
NOTHING_DONE = frozenset({"refused", "expired", "withdrawn", "too_late"})
#: Nothing more is heard of a command after one of these.
FINAL = NOTHING_DONE | {"took_effect", "overruled"}
GIVEN = "given"
#: Commands of this hub's that are found before their machine has reported them.
MOST_GIVEN = 1_000
MOST_WAIT_S = 30
LOOK_S = 0.05
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
}
#: But for line breaks and tabs; and what turns the direction of text, so that it reads otherwise.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
#: The first decision of a request wins, at whatever hub: KEYS are what decided it and the stream.
#: ARGV[1]: what may be there, a command that came to nothing, or empty. Answers what is there instead.
_GIVE = """
local held = redis.call('GET', KEYS[1])
if (held or '') ~= ARGV[1] then return held or '?' end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[4], '*', unpack(ARGV, 5))
return false
"""
TERMINAL = "Answer it at its terminal: adsum attach"


class CommandAsked(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What a person decides; see `Command`. request_id, binding: of the very request that was shown.

    text: a reason to deny, a plan that was edited.
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


class CommandTold(msgspec.Struct):
    """A command and what has become of it. Its outcome is `given` until its machine reports one.

    final: nothing more will be heard of it.
    """

    schema: int
    now: int
    command: CommandView
    final: bool


class _Place(NamedTuple):
    host: Host
    facts: Facts
    view: SessionView


@dataclass(frozen=True, slots=True)
class Decisions:
    """Turns what a person decides into one signed command, if the request is as it was shown.

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
        "Decides what a session asks its human; answered before it has had any effect",
        {**REFUSED, **UNKNOWN, 410: "It is asked no more"},
        status=202,
    )
    async def give(self, session_id: str, request: Request, asked: CommandAsked) -> CommandTold:
        """Raises BadRequestError."""
        place = self._place(session_id)
        _require_control(place.host)
        request_view = _asked_for(place.view, asked.request_id)
        _require_decidable(request_view, asked, self.clock())
        _require_sound(asked, request_view)
        grant: Grant | None = request.scope.get(GRANT)
        told = msgspec.to_builtins(asked)
        command = msgspec.convert(
            {
                **told,
                "id": secrets.token_hex(16),
                "host_id": place.host.id,
                "session_id": place.facts.session_id,
                "by": grant.name if grant is not None else "somebody",
            },
            Command,
        )
        await self._send(place, command)
        log.info("%s: %s for %s of %s", command.by, command.verb, command.request_id, place.view.id)
        at, verb = self.clock(), command.verb
        view = CommandView(command.id, verb, command.by, at, GIVEN, request_id=command.request_id)
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
        return view if session == place.view.id else None

    async def _send(self, place: _Place, command: Command) -> None:
        """Raises BadRequestError, UNAVAILABLE."""
        try:
            key = await self.keys.own()
        except CommandKeyError as error:
            step = "See the hub's log; until then answer it at its terminal."
            raise BadRequestError(409, f"This hub can sign nothing: {error}", step) from error
        decided = streams.decided(place.host.id, command.request_id or "")
        held: Any = await self.redis.get(decided)
        left_ms = await self.redis.pttl(decided)
        before = held.decode() if held else ""
        if before and not self._came_to_nothing(place, before, streams.DECIDED_MS - left_ms):
            raise self._decided(place, before)
        fields = signed(command, key)
        keys = decided, streams.commands(place.host.id)
        words = [before, command.id, streams.DECIDED_MS, streams.MOST_COMMANDS]
        parts = [part for each in fields.items() for part in each]
        try:
            other: Any = await self.redis.eval(_GIVE, len(keys), *keys, *words, *parts)
        except ResponseError as error:
            cause = f"Redis did not take the command ({error}), so nothing was decided."
            raise BadRequestError(503, cause, AWAY_STEP) from error
        if other:
            raise self._decided(place, other.decode())

    def _came_to_nothing(self, place: _Place, command_id: str, age_ms: int) -> bool:
        told = place.facts.commands.get(command_id)
        return age_ms > STALE_MS if told is None else told.outcome in NOTHING_DONE

    def _decided(self, place: _Place, command_id: str) -> BadRequestError:
        view = self._told(place, command_id)
        by = f" by {view.by} ({view.verb})" if view is not None else ""
        step = "What became of it is shown at the session."
        return BadRequestError(409, f"This was decided already{by}.", step)


def control_router(decisions: Decisions) -> APIRouter:
    """Before the roster's own: the pattern of a session takes every path below it."""
    router = APIRouter(prefix="/api/v1", tags=["v1"])
    return add_endpoints(add_endpoints(router, decisions), decisions.keys)


def _require_control(host: Host) -> None:
    """Raises BadRequestError."""
    if host.reachability == "offline":
        cause = f"{host.label} is offline, so nothing that is decided here would reach it."
        raise BadRequestError(409, cause, TERMINAL)
    if host.beat is None or host.beat.control == "off":
        cause = f"On {host.label} nothing can be decided from elsewhere."
        step = "Its owner can allow it there: adsum control approve"
        raise BadRequestError(409, cause, step)


def _asked_for(view: SessionView, request_id: str) -> RequestView:
    """Raises BadRequestError."""
    if not request_id:
        cause, step = "`request_id` is missing.", "Name the request that was shown."
        raise BadRequestError(400, cause, step)
    found = next((each for each in view.requests if each.id == request_id), None)
    if found is None:
        cause = "This is asked no more: it was answered, or the session went on."
        raise BadRequestError(410, cause, "Look at the session again.")
    return found


def _require_decidable(request: RequestView, asked: CommandAsked, now: int) -> HoldView:
    """Raises BadRequestError."""
    verb, hold = asked.verb, request.hold
    if verb not in PARAMETERS:
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
        partial = hold.partial and verb not in ("deny", "defer")
        cause = "Not all of what is asked is shown here" if partial else f"It takes no `{verb}`"
        step = TERMINAL if partial else f"Give one of {', '.join(hold.verbs)}."
        raise BadRequestError(409, f"{cause}, so it was not decided.", step)
    return hold


def _require_sound(asked: CommandAsked, request: RequestView) -> None:
    """Raises BadRequestError: what is given does not belong to the verb, or is no answer to it."""
    given = msgspec.to_builtins(asked).keys() - {"verb", "request_id", "binding"}
    if odd := given - PARAMETERS[asked.verb]:
        cause = f"`{asked.verb}` takes no {', '.join(sorted(odd))}."
        raise BadRequestError(400, cause, "See /openapi.json.")
    most = MOST_BYTES // 4 if asked.verb == "plan" else MOST_TEXT
    for text in _texts(asked):
        if _CONTROL.search(text):
            step = "Take them out: a terminal would obey them."
            raise BadRequestError(400, "There are control characters in it.", step)
        if len(text) > most:
            step = f"Give at most {most} characters."
            raise BadRequestError(400, "A text in it is too long.", step)
    payload = request.payload or {}
    if asked.verb == "answer":
        _require_complete(asked, payload)
    if asked.verb == "elicit":
        _require_filled(asked.content or {}, payload)
    if asked.verb == "plan" and asked.text is not None and not asked.text.strip():
        raise BadRequestError(400, "The plan is empty.", "To send it back: deny it, with a reason.")


def _texts(asked: CommandAsked) -> Iterator[str]:
    yield from (each for each in (asked.text, asked.mode) if each is not None)
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
