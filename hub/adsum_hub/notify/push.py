"""Sends Web Push: it keeps subscriptions and the signing key, and encrypts each message."""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import hashlib
import ipaddress
import logging
import re
import socket
import time
from collections.abc import Sequence
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple
from urllib.parse import urlsplit

import msgspec

from adsum_hub.clock import Clock
from adsum_hub.notify.channels import SEND_S, Health, Outcome, Stands, always
from adsum_hub.notify.messages import Notification
from adsum_hub.rest.api import BadRequestError
from adsum_shared import AdsumError, streams
from adsum_shared.connect import UNAVAILABLE, Redis, wanted
from adsum_shared.private_files import write_private

if TYPE_CHECKING:
    import httpx
    from py_vapid import Vapid02

log = logging.getLogger(__name__)

#: In a scope: the SubscriptionOwner that the gate let in; nothing for this machine's own command line.
OWNER = "adsum.owner"


class SubscriptionOwner(NamedTuple):
    """digest: of the secret. It is in Redis already, as the name of the credential."""

    kind: Literal["sign-in", "token"]
    digest: str


MOST = 200
#: Of one sign-in or token: a browser has one, and a script may have made a few.
MOST_OF_ONE = 10
MOST_URL = 2_048
APPLE = "push.apple.com"


class PushKeys(msgspec.Struct):
    p256dh: str
    auth: str


class PushSubscription(msgspec.Struct):
    """What a browser's `subscription.toJSON()` is; further fields are ignored."""

    endpoint: str
    keys: PushKeys


class Subscription(msgspec.Struct, frozen=True):
    """key: the public key it was made with; a push signed by another is refused. since: ms.

    by, digest: the credential it was made with; None where nobody had to sign in.
    """

    endpoint: str
    p256dh: str
    auth: str
    key: str
    since: int
    by: Literal["sign-in", "token"] | None = None
    digest: str = ""

    @property
    def owner(self) -> SubscriptionOwner | None:
        return SubscriptionOwner(self.by, self.digest) if self.by is not None else None

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
    owner: SubscriptionOwner | None = None,
    *,
    private: bool = False,
) -> Subscription:
    """Raises BadRequestError. private: plain http and this machine's own network will do."""
    require_endpoint(asked.endpoint, private=private)
    point, auth = _decoded(asked.keys.p256dh), _decoded(asked.keys.auth)
    if not _on_curve(point) or len(auth) != 16:
        step = "Send what the browser's subscription.toJSON() returns, as it is."
        raise BadRequestError(409, "`keys` are no keys of a push subscription.", step)
    by, digest = owner if owner is not None else (None, "")
    keys = asked.keys
    return Subscription(asked.endpoint, keys.p256dh, keys.auth, key, now, by, digest)


def require_endpoint(endpoint: str, *, private: bool) -> None:
    """Raises BadRequestError: a hub posts where it is told to, so not to its own network."""
    step = "Send what the browser's subscription.toJSON() returns, as it is."
    try:
        parts = urlsplit(endpoint)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        host, port, parts = "", None, urlsplit("")
    plain = len(endpoint) <= MOST_URL and endpoint.isascii() and endpoint.isprintable()
    if not plain or not host or parts.username is not None or parts.fragment or " " in endpoint:
        raise BadRequestError(409, "`endpoint` is no address of a push service.", step)
    if private and parts.scheme in ("http", "https"):
        return
    if parts.scheme != "https" or port not in (None, 443):
        raise BadRequestError(409, "`endpoint` must be https, on its usual port.", step)
    if not _is_public_name(host):
        raise BadRequestError(409, "`endpoint` is not the name of a public service.", step)


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
    """A list in Redis, the same for all hubs. owned: False where nobody has to sign in."""

    def __init__(self, redis: Redis, *, owned: bool = False) -> None:
        self._redis, self._owned = redis, owned

    async def all(self) -> list[Subscription]:
        """Those to send to. What was made with a credential that is no more is dropped."""
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
        """Those whose credential is still valid. Raises what Redis raises."""
        if not self._owned:
            return known
        # Asked anew each time: a credential's key expires with it, and a revoked one gets no push.
        asked = sorted({each.owner for each in known if each.owner is not None})
        keys = [streams.entry_pass(each.kind, each.digest) for each in asked]
        stored = await self._redis.mget(keys) if keys else []
        valid = {each for each, held in zip(asked, stored, strict=True) if held is not None}
        return [each for each in known if each.owner in valid]

    async def add(self, subscription: Subscription) -> None:
        """Raises BadRequestError if there are too many. A known one is renewed."""
        key = streams.NOTIFY_SUBSCRIPTIONS
        others = [each for each in await self.all() if each.id != subscription.id]
        of_one = sorted(
            (
                each
                for each in others
                if each.owner is not None and each.owner == subscription.owner
            ),
            key=lambda each: -each.since,
        )
        if excess := of_one[MOST_OF_ONE - 1 :]:  # the one renewed longest ago goes
            await self._redis.hdel(key, *[each.id for each in excess])
        known = await self._redis.hexists(key, subscription.id)
        if not known and await self._redis.hlen(key) >= MOST:
            step = "Unsubscribe on devices that are no longer used."
            raise BadRequestError(409, f"{MOST} browsers are subscribed already.", step)
        await self._redis.hset(key, subscription.id, msgspec.json.encode(subscription))

    async def remove(self, endpoint: str) -> bool:
        """Whether it was there."""
        return bool(await self._redis.hdel(streams.NOTIFY_SUBSCRIPTIONS, id_of(endpoint)))


