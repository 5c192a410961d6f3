"""How many logins are tried, from one address and from all together: counted in Redis."""

from __future__ import annotations

import ipaddress

from adsum_shared import streams
from adsum_shared.connect import Redis

#: In LOGIN_TRIES_MS. Far more than people need; guessing a code would take 2^192.
MOST_OF_ONE = 20
MOST_OF_ALL = 300
ALL = "all"


class Tries:
    """of: what is tried, where it is no login; each is counted for itself, and locks out no other."""

    def __init__(self, redis: Redis, of: str = "") -> None:
        self._redis = redis
        self._of = of

    async def count(self, address: str) -> int:
        """0: go on. Else seconds to wait. Counted before the code is looked at, or a burst passes."""
        asked = (
            (streams.login_tries(self._of + origin_of(address)), MOST_OF_ONE),
            (streams.login_tries(self._of + ALL), MOST_OF_ALL),
        )
        async with self._redis.pipeline(transaction=True) as counting:
            for key, _ in asked:
                # The time runs from the first try on. (PEXPIRE NX would say it, from Redis 7 on.)
                counting.set(key, 0, px=streams.LOGIN_TRIES_MS, nx=True)
                counting.incr(key)
                counting.pttl(key)
            replies = await counting.execute()
        waits = [
            left_ms
            for (_, most), number, left_ms in zip(asked, replies[1::3], replies[2::3], strict=True)
            if number > most
        ]
        return max(1, -(-max(waits) // 1000)) if waits else 0


def origin_of(address: str) -> str:
    """An address, or the network of an IPv6 one: whoever has one has 2^64 of them."""
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return "unknown"
    if isinstance(ip, ipaddress.IPv4Address):
        return str(ip)
    if ip.ipv4_mapped is not None:
        return str(ip.ipv4_mapped)
    return str(ipaddress.ip_network((ip, 64), strict=False).network_address)
