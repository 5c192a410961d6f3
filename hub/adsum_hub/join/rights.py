"""Gives each machine a user of its own in Redis and the URL to use it by, and takes it away."""

import ast
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoPermissionError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from adsum_hub.auth.credentials import digest_of
from adsum_shared import streams
from adsum_shared.connect import Redis, every_server, redis_version
from adsum_shared.redis_url import address_of

#: Rights to a key for one command alone came with it. Below, whoever may write a heartbeat may write
#: over the list of hosts, and whoever may write its stream could forge its own orders.
OLDEST = (7, 0)
PREFIX = "adsum-"
#: Where in a cluster its keys are; and by which clock the age of a command is told.
_ALWAYS = ("+ping", "+hello", "+auth", "+client|setname", "+cluster|slots", "+time")
_AWAY = (RedisConnectionError, RedisTimeoutError, OSError)


class NoRightsError(Exception):
    """No user can be made for a machine. The text says why."""


def user_of(host_id: str) -> str:
    return PREFIX + host_id


def rules_of(host_id: str, db: int = 0) -> list[str]:
    """Each command on the very keys it needs: SET on a heartbeat is no SET on the list of hosts.

    None for the list of hosts: hubs enter machines there, and whoever may add names may add a
    thousand of 16 MB. db: the only one that it may go to, as clients do when they connect; none of
    them asks for number 0.
    """
    inbox, commands = streams.inbox(host_id), streams.commands(host_id)
    beat, want, snap = streams.beat(host_id), streams.want(host_id), streams.snapshot(host_id)
    return [
        *_ALWAYS,
        *([f"+select|{db}"] if db else []),
        f"(+xadd %W~{inbox})",
        f"(+xread +xrange +xinfo|stream %R~{inbox} %R~{commands})",
        f"(+set %W~{beat})",
        f"(+get %R~{beat} %R~{want})",
        f"(+hget +hmget %R~{snap})",
    ]


#: What machines get of the query. The rest may be a login, or a path that only the hub's machine has.
HARMLESS = frozenset({"db", "ssl_cert_reqs", "ssl_check_hostname"})
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


def is_loopback(address: str) -> bool:
    try:
        return ip_address(address.partition("%")[0]).is_loopback
    except ValueError:
        return True  # not by an address at all: a unix socket


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where machines reach the hub and its Redis.

    redis_url: of Redis. shared: a URL for those that get no user of their own.

    public_url: where the hub is reached from elsewhere; None: nobody has said so.
    """

    redis_url: str
    shared: str | None
    public_url: str | None

    def redis(self, host_id: str, secret: str) -> str:
        """With the machine's own login in it, and none of the hub's."""
        parts = urlsplit(self.redis_url)
        place = parts.netloc.rpartition("@")[2]
        login = f"{quote(user_of(host_id))}:{quote(secret)}"
        query = urlencode([(k, v) for k, v in parse_qsl(parts.query) if k in HARMLESS])
        # urlunsplit would leave out an empty netloc of unix:///path, and it is not empty any more
        return urlunsplit(parts._replace(netloc=f"{login}@{place}", query=query, fragment=""))

    def nowhere_from(self, address: str) -> str | None:
        """Redis's address as it may be shown, where a machine that asks from there has no use for it.

        One that asks from here may be behind a proxy or a tunnel: it has to try.
        """
        parts = urlsplit(self.redis_url)
        local = parts.scheme == "unix" or (parts.hostname or "localhost") in LOOPBACK
        return address_of(self.redis_url) if local and not is_loopback(address) else None


class Rights:
    """db: where machines' keys are."""

    def __init__(self, redis: Redis, db: int = 0) -> None:
        self._redis: Any = redis
        self._db = db
        # No command of theirs is for it, so it grants nothing: users whose rights bear another mark
        # were made by an earlier version, and are made anew.
        self._mark = f"&{streams.rules_channel(digest_of(' '.join(rules_of('', db)))[:16])}"

    async def grant(self, host_id: str, digest: str) -> None:
        """digest: SHA-256 of the secret, which so never reaches Redis. Raises NoRightsError."""
        await self._require_recent()
        user = user_of(host_id)
        rules = ["on", f"#{digest}", "resetchannels", self._mark, "-@all"]
        rules += rules_of(host_id, self._db)
        # SETUSER alone, `reset` or not, leaves a connection of before logged in: a copy's, or of
        # one who was shut out, would be given these rights as well.
        await self._everywhere(("DELUSER", user), ("SETUSER", user, *rules), save=True)

    async def withdraw(self, host_id: str) -> None:
        """It gets in no more, and its connections end."""
        await self._everywhere(("DELUSER", user_of(host_id)), save=True)

    async def withdraw_if_any(self, host_id: str) -> None:
        """Where nobody may make users there is none."""
        with contextlib.suppress(NoRightsError):
            await self.withdraw(host_id)

    async def there(self) -> set[str]:
        """The hosts that have a user, at any of the servers."""
        users = {user for (found,) in await self._everywhere(("USERS",)) for user in found}
        names = (user.decode(errors="replace") for user in users)
        return {name.removeprefix(PREFIX) for name in names if name.startswith(PREFIX)}

    async def _granted(self, host_ids: list[str]) -> set[tuple[str, str]]:
        """(host id, digest) of those that get in at every server, each by that alone.

        And by the rules of today.
        """
        found = await self._everywhere(*(("GETUSER", user_of(each)) for each in host_ids))
        granted = (_let_in(host_ids, replies, self._mark) for replies in found)
        return set.intersection(*granted)

    async def _everywhere(self, *commands: Sequence[str], save: bool = False) -> list[list[Any]]:
        """Each server's replies to these ACL commands. Raises NoRightsError.

        At each: users are no data, and a replica that takes over has those it has. One that does
        not answer is mended later; a master has to.

        save: over a restart of Redis, where it has a file for it. Else `mend` makes them anew.
        """
        replies: list[list[Any]] = []
        server: Any
        with _refusals():
            async with every_server(self._redis) as servers:
                for server, is_master in servers:
                    try:
                        async with server.pipeline(transaction=len(commands) > 1 and save) as asked:
                            for command in commands:
                                asked.execute_command("ACL", *command)
                            replies.append(await asked.execute())
                        if save:
                            with contextlib.suppress(ResponseError):
                                await server.execute_command("ACL", "SAVE")
                    except _AWAY:
                        if is_master:
                            raise
        return replies

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


def _let_in(host_ids: list[str], replies: list[Any], mark: str) -> set[tuple[str, str]]:
    found = set()
    for host_id, reply in zip(host_ids, replies, strict=True):
        told = dict(zip(reply[::2], reply[1::2], strict=False)) if reply else {}
        single = b"on" in told.get(b"flags", ()) and len(told.get(b"passwords", ())) == 1
        if single and told.get(b"channels") == mark.encode():
            found.add((host_id, told[b"passwords"][0].decode()))
    return found


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
    """What Redis said, without the command, which a pipeline puts before it, and the tuple around it."""
    said = str(error).rpartition(" of pipeline caused error: ")[2]
    try:
        return str(ast.literal_eval(said)[0]) if said.startswith("(") else said
    except (ValueError, SyntaxError, IndexError):
        return said
