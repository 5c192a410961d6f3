"""How the signals of a machine that joins are to go: to Redis, if it can be used from here, or through the hub."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

from adsum.join_hub import Hub, RefusedError
from adsum.outcome import CommandError, Exit
from adsum_shared import streams
from adsum_shared.connect import UNAVAILABLE, address_of, open_redis
from adsum_shared.redis_errors import is_certificates, is_untrusted, told_of
from adsum_shared.redis_url import with_ca

#: auto: what the hub offers, and through the hub where Redis cannot be used from here.
Way = Literal["auto", "redis", "ingest"]
REACHED_WITHIN_S = 4.0
UNTRUSTED = (
    "is refused for its certificate: neither the system nor a file given by --ca knows the authority "
    "that signed it. To go straight there, give --ca a file that holds that authority's certificate, "
    "beside the hub's if that has one of your own as well"
)


def choose_way(
    hub: Hub, answer: dict[str, Any], via: Way, ca: str | None = None
) -> tuple[str | None, str]:
    """Redis's URL, None: its signals go through the hub; and what to say of that.

    ca: see `reach_redis`. Raises CommandError.
    """
    if answer["way"] == "ingest":
        return None, f"through the hub. {answer['why']}"
    if via == "ingest":
        older = "The hub is older than this, and takes no signals itself. Upgrade it"
        raise CommandError(f"{older}, or join without --via ingest.")
    address = address_of(answer["redis_url"])
    try:
        url = reach_redis(answer["redis_url"], answer["host_id"], ca)
    except UNAVAILABLE as error:
        why = f"Redis at {address} {_why(error)}"
        refused = CommandError(
            f"The hub names a Redis that cannot be used from here. {why}. If machines reach it "
            "elsewhere, set ADSUM_MACHINE_REDIS_URL at the hub; or go through the hub: --via ingest.",
            Exit.UNREACHABLE,
        )
        if via == "redis":
            raise refused from error
        try:
            hub.ask("/api/v1/machine/ingest", {})
        except RefusedError as older_hub:
            raise refused from older_hub
        return None, f"through the hub. {why}."
    return url, f"to Redis at {address}, which is reached from here"


def reach_redis(url: str, host_id: str, ca: str | None) -> str:
    """The URL to use from now on, with the machine's own login. Raises what is in UNAVAILABLE.

    ca: a file with who signed for the hub. Who signed for Redis may be the same one, which then
    counts alone, or one that the system trusts.
    """
    pinned = url if ca is None else with_ca(url, ca)
    try:
        _look(pinned, host_id)
    except UNAVAILABLE as error:
        if pinned == url or not is_untrusted(error):
            raise
        _look(url, host_id)
        return url
    return pinned


def _look(url: str, host_id: str) -> None:
    async def look() -> None:
        client = open_redis(url)
        try:
            await client.get(streams.want(host_id))
        finally:
            await client.aclose()

    asyncio.run(asyncio.wait_for(look(), REACHED_WITHIN_S))


def _why(error: BaseException) -> str:
    """What follows `Redis at …`."""
    if is_untrusted(error):
        return UNTRUSTED
    if is_certificates(error):
        return f"is refused for its certificate: it {told_of(error)}".rstrip(".")
    return f"cannot be used from here ({str(error) or type(error).__name__})"
