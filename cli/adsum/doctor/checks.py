"""Defines a finding of `adsum doctor`, and checks the collector, its spool, the hub and what it has of this machine."""

import asyncio
import re
import time
from collections.abc import Awaitable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import msgspec
from redis.exceptions import AuthenticationError, NoPermissionError, ResponseError

from adsum.broker import BrokerPlace
from adsum.client import SilentError, fetch, readiness, running_here
from adsum.collector import ask_spool
from adsum.machine import Membership, RefusedError, membership
from adsum.outcome import CommandError
from adsum.text.words import age, cause_sentence, gap_sentence, span
from adsum_collector.delivery.transports import HubPlace, HubTransport
from adsum_collector.errors import HubError
from adsum_collector.settings import CollectorSettings
from adsum_collector.spool.spool import SpoolStatus
from adsum_collector.spool.spool_directory import NOTICE_S, Quarantined
from adsum_collector.spool.spool_file import shown_bytes
from adsum_collector.state_dir import running_port
from adsum_hub.trouble import KEPT, Writes
from adsum_shared import streams
from adsum_shared.connect import UNAVAILABLE, check_url, every_server, open_redis, require_recent
from adsum_shared.host_keys import KeysRequest
from adsum_shared.redact import clean
from adsum_shared.redis_errors import BrokerTooOldError, describe
from adsum_shared.redis_url import RedisUrlError, address_of, kind_of
from adsum_shared.state import HostView, HostWitness, HubTrouble

Result = Literal["ok", "warn", "fail", "skip"]

#: What the sentence begins with that says what to do. Before it stand the cause and what it means.
_STEP = re.compile(
    r"(?:Next:|Add|Ask|Begin|Check|Close|Correct|Free|Give|Have|Install|Let|Look|Make|Name|Open|Put|"
    r"Raise|Remove|Renew|Restart|Run|Save|See|Set|Start|Stop|Take|Then|Try|Update|Upgrade|Use|Wait|`)"
    r"(?=[ `a-z])"
)

#: One heading for each id stands there.
DOCS = "docs/doctor.md"


@dataclass(frozen=True, slots=True)
class Finding:
    """what: one sentence. fix: the next step, None where there is nothing to do."""

    id: str
    result: Result
    what: str
    fix: str | None = None
    details: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        told: dict[str, Any] = {
            "id": self.id,
            "result": self.result,
            "what": self.what,
            "fix": self.fix,
            "docs": f"{DOCS}#{self.id}",
        }
        return {**told, "details": list(self.details)} if self.details else told


def from_text(check: str, result: Result, text: str) -> Finding:
    """From a text as our errors have it: first what is wrong, then the next step.

    What a foreign program said stands in brackets and may be several sentences.
    """
    ends = [m.end() for m in re.finditer(r"\. ", text) if not _is_open(text[: m.start()])]
    steps = (end for end in ends if _STEP.match(text, end))
    end = next(steps, ends[0] if ends else len(text))
    what, fix = text[:end].rstrip(), text[end:].removeprefix("Next: ")
    return Finding(check, result, what.removesuffix(".") + ".", fix or None)


def _is_open(text: str) -> bool:
    """Within brackets."""
    return text.count("(") > text.count(")")


#: Signals on the way in numbers that a burst of work does not reach.
BACKLOG_MOST = 100
CLOCK_MOST_MS = 5_000
#: What was lost before is nobody's concern any more.
RECENT_MS = 24 * 3_600_000
START = "Start it with `adsum up`."
START_JOINED = (
    "Start it: `adsum service install`, or `adsum collector` where nobody starts services."
)


#: What a check says that cannot look while neither collector nor hub is there.
IDLE = "Left out while nothing runs."

#: Of its allowance; beyond it a while without Redis may cost the oldest.
SPOOL_FULL = 0.8
#: So many times what is left to others is still to be had: time enough to make room.
SCANT = 4
#: Signals that wait in numbers, or for a time, that no burst of work comes to.
MANY = 1_000
OLD_MS = 60_000
STATUS = "`adsum collector spool status` tells more."


class Listing(msgspec.Struct):
    """now: the hub's clock, ms."""

    now: int
    hosts: list[HostView]
    trouble: HubTrouble | None = None


