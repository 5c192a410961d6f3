"""What the parts say to each other, as JSON Schema and OpenAPI: docs/schemas, written by `python -m scripts.reference`."""

from __future__ import annotations

import asyncio
import contextlib
import json
from pathlib import Path
from typing import Any

import msgspec

from adsum_hub.live.live import Resume
from adsum_hub.rest.api import components
from adsum_hub.rest.roster import Dismissals
from adsum_shared.envelope import Beat
from adsum_shared.signals import Signal
from adsum_shared.state import Group, HostView, HubTrouble, SessionView

DIALECT = "https://json-schema.org/draft/2020-12/schema"


class Position(msgspec.Struct, tag_field="type", kw_only=True):
    """epoch: one run of a hub. offset: how many deltas it has sent. now: the hub's clock, ms."""

    epoch: str
    offset: int
    now: int


class Snapshot(Position, tag="snapshot"):
    """All there is. Without trouble all is well.

    more: in all of its parts but the last, how many sessions of each group are still to come; hosts
    are in the first part alone.
    """

    sessions: list[SessionView]
    hosts: list[HostView] = []
    more: dict[Group, int] | None = None
    trouble: HubTrouble | None = None


class Deltas(Position, tag="deltas"):
    """What has changed, each session and machine whole; gone: ids of those that are no more."""

    sessions: list[SessionView] = []
    gone: list[str] = []
    hosts: list[HostView] = []
    gone_hosts: list[str] = []


class Tick(Position, tag="tick"):
    """Nothing has changed, or trouble has. Without trouble all is well."""

    trouble: HubTrouble | None = None


def schema(title: str, kinds: tuple[type, ...]) -> dict[str, Any]:
    """Any one of these structs."""
    refs, found = components(kinds, "#/$defs/{name}")
    return {
        "$schema": DIALECT,
        "title": title,
        "oneOf": list(refs),
        "$defs": dict(sorted(found.items())),
    }


async def _openapi() -> dict[str, Any]:
    """Of a hub with all of its doors, which is asked nothing and reaches no Redis."""
    from adsum_hub.app import build_app
    from adsum_hub.auth.seal import RecordSeal, RevokedCredentials
    from adsum_hub.command_keys import CommandKeys
    from adsum_hub.control import Decisions
    from adsum_hub.domains.show import open_domains
    from adsum_hub.join.joining import open_joining
    from adsum_hub.live.broadcast import Broadcast
    from adsum_hub.notify.notifications import open_notifications
    from adsum_hub.redis_access import open_access
    from adsum_hub.roster import Accounts, Roster
    from adsum_hub.settings import HubSettings
    from adsum_hub.trouble import Link
    from adsum_hub.usage.budgets import Overspent
    from adsum_hub.usage.prices import Wanted, open_book
    from adsum_hub.usage.spending import Spending

    nobody = "redis://127.0.0.1:1"
    nowhere = Path("nowhere")

    def clock() -> int:
        return 0

    book = open_book(nowhere, Wanted()).book
    spending = Spending(book, lambda _: "2026-01-01")
    accounts = Accounts(spending, Overspent((), spending))
    roster = Roster(accounts, open_domains((), lambda: 0.0))
    broadcast = Broadcast(roster, clock)
    settings = HubSettings(state_dir=nowhere, redis_url=nobody)
    async with contextlib.AsyncExitStack() as stack:
        notifications = await stack.enter_async_context(
            open_notifications(settings, nobody, roster, broadcast, clock)
        )
        access = await stack.enter_async_context(open_access(nobody))
        seal = RecordSeal(None, RevokedCredentials(None, clock))
        keys = CommandKeys(nowhere, access.hub, seal)
        joining = open_joining(settings, nobody, access, roster, clock, broadcast, keys, seal)
        doors: Any = build_app(
            roster,
            broadcast,
            Link("redis"),
            clock,
            {},
            notifications=notifications,
            joining=joining,
            decisions=Decisions(roster, clock, access.hub, keys),
            dismissals=Dismissals(roster, broadcast, clock, access.hub),
        )
        document: dict[str, Any] = doors._app.openapi()  # noqa: SLF001 - what the doors stand before
    return document


def openapi() -> dict[str, Any]:
    document = asyncio.run(_openapi())
    # Of the interface, not of the program: it does not change with every release.
    document["info"]["version"] = "1"
    return document


def written() -> dict[str, str]:
    """Each file of docs/schemas and what belongs into it."""
    documents = {
        "signals.json": schema("A signal, in a batch's field b", Signal.__subclasses__()),
        "heartbeat.json": schema("A machine's heartbeat", (Beat,)),
        "websocket.json": schema("A message of the hub's to a client", (Snapshot, Deltas, Tick)),
        "resume.json": schema("What a client says first", (Resume,)),
        "openapi.json": openapi(),
    }
    return {
        name: json.dumps(document, indent=1, ensure_ascii=False) + "\n"
        for name, document in documents.items()
    }
