"""Checks a joined machine's way to Redis with what joining gave it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

from redis.exceptions import AuthenticationError

from adsum.doctor.finding import Finding, from_text
from adsum.join_hub import Hub, RefusedError
from adsum.joined import Joined
from adsum.outcome import CommandError
from adsum_hub.trouble import KEPT
from adsum_shared import streams
from adsum_shared.connect import UNAVAILABLE, address_of, open_redis
from adsum_shared.redact import clean
from adsum_shared.redis_errors import describe

PATIENCE_S = 5.0
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


def rejoin(machine: Joined) -> str:
    return (
        f"`adsum leave` here, then `adsum join {machine.hub} --token …`, by a new token: "
        "`adsum hub tokens create --join` on the hub's machine makes one. If the machine was revoked, "
        f"let it in first, there: `adsum hosts reset {machine.label}`"
    )


def one_remedy(findings: list[Finding], machine: Joined) -> list[Finding]:
    """Where the hub does not know this machine any more, whatever fails by that has one cure."""
    if not any(each.id == "hub" and each.fix == rejoin(machine) for each in findings):
        return findings
    return [
        replace(each, fix=SEE)
        if each.id != "hub" and any(words in each.what for words in REFUSALS)
        else each
        for each in findings
    ]


def check_login(machine: Joined) -> Finding:
    """Redis, of which its user may read and write its own keys, and nothing else."""
    address = address_of(machine.redis_url)
    try:
        asyncio.run(asyncio.wait_for(_look(machine), PATIENCE_S))
    except AuthenticationError:
        return Finding("redis", "fail", f"Redis at {address} {OUT}", rejoin(machine))
    except (*UNAVAILABLE, TimeoutError) as error:
        return from_text("redis", "fail", clean(describe(error, address, KEPT)))
    what = f"Redis at {address} lets this machine in, by a login for its own signals alone."
    return Finding("redis", "ok", what)


async def _look(machine: Joined) -> None:
    async with open_redis(machine.redis_url) as redis:
        await redis.get(streams.want(machine.host_id))


def check_membership(machine: Joined, log: Path) -> tuple[Finding, Finding]:
    """(hub, host), where no token lets this command read the hub's list."""
    unseen = Finding("host", "skip", "Not looked up in the hub: it does not answer this machine.")
    try:
        ca = Path(machine.ca) if machine.ca else None
        seen = Hub(machine.hub, ca, machine.secret).ask("/api/v1/machine")
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