def nothing_runs(state_dir: Path, url: str) -> Finding:
    """The one thing to say then, and to do."""
    what = f"Nothing runs here: no collector on {state_dir}, and no hub at {url}."
    return Finding("collector", "fail", what, "`adsum up` starts all of it.")


def is_hub_alone(state_dir: Path, url: str, listing: Listing | None) -> bool:
    """A hub runs on this state directory, and no collector ever has: none need be wanted.

    By the files, not by what stands in them: a collector cannot start on a damaged identity.
    """
    if listing is None or running_here(state_dir) != url:
        return False
    left = ("host.json", "machine.json", "logs/collector.log")
    return not any((state_dir / each).exists() for each in left)


def no_collector_wanted(state_dir: Path) -> Finding:
    what = (
        f"Only a hub runs on {state_dir}, a collector never has. If agents run on this machine "
        "too, start one: `adsum collector`."
    )
    return Finding("collector", "skip", what)


def check_collector(state_dir: Path, start: str = START) -> Finding:
    """start: what to do where none runs."""
    port = running_port(state_dir)
    if port is None:
        what = f"No collector runs on {state_dir}, so nothing is reported from here."
        return Finding("collector", "fail", what, start)
    log = f"Its log: {state_dir / 'logs' / 'collector.log'}"
    try:
        facts = readiness(f"http://127.0.0.1:{port}")
    except SilentError as error:
        what = f"The collector should take hooks on port {port}, but: {error}."
        fix = f"If it hangs, end `adsum up` and start it anew. {log}"
        return Finding("collector", "fail", what, fix)
    if facts.get("problem"):
        return from_text("collector", "fail", clean(str(facts["problem"])))
    if not facts["ready"]:
        return Finding("collector", "fail", "The collector is not ready to take hooks.", log)
    if "hooks" not in facts:
        what = f"The collector takes hooks on port {port}; it tells more to its own user."
        return Finding("collector", "ok", what)
    taken = facts["hooks"].get("accepted", 0)
    waiting = facts.get("stream", {}).get("backlog", 0)
    what = f"The collector takes hooks on port {port}: {taken} taken, {waiting} waiting to be sent."
    return Finding("collector", "ok", what)


def check_hub(url: str) -> tuple[Finding, Listing | None]:
    try:
        listing = msgspec.convert(fetch(url, "/api/v1/hosts"), Listing)
        facts = readiness(url)
    except CommandError as error:
        return from_text("hub", "fail", str(error)), None
    except (msgspec.ValidationError, SilentError) as error:
        what = f"{url} answers, but not as a hub of this version: {error}."
        return Finding("hub", "fail", what, "Correct --hub or ADSUM_HUB_URL, or upgrade it."), None
    if not facts["ready"]:
        problem = clean(str(facts.get("problem") or "it has not read from Redis of late"))
        what = f"The hub at {url} does not keep its list: {problem.removesuffix('.')}."
        return Finding("hub", "fail", what, "Look at Redis, then at the hub's log."), listing
    told = facts.get("problem") or (listing.trouble and listing.trouble.problem)
    if told:
        return from_text("hub", "warn", clean(str(told))), listing
    count = len(listing.hosts)
    what = f"The hub at {url} keeps the list of {count} machine{'s' if count != 1 else ''}."
    return Finding("hub", "ok", what), listing


def find_host(listing: Listing | None, host_id: str | None) -> HostView | None:
    hosts = listing.hosts if listing else []
    return next((host for host in hosts if host.id == host_id), None)


