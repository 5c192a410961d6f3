"""A user of its own in Redis for each machine: what it may, given, taken away, given anew."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any

from redis.exceptions import NoPermissionError, ResponseError

from adsum_shared import streams
from adsum_shared.connect import Redis, redis_version

#: Rights to a key for one command alone came with it. Below, whoever may write a heartbeat may write
#: over the list of hosts, and whoever may write its stream could forge its own orders.
OLDEST = (7, 0)
PREFIX = "adsum-"
_ALWAYS = ("+ping", "+hello", "+auth", "+select", "+client|setname")


class NoRightsError(Exception):
    """No user can be made for a machine. The text says why."""


def user_of(host_id: str) -> str:
    return PREFIX + host_id


def rules_of(host_id: str) -> list[str]:
    """Each command on the very keys it needs: SET on a heartbeat is no SET on the list of hosts."""
    inbox, commands = streams.inbox(host_id), streams.commands(host_id)
    beat, want, snap = streams.beat(host_id), streams.want(host_id), streams.snapshot(host_id)
    return [
        *_ALWAYS,
        f"(+xadd %W~{inbox})",
        f"(+xread +xrange +xinfo|stream %R~{inbox} %R~{commands})",
        f"(+set %W~{beat})",
        f"(+get %R~{beat} %R~{want})",
        f"(+hget +hmget %R~{snap})",
        f"(+sadd %W~{streams.HOSTS})",
    ]


class Rights:
    def __init__(self, redis: Redis) -> None:
        self._redis: Any = redis

    async def grant(self, host_id: str, digest: str) -> None:
        """digest: SHA-256 of the secret, which so never reaches Redis. Raises NoRightsError."""
        await self._require_recent()
        user, rules = user_of(host_id), ["on", f"#{digest}", "-@all", *rules_of(host_id)]
        with _refusals():
            async with self._redis.pipeline(transaction=True) as writes:
                # SETUSER alone, `reset` or not, leaves a connection of before logged in: a copy's,
                # or of one who was shut out, would be given these rights as well.
                writes.execute_command("ACL", "DELUSER", user)
                writes.execute_command("ACL", "SETUSER", user, *rules)
                await writes.execute()
        await self._keep()

    async def withdraw(self, host_id: str) -> None:
        """It gets in no more, and its connections end."""
        with _refusals():
            await self._redis.execute_command("ACL", "DELUSER", user_of(host_id))
        await self._keep()

    async def withdraw_if_any(self, host_id: str) -> None:
        """Where nobody may make users there is none."""
        with contextlib.suppress(NoRightsError):
            await self.withdraw(host_id)

    async def there(self) -> set[str]:
        """The hosts that have a user."""
        with _refusals():
            users: list[bytes] = await self._redis.execute_command("ACL", "USERS")
        names = (user.decode(errors="replace") for user in users)
        return {name.removeprefix(PREFIX) for name in names if name.startswith(PREFIX)}

    async def _granted(self, host_ids: list[str]) -> set[tuple[str, str]]:
        """(host id, digest) of those that get in, each by that alone."""
        with _refusals():
            async with self._redis.pipeline(transaction=False) as reads:
                for host_id in host_ids:
                    reads.execute_command("ACL", "GETUSER", user_of(host_id))
                replies = await reads.execute()
        found = set()
        for host_id, reply in zip(host_ids, replies, strict=True):
            told = dict(zip(reply[::2], reply[1::2], strict=False)) if reply else {}
            if b"on" in told.get(b"flags", ()) and len(told.get(b"passwords", ())) == 1:
                found.add((host_id, told[b"passwords"][0].decode()))
        return found

    async def _keep(self) -> None:
        """Over a restart of Redis, where it has a file for it. Else `mend` makes them anew."""
        with contextlib.suppress(ResponseError):
            await self._redis.execute_command("ACL", "SAVE")

    async def _require_recent(self) -> None:
        with contextlib.suppress(NoPermissionError):
            version = redis_version(await self._redis.info("server"))
            if version < OLDEST:
                raise NoRightsError(
                    f"Redis {version[0]}.{version[1]} cannot confine a machine to its own keys: "
                    "that takes Redis 7.0 or Valkey, or newer"
                )

    async def mend(
        self,
        members: Iterable[tuple[str, str]],
        barred: Iterable[str],
        entitled: Callable[[str], Awaitable[str | None]],
    ) -> None:
        """Users are not data: a Redis that was restarted, or took over, may have none, or old ones.

        members: (host id, digest) of all that may write. entitled: asked just before a host's user
        is changed, as members and barred may be over by then: the digest that lets it in; empty:
        none does; None: leave its user alone. Raises NoRightsError.
        """
        there = await self.there()
        wanted = dict(members)
        granted = await self._granted([each for each in wanted if each in there])
        for host_id in (each for each in wanted if (each, wanted[each]) not in granted):
            if digest := await entitled(host_id):
                await self.grant(host_id, digest)
        for host_id in there.intersection(barred):
            if await entitled(host_id) == "":
                await self.withdraw(host_id)


@contextlib.contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except NoPermissionError as error:
        raise NoRightsError(
            f"the hub's own user may make no users in Redis ({_bare(error)}): it takes +acl"
        ) from error
    except ResponseError as error:
        if not _bare(error).lower().startswith("unknown"):
            raise
        raise NoRightsError(f"this Redis lets nobody make users ({_bare(error)})") from error


def _bare(error: ResponseError) -> str:
    """What Redis said, without the command, which a pipeline puts before it."""
    return str(error).rpartition(" of pipeline caused error: ")[2]