#: A signature is good for so long; push services take 24 h at most.
GOOD_S = 12 * 3600
#: Where nobody gave an address. Apple refuses such a one, the others do not look.
NOBODY = "mailto:adsum@example.com"
_CONTACT = re.compile(r"mailto:[\w.+-]+@[\w-]+(\.[\w-]+)+")


class PushKeyError(AdsumError):
    """Nothing can be signed. The text names the file or the place, the cause, the next step."""


class PushKey:
    """The key that signs pushes. It stays on the hub's disk.

    Redis holds the browsers' subscriptions, and whoever reads both could write on people's screens: so
    the key is not kept there, and hubs that are to speak with one voice get the same file.

    public: as a browser wants it, base64url.
    """

    def __init__(self, vapid: Vapid02, contact: str | None) -> None:
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        raw = vapid.public_key.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
        self.public = base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
        self._vapid = vapid
        self._contact = contact or NOBODY

    def authorization(self, endpoint: str) -> str:
        parts = urlsplit(endpoint)
        claims = {
            "sub": self._contact,
            "aud": f"{parts.scheme}://{parts.netloc}",
            "exp": int(time.time()) + GOOD_S,
        }
        from py_vapid import VapidException

        try:
            return str(self._vapid.sign(claims)["Authorization"])
        except VapidException as error:
            raise PushKeyError(f"A push to {parts.hostname} cannot be signed.") from error


class PushKeyFile:
    """The file of the key that signs pushes: a given one, or the hub's own, made when it is needed."""

    def __init__(self, state_dir: Path, given: Path | None, contact: str | None) -> None:
        """Raises PushKeyError."""
        if contact is not None and not _CONTACT.fullmatch(contact):
            raise PushKeyError(
                f"ADSUM_PUSH_CONTACT is no mail address: {contact[:60]!r}. Push services want one to "
                "write to, such as mailto:you@example.org."
            )
        self._file = given or state_dir / "push-key.pem"
        self._is_own = given is None
        self._contact = contact
        self._key: PushKey | None = None
        self._loading = asyncio.Lock()

    async def key(self) -> PushKey:
        """Raises PushKeyError."""
        async with self._loading:
            if self._key is None:
                self._key = await asyncio.to_thread(self._load)
            return self._key

    def _load(self) -> PushKey:
        """Imports what takes a fifth of a second: not for the loop."""
        from py_vapid import Vapid02, VapidException

        try:
            if self._is_own and not self._file.exists():
                self._make()
            return PushKey(Vapid02.from_pem(self._file.read_bytes()), self._contact)
        except OSError as error:
            step = "Make it readable for the user who runs the hub."
            raise PushKeyError(
                f"The key for pushes, {self._file}, cannot be used: {error.strerror}. {step}"
            ) from error
        except (ValueError, TypeError, AttributeError, VapidException) as error:
            step = "Replace it by the file of another hub, or move it away: then a new one is made."
            raise PushKeyError(f"{self._file} is no private key for pushes. {step}") from error

    def _make(self) -> None:
        """Whole or not at all, and the first of two hubs wins."""
        from py_vapid import Vapid02

        vapid = Vapid02()
        vapid.generate_keys()
        self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            write_private(self._file, vapid.private_pem(), replace=False)


