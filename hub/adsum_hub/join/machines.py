"""The machines that have joined, and the names of hosts, as they lie in Redis."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import AsyncIterator, Callable
from typing import Any, Literal

import msgspec
from redis.exceptions import InvalidResponse, LockError

from adsum_hub.rest.join_answers import Way
from adsum_shared import streams
from adsum_shared.connect import Redis, wanted

#: revoked: shut out. reset: as that, and the identity may join anew.
State = Literal["in", "revoked", "reset"]

#: In one step, of what stands there still: written over, or taken out where nothing is given.
_CHANGE = """
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
if ARGV[3] then redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
else redis.call('HDEL', KEYS[1], ARGV[1]) end
return 1
"""


class Machine(msgspec.Struct, frozen=True):
    """digest: SHA-256 of its secret. since: ms. token: id of what it joined by.

    before: what stood here before the last joining, should that come to nothing. fresh: nothing of
    the host was there at all.
    """

    host_id: str
    label: str
    digest: str
    since: int
    way: Way
    token: str
    state: State = "in"
    before: Machine | None = None
    fresh: bool = False


class Roll(msgspec.Struct, frozen=True):
    """mark: empty: nobody has joined, or Redis has lost who has."""

    machines: dict[str, Machine]
    labels: dict[str, str]
    forgotten: frozenset[str]
    mark: str = ""


class Machines:
    def __init__(self, redis: Redis) -> None:
        self._redis: Any = redis

    async def hang_up(self) -> None:
        """One connection has broken, so those that lie idle may have as well."""
        await self._redis.connection_pool.disconnect(inuse_connections=False)

    async def find(self, host_id: str) -> Machine | None:
        return _decoded(await self._redis.hget(streams.MACHINES, host_id))

    @contextlib.asynccontextmanager
    async def alone(self, host_id: str) -> AsyncIterator[bool]:
        """Whether nobody else is letting this host in, at any hub; nobody will meanwhile."""
        seconds = streams.JOINING_MS / 1000
        lock = self._redis.lock(streams.joining(host_id), timeout=seconds, blocking=False)
        mine: bool = await lock.acquire()
        try:
            yield mine
        finally:
            if mine:
                with contextlib.suppress(LockError):  # it took too long, and has expired
                    await lock.release()

    async def entitled(self, host_id: str) -> str | None:
        """The digest its user is to have; empty: it is to have no user; None: nobody can say now.

        While it is let in, its user is newer than what stands here.
        """
        # First: in a cluster, what one pipeline asks of several nodes is answered in any order.
        busy = await self._redis.exists(streams.joining(host_id))
        async with self._redis.pipeline(transaction=False) as reads:
            reads.sismember(streams.FORGOTTEN, host_id)
            reads.hget(streams.MACHINES, host_id)
            forgotten, stored = await reads.execute()
        machine = _decoded(stored)
        if busy:
            return None
        if forgotten:
            return ""
        if machine is None:
            return None
        # Of one that goes another way now, its user may have stayed where Redis did not answer.
        return machine.digest if machine.way == "acl" and machine.state == "in" else ""

    async def is_lost(self) -> bool:
        return not await self._redis.hexists(streams.MACHINES, streams.MACHINES_MARK)

    async def restore(self, lost: Roll) -> None:
        """Into a Redis that has lost it; whoever has joined since stays as it is."""
        joined = {each.decode() for each in await self._redis.hkeys(streams.MACHINES)}
        async with self._redis.pipeline(transaction=False) as writes:
            for machine in lost.machines.values():
                encoded = msgspec.json.encode(machine)
                writes.hsetnx(streams.MACHINES, machine.host_id, encoded)
            for host_id, label in lost.labels.items():
                writes.hsetnx(streams.LABELS, host_id, label)
            if forgotten := lost.forgotten - joined:
                writes.sadd(streams.FORGOTTEN, *forgotten)
            # Last: without it this is done again.
            mark = lost.mark or secrets.token_hex(8)
            writes.hsetnx(streams.MACHINES, streams.MACHINES_MARK, mark)
            await writes.execute()

    async def is_listed(self, host_id: str) -> bool:
        return bool(await self._redis.sismember(streams.HOSTS, host_id))

    async def put(self, machine: Machine) -> None:
        await self._redis.hset(streams.MACHINES, machine.host_id, msgspec.json.encode(machine))

    async def change(
        self, machine: Machine, to: Callable[[Machine], Machine | None]
    ) -> Machine | None:
        """By the machine itself: what it becomes; to None: it has not joined.

        The answer: what stood there. None: its credential is good no more, and all stays. Found and
        then put, whoever is shut out between the two would come back.
        """
        while wanted():
            raw = await self._redis.hget(streams.MACHINES, machine.host_id)
            found = _decoded(raw)
            if found is None or not _is_same(machine, found):
                break
            after = to(found)
            words = () if after is None else (msgspec.json.encode(after),)
            asked = (streams.MACHINES, machine.host_id, raw, *words)
            if await self._redis.eval(_CHANGE, 1, *asked):
                return found
        return None

    async def is_in(self, machine: Machine) -> bool:
        """By the credential that it has shown."""
        return _is_same(machine, await self.find(machine.host_id))

    async def enter(self, machine: Machine, label: str) -> None:
        """On the roll from now on, even if it had been forgotten. label: empty: its own."""
        async with self._redis.pipeline(transaction=False) as writes:
            writes.hset(streams.MACHINES, machine.host_id, msgspec.json.encode(machine))
            writes.hsetnx(streams.MACHINES, streams.MACHINES_MARK, secrets.token_hex(8))
            writes.srem(streams.FORGOTTEN, machine.host_id)
            writes.sadd(streams.HOSTS, machine.host_id)
            if label:
                writes.hset(streams.LABELS, machine.host_id, label)
            await writes.execute()

    async def forget(self, host_id: str, *, left: bool = False) -> None:
        """And all there is of it. First that it is forgotten, so that no hub takes it up again.

        left: by its own wish. It stays on the roll until `change` takes it out, so that it can ask
        again; and if somebody shuts it out meanwhile, it stays so.
        """
        await self._redis.sadd(streams.FORGOTTEN, host_id)
        async with self._redis.pipeline(transaction=False) as writes:
            writes.srem(streams.HOSTS, host_id)
            writes.hdel(streams.LABELS, host_id)
            if not left:
                writes.hdel(streams.MACHINES, host_id)
            await writes.execute()
        await self.sweep([host_id])

    async def sweep(self, forgotten: list[str]) -> None:
        """What a hub that did not know yet, or the host itself by a shared URL, wrote since."""
        for host_id in forgotten:
            # The list may be over: what it has written since it joined anew is not to go.
            if not await self._redis.sismember(streams.FORGOTTEN, host_id):
                continue
            keys = (streams.inbox, streams.snapshot, streams.beat, streams.want, streams.commands)
            await self._redis.unlink(*(key(host_id) for key in keys))

    async def name(self, host_id: str, label: str) -> None:
        if label:
            await self._redis.hset(streams.LABELS, host_id, label)
        else:
            await self._redis.hdel(streams.LABELS, host_id)

    async def beat(self, host_id: str) -> bytes | None:
        found: bytes | None = await self._redis.get(streams.beat(host_id))
        return found

    async def roll(self) -> Roll:
        async with self._redis.pipeline(transaction=False) as reads:
            reads.hgetall(streams.MACHINES)
            reads.hgetall(streams.LABELS)
            reads.smembers(streams.FORGOTTEN)
            replies = await reads.execute()
        try:
            return _roll(*replies)
        except (AttributeError, TypeError) as error:  # what answers may be no Redis
            raise InvalidResponse(f"who has joined makes no sense: {error}") from error


def _roll(machines: dict[bytes, bytes], labels: dict[bytes, bytes], forgotten: set[bytes]) -> Roll:
    mark = _text(machines.pop(streams.MACHINES_MARK.encode(), b""))
    known = {
        _text(name): machine
        for name, raw in machines.items()
        if (machine := _decoded(raw)) is not None
    }
    given = {_text(name): _text(label) for name, label in labels.items()}
    return Roll(known, given, frozenset(map(_text, forgotten)), mark)


def _is_same(machine: Machine, found: Machine | None) -> bool:
    return found is not None and (found.digest, found.state) == (machine.digest, "in")


def _text(raw: bytes) -> str:
    return raw.decode(errors="replace")


def _decoded(stored: bytes | None) -> Machine | None:
    """None also for what cannot be read: nobody is let in by it."""
    try:
        return None if stored is None else msgspec.json.decode(stored, type=Machine)
    except msgspec.DecodeError:
        return None
