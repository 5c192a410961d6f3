"""Machines join with a token, are looked up by their credential, and learn where Redis is."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import ssl
from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

import msgspec
from fastapi import APIRouter, Request

from adsum_hub.auth.credentials import CodeProblem, LoginRateLimit, digest_of, id_of, origin_of
from adsum_hub.auth.sign_in import Revoked
from adsum_hub.clock import Clock
from adsum_hub.join.leaving import (
    JOINING,
    JOINING_STEP,
    MAKE,
    NO_USER_STEP,
    HostChanged,
    Leaving,
    label_of,
    worthless,
)
from adsum_hub.join.machines import JoinedMachine, MachineStore, RollFile, RollWatch, Way
from adsum_hub.join.rights import NoRightsError, Rights, user_of
from adsum_hub.join.tokens import (
    JoinToken,
    JoinTokenAsked,
    JoinTokenMade,
    JoinTokens,
    JoinTokenStore,
    StoredJoinToken,
    host_in,
    is_host_id,
    is_join_token,
    make_join_token,
    make_machine_secret,
)
from adsum_hub.live.broadcast import Broadcast
from adsum_hub.redis_access import RedisAccess
from adsum_hub.rest.api import (
    JSON_ONLY,
    OFTEN,
    REFUSED,
    SCHEMA,
    UNKNOWN,
    BadRequestError,
    add_endpoints,
    address_of,
    bearer_of,
    endpoint,
)
from adsum_hub.roster import Roster
from adsum_hub.settings import HubSettings
from adsum_shared import __version__, streams
from adsum_shared.beat import decode_beat
from adsum_shared.connect import db_of
from adsum_shared.envelope import VERSION
from adsum_shared.redis_url import address_of as redis_address
from adsum_shared.state import Reachability
from adsum_shared.tls import is_untrusted

log = logging.getLogger(__name__)

OVER = {**REFUSED, 410: "Used or expired", **OFTEN}
MACHINE = {**REFUSED, **OFTEN}
#: Many of these answers hold a secret.
_served = partial(endpoint, headers={"cache-control": "no-store"})
MOST_TOKENS = 500
LEAST_S, MOST_S = 60, streams.JOIN_TOKEN_MOST_MS // 1000
ANOTHER = "Join with `adsum join`, which sees to it."
RANGE = "Give 60 seconds to 31 days."
WHY: dict[CodeProblem, tuple[int, str]] = {
    "unknown": (401, "No join token is this one: it is wrong, was revoked, or is long over."),
    "used": (410, "This join token was used already: it lets one machine in, once."),
    "expired": (410, "This join token has expired."),
}
CLONE = "A machine with this identity has joined, or reports already."
CLONE_STEP = (
    "If this is a copy of it: `adsum join … --new-identity`. If it is the same machine: stop its "
    "collector and try again in ten seconds; if it has lost its credential, first "
    "`adsum hosts reset` on the hub's machine."
)
REVOKED = "The access of this machine was revoked."
REVOKED_STEP = (
    "To let it in again: `adsum hosts reset` on the hub's machine, then join with a token."
)
SHARED = "This machine shares its Redis login with others: each of them can read and write what all send."
WISHED = "It was asked for."
NOWHERE = "The hub reaches Redis at {address}, which leads nowhere from another machine."
NO_USER = "The hub can give it no login of its own in Redis: {reason}."
SHOWN = "Too many credentials that are not valid were shown from this address."
SHOWN_STEP = "Wait a minute. A machine that was shut out has to join again, by a new token."
UNVOUCHED = (
    "The certificate of {host} is signed by no authority that systems trust. If yours do not either, "
    "copy that authority's certificate to the machine, and add to the line: --ca FILE"
)
LOCAL_HUB = (
    "The hub is at a loopback address, which leads nowhere from another machine: see docs/sign-in.md, "
    "ADSUM_PUBLIC_URL."
)
#: What machines get of the query. The rest may be a login, or a path that only the hub's machine has.
HARMLESS = frozenset({"db", "ssl_cert_reqs", "ssl_check_hostname"})
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


def is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address.partition("%")[0]).is_loopback
    except ValueError:
        return True  # not by an address at all: a unix socket


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where machines reach the hub and its Redis.

    redis_url: of Redis. shared: a URL for those that get no user of their own.

    public_url: where the hub is reached from elsewhere; None: nobody has said so.
    """

    redis_url: str
    shared: str | None
    public_url: str | None

    def redis(self, host_id: str, secret: str) -> str:
        """With the machine's own login in it, and none of the hub's."""
        parts = urlsplit(self.redis_url)
        place = parts.netloc.rpartition("@")[2]
        login = f"{quote(user_of(host_id))}:{quote(secret)}"
        query = urlencode([(k, v) for k, v in parse_qsl(parts.query) if k in HARMLESS])
        # urlunsplit would leave out an empty netloc of unix:///path, and it is not empty any more
        return urlunsplit(parts._replace(netloc=f"{login}@{place}", query=query, fragment=""))

    def nowhere_from(self, address: str) -> str | None:
        """Redis's address as it may be shown, where a machine that asks from there has no use for it.

        One that asks from here may be behind a proxy or a tunnel: it has to try.
        """
        parts = urlsplit(self.redis_url)
        local = parts.scheme == "unix" or (parts.hostname or "localhost") in LOOPBACK
        return redis_address(self.redis_url) if local and not is_loopback(address) else None