def check_host(listing: Listing | None, host_id: str | None, state_dir: Path) -> Finding:
    """Whether the hub has this machine, live and up to date."""
    if listing is None or host_id is None:
        why = "no hub to ask" if listing is None else "no collector has ever run here"
        return Finding("host", "skip", f"Not looked up in the hub: {why}.")
    log = f"Its log: {state_dir / 'logs' / 'collector.log'}"
    host = find_host(listing, host_id)
    if host is None:
        what = "The hub has never heard of this machine."
        fix = "Collector and hub need the same ADSUM_REDIS_URL; `adsum up` sees to that."
        return Finding("host", "fail", what, fix)
    label = clean(host.label)
    if host.reachability != "live":
        seen = age(listing.now - host.last_seen)
        what = f"The hub has this machine, {label}, as {host.reachability}, last seen {seen} ago."
        return Finding("host", "fail", what, f"Is the collector connected to the same Redis? {log}")
    if host.problem:
        return from_text("host", "warn", clean(host.problem))
    recent = [gap for gap in host.gaps if listing.now - gap.at < RECENT_MS]
    if recent:
        what = f"The hub has this machine live as {label}, but something of it is missing."
        fix = "It will not come any more. Sessions that were there then are marked incomplete."
        told = tuple(clean(gap_sentence(gap, listing.now)) for gap in reversed(recent))
        return Finding("host", "warn", what, fix, told)
    if host.backlog > BACKLOG_MOST:
        what = f"{host.backlog} signals of this machine have not reached the hub yet."
        return Finding("host", "warn", what, "Wait a moment; if it grows, look at Redis.")
    lag = "nothing sent yet" if host.lag_ms is None else f"its latest news took {host.lag_ms} ms"
    what = f"The hub has this machine live as {label}: {lag}, {host.backlog} on the way."
    return Finding("host", "ok", what)


def check_clock(host: HostView | None) -> Finding:
    if host is None:
        what = "The clock was not compared: the hub told nothing of this machine."
        return Finding("clock", "skip", what)
    off = host.clock_offset_ms
    if abs(off) <= CLOCK_MOST_MS:
        what = f"This machine's clock and the hub's differ by {abs(off)} ms."
        return Finding("clock", "ok", what)
    way = "ahead of" if off > 0 else "behind"
    what = f"This machine's clock is {span(abs(off))} {way} the hub's."
    fix = "Ages are corrected for it, yet let both keep network time: timedatectl set-ntp true"
    return Finding("clock", "warn", what, fix)


def check_witnesses(host: HostView | None, now: int) -> list[Finding]:
    if host is None or not host.witnesses:
        why = "its collector" if host else "the hub"
        what = f"The witnesses were not looked at: {why} told nothing of them."
        return [Finding("witnesses", "skip", what)]
    return [_witness(each, now) for each in host.witnesses]


def _witness(witness: HostWitness, now: int) -> Finding:
    name = f"witness-{clean(witness.name)}"
    counts = tuple(cause_sentence(cause, count) for cause, count in witness.counts.items())
    if witness.state in ("missing", "trouble"):
        note = clean(witness.note) or f"The witness {witness.name} reports {witness.state}."
        return replace(from_text(name, "warn", note), details=counts)
    # Counted since the collector started, so no warning: it would outlast its cause by weeks.
    heard = f"Last heard {age(now - witness.heard_at)} ago." if witness.heard_at else None
    what = heard or "Nothing heard of it yet, which is no fault."
    notes = (clean(witness.note),) if witness.note else ()
    return Finding(name, "ok", what, None, (*notes, *counts))


def check_spool(settings: CollectorSettings) -> Finding:
    directory = settings.state_dir / "spool"
    if not directory.exists():
        return Finding("spool", "skip", f"No collector has kept anything in {directory} yet.")
    try:
        status = ask_spool(settings)
    except CommandError as error:
        return from_text("spool", "fail", clean(str(error)))
    return judge_spool(status, int(time.time() * 1000))


def judge_spool(status: SpoolStatus, now: int) -> Finding:
    """now: ms."""
    details = tuple(_quarantine_line(each, now) for each in status.quarantined)
    what, fix = next(_full(status), (None, None))
    if what is not None:
        result: Result = "fail" if status.free < status.reserve else "warn"
        return Finding("spool", result, what, fix, details)
    if status.problem:
        return replace(from_text("spool", "warn", clean(status.problem)), details=details)
    if any(now - each.at < NOTICE_S * 1000 for each in status.quarantined):
        what = "A spool file was damaged in the last day and quarantined."
        return Finding("spool", "warn", what, f"Look at that disk. {STATUS}", details)
    waiting = _waiting(status)
    if status.waiting > MANY or (status.oldest_waiting_ms or 0) > OLD_MS:
        return Finding("spool", "warn", f"{waiting}.", f"See redis and hub here. {STATUS}", details)
    return Finding("spool", "ok", f"{waiting}; the spool has {_used(status)}.", None, details)


