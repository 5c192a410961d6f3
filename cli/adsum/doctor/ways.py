"""Checks the way signals take to hubs: by Redis, or through the hub that this machine joined."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from redis.exceptions import AuthenticationError, NoPermissionError, ResponseError

from adsum.broker import BrokerPlace
from adsum.doctor.checks import Finding, from_text
from adsum.machine import Membership, RefusedError, membership
from adsum.outcome import CommandError
from adsum_collector.delivery.transports import HubPlace, HubTransport
from adsum_collector.errors import HubError
from adsum_collector.spool.spool_file import shown_bytes
from adsum_hub.trouble import KEPT, Writes
from adsum_shared import streams
from adsum_shared.connect import UNAVAILABLE, check_url, every_server, open_redis, require_recent
from adsum_shared.host_keys import KeysRequest
from adsum_shared.redact import clean
from adsum_shared.redis_errors import BrokerTooOldError, describe
from adsum_shared.redis_url import RedisUrlError, address_of, kind_of

#: Of its memory; beyond it a busy hour may fill it.
FULL = 0.8
SAFE = "noeviction"
REDIS_WITHIN_S = 5.0
HUB_WITHIN_S = 12.0
#: Redis tells nobody which of them.
OUT = (
    "does not know this machine's login any more: the machine was revoked, reset or forgotten, or "
    "the hub was set up anew."
)
REVOKED = "lets this machine in no more: its access was revoked."
#: How a collector, its spool and the way there tell of the same, with remedies for other cases.
REFUSALS = (OUT, "refused the password", "lets this machine in no more")
SEE = "See hub."
TOKEN = "Its list takes ADSUM_TOKEN, which `adsum hub tokens create` on the hub's machine makes."  # noqa: S105 - a sentence


def check_way(redis_url: str | None, state_dir: Path) -> Finding:
    """Redis, or the hub that signals go through. redis_url: as set for this command."""
    machine = membership(state_dir)
    if redis_url is not None or machine is None:
        return check_redis(redis_url, state_dir)
    if machine.ingest is None:
        return check_login(machine)
    return check_ingest(machine, machine.ingest)


def check_ingest(machine: Membership, hub: HubPlace) -> Finding:
    async def ask() -> None:
        """Nothing is written."""
        async with HubTransport(hub).open() as line:
            await line.ask(machine.host_id, KeysRequest(want=True))

    began = time.perf_counter()
    try:
        asyncio.run(asyncio.wait_for(ask(), HUB_WITHIN_S))
    except HubError as error:
        return from_text("ingest", "fail", clean(str(error)))
    except TimeoutError:
        what = f"The hub at {hub.url} does not answer within {HUB_WITHIN_S:g} s."
        return Finding("ingest", "fail", what, "Look at its machine and at the way there.")
    took_ms = (time.perf_counter() - began) * 1000
    what = f"Signals go through the hub at {clean(hub.url)}, which takes them ({took_ms:.0f} ms)."
    return Finding("ingest", "ok", what)


@dataclass(frozen=True, slots=True)
class RedisLook:
    """info: what Redis says of itself; of several masters the fullest.

    save: when it saves, None if it does not tell. refusal: why it takes no writes, in sentences.
    masters, replicas: how many.
    """

    info: dict[str, Any] = field(default_factory=dict)
    save: str | None = None
    refusal: str | None = None
    masters: int = 1
    replicas: int = 0


def check_redis(redis_url: str | None, state_dir: Path) -> Finding:
    """redis_url: as set for this command; None: the embedded broker's, if one has ever run here."""
    place = BrokerPlace(state_dir)
    if redis_url is None and not place.folder.exists():
        what = "No Redis URL is set here, and no embedded broker is in the state directory."
        return Finding("redis", "skip", f"{what} To look at one, set ADSUM_REDIS_URL.")
    url = redis_url or place.url
    try:
        check_url(url)
        look = asyncio.run(asyncio.wait_for(look_at(url), REDIS_WITHIN_S))
    except (RedisUrlError, BrokerTooOldError) as error:
        return from_text("redis", "fail", str(error))
    except (*UNAVAILABLE, TimeoutError) as error:
        return from_text("redis", "fail", clean(describe(error, address_of(url), KEPT)))
    return judge_redis(look, address_of(url))


async def look_at(url: str) -> RedisLook:
    """Raises what is in UNAVAILABLE, and BrokerTooOldError."""
    async with open_redis(url) as redis:
        async with every_server(redis) as servers:
            masters = [server for server, is_master in servers if is_master]
            infos: list[dict[str, Any]] = [await server.info() for server in masters]
            replicas = len(servers) - len(masters)
        info = max(infos, key=_share)
        require_recent(info)
        await redis.exists(streams.HOSTS)  # a node that answers INFO may serve no key just now
        writes = Writes(redis, address_of(url), lambda: 0)
        await writes.try_once()
        try:
            save = (await redis.config_get("save")).get("save")
        except (NoPermissionError, ResponseError):
            save = None  # not a word that every provider lets one ask for
        return RedisLook(info, save, writes.problem, len(masters), replicas)