#: Whoever makes a token waits for it. From where the hub runs its own address may lead nowhere.
ASK_S = 1.5


async def vouched(url: str) -> str | None:
    """Asks the hub's address whether machines elsewhere will trust its certificate as they stand.

    The hub speaks no TLS itself, and knows of a certificate only what a proxy before it shows.
    """
    parts = urlsplit(url)
    host = parts.hostname
    if parts.scheme != "https" or not host:
        return None
    try:
        async with asyncio.timeout(ASK_S):
            # In a thread: it reads all that the system trusts, which takes 20 ms.
            tls = await asyncio.to_thread(ssl.create_default_context)
            _, writer = await asyncio.open_connection(host, parts.port or 443, ssl=tls)
    except ssl.SSLError as error:
        return UNVOUCHED.format(host=host) if is_untrusted(error) else None
    except (OSError, UnicodeError):  # the latter: no name that one could look up
        return None
    writer.transport.abort()
    return None


#: What a machine that joins asks for; auto: whatever the hub offers and is reached from there.
Via = Literal["auto", "redis", "ingest"]


class JoinChecked(msgspec.Struct):
    """The token is good. version: the hub's. wire: of batches it reads. now: its clock, ms."""

    schema: int
    version: str
    wire: int
    now: int


class JoinCheckAsked(msgspec.Struct):
    token: str


class LeaveAsked(msgspec.Struct):
    """undo: of a joining that failed. Its token is good again."""

    undo: bool = False


class JoinAsked(msgspec.Struct):
    """former: the secret of an earlier joining, which proves that the identity is the machine's.

    via: machines that are older than ingest can do nothing but Redis.
    """

    token: str
    host_id: str
    label: str
    former: str = ""
    via: Via = "redis"


class JoinAnswer(msgspec.Struct):
    """redis_url: with the machine's login in it; empty where it goes through the hub.

    secret: what it shows to the hub. warning: what is not as it should be; None: nothing. why: of the way.
    """

    schema: int
    host_id: str
    label: str
    way: Way
    redis_url: str
    secret: str
    warning: str | None
    why: str = ""


class MachineSeen(msgspec.Struct):
    """What the hub has of the machine that asks. applied: the number of its last signal."""

    schema: int
    host_id: str
    label: str
    listed: bool
    applied: int
    reachability: Reachability


class _Offer(NamedTuple):
    way: Way
    url: str = ""
    warning: str | None = None
    why: str = ""


