"""Opening what signing in needs: a connection to Redis of its own, and this machine's token."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

from adsum_hub.auth.codes import Codes
from adsum_hub.auth.entry import Kind
from adsum_hub.auth.gate import Reception
from adsum_hub.auth.keeper import Keeper
from adsum_hub.auth.machine import FILE, machine_token
from adsum_hub.auth.passes import Passes
from adsum_hub.auth.signing import Signing
from adsum_hub.auth.tries import Tries
from adsum_hub.clock import Clock
from adsum_hub.rest.sign_in_answers import LoginLinkAsked
from adsum_hub.settings import HubSettings
from adsum_shared.connect import UNAVAILABLE, Redis, backoff, open_redis, wanted


class MachineTokenError(RuntimeError):
    """The token of this machine cannot be written. The text names the file, the cause, the next step."""


@contextlib.asynccontextmanager
async def signing_in(
    settings: HubSettings, redis_url: str, clock: Clock
) -> AsyncIterator[Signing | None]:
    """None: nobody has to. Raises MachineTokenError."""
    if not settings.sign_in:
        yield None
        return
    with contextlib.ExitStack() as stack:
        try:
            machine = stack.enter_context(machine_token(settings.state_dir))
        except OSError as error:
            raise MachineTokenError(
                f"{settings.state_dir / FILE} cannot be written ({error.strerror}). Without it no "
                "command on this machine gets in: free space there, or set ADSUM_STATE_DIR."
            ) from error
        redis = open_redis(redis_url)  # what the list is kept by waits for no login
        try:
            yield signing_with(redis, machine, clock, settings.public_url)
        finally:
            await redis.aclose()


def signing_with(redis: Redis, machine: str, clock: Clock, public_url: str | None) -> Signing:
    """machine: digest of this machine's token."""
    kinds: tuple[Kind, ...] = ("sign-in", "token")
    passes = {kind: Passes(redis, kind) for kind in kinds}
    return Signing(
        Keeper(passes, machine, clock),
        Reception(public_url),
        Codes(redis),
        Tries(redis),
        passes,
        clock,
        public_url,
    )


async def greet(signing: Signing, url: str, say: Callable[[str], None]) -> None:
    """A first login link for whoever started the hub by hand, as soon as Redis takes one."""
    for pause in backoff():
        try:
            link = await signing.link(LoginLinkAsked())
        except UNAVAILABLE:
            if not wanted():
                return
            await asyncio.sleep(pause)
        else:
            say(f"{signing.public_url or url}/login#{link.code}")
            return
