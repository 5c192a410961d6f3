"""What is said to who joins and cannot: causes and next steps. Pure."""

from __future__ import annotations

from adsum_hub.join.tokens import Worthless

MAKE = "Make a token: `adsum hub tokens create --join` on the hub's machine."
ANOTHER = "Join with `adsum join`, which sees to it."
RANGE = "Give 60 seconds to 31 days."
WHY: dict[Worthless, tuple[int, str]] = {
    "unknown": (401, "No join token is this one: it is wrong, was revoked, or is long over."),
    "used": (410, "This join token was used already: it lets one machine in, once."),
    "expired": (410, "This join token has expired."),
}
CLONE = "A machine with this identity has joined, or reports already."
CLONE_STEP = (
    "If this is a copy of it: `adsum join … --new-identity`. If it is the same machine: stop its "
    "collector and try again in ten seconds; if it has lost its credential, first "
    "`adsum hosts reset` on the hub's machine."
)
JOINING = "This machine is leaving or joining just now."
JOINING_STEP = "Try again in ten seconds."
REVOKED = "The access of this machine was revoked."
REVOKED_STEP = (
    "To let it in again: `adsum hosts reset` on the hub's machine, then join with a token."
)
NO_USER_STEP = (
    "Give the hub a Redis 7.0 or Valkey, or newer, where its user has +acl; or, to let machines share "
    "one login that can read and write everything, set ADSUM_MACHINE_SHARED_URL at the hub; or have "
    "them go through the hub: adsum join --via ingest."
)
SHARED = "This machine shares its Redis login with others: each of them can read and write what all send."
SHARES = "This machine shares its Redis login with others, so it cannot be shut out alone."
SHARES_STEP = (
    "Change that login's password; or leave the machine out of all lists: adsum hosts forget"
)
WISHED = "It was asked for."
NOWHERE = "The hub reaches Redis at {address}, which leads nowhere from another machine."
NO_USER = "The hub can give it no login of its own in Redis: {reason}."
SHOWN = "Too many credentials that are not valid were shown from this address."
SHOWN_STEP = "Wait a minute. A machine that was shut out has to join again, by a new token."
UNVOUCHED = (
    "The certificate of {host} is signed by no authority that systems trust. If yours do not either, "
    "copy that authority's certificate to the machine, and add to the line: --ca FILE"
)
LOCAL_HUB = (
    "The hub is at a loopback address, which leads nowhere from another machine: see docs/sign-in.md, "
    "ADSUM_PUBLIC_URL."
)
