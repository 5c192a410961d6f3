"""Keeps what this machine is to the hub it joined, asks that hub, and chooses which way signals go."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import ssl
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import msgspec

from adsum.client import SilentError, is_address, request, trusting
from adsum.outcome import CommandError, Exit, require
from adsum_collector.delivery.transports import HubPlace
from adsum_collector.settings import CollectorSettings
from adsum_shared import streams
from adsum_shared.connect import UNAVAILABLE, open_redis
from adsum_shared.private_files import write_private
from adsum_shared.redis_errors import explained, is_certificates, is_untrusted
from adsum_shared.redis_url import address_of, with_ca
from adsum_shared.tls import wrong_tls

FILE = "machine.json"
#: auto: what the hub offers, and through the hub where Redis cannot be used from here.
Way = Literal["auto", "redis", "ingest"]
REACHED_WITHIN_S = 4.0
UNTRUSTED = (
    "is refused for its certificate: neither the system nor a file given by --ca knows the authority "
    "that signed it. To go straight there, give --ca a file that holds that authority's certificate, "
    "beside the hub's if that has one of your own as well"
)


class Membership(msgspec.Struct, frozen=True):
    """A file for its user alone. redis_url holds the machine's login.

    ca: a file with who may have signed for the hub. via: how its signals go; ingest: through the
    hub, and redis_url is empty.
    """

    hub: str
    host_id: str
    label: str
    redis_url: str
    secret: str
    ca: str | None = None
    via: Literal["redis", "ingest"] = "redis"

    @property
    def ingest(self) -> HubPlace | None:
        return HubPlace(self.hub, self.secret, self.ca) if self.via == "ingest" else None

    def open_hub(self) -> Hub:
        return Hub(self.hub, Path(self.ca) if self.ca else None, self.secret)


def membership(state_dir: Path) -> Membership | None:
    """None: it has not joined; or its record cannot be read, and then it joins anew."""
    try:
        return msgspec.json.decode((state_dir / FILE).read_bytes(), type=Membership)
    except (OSError, msgspec.DecodeError):
        return None


def keep(state_dir: Path, what: Membership) -> None:
    """Raises OSError."""
    write_private(state_dir / FILE, msgspec.json.encode(what))


def signals_go(settings: CollectorSettings) -> tuple[str | None, HubPlace | None]:
    """Redis's URL, or the hub that signals go through. A URL that was set counts before joining."""
    found = None if settings.redis_url else membership(settings.state_dir)
    if found is None:
        return settings.redis_url, None
    return found.redis_url or None, found.ingest


