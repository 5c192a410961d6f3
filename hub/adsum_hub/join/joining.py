"""Machines join with a token, are looked up by their credential, and leave or are shut out."""

import asyncio
import logging
import secrets
import ssl
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple
from urllib.parse import urlsplit

import msgspec
from fastapi import Request

from adsum_hub.auth.credentials import CodeProblem, LoginRateLimit, digest_of, id_of, origin_of
from adsum_hub.auth.seal import RecordSeal
from adsum_hub.auth.sign_in import Revoked
from adsum_hub.clock import Clock
from adsum_hub.command_keys import CommandKeys
from adsum_hub.host import MOST_LABEL
from adsum_hub.join.machines import JoinedMachine, MachineStore, RollFile, RollWatch, Way
from adsum_hub.join.rights import LOOPBACK, Addresses, NoRightsError, Rights
from adsum_hub.join.tokens import (
    HOST_ID,
    JOIN_TOKEN,
    TOKEN_PREFIX,
    JoinAnswer,
    JoinAsked,
    JoinCheckAsked,
    JoinChecked,
    JoinToken,
    JoinTokenAsked,
    JoinTokenMade,
    JoinTokens,
    JoinTokenStore,
    MachineSeen,
    StoredJoinToken,
    Via,
    host_in,
    make_machine_secret,
)
from adsum_hub.live.broadcast import Broadcast
from adsum_hub.redis_access import RedisAccess
from adsum_hub.rest.api import (
    OFTEN,
    REFUSED,
    SCHEMA,
    UNKNOWN,
    BadRequestError,
    address_of,
    bearer_of,
    endpoint,
    too_many,
)
from adsum_hub.roster import Roster
from adsum_hub.settings import HubSettings
from adsum_shared import __version__, streams
from adsum_shared.connect import db_of
from adsum_shared.envelope import VERSION, decode_beat
from adsum_shared.tls import is_untrusted

log = logging.getLogger(__name__)

OVER = {**REFUSED, 410: "Used or expired", **OFTEN}
MACHINE = {**REFUSED, **OFTEN}
#: Many of these answers hold a secret.
served = partial(endpoint, headers={"cache-control": "no-store"})
MAKE = "Make a token: `adsum hub tokens create --join` on the hub's machine."
JOINING = "This machine is leaving or joining just now."
JOINING_STEP = "Try again in ten seconds."
NO_USER_STEP = (
    "Give the hub a Redis 7.0 or Valkey, or newer, where its user has +acl; or, to let machines share "
    "one login that can read and write everything, set ADSUM_MACHINE_SHARED_URL at the hub; or have "
    "them go through the hub: adsum join --via ingest."
)
MOST_TOKENS = 500
LEAST_S, MOST_S = 60, streams.JOIN_TOKEN_MOST_MS // 1000
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


def worthless() -> BadRequestError:
    cause = "This machine's credential is not valid, or not any more."
    return BadRequestError(401, cause, f"Join again. {MAKE}")


