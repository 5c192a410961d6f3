"""The browsers that asked for pushes: what they may ask for, and the list of them in Redis."""

from __future__ import annotations

import base64
import binascii
import hashlib
import ipaddress
import socket
from typing import Literal
from urllib.parse import urlsplit

import msgspec

from adsum_hub.notify.owners import Owner, Owners
from adsum_hub.rest.notify_answers import PushSubscription
from adsum_shared import streams
from adsum_shared.connect import Redis

MOST = 200
#: Of one sign-in or token: a browser has one, and a script may have made a few.
MOST_OF_ONE = 10
MOST_URL = 2_048
APPLE = "push.apple.com"


class SubscriptionError(ValueError):
    """Not to be kept. next: what to do about it."""

    def __init__(self, cause: str, step: str) -> None:
        super().__init__(cause)
        self.next = step


class Subscription(msgspec.Struct, frozen=True):
    """key: the public key it was made with; a push signed by another is refused. since: ms.

    by, digest: the pass it was made with; None where nobody had to sign in.
    """

    endpoint: str
    p256dh: str
    auth: str
    key: str
    since: int
    by: Literal["sign-in", "token"] | None = None
    digest: str = ""

    @property
    def owner(self) -> Owner | None:
        return Owner(self.by, self.digest) if self.by is not None else None

    @property
    def id(self) -> str:
        return id_of(self.endpoint)

    @property
    def service(self) -> str:
        """Where it is: the rest of an endpoint is a secret, as who knows it can use it up."""
        return urlsplit(self.endpoint).hostname or "?"


def id_of(endpoint: str) -> str:
    return hashlib.blake2b(endpoint.encode(), digest_size=12).hexdigest()


def subscription_of(
    asked: PushSubscription,
    key: str,
    now: int,
    owner: Owner | None = None,
    *,
    private: bool = False,
) -> Subscription:
    """Raises SubscriptionError. private: plain http and this machine's own network will do."""
    require_endpoint(asked.endpoint, private=private)
    point, auth = _decoded(asked.keys.p256dh), _decoded(asked.keys.auth)
    if not _on_curve(point) or len(auth) != 16:
        step = "Send what the browser's subscription.toJSON() returns, as it is."
        raise SubscriptionError("`keys` are no keys of a push subscription.", step)
    by, digest = owner if owner is not None else (None, "")
    keys = asked.keys
    return Subscription(asked.endpoint, keys.p256dh, keys.auth, key, now, by, digest)


def require_endpoint(endpoint: str, *, private: bool) -> None:
    """Raises SubscriptionError: a hub posts where it is told to, so not to its own network."""
    step = "Send what the browser's subscription.toJSON() returns, as it is."
    try:
        parts = urlsplit(endpoint)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        host, port, parts = "", None, urlsplit("")
    plain = len(endpoint) <= MOST_URL and endpoint.isascii() and endpoint.isprintable()
    if not plain or not host or parts.username is not None or parts.fragment or " " in endpoint:
        raise SubscriptionError("`endpoint` is no address of a push service.", step)
    if private and parts.scheme in ("http", "https"):
        return
    if parts.scheme != "https" or port not in (None, 443):
        raise SubscriptionError("`endpoint` must be https, on its usual port.", step)
    if not _is_public_name(host):
        raise SubscriptionError("`endpoint` is not the name of a public service.", step)


def leads_home(host: str) -> bool:
    """Whether a name leads to an address that is not everybody's. Blocks: not for the loop.

    Looked up once more by the request itself, so a name may change in between; but then whatever
    answers has no certificate for that name, and hears nothing.
    """
    try:
        found = socket.getaddrinfo(host, 443, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return False  # behind a proxy names are its business; else the request itself says so
    return any(not _is_global(str(address[4][0])) for address in found)


def _is_public_name(host: str) -> bool:
    """Not an address either: no push service is without a name."""
    name = host.rstrip(".")
    local = (".local", ".localhost", ".internal", ".lan", ".home.arpa")
    # A number in the end is an address in disguise: 127.1 and 0x7f000001 are loopback.
    return "." in name and not name.endswith(local) and name.rpartition(".")[2][:1].isalpha()


def _is_global(address: str) -> bool:
    ip = ipaddress.ip_address(address.partition("%")[0])
    mapped = getattr(ip, "ipv4_mapped", None)
    return (mapped or ip).is_global and not ip.is_multicast


def _decoded(text: str) -> bytes:
    try:
        return base64.urlsafe_b64decode(text[:200] + "=" * (-len(text[:200]) % 4))
    except (binascii.Error, ValueError):
        return b""


def _on_curve(point: bytes) -> bool:
    from cryptography.hazmat.primitives.asymmetric import ec

    try:
        ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), point)
    except ValueError:
        return False
    return len(point) == 65


class Subscriptions:
    """A list in Redis, the same for all hubs. owners: None where nobody has to sign in."""

    def __init__(self, redis: Redis, owners: Owners | None = None) -> None:
        self._redis = redis
        self._owners = owners

    async def all(self) -> list[Subscription]:
        """Those to be told. What was made with a pass that is no more is dropped."""
        stored = await self._redis.hgetall(streams.NOTIFY_SUBSCRIPTIONS)
        found = []
        for raw in stored.values():
            try:
                found.append(msgspec.json.decode(raw, type=Subscription))
            except msgspec.DecodeError:
                continue  # of a newer version, which knows what to do with it
        living = await self.living(found)
        if dropped := [each.id for each in found if each not in living]:
            # One that is renewed in this moment may go too: its page tells of it again when loaded.
            await self._redis.hdel(streams.NOTIFY_SUBSCRIPTIONS, *dropped)
        return living

    async def living(self, known: list[Subscription]) -> list[Subscription]:
        """Those whose pass is good still. Raises what Redis raises."""
        if self._owners is None:
            return known
        gone = await self._owners.gone({each.owner for each in known if each.owner is not None})
        return [each for each in known if each.owner is not None and each.owner not in gone]

    async def add(self, subscription: Subscription) -> None:
        """Raises SubscriptionError if there are too many. A known one is renewed."""
        key = streams.NOTIFY_SUBSCRIPTIONS
        others = [each for each in await self.all() if each.id != subscription.id]
        of_one = [] if subscription.owner is None else _of(subscription.owner, others)
        if excess := of_one[MOST_OF_ONE - 1 :]:
            await self._redis.hdel(key, *[each.id for each in excess])
        known = await self._redis.hexists(key, subscription.id)
        if not known and await self._redis.hlen(key) >= MOST:
            step = "Unsubscribe on devices that are no longer used."
            raise SubscriptionError(f"{MOST} browsers are subscribed already.", step)
        await self._redis.hset(key, subscription.id, msgspec.json.encode(subscription))

    async def remove(self, endpoint: str) -> bool:
        """Whether it was there."""
        return bool(await self._redis.hdel(streams.NOTIFY_SUBSCRIPTIONS, id_of(endpoint)))


def _of(owner: Owner, known: list[Subscription]) -> list[Subscription]:
    """The latest renewed first."""
    return sorted((each for each in known if each.owner == owner), key=lambda each: -each.since)
