"""Joining: what happens, without the HTTP of it."""

from __future__ import annotations

import hmac
import logging
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from adsum_hub.auth.secret import digest_of, id_of
from adsum_hub.auth.tries import Tries
from adsum_hub.clock import Clock
from adsum_hub.join.asked import good, label_of, token_digest, token_of, too_many, worthless
from adsum_hub.join.hosts import JoinedHosts
from adsum_hub.join.leaving import Leaving
from adsum_hub.join.machines import Machine, Machines
from adsum_hub.join.places import Addresses
from adsum_hub.join.rights import NoRightsError, Rights
from adsum_hub.join.secret import (
    host_in,
    is_host_id,
    make_join_token,
    make_machine_secret,
)
from adsum_hub.join.tokens import Held, JoinTokenStore
from adsum_hub.join.vouching import Vouched
from adsum_hub.join.watch import Watch
from adsum_hub.join.words import (
    ANOTHER,
    CLONE,
    CLONE_STEP,
    JOINING,
    JOINING_STEP,
    NO_USER,
    NO_USER_STEP,
    NOWHERE,
    RANGE,
    REVOKED,
    REVOKED_STEP,
    SHARED,
    SHOWN,
    SHOWN_STEP,
    WISHED,
)
from adsum_hub.rest.answers import SCHEMA
from adsum_hub.rest.bodies import BadRequestError
from adsum_hub.rest.join_answers import (
    JoinAsked,
    JoinChecked,
    Joined,
    JoinTokenAsked,
    JoinTokenMade,
    MachineSeen,
    Via,
    Way,
)
from adsum_hub.roster import Roster
from adsum_shared import __version__, streams
from adsum_shared.beat import decode_beat
from adsum_shared.envelope import VERSION

log = logging.getLogger(__name__)

MOST_TOKENS = 500
LEAST_S, MOST_S = 60, streams.JOIN_TOKEN_MOST_MS // 1000