def label_of(given: str) -> str:
    """Raises BadRequestError."""
    label = given.strip()
    if len(label) > MOST_LABEL or not label.isprintable():
        step = f"Give one of at most {MOST_LABEL} signs without line breaks: it is shown in lists."
        raise BadRequestError(400, "This is no name for a machine.", step)
    return label


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
    addresses: Addresses
    clock: Clock
    command_keys: CommandKeys

    @served("GET /join-tokens", "The join tokens that are good, without their secrets", REFUSED)
    async def join_tokens(self) -> JoinTokens:
        now = self.clock()
        found = await self.tokens.all(now)
        return JoinTokens(
            SCHEMA, now, msgspec.convert(found, list[JoinToken], from_attributes=True)
        )

    @served(
        "POST /join-tokens",
        "A token that lets a machine join; its secret is answered this once",
        REFUSED,
    )
    async def make_join_token(self, request: Request, asked: JoinTokenAsked) -> JoinTokenMade:
        label, now = label_of(asked.label), self.clock()
        if not LEAST_S <= asked.expires_s <= MOST_S:
            raise BadRequestError(400, "expires_s is out of range.", "Give 60 seconds to 31 days.")
        if len(await self.tokens.all(now)) >= MOST_TOKENS:
            step = "Revoke those that nobody uses: adsum hub tokens list --join"
            raise BadRequestError(409, f"There are {MOST_TOKENS} join tokens already.", step)
        secret = TOKEN_PREFIX + secrets.token_urlsafe(32)
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

    @served("DELETE /join-tokens/{named}", "A join token is good no more", {**REFUSED, **UNKNOWN})
    async def revoke_join_token(self, named: str) -> Revoked:
        if not await self.tokens.revoke(named):
            step = "List them: adsum hub tokens list --join"
            raise BadRequestError(404, f"There is no join token {named[:40]!r}.", step)
        log.info("revoked join token %s", named)
        return Revoked(SCHEMA, named)

    @served(
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

    @served("POST /join", "A machine joins by a token", OVER, logged=True)
    async def join(self, request: Request, asked: JoinAsked) -> JoinAnswer:
        """If it is refused nothing has changed, and the token is as good as before."""
        address = address_of(request)
        async with self.access.joins.turn(origin_of(address)):
            digest = await self._look(asked.token, address)
            if not HOST_ID.fullmatch(asked.host_id):
                raise BadRequestError(
                    400,
                    "host_id is no identity of a machine.",
                    "Join with `adsum join`, which sees to it.",
                )
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
        told = way.way, way.url, secret, way.warning, way.why
        return JoinAnswer(SCHEMA, host_id, label, *told, await self.command_keys.known())

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
            return _Offer("ingest", why="It was asked for.")
        nowhere = self.addresses.nowhere_from(address)
        if via == "auto" and nowhere is not None:
            return _Offer(
                "ingest",
                why=f"The hub reaches Redis at {nowhere}, which leads nowhere from another machine.",
            )
        try:
            await self.strangers.rights.grant(host_id, digest_of(secret))
        except NoRightsError as error:
            shared = self.addresses.shared
            if shared is not None:
                return _Offer("shared", shared, f"{SHARED} The reason: {error}.")
            if via == "auto":
                return _Offer(
                    "ingest", why=f"The hub can give it no login of its own in Redis: {error}."
                )
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
    async def asking(self, request: Request) -> JoinedMachine:
        return await self.machine_of(bearer_of(request), address_of(request))

    @served("GET /machine", "What the hub has of the machine whose credential is shown", MACHINE)
    async def see(self, request: Request) -> MachineSeen:
        machine = await self.asking(request)
        host, keys = self.roster.hosts.get(machine.host_id), await self.command_keys.known()
        if host is None:
            return MachineSeen(SCHEMA, machine.host_id, machine.label, False, 0, "offline", keys)  # noqa: FBT003 - the fields in their order
        view = host.view(self.clock())
        return MachineSeen(SCHEMA, host.id, host.label, True, view.applied, view.reachability, keys)  # noqa: FBT003 - the fields in their order

    async def _look(self, token: str, address: str) -> str:
        """The digest of one that is good. Raises BadRequestError.

        Only bad ones are counted: behind one address a hundred machines may join at once.
        """
        token = token.strip()
        if not JOIN_TOKEN.fullmatch(token):
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


def open_joining(  # noqa: PLR0913, PLR0917 - what a hub gives to joining
    settings: HubSettings,
    redis_url: str,
    access: RedisAccess,
    roster: Roster,
    clock: Clock,
    broadcast: Broadcast,
    command_keys: CommandKeys,
    seal: RecordSeal,
) -> Joining:
    """Puts together what joining needs."""
    addresses = Addresses(
        settings.machine_redis_url or redis_url, settings.machine_shared_url, settings.public_url
    )
    db = db_of(addresses.redis_url)
    machines, rights = MachineStore(access.hub, seal), Rights(access.hub, db)
    watch = RollWatch(roster, machines, rights, clock, broadcast, RollFile(settings.state_dir))
    tokens = JoinTokenStore(access.hub, seal)
    strangers = access.strangers
    return Joining(
        roster,
        access,
        JoinAccess(
            JoinTokenStore(strangers, seal),
            MachineStore(strangers, seal),
            Rights(strangers, db),
            LoginRateLimit(strangers, "join:"),
            LoginRateLimit(strangers, "machine:"),
        ),
        tokens,
        MachineStore(access.known, seal),
        watch,
        addresses,
        clock,
        command_keys,
    )
