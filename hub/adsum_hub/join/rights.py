"""A user of its own in Redis for each machine: what it may, given, taken away, given anew."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
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
        await self._set(host_id, "reset", "on", f"#{digest}", "-@all", *rules_of(host_id))
        await self._keep()

    async def withdraw(self, host_id: str) -> None:
        """It may nothing more, whoever is connected included, and gets in no more."""
        await self._set(host_id, "reset")
        await self._keep()

    async def remove(self, host_id: str) -> None:
        """Its connections end too."""
        with _refusals():
            await self._redis.execute_command("ACL", "DELUSER", user_of(host_id))
        await self._keep()

    async def remove_if_any(self, host_id: str) -> None:
        """Where nobody may make users there is none."""
        with contextlib.suppress(NoRightsError):
            await self.remove(host_id)

    async def there(self) -> set[str]:
        """The hosts that have a user."""
        with _refusals():
            users: list[bytes] = await self._redis.execute_command("ACL", "USERS")
        names = (user.decode(errors="replace") for user in users)
        return {name.removeprefix(PREFIX) for name in names if name.startswith(PREFIX)}

    async def _set(self, host_id: str, *rules: str) -> None:
        with _refusals():
            await self._redis.execute_command("ACL", "SETUSER", user_of(host_id), *rules)

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

    async def mend(self, members: Iterable[tuple[str, str]], barred: Iterable[str]) -> None:
        """Users are not data: a Redis that was restarted, or took over, may have none of them.

        members: (host id, digest) of all that may write. Raises NoRightsError.
        """
        there = await self.there()
        for host_id, digest in members:
            if host_id not in there:
                await self.grant(host_id, digest)
        for host_id in there.intersection(barred):
            await self._set(host_id, "reset")


@contextlib.contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except NoPermissionError as error:
        raise NoRightsError(
            f"the hub's own user may make no users in Redis ({error}): it takes +acl"
        ) from error
    except ResponseError as error:
        if not str(error).lower().startswith("unknown"):
            raise
        raise NoRightsError(f"this Redis lets nobody make users ({error})") from error
