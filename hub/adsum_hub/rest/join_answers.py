"""What REST takes and answers of machines that join and leave. A secret is answered once."""

from __future__ import annotations

from typing import Literal

import msgspec

from adsum_shared.state import Reachability

#: How a machine's signals get into Redis: as a user of its own, by a URL that several share, or
#: through a hub.
Way = Literal["acl", "shared", "ingest"]
#: What a machine that joins asks for; auto: whatever the hub offers and is reached from there.
Via = Literal["auto", "redis", "ingest"]


class JoinTokenAsked(msgspec.Struct):
    """label: what the machine is to be called; empty: what it calls itself."""

    expires_s: int = 3600
    reusable: bool = False
    label: str = ""


class JoinToken(msgspec.Struct):
    """since, until: ms. uses: how many machines have joined by it."""

    id: str
    since: int
    until: int
    reusable: bool
    label: str
    uses: int


class JoinTokens(msgspec.Struct):
    schema: int
    now: int
    tokens: list[JoinToken]


class JoinTokenMade(msgspec.Struct):
    """secret: shown here and never again. command: the one line to type on the machine.

    note: what would keep other machines from joining; None: nothing that is known.
    """

    schema: int
    secret: str
    command: str
    token: JoinToken
    note: str | None


class JoinCheckAsked(msgspec.Struct):
    token: str


class JoinChecked(msgspec.Struct):
    """The token is good. version: the hub's. wire: of batches it reads. now: its clock, ms."""

    schema: int
    version: str
    wire: int
    now: int


class JoinAsked(msgspec.Struct):
    """former: the secret of an earlier joining, which proves that the identity is the machine's.

    via: machines that are older than ingest can do nothing but Redis.
    """

    token: str
    host_id: str
    label: str
    former: str = ""
    via: Via = "redis"


class Joined(msgspec.Struct):
    """redis_url: with the machine's login in it; empty where it goes through the hub.

    secret: what it shows to the hub. warning: what is not as it should be; None: nothing. why: of the way.
    """

    schema: int
    host_id: str
    label: str
    way: Way
    redis_url: str
    secret: str
    warning: str | None
    why: str = ""


class MachineSeen(msgspec.Struct):
    """What the hub has of the machine that asks. applied: the number of its last signal."""

    schema: int
    host_id: str
    label: str
    listed: bool
    applied: int
    reachability: Reachability


class LeaveAsked(msgspec.Struct):
    """undo: of a joining that failed. Its token is good again."""

    undo: bool = False


class LabelAsked(msgspec.Struct):
    """label: empty: what the machine calls itself."""

    label: str


class HostChanged(msgspec.Struct):
    schema: int
    id: str