class _Offer(NamedTuple):
    way: Way
    url: str = ""
    warning: str | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Joining:
    """tries: of tokens. shown: of machines' credentials. vouched: see `vouching`."""

    roster: Roster
    tokens: JoinTokenStore
    machines: Machines
    rights: Rights
    tries: Tries
    shown: Tries
    watch: Watch
    hosts: JoinedHosts
    leaving: Leaving
    addresses: Addresses
    vouched: Vouched
    clock: Clock

    async def make_token(self, asked: JoinTokenAsked, reached: str) -> JoinTokenMade:
        """reached: the hub's URL as whoever asks sees it. Raises BadRequestError."""
        label, now = label_of(asked.label), self.clock()
        if not LEAST_S <= asked.expires_s <= MOST_S:
            raise BadRequestError(400, "expires_s is out of range.", RANGE)
        if len(await self.tokens.all(now)) >= MOST_TOKENS:
            step = "Revoke those that nobody uses: adsum hub tokens list --join"
            raise BadRequestError(409, f"There are {MOST_TOKENS} join tokens already.", step)
        secret = make_join_token()
        digest = digest_of(secret)
        url = self.addresses.hub(reached)
        # Before it is stored: one that could not be answered would be good, and known to nobody.
        note = self.addresses.note(url) or await self.vouched(url)
        until = now + asked.expires_s * 1000
        held = Held(id_of(digest), now, until, asked.reusable, label)
        await self.tokens.put(digest, held, now)
        log.info("made join token %s", held.id)
        command = f"adsum join {url} --token {secret}"
        return JoinTokenMade(SCHEMA, secret, command, token_of(held), note)

    async def revoke_token(self, named: str) -> None:
        """Raises BadRequestError."""
        if not await self.tokens.revoke(named):
            step = "List them: adsum hub tokens list --join"
            raise BadRequestError(404, f"There is no join token {named[:40]!r}.", step)
        log.info("revoked join token %s", named)

    async def check(self, token: str, address: str) -> JoinChecked:
        """Raises BadRequestError. Uses nothing up."""
        await self._look(token, address)
        return JoinChecked(SCHEMA, __version__, VERSION, self.clock())

    async def join(self, asked: JoinAsked, address: str) -> Joined:
        """Raises BadRequestError; then nothing has changed, and the token is as good as before."""
        digest = await self._look(asked.token, address)
        if not is_host_id(asked.host_id):
            raise BadRequestError(400, "host_id is no identity of a machine.", ANOTHER)
        label = label_of(asked.label)
        # Two at once would both be admissible, and the one entered last would shut the other out.
        async with self.machines.alone(asked.host_id) as alone:
            if not alone:
                raise BadRequestError(409, JOINING, JOINING_STEP)
            return await self._let_in(asked, digest, label, address)

    async def _let_in(self, asked: JoinAsked, digest: str, label: str, address: str) -> Joined:
        host_id, now = asked.host_id, self.clock()
        before = await self._admissible(host_id, asked.former)
        held = good(await self.tokens.take(digest, host_id, now))
        secret = make_machine_secret(host_id)
        try:
            way = await self._way(host_id, secret, asked.via, address)
        except BaseException:
            await self.tokens.free(held.id, host_id, now)
            await self.tokens.discount(held.id, now)
            raise
        machine = Machine(
            host_id,
            label,
            digest_of(secret),
            now,
            way.way,
            held.id,
            before=before and msgspec.structs.replace(before, before=None),
            fresh=not await self.machines.is_listed(host_id),
        )
        await self.machines.enter(machine, held.label)
        await self.watch.look()
        if way.way == "ingest":
            await self.rights.withdraw_if_any(host_id)
        log.info("%s (%s) joined by %s, %s", host_id, label, held.id, way.way)
        label = held.label or label
        return Joined(SCHEMA, host_id, label, way.way, way.url, secret, way.warning, way.why)

    async def _admissible(self, host_id: str, former: str) -> Machine | None:
        """What is known of it. Raises BadRequestError: the identity is, or may be, another's."""
        before = await self.machines.find(host_id)
        if before is not None and before.state == "revoked":
            raise BadRequestError(409, REVOKED, REVOKED_STEP)
        if before is not None and before.state == "in":
            if not hmac.compare_digest(before.digest, digest_of(former)):
                raise BadRequestError(409, CLONE, CLONE_STEP)
            return before
        raw = await self.machines.beat(host_id)
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
            await self.rights.grant(host_id, digest_of(secret))
        except NoRightsError as error:
            shared = self.addresses.shared
            if shared is not None:
                return _Offer("shared", shared, f"{SHARED} The reason: {error}.")
            if via == "auto":
                return _Offer("ingest", why=NO_USER.format(reason=error))
            cause = f"This machine cannot be given a login of its own: {error}."
            raise BadRequestError(409, cause, NO_USER_STEP) from error
        return _Offer("acl", self.addresses.redis(host_id, secret))

    async def machine_of(self, secret: str, address: str) -> Machine:
        """Who shows this. Raises BadRequestError. Counted as tokens are: the bad ones alone."""
        host_id = host_in(secret)
        machine = None if host_id is None else await self.watch.find(host_id)
        good = machine is not None and hmac.compare_digest(machine.digest, digest_of(secret))
        if machine is not None and good and machine.state == "in":
            return machine
        if wait := await self.shown.count(address):
            raise too_many(SHOWN, wait, SHOWN_STEP)
        if machine is not None and good and machine.state == "revoked":
            # To nobody else: by this credential it is told from a hub that was set up anew.
            raise BadRequestError(401, REVOKED, REVOKED_STEP)
        raise worthless()

    def seen(self, machine: Machine) -> MachineSeen:
        host = self.roster.hosts.get(machine.host_id)
        if host is None:
            return MachineSeen(SCHEMA, machine.host_id, machine.label, False, 0, "offline")  # noqa: FBT003 - the fields in their order
        view = host.view(self.clock())
        return MachineSeen(SCHEMA, host.id, host.label, True, view.applied, view.reachability)  # noqa: FBT003 - the fields in their order

    async def _look(self, token: str, address: str) -> str:
        """The digest of one that is good. Raises BadRequestError.

        Only bad ones are counted: behind one address a hundred machines may join at once.
        """
        digest = token_digest(token)
        found = await self.tokens.look(digest, self.clock())
        if not isinstance(found, Held) and (wait := await self.tries.count(address)):
            log.info("too many join tokens were tried from %s", address)
            raise too_many("Too many join tokens were tried.", wait, f"Try again in {wait} s.")
        good(found)
        return digest
