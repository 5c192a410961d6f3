"""Which node of a cluster serves which slot, as the cluster said last; and a client of each node."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import redis.asyncio
from redis.crc import key_slot
from redis.exceptions import AuthenticationError, NoPermissionError, RedisError, ResponseError

from adsum_shared.redis_errors import UnsettledError, WayError, told_of
from adsum_shared.redis_url import Address, RedisUrl, written

Open = Callable[[str], redis.asyncio.Redis]
#: By slot, who serves it; and the replicas.
_Layout = tuple[list[Address | None], list[Address]]

#: Of which the second word belongs to the name, or is no key.
_SPOKEN = frozenset({"XINFO", "OBJECT", "MEMORY", "XGROUP"})
#: Any node will do, so it is the same one each time: its clock, for one, is to go on.
_KEYLESS = frozenset(
    {"ACL", "CLIENT", "CLUSTER", "COMMAND", "CONFIG", "DBSIZE", "ECHO", "INFO", "LASTSAVE", "PING"}
    | {"ROLE", "SCAN", "SCRIPT", "TIME"}
)


def key_of(words: Sequence[Any]) -> bytes | None:
    """The first key of a command; all others are of the same slot, or Redis refuses it."""
    name, _, second = str(words[0]).upper().partition(" ")
    if name in _KEYLESS or name in ("FLUSHALL", "FLUSHDB"):
        return None
    if name in ("EVAL", "EVALSHA"):
        return encoded(words[3]) if int(words[2]) else None
    if name == "XREAD":
        return encoded(words[[encoded(word).upper() for word in words].index(b"STREAMS") + 1])
    return encoded(words[2 if name in _SPOKEN and not second else 1])


def encoded(word: Any) -> bytes:
    return word if isinstance(word, bytes) else str(word).encode()


class Slots:
    """open_one: makes a client of one node, by URL. single: each keeps to one connection."""

    def __init__(self, url: RedisUrl, open_one: Open, *, single: bool = False) -> None:
        self.url = url
        self.open_one = open_one
        self._single = single
        self._clients: dict[Address, tuple[redis.asyncio.Redis, redis.asyncio.Redis]] = {}
        self._of: list[Address | None] = []
        self._order = list(url.nodes)
        self._replicas: list[Address] = []
        self._learning = asyncio.Lock()
        self._stale = True

    @property
    def masters(self) -> list[Address]:
        """In the order of their slots."""
        return list(dict.fromkeys(each for each in self._of if each is not None))

    @property
    def replicas(self) -> list[Address]:
        return self._replicas

    def client(self, address: Address) -> Any:
        if address not in self._clients:
            pooled = self.open_one(self.url.of(address))
            self._clients[address] = pooled, pooled.client() if self._single else pooled
        return self._clients[address][1]

    async def serving(self, key: bytes | None) -> Address:
        """Raises WayError, and what the client raises."""
        await self.learn()
        slot = 0 if key is None else key_slot(key)
        found = self._of[slot] if key is not None else next(filter(None, self._of), None)
        if found is None:
            self._stale = True
            raise UnsettledError(
                f"nobody in the cluster serves slot {slot}. Start the missing nodes, or give out "
                f"their slots: redis-cli --cluster check {written(self._order[0])}."
            )
        return found

    def doubt(self, address: Address | None = None) -> None:
        """What is known may be over; address: of one that failed, and is asked last."""
        self._stale = True
        if address in self._order:
            self._order.remove(address)
            self._order.append(address)

    async def learn(self, first: Address | None = None) -> None:
        """Anew, if it is in doubt. first: whom to ask first."""
        if first is not None:
            self._stale = True
            self._order = [first, *(each for each in self._order if each != first)]
        async with self._learning:
            if self._stale:
                await self._learn()

    async def _learn(self) -> None:
        failures = []
        for address in list(self._order):
            try:
                reply = await self.client(address).execute_command("CLUSTER", "SLOTS")
            except AuthenticationError:
                raise
            except ResponseError as error:
                raise WayError(_no_node(address, error)) from error
            except (RedisError, OSError) as error:
                failures.append(f"{written(address)}: {told_of(error) or error}")
            else:
                await self._take(_laid_out(reply, address), address)
                return
        raise WayError(
            f"no node of the cluster answers ({'; '.join(failures)}). Start them, or correct "
            "ADSUM_REDIS_URL."
        )

    async def _take(self, found: _Layout, asked: Address) -> None:
        self._of, self._replicas = found
        self._stale = False
        known = [*self.masters, *self._replicas]
        self._order = list(dict.fromkeys((asked, *known, *self.url.nodes)))
        for address in set(self._clients) - set(self._order):
            await self._close(address)

    async def _close(self, address: Address) -> None:
        for client in self._clients.pop(address):
            with contextlib.suppress(RedisError, OSError):
                await client.aclose()

    async def close(self) -> None:
        """Every connection. What is asked next connects anew, and learns anew."""
        self._stale = True
        for address in list(self._clients):
            await self._close(address)

    async def hang_up(self) -> None:
        """Those that nobody uses just now: what others have on their way goes on."""
        self._stale = True
        for pooled, _ in list(self._clients.values()):
            with contextlib.suppress(RedisError, OSError):
                await pooled.connection_pool.disconnect(inuse_connections=False)

    def __iter__(self) -> Iterator[Any]:
        return iter([self.client(address) for address in self.masters])


def _laid_out(reply: Any, asked: Address) -> _Layout:
    """Raises WayError: what answers may be no Redis."""
    slots: list[Address | None] = [None] * 16_384
    replicas: dict[Address, None] = {}
    try:
        for first, last, master, *others in reply:
            slots[first : last + 1] = [_place(master, asked)] * (last + 1 - first)
            replicas |= dict.fromkeys(_place(each, asked) for each in others)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise WayError(_no_node(asked, error)) from error
    return slots, list(replicas)


def _place(told: Any, asked: Address) -> Address:
    """A node that does not know its own address is where we have asked."""
    host = told[0].decode() if told[0] else ""
    return (asked[0] if host in ("", "?") else host), int(told[1])


def _no_node(address: Address, error: Exception) -> str:
    at = written(address)
    if isinstance(error, NoPermissionError):
        return f"{at} forbids this user CLUSTER SLOTS. Give it +cluster|slots, on each node."
    if "cluster support disabled" in str(error):
        return (
            f"{at} is no node of a cluster. Take the cluster out of the URL's beginning: redis:// or "
            "rediss://."
        )
    return f"{at} does not tell its cluster's nodes ({error}). Look whether that is a Redis."
