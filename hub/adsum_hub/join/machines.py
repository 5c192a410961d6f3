"""Keeps the machines that have joined: in Redis, in a copy on disk, and for the roster."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import logging
import secrets
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Literal

import msgspec
from redis.exceptions import InvalidResponse, LockError, ResponseError

from adsum_hub import host_troubles
from adsum_hub.auth.seal import NEVER, RecordSeal
from adsum_hub.clock import Clock
from adsum_hub.host import Host
from adsum_hub.join.rights import NoRightsError, Rights
from adsum_hub.live.broadcast import Broadcast
from adsum_hub.roster import Roster
from adsum_hub.snapshots import Snapshot
from adsum_shared import streams
from adsum_shared.connect import UNAVAILABLE, Redis, wanted
from adsum_shared.host_keys import MOST_BEAT
from adsum_shared.private_files import write_private

log = logging.getLogger(__name__)

#: How a machine's signals get into Redis: as a user of its own, by a URL that several share, or
#: through a hub.
Way = Literal["acl", "shared", "ingest"]
#: revoked: shut out. reset: as that, and the identity may join anew.
State = Literal["in", "revoked", "reset"]

#: In one step, of what stands there still: written over, or taken out where nothing is given.
_CHANGE = """
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
if ARGV[3] then redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
else redis.call('HDEL', KEYS[1], ARGV[1]) end
return 1
"""


#: What there is of a host in keys of its own.
OWN = (
    streams.inbox,
    streams.last,
    streams.snapshot,
    streams.stored,
    streams.beat,
    streams.want,
    streams.commands,
    streams.paused,
    streams.cleared,
)


class JoinedMachine(msgspec.Struct, frozen=True):
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
    before: JoinedMachine | None = None
    fresh: bool = False

    def has(self, digest: str) -> bool:
        return hmac.compare_digest(self.digest, digest)

    def is_let_in_by(self, digest: str) -> bool:
        return self.state == "in" and self.has(digest)


class Roll(msgspec.Struct, frozen=True):
    """mark: empty: nobody has joined, or Redis has lost who has."""

    machines: dict[str, JoinedMachine]
    labels: dict[str, str]
    forgotten: frozenset[str]
    mark: str = ""


class MachineStore:
    """The roll in Redis: which machines have joined, what hosts are called, which are forgotten."""

    def __init__(self, redis: Redis, seal: RecordSeal) -> None:
        self._redis: Any = redis
        self._seal = seal
        #: By host id, as last verified: all are read every two seconds, and few have changed.
        self._verified: dict[str, bytes] = {}

    async def hang_up(self) -> None:
        """One connection has broken, so those that lie idle may have as well."""
        await self._redis.connection_pool.disconnect(inuse_connections=False)

    async def find(self, host_id: str) -> JoinedMachine | None:
        return self._decoded(host_id, await self._redis.hget(streams.MACHINES, host_id))

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
            reads.exists(streams.paused(host_id))
            reads.sismember(streams.FORGOTTEN, host_id)
            reads.hget(streams.MACHINES, host_id)
            paused, forgotten, stored = await reads.execute()
        machine = self._decoded(host_id, stored)
        if busy:
            return None
        if forgotten or paused:
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
                writes.hsetnx(streams.MACHINES, machine.host_id, self._encoded(machine))
            for host_id, label in lost.labels.items():
                writes.hsetnx(streams.LABELS, host_id, label)
            if forgotten := lost.forgotten - joined:
                writes.sadd(streams.FORGOTTEN, *forgotten)
            # Last: without it this is done again.
            mark = lost.mark or secrets.token_hex(8)
            writes.hsetnx(streams.MACHINES, streams.MACHINES_MARK, mark)
            await writes.execute()

    async def enlist(self, host_ids: list[str]) -> None:
        """Into the list of hosts, where one may be missing: none of them may write there itself."""
        if not host_ids:
            return
        found = await self._redis.smismember(streams.HOSTS, host_ids)
        missing = [each for each, there in zip(host_ids, found, strict=True) if not there]
        if missing:
            await self._redis.sadd(streams.HOSTS, *missing)

    async def pause(self, host_id: str) -> None:
        """For a while nobody gives it a user in Redis."""
        await self._redis.set(streams.paused(host_id), b"", px=streams.PAUSED_MS)

    async def is_listed(self, host_id: str) -> bool:
        return bool(await self._redis.sismember(streams.HOSTS, host_id))

    async def put(self, machine: JoinedMachine) -> None:
        """Raises UNAVAILABLE."""
        if machine.state != "in":
            await self._seal.revoke(self._redis, machine.digest, NEVER)
        await self._redis.hset(streams.MACHINES, machine.host_id, self._encoded(machine))

    async def change(
        self, machine: JoinedMachine, to: Callable[[JoinedMachine], JoinedMachine | None]
    ) -> JoinedMachine | None:
        """By the machine itself: what it becomes; to None: it has not joined.

        The answer: what stood there. None: its credential is good no more, and all stays. Found and
        then put, whoever is shut out between the two would come back.
        """
        while wanted():
            raw = await self._redis.hget(streams.MACHINES, machine.host_id)
            found = self._decoded(machine.host_id, raw)
            if found is None or not _is_same(machine, found):
                break
            after = to(found)
            words = () if after is None else (self._encoded(after),)
            asked = (streams.MACHINES, machine.host_id, raw, *words)
            if await self._redis.eval(_CHANGE, 1, *asked):
                if after is None or not after.has(found.digest):
                    await self._seal.revoke(self._redis, found.digest, NEVER)
                return found
        return None

    async def is_in(self, machine: JoinedMachine) -> bool:
        """By the credential that it has shown."""
        return _is_same(machine, await self.find(machine.host_id))

    async def enter(self, machine: JoinedMachine, label: str) -> None:
        """On the roll from now on, even if it had been forgotten. label: empty: its own."""
        async with self._redis.pipeline(transaction=False) as writes:
            writes.hset(streams.MACHINES, machine.host_id, self._encoded(machine))
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
        if not left and (machine := await self.find(host_id)) is not None:
            await self._seal.revoke(self._redis, machine.digest, NEVER)
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
            # Not what was entered by a hub that did not know yet either.
            await self._redis.srem(streams.HOSTS, host_id)
            await self._redis.unlink(*(key(host_id) for key in OWN))

    async def clear(self, host_id: str) -> None:
        """Nothing that it wrote takes room any more; what hubs know of it stays."""
        await self._redis.unlink(*(key(host_id) for key in OWN if key is not streams.snapshot))

    async def name(self, host_id: str, label: str) -> None:
        if label:
            await self._redis.hset(streams.LABELS, host_id, label)
        else:
            await self._redis.hdel(streams.LABELS, host_id)

    async def beat(self, host_id: str) -> bytes | None:
        """Of an absurdly long one no more than shows that it is none."""
        found: bytes = await self._redis.getrange(streams.beat(host_id), 0, MOST_BEAT)
        return found or None

    async def roll(self) -> Roll:
        async with self._redis.pipeline(transaction=False) as reads:
            reads.hgetall(streams.MACHINES)
            reads.hgetall(streams.LABELS)
            reads.smembers(streams.FORGOTTEN)
            replies = await reads.execute()
        try:
            return self._roll(*replies)
        except (AttributeError, TypeError) as error:  # what answers may be no Redis
            raise InvalidResponse(f"who has joined makes no sense: {error}") from error

    def _roll(
        self, machines: dict[bytes, bytes], labels: dict[bytes, bytes], forgotten: set[bytes]
    ) -> Roll:
        mark = _text(machines.pop(streams.MACHINES_MARK.encode(), b""))
        known = {
            _text(name): machine
            for name, raw in machines.items()
            if (machine := self._decoded(_text(name), raw)) is not None
        }
        given = {_text(name): _text(label) for name, label in labels.items()}
        return Roll(known, given, frozenset(map(_text, forgotten)), mark)

    def _encoded(self, machine: JoinedMachine) -> bytes:
        return self._seal.sign(streams.MACHINES, msgspec.json.encode(machine), machine.host_id)

    def _decoded(self, host_id: str, raw: bytes | None) -> JoinedMachine | None:
        """None also for what this hub did not sign or cannot be read: nobody is let in by it."""
        if raw is None:
            return None
        if self._verified.get(host_id) != raw:
            if self._seal.verify(streams.MACHINES, raw, host_id) is None:
                return None
            self._verified[host_id] = raw
        try:
            machine = msgspec.json.decode(raw, type=JoinedMachine)  # the MAC is a field it ignores
        except msgspec.DecodeError:
            return None
        if machine.state != "in" or machine.digest not in self._seal.revoked:
            return machine
        self._seal.report_revoked(streams.MACHINES, host_id, machine.digest)
        return msgspec.structs.replace(machine, state="revoked")


def _is_same(machine: JoinedMachine, found: JoinedMachine | None) -> bool:
    return found is not None and (found.digest, found.state) == (machine.digest, "in")


def _text(raw: bytes) -> str:
    return raw.decode(errors="replace")


ROLL_FILE = "roll.json"
#: Since the hub that wrote it ran last.
OLDEST_S = 3600.0
#: Between two signs of life on the file.
TOUCH_S = 60.0


class RollFile:
    """The roll as a hub saw it last: for a Redis that has lost it, or every machine would be shut out.

    A hub that runs has it in memory, and one that is started anew on its disk. Not from long ago: who
    was shut out meanwhile would be let in again. It holds digests of credentials, and no credential.
    Nothing raises: it is a second copy.
    """

    def __init__(self, state_dir: Path) -> None:
        self._file = state_dir / ROLL_FILE
        self._touch_due = 0.0
        self.roll = self._read()

    def keep(self, roll: Roll, now: float) -> None:
        """now: seconds that never step."""
        if roll == self.roll and now < self._touch_due:
            return
        self._touch_due = now + TOUCH_S
        self.roll = roll
        try:
            write_private(self._file, msgspec.json.encode(roll), durable=False)
        except OSError as error:
            log.warning("the roll of machines cannot be kept in %s: %s", self._file, error)

    def _read(self) -> Roll | None:
        try:
            age_s = time.time() - self._file.stat().st_mtime
            if 0 <= age_s < OLDEST_S:
                return msgspec.json.decode(self._file.read_bytes(), type=Roll)
        except (OSError, msgspec.DecodeError):
            pass
        return None


INTERVAL_S = 2.0
#: Between two looks at users: what Redis has lost of them after a restart is back after this.
MEND_S = 5.0
SWEEP_S = 60.0
_SHUT_OUT = {"revoked": host_troubles.REVOKED, "reset": host_troubles.RESET}


class RollWatch:
    """Keeps the roster as the roll says: names, and who is forgotten or shut out.

    broadcast: is told when something that is shown has changed. kept: what Redis may lose.
    """

    def __init__(
        self,
        roster: Roster,
        machines: MachineStore,
        rights: Rights,
        clock: Clock,
        broadcast: Broadcast,
        kept: RollFile,
    ) -> None:
        self._roster, self._kept, self.machines, self.rights = roster, kept, machines, rights
        self._clock, self._broadcast = clock, broadcast
        self._swept: frozenset[str] = frozenset()
        self._mend_due = self._sweep_due = self._find_due = 0.0
        self._refusal = ""
        self._latest = kept.roll

    async def run(self) -> None:
        while wanted():
            try:
                roll = await self.look()
                await self._tend(roll)
            except UNAVAILABLE as error:
                log.debug("the roll could not be read: %s", error)
            await asyncio.sleep(INTERVAL_S)

    def knows(self, host_id: str, digest: str) -> bool:
        """Whether this credential was a machine's when the roll was read last, a moment ago."""
        machine = self._latest.machines.get(host_id) if self._latest is not None else None
        return machine is not None and machine.has(digest)

    async def find(self, host_id: str, machines: MachineStore) -> JoinedMachine | None:
        """As it stands in Redis; where that has lost everything, as it stood there.

        machines: asks by connections for whoever wants to know.
        """
        machine = await machines.find(host_id)
        now = asyncio.get_running_loop().time()
        # Rarely: to ask for a machine that there is not costs whoever asks nothing.
        if machine is None and now >= self._find_due and await self.machines.is_lost():
            self._find_due = now + INTERVAL_S
            await self.look()
            machine = await machines.find(host_id)
        return machine

    async def look(self) -> Roll:
        """What is stored is shown from now on."""
        roll = self._latest = await self._roll()
        hosts = self._roster.hosts
        hosts.barred = roll.forgotten
        changed = [expel(self._roster, each, self._clock()) for each in roll.forgotten & set(hosts)]
        for host in hosts.values():
            changed.append(self._name(host, roll.labels.get(host.id)))
            changed.append(_mark(host, roll.machines.get(host.id)))
        if any(changed):
            self._broadcast.notify()
        return roll

    async def _roll(self) -> Roll:
        roll, lost = await self.machines.roll(), self._kept.roll
        if not roll.mark and (roll.machines or (lost is not None and lost.machines)):
            # Without it nobody can tell those that a Redis has lost from those that have left.
            await self.machines.restore(lost or roll)
            if lost is not None:
                log.warning("Redis had lost who has joined: %d machines", len(lost.machines))
            roll = await self.machines.roll()
        if roll.mark:
            self._kept.keep(roll, asyncio.get_running_loop().time())
        return roll

    def _name(self, host: Host, label: str | None) -> bool:
        if host.given == label:
            return False
        host.given = label
        self._roster.name(host)
        self._roster.revive(host)
        return True

    async def _tend(self, roll: Roll) -> None:
        now = asyncio.get_running_loop().time()
        if now >= self._sweep_due:
            self._sweep_due, self._swept = now + SWEEP_S, frozenset()
        await self.machines.sweep(sorted(roll.forgotten - self._swept))
        self._swept = roll.forgotten
        await self._enlist(sorted(roll.machines.keys() - roll.forgotten))
        if now < self._mend_due or not (roll.machines or roll.forgotten):
            return
        self._mend_due = now + MEND_S
        members = {
            each.host_id: each.digest
            for each in roll.machines.values()
            if each.way == "acl" and each.state == "in"
        }
        # Those that go another way too: what there is of a user of theirs is of an earlier one.
        barred = roll.forgotten | (roll.machines.keys() - members.keys())
        try:
            await self.rights.mend(members.items(), barred, self.machines.entitled)
            self._refusal = ""
        except NoRightsError as error:
            if not members:  # nobody waits for it, and Redis notes each refusal
                self._mend_due = now + SWEEP_S
            if members and self._refusal != str(error):
                log.warning("machines that joined may be shut out: %s", error)
                self._refusal = str(error)

    async def _enlist(self, host_ids: list[str]) -> None:
        """Whoever has joined: a Redis that was emptied does not have the list either."""
        try:
            await self.machines.enlist(host_ids)
        except ResponseError as error:  # it is full, which `trouble.Writes` tells
            log.debug("machines could not be entered into the list of hosts: %s", error)


def _mark(host: Host, machine: JoinedMachine | None) -> bool:
    """Whether it is shut out, for people. Whether that is news."""
    text = _SHUT_OUT.get(machine.state) if machine is not None else None
    if host.troubles.get("access") == text:
        return False
    if text is None:
        del host.troubles["access"]
    else:
        host.troubles["access"] = text
    return True


def expel(roster: Roster, host_id: str, now: int) -> bool:
    """Removes a host as if it had never been: its sessions go from every list and sum."""
    host = roster.hosts[host_id]
    had = list(host.facts)
    roster.reload(host_id, Snapshot(), now)
    for key in had:
        roster.accounts.spending.update((host_id, key), None)
    roster.hosts.let_go(host_id)
    log.info("host %s is forgotten, with %d sessions", host_id, len(had))
    return True
