"""Who is asking: a cookie or a token becomes a grant, by Redis or by what was known of it lately."""

from __future__ import annotations

import asyncio
import hmac
import logging
from collections import Counter
from collections.abc import Mapping

import msgspec

from adsum_hub.auth.credentials import Shown
from adsum_hub.auth.entry import Kind, Pass
from adsum_hub.auth.held import AWAY_MS, FRESH_MS, Held
from adsum_hub.auth.passes import Passes
from adsum_hub.auth.roles import Role
from adsum_hub.auth.secret import csrf_of, digest_of
from adsum_hub.clock import Clock
from adsum_shared.connect import UNAVAILABLE, wanted

log = logging.getLogger(__name__)

#: A page waits for nobody longer; the hub's own connection may take several seconds to give up.
ANSWER_S = 1.0
#: After a failure Redis is left alone for so long.
RETRY_MS = 1_000
#: Asked at once. Beyond it the client's pool would refuse.
AT_ONCE = 6
#: How often an open WebSocket is asked for its pass again.
LOOK_S = 2.0

NOT_IN = 4401
LATER = 1013

SIGN_IN_STEP = (
    "Open a login link: `adsum login` on the hub's machine prints one. A command line elsewhere "
    "needs ADSUM_TOKEN: `adsum hub tokens create` makes one."
)
TOKEN_STEP = "Set ADSUM_TOKEN to another: `adsum hub tokens create` on the hub's machine makes one."  # noqa: S105 - a sentence
AWAY = "Redis does not answer, so only those who were here lately can be let in."
AWAY_STEP = "Try again in a moment; `adsum doctor` on the hub's machine says what is wrong."
MACHINE = "this machine"


class RefusedError(Exception):
    """status: of the answer. close: of a WebSocket. noteworthy: something was shown that is wrong."""

    def __init__(self, status: int, cause: str, step: str, *, noteworthy: bool = False) -> None:
        super().__init__(cause)
        self.status, self.step, self.noteworthy = status, step, noteworthy

    @property
    def close(self) -> int:
        return LATER if self.status == 503 else NOT_IN


class Grant(msgspec.Struct, frozen=True):
    """by: None is this machine's own command line. csrf: empty where none is needed."""

    name: str
    role: Role
    by: Kind | None
    csrf: str = ""


class Keeper:
    """machine: digest of the token that this machine's own command line shows."""

    def __init__(self, passes: Mapping[Kind, Passes], machine: str, clock: Clock) -> None:
        self._passes = passes
        self._machine = machine
        self._clock = clock
        self._held = Held()
        self._turn = asyncio.Semaphore(AT_ONCE)
        self._away_until = 0
        #: what -> times that it was refused since this hub started: see Gate and Signing
        self.refused: Counter[str] = Counter()

    async def let_in(self, shown: Shown | None) -> Grant:
        """Raises RefusedError."""
        if shown is None:
            raise RefusedError(401, "You are not signed in.", SIGN_IN_STEP)
        digest = digest_of(shown.secret)
        if shown.kind == "token" and hmac.compare_digest(digest, self._machine):
            return Grant(MACHINE, "admin", None)
        held = await self._find(shown.kind, digest)
        if held is None:
            raise _over(shown.kind)
        csrf = csrf_of(shown.secret) if shown.kind == "sign-in" else ""
        return Grant(held.name, held.role, shown.kind, csrf)

    async def lapse(self, shown: Shown) -> tuple[int, str]:
        """Returns when `shown` is good no more: the code to close a WebSocket with, and why."""
        while wanted():
            await asyncio.sleep(LOOK_S)
            try:
                await self.let_in(shown)
            except RefusedError as refused:
                return refused.close, f"{refused} Sign in again." if refused.status == 401 else str(
                    refused
                )
        raise asyncio.CancelledError

    def forget(self, digest: str) -> None:
        """It was revoked here: at once, not when it is looked up again."""
        self._held.drop(digest)

    async def _find(self, kind: Kind, digest: str) -> Pass | None:
        now = self._clock()
        held = self._held.within(digest, FRESH_MS, now)
        if held is None and now >= self._away_until:
            try:
                async with asyncio.timeout(ANSWER_S), self._turn:
                    held = await self._look_up(kind, digest, now)
            except (*UNAVAILABLE, TimeoutError) as error:
                log.debug("a pass could not be looked up: %s", error)
                self._away_until = self._clock() + RETRY_MS
                held = self._known(digest)
        elif held is None:
            held = self._known(digest)
        return held if held is not None and now < held.ends else None

    async def _look_up(self, kind: Kind, digest: str, now: int) -> Pass | None:
        passes = self._passes[kind]
        held = await passes.find(digest)
        if held is None or now >= held.ends:
            self._held.drop(digest)
            return None
        self._held.keep(digest, held, now)
        used = await passes.use(digest, held, now)
        self._held.keep(digest, used, now)
        return used

    def _known(self, digest: str) -> Pass:
        """Raises RefusedError: Redis is away, and it was not here lately."""
        held = self._held.within(digest, AWAY_MS, self._clock())
        if held is None:
            raise RefusedError(503, AWAY, AWAY_STEP)
        return held


def _over(kind: Kind) -> RefusedError:
    if kind == "token":
        cause = "This token is not valid: it is wrong, has expired or was revoked."
        return RefusedError(401, cause, TOKEN_STEP, noteworthy=True)
    cause = "This sign-in is over: it has expired or was revoked."
    return RefusedError(401, cause, SIGN_IN_STEP, noteworthy=True)