def judge_redis(look: RedisLook, address: str) -> Finding:
    """address: Redis's, as it may be shown."""
    info = look.info
    name = f"{_engine(info)} at {address}"
    if look.refusal:
        return from_text("redis", "fail", clean(look.refusal))
    details = tuple(_asides(look))
    policy, most = _policy(info), int(info.get("maxmemory", 0))
    if policy != SAFE and most:
        what = f"{name} throws away what is stored when it is full: its policy is {policy}."
        fix = f"{_cli(address)} CONFIG SET maxmemory-policy {SAFE}, and so in its configuration."
        return Finding("redis", "warn", what, fix, details)
    used, share = _used(info), _share(info)
    filled = f"{shown_bytes(used)}{f' of {shown_bytes(most)}' if most else ''} used"
    if share > FULL:
        what = f"{name} is nearly full: {filled}. Then it takes no writes, and machines wait."
        fix = "Start a hub if none runs, so that streams are trimmed; or raise its maxmemory."
        return Finding("redis", "warn", what, fix, details)
    if failed := _unsaved(info):
        fix = "Look at its log and its free space."
        return Finding("redis", "warn", f"{name} could not save: {failed}.", fix, details)
    return Finding("redis", "ok", f"{name} takes writes; {filled}.", None, details)


def _engine(info: dict[str, Any]) -> str:
    """Valkey gives the version of the Redis it descends from as well."""
    if info.get("valkey_version"):
        return f"Valkey {clean(str(info['valkey_version']))}"
    return f"Redis {clean(str(info.get('redis_version', '(unknown)')))}"


def _used(info: dict[str, Any]) -> int:
    return int(info.get("used_memory", 0)) - int(info.get("mem_not_counted_for_evict", 0))


def _share(info: dict[str, Any]) -> float:
    most = int(info.get("maxmemory", 0))
    return _used(info) / most if most else 0.0


def _policy(info: dict[str, Any]) -> str:
    return clean(str(info.get("maxmemory_policy", SAFE)))


def _asides(look: RedisLook) -> Iterator[str]:
    """Worth knowing, and no fault."""
    if look.masters > 1 or look.replicas:
        masters = "1 master" if look.masters == 1 else f"{look.masters} masters"
        yield f"{masters}, {look.replicas} replica{'' if look.replicas == 1 else 's'}."
    if not look.info.get("aof_enabled") and look.save is not None and not look.save.strip():
        yield "It keeps nothing on disk: after a restart the collectors send again what they hold."
    if _policy(look.info) != SAFE and not look.info.get("maxmemory"):
        yield f"With a maxmemory its policy, {_policy(look.info)}, would throw away what is stored."


def _unsaved(info: dict[str, Any]) -> str | None:
    if info.get("aof_enabled") and info.get("aof_last_write_status", "ok") != "ok":
        return "its last write to the append-only file failed"
    if info.get("rdb_last_bgsave_status", "ok") != "ok":
        return "its last snapshot failed"
    return None


def _cli(address: str) -> str:
    path = address.removeprefix("unix:")
    if kind_of(address) != "one":
        return "redis-cli on each of its servers:"
    return f"redis-cli -s {path}" if path != address else f"redis-cli -u {address}"


def rejoin(machine: Membership) -> str:
    return (
        f"`adsum leave` here, then `adsum join {machine.hub} --token …`, by a new token: "
        "`adsum hub tokens create --join` on the hub's machine makes one. If the machine was revoked, "
        f"let it in first, there: `adsum hosts reset {machine.label}`"
    )


def one_remedy(findings: list[Finding], machine: Membership) -> list[Finding]:
    """Where the hub does not know this machine any more, whatever fails by that has one cure."""
    if not any(each.id == "hub" and each.fix == rejoin(machine) for each in findings):
        return findings
    return [
        replace(each, fix=SEE)
        if each.id != "hub" and any(words in each.what for words in REFUSALS)
        else each
        for each in findings
    ]


def check_login(machine: Membership) -> Finding:
    """Redis, of which its user may read and write its own keys, and nothing else."""
    address = address_of(machine.redis_url)

    async def read_own_key() -> None:
        async with open_redis(machine.redis_url) as redis:
            await redis.get(streams.want(machine.host_id))

    try:
        asyncio.run(asyncio.wait_for(read_own_key(), REDIS_WITHIN_S))
    except AuthenticationError:
        return Finding("redis", "fail", f"Redis at {address} {OUT}", rejoin(machine))
    except (*UNAVAILABLE, TimeoutError) as error:
        return from_text("redis", "fail", clean(describe(error, address, KEPT)))
    what = f"Redis at {address} lets this machine in, by a login for its own signals alone."
    return Finding("redis", "ok", what)


def check_membership(machine: Membership, log: Path) -> tuple[Finding, Finding]:
    """(hub, host), where no token lets this command read the hub's list."""
    unseen = Finding("host", "skip", "Not looked up in the hub: it does not answer this machine.")
    try:
        seen = machine.open_hub().ask("/api/v1/machine")
    except RefusedError as error:
        if error.status != 401:
            return from_text("hub", "fail", str(error)), unseen
        what = f"The hub at {machine.hub} {REVOKED if 'was revoked' in str(error) else OUT}"
        return Finding("hub", "fail", what, rejoin(machine)), unseen
    except CommandError as error:
        return from_text("hub", "fail", str(error)), unseen
    what = f"The hub at {machine.hub} knows this machine. {TOKEN}"
    label, reached = clean(str(seen["label"])), clean(str(seen["reachability"]))
    if reached == "live":
        told = f"The hub has this machine live as {label}, up to number {seen['applied']}."
        return Finding("hub", "ok", what), Finding("host", "ok", told)
    told = f"The hub has this machine, {label}, as {reached}."
    return Finding("hub", "ok", what), Finding("host", "fail", told, f"Its log: {log}")
