"""Signing in and out, login links, tokens: what happens, without the HTTP of it."""

from __future__ import annotations

import logging
from dataclasses import dataclass

import msgspec

from adsum_hub.auth.codes import Code, Codes, Worthless
from adsum_hub.auth.entry import SIGN_IN_IDLE_MS, SIGN_IN_MOST_MS, Kind, Pass
from adsum_hub.auth.gate import Reception
from adsum_hub.auth.keeper import Keeper
from adsum_hub.auth.passes import Passes
from adsum_hub.auth.secret import digest_of, id_of, is_code, make_code, make_cookie, make_token
from adsum_hub.auth.tries import Tries
from adsum_hub.clock import Clock
from adsum_hub.rest.answers import SCHEMA
from adsum_hub.rest.bodies import BadRequestError
from adsum_hub.rest.sign_in_answers import LoginLink, LoginLinkAsked, Token, TokenAsked, TokenMade
from adsum_shared import streams

log = logging.getLogger(__name__)

MOST_NAME = 64
MOST_WHERE = 160
MOST_TOKENS = 500
LEAST_TOKEN_S = 60
MOST_TOKEN_S = streams.ENTRY_PASS_MOST_MS // 1000
ANOTHER = "Ask for another: `adsum login` on the hub's machine prints one."
WHY: dict[Worthless, tuple[int, str]] = {
    "unknown": (401, "No login link has this code."),
    "used": (410, "This login link was used already: each lets one browser in, once."),
    "expired": (410, "This login link has expired: it is good for ten minutes."),
}


@dataclass(frozen=True, slots=True)
class Signing:
    """public_url: where people elsewhere reach the hub; None: nobody has said."""

    keeper: Keeper
    reception: Reception
    codes: Codes
    tries: Tries
    passes: dict[Kind, Passes]
    clock: Clock
    public_url: str | None

    async def link(self, asked: LoginLinkAsked) -> LoginLink:
        """Raises BadRequestError."""
        name = _name(asked.name or asked.role)
        secret, until = make_code(), self.clock() + streams.LOGIN_CODE_MS
        await self.codes.put(digest_of(secret), Code(name, asked.role, until))
        log.info("made a login link for %r as %s", name, asked.role)
        return LoginLink(SCHEMA, secret, self.public_url, name, asked.role, until)

    async def sign_in(self, code: str, address: str, where: str) -> tuple[str, Pass]:
        """The cookie's secret, and what it stands for. Raises BadRequestError."""
        if not is_code(code):
            raise BadRequestError(400, "This is no code of a login link.", ANOTHER)
        if wait := await self.tries.count(address):
            log.info("too many logins from %s", address)
            self.keeper.refused["login"] += 1
            raise BadRequestError(
                429,
                "Too many logins were tried.",
                f"Try again in {wait} s.",
                {"retry-after": str(wait)},
            )
        now = self.clock()
        taken = await self.codes.take(digest_of(code), now)
        if not isinstance(taken, Code):
            status, cause = WHY[taken]
            self.keeper.refused["login"] += 1
            log.info("a login from %s was refused: %s", address, cause)
            raise BadRequestError(status, cause, ANOTHER)
        secret = make_cookie()
        digest = digest_of(secret)
        held = Pass(
            id_of(digest),
            taken.name,
            taken.role,
            now,
            now + SIGN_IN_MOST_MS,
            now,
            SIGN_IN_IDLE_MS,
            "".join(each for each in where if each.isprintable())[:MOST_WHERE],
        )
        await self.passes["sign-in"].issue(digest, held, now)
        log.info("%r signed in as %s from %s (%s)", held.name, held.role, address, held.id)
        return secret, held

    async def sign_out(self, secret: str) -> None:
        digest = digest_of(secret)
        self.keeper.forget(digest)
        if await self.passes["sign-in"].remove(digest):
            log.info("signed out (%s)", id_of(digest))

    async def make_token(self, asked: TokenAsked) -> TokenMade:
        """Raises BadRequestError."""
        name, now = _name(asked.name), self.clock()
        if not LEAST_TOKEN_S <= asked.expires_s <= MOST_TOKEN_S:
            step = f"Give {LEAST_TOKEN_S} to {MOST_TOKEN_S} seconds: a minute to 366 days."
            raise BadRequestError(400, "expires_s is out of range.", step)
        tokens = self.passes["token"]
        if len(await tokens.all(now)) >= MOST_TOKENS:
            step = "Revoke those that nobody uses: `adsum hub tokens list` says when each was used."
            raise BadRequestError(409, f"There are {MOST_TOKENS} tokens already.", step)
        secret = make_token()
        digest = digest_of(secret)
        held = Pass(id_of(digest), name, asked.role, now, now + asked.expires_s * 1000, 0)
        await tokens.issue(digest, held, now)
        log.info("made token %s for %r as %s", held.id, name, held.role)
        return TokenMade(SCHEMA, secret, token_of(held))

    async def revoke(self, kind: Kind, named: str) -> None:
        """Raises BadRequestError: there is no such one."""
        digest = await self.passes[kind].revoke(named)
        if digest is None:
            cause = f"There is no {kind} {named[:40]!r}."
            raise BadRequestError(404, cause, f"List them: `adsum hub {kind}s list`.")
        self.keeper.forget(digest)
        log.info("revoked the %s %s", kind, named)


def token_of(held: Pass) -> Token:
    return msgspec.convert(held, Token, from_attributes=True)


def _name(name: str) -> str:
    """Raises BadRequestError."""
    name = name.strip()
    if not 0 < len(name) <= MOST_NAME or not name.isprintable():
        step = f"Give one of 1 to {MOST_NAME} signs without line breaks: it is shown in lists."
        raise BadRequestError(400, "This is no name.", step)
    return name