def _good(found: StoredJoinToken | CodeProblem) -> StoredJoinToken:
    """Raises BadRequestError."""
    if isinstance(found, StoredJoinToken):
        return found
    status, cause = WHY[found]
    raise BadRequestError(status, cause, MAKE)


def too_many(cause: str, wait_s: int, step: str) -> BadRequestError:
    return BadRequestError(429, cause, step, {"retry-after": str(wait_s)})


class JoinAccess(NamedTuple):
    """What a joining needs, on the connections kept for strangers.

    limit: of tokens that are tried. shown: of machines' credentials.
    """

    tokens: JoinTokenStore
    machines: MachineStore
    rights: Rights
    limit: LoginRateLimit
    shown: LoginRateLimit


@dataclass(frozen=True, slots=True)
class Joining:
    """Makes join tokens, lets machines join, and finds a machine by its credential.

    tokens: for admins. machines: looks up those that have joined, and does no more.
    """

    roster: Roster
    access: RedisAccess
    strangers: JoinAccess
    tokens: JoinTokenStore
    machines: MachineStore
    watch: RollWatch
    leaving: Leaving
    addresses: Addresses
    clock: Clock

    def router(self) -> APIRouter:
        router = APIRouter(prefix="/api/v1", tags=["v1"])
        add_endpoints(router, self)
        return add_endpoints(router, self.leaving)

    @_served("GET /join-tokens", "The join tokens that are good, without their secrets", REFUSED)
    async def join_tokens(self) -> JoinTokens:
        now = self.clock()
        found = await self.tokens.all(now)
        return JoinTokens(
            SCHEMA, now, msgspec.convert(found, list[JoinToken], from_attributes=True)
        )

    @_served(
        "POST /join-tokens",
        "A token that lets a machine join; its secret is answered this once",
        REFUSED,
    )
    async def make_join_token(self, request: Request, asked: JoinTokenAsked) -> JoinTokenMade:
        label, now = label_of(asked.label), self.clock()
        if not LEAST_S <= asked.expires_s <= MOST_S:
            raise BadRequestError(400, "expires_s is out of range.", RANGE)
        if len(await self.tokens.all(now)) >= MOST_TOKENS:
            step = "Revoke those that nobody uses: adsum hub tokens list --join"
            raise BadRequestError(409, f"There are {MOST_TOKENS} join tokens already.", step)
        secret = make_join_token()
        digest = digest_of(secret)
        reached = f"{request.scope['scheme']}://{request.headers.get('host', '')}"
        url = self.addresses.public_url or reached
        # Before it is stored: one that could not be answered would be good, and known to nobody.
        note = LOCAL_HUB if urlsplit(url).hostname in LOOPBACK else await vouched(url)
        until = now + asked.expires_s * 1000
        held = StoredJoinToken(id_of(digest), now, until, asked.reusable, label)
        await self.tokens.issue(digest, held, now)
        log.info("made join token %s", held.id)
        command = f"adsum join {url} --token {secret}"
        shown = msgspec.convert(held, JoinToken, from_attributes=True)
        return JoinTokenMade(SCHEMA, secret, command, shown, note)

    @_served("DELETE /join-tokens/{named}", "A join token is good no more", {**REFUSED, **UNKNOWN})
    async def revoke_join_token(self, named: str) -> Revoked:
        if not await self.tokens.revoke(named):
            step = "List them: adsum hub tokens list --join"
            raise BadRequestError(404, f"There is no join token {named[:40]!r}.", step)
        log.info("revoked join token %s", named)
        return Revoked(SCHEMA, named)

    @_served(
        "POST /join/check",
        "Whether a machine could join by a token, which stays as it is",
        OVER,
        logged=True,
    )
    async def check(self, request: Request, asked: JoinCheckAsked) -> JoinChecked:
        address = address_of(request)
        async with self.access.joins.turn(origin_of(address)):
            await self._look(asked.token, address)
        return JoinChecked(SCHEMA, __version__, VERSION, self.clock())

    @_served("POST /join", "A machine joins by a token", OVER, logged=True)
    async def join(self, request: Request, asked: JoinAsked) -> JoinAnswer:
        """If it is refused nothing has changed, and the token is as good as before."""
        address = address_of(request)
        async with self.access.joins.turn(origin_of(address)):
            digest = await self._look(asked.token, address)
            if not is_host_id(asked.host_id):
                raise BadRequestError(400, "host_id is no identity of a machine.", ANOTHER)
            label = label_of(asked.label)
            # Two at once would both be admissible, and the one entered last would shut the other out.
            async with self.strangers.machines.alone(asked.host_id) as alone:
                if not alone:
                    raise BadRequestError(409, JOINING, JOINING_STEP)
                return await self._let_in(asked, digest, label, address)

    async def _let_in(self, asked: JoinAsked, digest: str, label: str, address: str) -> JoinAnswer:
        host_id, now = asked.host_id, self.clock()
        machines, tokens = self.strangers.machines, self.strangers.tokens
        before = await self._admissible(host_id, asked.former)
        held = _good(await tokens.take(digest, host_id, now))
        secret = make_machine_secret(host_id)
        try:
            way = await self._way(host_id, secret, asked.via, address)
        except BaseException:
            await tokens.free(held.id, host_id, now)
            await tokens.discount(held.id, now)
            raise
        machine = JoinedMachine(
            host_id,
            label,
            digest_of(secret),
            now,
            way.way,
            held.id,
            before=before and msgspec.structs.replace(before, before=None),
            fresh=not await machines.is_listed(host_id),
        )
        await machines.enter(machine, held.label)
        await self.watch.look()
        if way.way == "ingest":
            await self.strangers.rights.withdraw_if_any(host_id)
        log.info("%s (%s) joined by %s, %s", host_id, label, held.id, way.way)
        label = held.label or label
        return JoinAnswer(SCHEMA, host_id, label, way.way, way.url, secret, way.warning, way.why)

    async def _admissible(self, host_id: str, former: str) -> JoinedMachine | None:
        """What is known of it. Raises BadRequestError: the identity is, or may be, another's."""
        before = await self.strangers.machines.find(host_id)
        if before is not None and before.state == "revoked":
            raise BadRequestError(409, REVOKED, REVOKED_STEP)
        if before is not None and before.state == "in":
            if not before.has(digest_of(former)):
                raise BadRequestError(409, CLONE, CLONE_STEP)
            return before
        raw = await self.strangers.machines.beat(host_id)
        beat = decode_beat(raw) if raw else None
        if before is None and beat is not None and not beat.stopping:
            raise BadRequestError(409, CLONE, CLONE_STEP)
        return before

    async def _way(self, host_id: str, secret: str, via: Via, address: str) -> _Offer:
        """How its signals are to come. Raises BadRequestError."""
        if via == "ingest":
            return _Offer("ingest", why=WISHED)
        nowhere = self.addresses.nowhere_from(address)
        if via == "auto" and nowhere is not None:
            return _Offer("ingest", why=NOWHERE.format(address=nowhere))
        try:
            await self.strangers.rights.grant(host_id, digest_of(secret))
        except NoRightsError as error:
            shared = self.addresses.shared
            if shared is not None:
                return _Offer("shared", shared, f"{SHARED} The reason: {error}.")
            if via == "auto":
                return _Offer("ingest", why=NO_USER.format(reason=error))
            cause = f"This machine cannot be given a login of its own: {error}."
            raise BadRequestError(409, cause, NO_USER_STEP) from error
        return _Offer("acl", self.addresses.redis(host_id, secret))

    async def machine_of(self, secret: str, address: str) -> JoinedMachine:
        """Who shows this. Raises BadRequestError. Counted as tokens are: the bad ones alone."""
        host_id, digest = host_in(secret) or "", digest_of(secret)
        if self.watch.knows(host_id, digest):
            async with self.access.machines.turn(host_id):
                machine = await self.watch.find(host_id, self.machines)
            if machine is not None and machine.is_let_in_by(digest):
                return machine
        async with self.access.unknown.turn(origin_of(address)):
            machine = await self.watch.find(host_id, self.strangers.machines) if host_id else None
            if machine is not None and machine.is_let_in_by(digest):
                return machine
            if wait := await self.strangers.shown.count(address):
                raise too_many(SHOWN, wait, SHOWN_STEP)
        if machine is not None and machine.state == "revoked" and machine.has(digest):
            # To nobody else: by this credential it is told from a hub that was set up anew.
            raise BadRequestError(401, REVOKED, REVOKED_STEP)
        raise worthless()

    # Not a dependency: it would be let in before the body is there, and may be shut out meanwhile.
    async def _asking(self, request: Request) -> JoinedMachine:
        return await self.machine_of(bearer_of(request), address_of(request))

    @_served(
        "POST /machine/ingest",
        "The machine whose credential is shown cannot reach Redis: it needs no user there",
        MACHINE,
        dependencies=[JSON_ONLY],
    )
    async def go_through_hub(self, request: Request) -> HostChanged:
        return await self.leaving.go_through_hub(await self._asking(request))

    @_served("GET /machine", "What the hub has of the machine whose credential is shown", MACHINE)
    async def see(self, request: Request) -> MachineSeen:
        machine = await self._asking(request)
        host = self.roster.hosts.get(machine.host_id)
        if host is None:
            return MachineSeen(SCHEMA, machine.host_id, machine.label, False, 0, "offline")  # noqa: FBT003 - the fields in their order
        view = host.view(self.clock())
        return MachineSeen(SCHEMA, host.id, host.label, True, view.applied, view.reachability)  # noqa: FBT003 - the fields in their order

    @_served(
        "POST /machine/leave",
        "The machine whose credential is shown leaves; all of it goes from the lists",
        MACHINE,
    )
    async def leave(self, request: Request, asked: LeaveAsked) -> HostChanged:
        return await self.leaving.leave(await self._asking(request), undo=asked.undo)

    async def _look(self, token: str, address: str) -> str:
        """The digest of one that is good. Raises BadRequestError.

        Only bad ones are counted: behind one address a hundred machines may join at once.
        """
        token = token.strip()
        if not is_join_token(token):
            step = f"It begins with adsum_join_. {MAKE}"
            raise BadRequestError(400, "This is no join token.", step)
        digest = digest_of(token)
        found = await self.strangers.tokens.look(digest, self.clock())
        if not isinstance(found, StoredJoinToken) and (
            wait := await self.strangers.limit.count(address)
        ):
            raise too_many("Too many join tokens were tried.", wait, f"Try again in {wait} s.")
        _good(found)
        return digest


def open_joining(
    settings: HubSettings,
    redis_url: str,
    access: RedisAccess,
    roster: Roster,
    clock: Clock,
    broadcast: Broadcast,
) -> Joining:
    """Puts together what joining needs."""
    addresses = Addresses(
        settings.machine_redis_url or redis_url, settings.machine_shared_url, settings.public_url
    )
    db = db_of(addresses.redis_url)
    machines, rights = MachineStore(access.hub), Rights(access.hub, db)
    watch = RollWatch(roster, machines, rights, clock, broadcast, RollFile(settings.state_dir))
    tokens = JoinTokenStore(access.hub)
    strangers = access.strangers
    return Joining(
        roster,
        access,
        JoinAccess(
            JoinTokenStore(strangers),
            MachineStore(strangers),
            Rights(strangers, db),
            LoginRateLimit(strangers, "join:"),
            LoginRateLimit(strangers, "machine:"),
        ),
        tokens,
        MachineStore(access.known),
        watch,
        Leaving(roster, tokens, machines, rights, watch, clock),
        addresses,
        clock,
    )