def _full(status: SpoolStatus) -> Iterator[tuple[str, str]]:
    """(what, fix), worst first."""
    free, reserve = shown_bytes(status.free), shown_bytes(status.reserve)
    where = f"The disk of {status.directory}"
    if status.free < status.reserve:
        what = f"{where} is full, so hooks are refused: {free} free."
        yield what, f"Free some space there; the last {reserve} are left to others."
    if status.free < SCANT * status.reserve:
        fix = f"Free some space there: below {reserve} hooks are refused."
        yield f"{where} is nearly full: {free} free.", fix
    # What hubs have is kept for a day in case Redis loses it, and goes first.
    if status.bytes > SPOOL_FULL * status.cap and status.waiting > MANY:
        what = f"{_waiting(status)}, and the spool has {_used(status)}."
        yield what, "Bring Redis and a hub back, or raise ADSUM_SPOOL_CAP_MB: else the oldest go."


def _waiting(status: SpoolStatus) -> str:
    signals = "1 signal is" if status.waiting == 1 else f"{status.waiting:,} signals are"
    oldest = status.oldest_waiting_ms
    since = f", the oldest for {age(oldest)}" if status.waiting and oldest is not None else ""
    return f"{signals} at no hub yet{since}"


def _used(status: SpoolStatus) -> str:
    return f"{shown_bytes(status.bytes)} of {shown_bytes(status.cap)}"


def _quarantine_line(file: Quarantined, now: int) -> str:
    return f"{age(now - file.at)} ago: {file.name} ({clean(file.cause)}); {file.loss}"


# The ways to Redis and to the hub, and what a joined machine may do there.


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
    masters, replicas: how many. reads_others: whether a login without the hub's rights reads the
    signals of other machines.
    """

    info: dict[str, Any] = field(default_factory=dict)
    save: str | None = None
    refusal: str | None = None
    masters: int = 1
    replicas: int = 0
    reads_others: bool = False


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
        await redis.get(streams.want("probe"))  # a node that answers INFO may serve no key just now
        writes = Writes(redis, address_of(url), lambda: 0)
        await writes.try_once()
        try:
            save = (await redis.config_get("save")).get("save")
        except (NoPermissionError, ResponseError):
            save = None  # not a word that every provider lets one ask for
        is_hubs = not await _is_refused(redis.get(streams.login_code("probe")))
        reads = not is_hubs and not await _is_refused(redis.xinfo_stream(streams.inbox("probe")))
        return RedisLook(info, save, writes.problem, len(masters), replicas, reads)


async def _is_refused(command: Awaitable[Any]) -> bool:
    """Whether this login has no right to it. There may be no such key."""
    try:
        await command
    except ResponseError as error:
        return isinstance(error, NoPermissionError)
    return False


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
    used, share = _memory(info), _share(info)
    filled = f"{shown_bytes(used)}{f' of {shown_bytes(most)}' if most else ''} used"
    if share > FULL:
        what = f"{name} is nearly full: {filled}. Then it takes no writes, and machines wait."
        fix = "Start a hub if none runs, so that streams are trimmed; or raise its maxmemory."
        return Finding("redis", "warn", what, fix, details)
    if failed := _unsaved(info):
        fix = "Look at its log and its free space."
        return Finding("redis", "warn", f"{name} could not save: {failed}.", fix, details)
    if look.reads_others:
        what = (
            f"{name} lets this login read what every machine sends, commands and titles included."
        )
        fix = (
            "Give its user the rights of `machines` in deploy/redis/start.sh, or run `adsum join`."
        )
        return Finding("redis", "warn", what, fix, details)
    return Finding("redis", "ok", f"{name} takes writes; {filled}.", None, details)


def _engine(info: dict[str, Any]) -> str:
    """Valkey gives the version of the Redis it descends from as well."""
    if info.get("valkey_version"):
        return f"Valkey {clean(str(info['valkey_version']))}"
    return f"Redis {clean(str(info.get('redis_version', '(unknown)')))}"


def _memory(info: dict[str, Any]) -> int:
    return int(info.get("used_memory", 0)) - int(info.get("mem_not_counted_for_evict", 0))


def _share(info: dict[str, Any]) -> float:
    most = int(info.get("maxmemory", 0))
    return _memory(info) / most if most else 0.0


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