def host_id_of(state_dir: Path) -> str | None:
    """The id of this machine, None if no collector has ever run on this state directory."""
    try:
        return str(json.loads((state_dir / "host.json").read_bytes())["host_id"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


class RefusedError(CommandError):
    """The hub's own answer. status: of HTTP."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text, Exit.AUTH if status in (401, 403, 410) else Exit.ERROR)
        self.status = status


class LostError(CommandError):
    """It was asked, and may have done it: no answer of its own came back."""


class Hub:
    """ca: a file with the certificate of who signs for it, if no system knows that."""

    def __init__(self, url: str, ca: Path | None = None, secret: str | None = None) -> None:
        self.url = url.rstrip("/")
        looks = "It looks like https://hub.example.net or http://127.0.0.1:47893."
        bare = is_address(self.url) and not urlsplit(self.url).path
        require(bare, f"This is no address of a hub. {looks}")
        self._parts = parts = urlsplit(self.url)
        self.secret = secret
        self._tls = require_usable(ca) if parts.scheme == "https" else None

    @property
    def in_clear(self) -> str | None:
        """A warning: what is told to it can be read on the way. None: nobody can."""
        host = self._parts.hostname or ""
        if self._parts.scheme == "https" or _is_loopback(host):
            return None
        port = self._parts.port or 80
        return (
            f"{self.url} is not encrypted: the token and this machine's secret cross the network "
            "in clear. Give the hub https, or go through a tunnel: "
            f"ssh -N -L 47893:127.0.0.1:{port} {host}, and join http://127.0.0.1:47893"
        )

    def ask(self, path: str, told: dict[str, Any] | None = None) -> Any:
        """GET, or POST of `told`. Raises CommandError, RefusedError, LostError."""
        headers = {"Authorization": f"Bearer {self.secret}"} if self.secret else {}
        try:
            answer = request(self.url, path, told, headers=headers, tls=self._tls)
        except SilentError as error:
            cannot = LostError if error.sent else CommandError
            if isinstance(error.__cause__, ssl.SSLError):
                words = wrong_tls(self._parts.hostname or "", error.__cause__)
                raise cannot(words, Exit.AUTH) from error
            raise cannot(
                f"The hub at {self.url} cannot be reached from here ({error}). Is that its address, "
                "does it run, and does a firewall let this machine through?",
                Exit.UNREACHABLE,
            ) from error
        status, said = answer.status, answer.json
        if status == 200 and isinstance(said, dict):
            return said
        if answer.refusal is not None:
            raise RefusedError(answer.refusal, status)
        if status in (404, 405):
            why = (
                "it is older, and knows nothing of joining, or another program, as a collector. "
                "Upgrade it, or correct the address"
            )
        else:
            why = f"HTTP {status} is from something else there, or from a proxy before it"
        lost = status == 200 or status >= 500
        raise (LostError if lost else CommandError)(
            f"{self.url} answers, but not as a hub of Adsum: {why}.", Exit.UNREACHABLE
        )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def require_usable(ca: Path | None) -> ssl.SSLContext:
    """For the hub; Redis is reached by it too, by whichever way the hub is. Raises CommandError."""
    return trusting(str(ca) if ca else None, f"--ca {ca}")


def wished_way(via: str) -> Way:
    """Raises CommandError."""
    match via:
        case "auto" | "redis" | "ingest":
            return via
        case _:
            raise CommandError(f"--via takes auto, redis or ingest, not {via[:40]!r}.", Exit.USAGE)


def choose_way(
    hub: Hub, answer: dict[str, Any], via: Way, ca: str | None = None
) -> tuple[str | None, str]:
    """Redis's URL, None: its signals go through the hub; and what to say of that.

    ca: see `reach_redis`. Raises CommandError.
    """
    if answer["way"] == "ingest":
        return None, f"through the hub. {answer['why']}"
    if via == "ingest":
        older = "The hub is older than this, and takes no signals itself. Upgrade it"
        raise CommandError(f"{older}, or join without --via ingest.")
    address = address_of(answer["redis_url"])
    try:
        url = reach_redis(answer["redis_url"], answer["host_id"], ca)
    except UNAVAILABLE as error:
        why = f"Redis at {address} {_why(error)}"
        refused = CommandError(
            f"The hub names a Redis that cannot be used from here. {why}. If machines reach it "
            "elsewhere, set ADSUM_MACHINE_REDIS_URL at the hub; or go through the hub: --via ingest.",
            Exit.UNREACHABLE,
        )
        if via == "redis":
            raise refused from error
        try:
            hub.ask("/api/v1/machine/ingest", {})
        except RefusedError as older_hub:
            raise refused from older_hub
        return None, f"through the hub. {why}."
    return url, f"to Redis at {address}, which is reached from here"


def reach_redis(url: str, host_id: str, ca: str | None) -> str:
    """The URL to use from now on, with the machine's own login. Raises what is in UNAVAILABLE.

    ca: a file with who signed for the hub. Who signed for Redis may be the same one, which then
    counts alone, or one that the system trusts.
    """
    pinned = url if ca is None else with_ca(url, ca)
    try:
        _look(pinned, host_id)
    except UNAVAILABLE as error:
        if pinned == url or not is_untrusted(error):
            raise
        _look(url, host_id)
        return url
    return pinned


def _look(url: str, host_id: str) -> None:
    async def look() -> None:
        client = open_redis(url)
        try:
            await client.get(streams.want(host_id))
        finally:
            await client.aclose()

    asyncio.run(asyncio.wait_for(look(), REACHED_WITHIN_S))


def _why(error: BaseException) -> str:
    """What follows `Redis at …`."""
    if is_untrusted(error):
        return UNTRUSTED
    if is_certificates(error):
        return f"is refused for its certificate: it {explained(error)}".rstrip(".")
    return f"cannot be used from here ({str(error) or type(error).__name__})"