def encrypted(to: Subscription, message: Notification) -> bytes | None:
    """The message encrypted for one browser; None: its keys cannot be used."""
    from http_ece import ECEException
    from pywebpush import WebPusher, WebPushException

    keys = {"p256dh": to.p256dh, "auth": to.auth}
    try:
        pusher = WebPusher({"endpoint": to.endpoint, "keys": keys})
        return bytes(pusher.encode(msgspec.json.encode(message))["body"])
    except (ValueError, ECEException, WebPushException):
        return None


POST_S = 10.0
AT_ONCE = 10
#: A phone that was off for longer is told by the page itself when it is opened.
TTL_S = 12 * 3600
#: For browsers that could not be told when others were. Then the oldest is dropped.
MOST_WAITING = 500
MOST_TRIES = 5
FIRST_AGAIN_S = 5.0
MOST_AGAIN_S = 600.0
LOOK_S = 1.0
GONE = frozenset({404, 410})


class Late(NamedTuple):
    subscription: Subscription
    message: Notification
    stands: Stands
    tries: int = 0
    at: int = 0


class Reply(NamedTuple):
    """error: None = told. again_s: it may be tried again after so long. gone: no fault of ours."""

    error: str | None = None
    again_s: float | None = None
    gone: bool = False


class Push:
    """Sends one encrypted message to each browser that asked for pushes.

    private: services in the hub's own network will do, without TLS. For tests.
    """

    def __init__(
        self,
        subscriptions: Subscriptions,
        key_file: PushKeyFile,
        clock: Clock,
        *,
        private: bool = False,
    ) -> None:
        self.health = Health()
        self._subscriptions, self._key_file, self._clock = subscriptions, key_file, clock
        self._private = private
        self._late: dict[tuple[str, str], Late] = {}
        #: subscription id -> not before, as its service asked
        self._resting: dict[str, int] = {}
        self._http: httpx.AsyncClient | None = None

    @property
    def waiting(self) -> int:
        return len(self._late)

    async def name(self) -> str | None:
        """A hub with another key speaks to other browsers, so it takes no message from this one."""
        known = await self._subscriptions.all()
        if not known:
            return None
        try:
            key = (await self._key_file.key()).public
        except PushKeyError as error:
            self.health.went_wrong(str(error), self._clock())
            return None
        return f"push {key}" if any(each.key == key for each in known) else None

    async def send(self, message: Notification, stands: Stands = always, /) -> Outcome:
        try:
            key = await self._key_file.key()
        except PushKeyError as error:
            self.health.went_wrong(str(error), self._clock())
            return Outcome(str(error))
        known = [each for each in await self._subscriptions.all() if each.key == key.public]
        found = await self._round([Late(each, message, stands) for each in known])
        replies = [(late, reply) for late, reply in found if not reply.gone]
        told = any(reply.error is None for _, reply in replies)
        self.health.in_row = 0 if told else self.health.in_row + bool(replies)
        late = [(at, reply) for at, reply in replies if reply.again_s is not None]
        errors = [reply.error for _, reply in replies if reply.error is not None]
        if len(late) == len(replies) and late:
            # Nobody was told: so another hub may try as well, and the case may pass meanwhile.
            return Outcome(errors[0], max(reply.again_s or 0.0 for _, reply in late))
        for each, reply in late:
            self._put_off(each, reply)
        return Outcome(errors[0] if errors and len(errors) == len(replies) else None)

    async def follow_up(self) -> None:
        """For those who could not be told when the others were."""
        try:
            while wanted():
                await asyncio.sleep(LOOK_S)
                await self.follow_up_once()
        finally:
            if self._http is not None:
                await self._http.aclose()

    async def follow_up_once(self) -> None:
        now = self._clock()
        self._resting = {key: at for key, at in self._resting.items() if at > now}
        due = [key for key, late in self._late.items() if late.at <= now]
        if not due:
            return
        asked = [self._late[key].subscription for key in due]
        try:
            wanting = {each.id for each in await self._subscriptions.living(asked)}
        except UNAVAILABLE:
            return  # nobody can say whose sign-in is good still: they wait
        popped = [late for key in due if (late := self._late.pop(key, None)) is not None]
        for late, reply in await self._round(
            [late for late in popped if late.subscription.id in wanting and late.stands()]
        ):
            if reply.again_s is not None:
                self._put_off(late, reply)

    def _put_off(self, late: Late, reply: Reply) -> None:
        """A later message of the same topic has taken its place, or does."""
        again_s = max(reply.again_s or 0.0, FIRST_AGAIN_S * 2**late.tries)
        key = (late.subscription.id, late.message.topic)
        newer = self._late.get(key)
        if late.tries + 1 >= MOST_TRIES or again_s > MOST_AGAIN_S:
            self.health.dropped += 1
            return
        if newer is not None and newer.message.at > late.message.at:
            return
        at = self._clock() + int(again_s * 1000)
        self._late[key] = late._replace(tries=late.tries + 1, at=at)
        if len(self._late) > MOST_WAITING:
            del self._late[next(iter(self._late))]
            self.health.dropped += 1

    async def _round(self, each: Sequence[Late]) -> list[tuple[Late, Reply]]:
        """All at once, but few; what is not through in time is late."""
        replies: dict[int, Reply] = {}
        room = asyncio.Semaphore(AT_ONCE)

        async def post(number: int, late: Late) -> None:
            async with room:
                replies[number] = await self._post(late.subscription, late.message)

        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SEND_S), asyncio.TaskGroup() as group:
                for number, late in enumerate(each):
                    group.create_task(post(number, late))
        slow = Reply("The push service is slow.", FIRST_AGAIN_S)
        found = [(late, replies.get(number, slow)) for number, late in enumerate(each)]
        in_row = self.health.in_row
        for _, reply in found:
            if reply.error is None:
                self.health.went_well(self._clock())
            elif not reply.gone:
                self.health.went_wrong(reply.error, self._clock())
        self.health.in_row = in_row  # it counts messages, and one browser's trouble is not all's
        return found

    async def _post(self, to: Subscription, message: Notification) -> Reply:
        import httpx  # a tenth of what a hub imports, and most never push

        rests = self._resting.get(to.id, 0) - self._clock()
        if rests > 0:
            return Reply(f"{to.service} has asked for a pause.", rests / 1000)
        if not self._private and await asyncio.to_thread(leads_home, to.service):
            return Reply(f"{to.service} lies in a private network, so nothing is sent there.")
        body = await asyncio.to_thread(encrypted, to, message)
        if body is None:
            return Reply("The keys of a subscription cannot be used.")
        try:
            authorization = (await self._key_file.key()).authorization(to.endpoint)
        except PushKeyError as error:
            return Reply(str(error))
        headers = {
            "Authorization": authorization,
            "Content-Encoding": "aes128gcm",
            "Content-Type": "application/octet-stream",
            "TTL": str(TTL_S),
            "Topic": message.topic,
            "Urgency": message.urgency,
        }
        try:
            async with self._client().stream(
                "POST", to.endpoint, content=body, headers=headers
            ) as response:
                status, pause = response.status_code, response.headers.get("retry-after")
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            # Its words may hold the endpoint.
            return Reply(f"{to.service} cannot be reached ({type(error).__name__}).", FIRST_AGAIN_S)
        return await self._answered(to, status, pause)

    async def _answered(self, to: Subscription, status: int, pause: str | None) -> Reply:
        if 200 <= status < 300:
            return Reply()
        if status in GONE:
            with contextlib.suppress(*UNAVAILABLE):  # else its service says so again next time
                if await self._subscriptions.remove(to.endpoint):
                    log.info("a browser at %s is gone (%d): it is told no more", to.service, status)
            return Reply(f"A browser at {to.service} is gone.", gone=True)
        if status == 429 or status >= 500:
            again_s = _seconds(pause, self._clock())
            self._resting[to.id] = self._clock() + int(again_s * 1000)
            return Reply(f"{to.service} answered {status}.", again_s)
        step = (
            "Give ADSUM_PUSH_CONTACT a mail address of yours."
            if status in (400, 401, 403)
            else "Subscribe anew in the browser."
        )
        return Reply(f"{to.service} refused a push with {status}. {step}")

    def _client(self) -> httpx.AsyncClient:
        if self._http is None:
            import httpx

            # At INFO it logs every address it posts to.
            logging.getLogger("httpx").setLevel(logging.WARNING)
            logging.getLogger("httpcore").setLevel(logging.WARNING)
            self._http = httpx.AsyncClient(timeout=POST_S, follow_redirects=False)
        return self._http


def _seconds(pause: str | None, now: int) -> float:
    """Retry-After: seconds, or a date. Never less than our own first wait."""
    if pause is None:
        return FIRST_AGAIN_S
    try:
        wait = (
            float(pause)
            if pause.isdigit()
            else parsedate_to_datetime(pause).timestamp() - now / 1000
        )
    except (ValueError, OverflowError):
        return FIRST_AGAIN_S
    return min(86_400.0, max(FIRST_AGAIN_S, wait))
