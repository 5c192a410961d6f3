"""Where machines reach the hub and its Redis. Pure."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from adsum_hub.join.rights import user_of
from adsum_hub.join.words import LOCAL_HUB
from adsum_shared.connect import address_of

#: What machines get of the query. The rest may be a login, or a path that only the hub's machine has.
HARMLESS = frozenset({"db", "ssl_cert_reqs", "ssl_check_hostname"})
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


def is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address.partition("%")[0]).is_loopback
    except ValueError:
        return True  # not by an address at all: a unix socket


@dataclass(frozen=True, slots=True)
class Addresses:
    """redis_url: where machines reach Redis. shared: a URL for those that get no user of their own.

    public_url: where the hub is reached from elsewhere; None: nobody has said so.
    """

    redis_url: str
    shared: str | None
    public_url: str | None

    def hub(self, reached: str) -> str:
        return self.public_url or reached

    def redis(self, host_id: str, secret: str) -> str:
        """With the machine's own login in it, and none of the hub's."""
        parts = urlsplit(self.redis_url)
        place = parts.netloc.rpartition("@")[2]
        login = f"{quote(user_of(host_id))}:{quote(secret)}"
        query = urlencode([(k, v) for k, v in parse_qsl(parts.query) if k in HARMLESS])
        # urlunsplit would leave out an empty netloc of unix:///path, and it is not empty any more
        return urlunsplit(parts._replace(netloc=f"{login}@{place}", query=query, fragment=""))

    def note(self, hub: str) -> str | None:
        """What keeps machines elsewhere from joining, as far as it shows in the addresses."""
        return LOCAL_HUB if urlsplit(hub).hostname in LOOPBACK else None

    def nowhere_from(self, address: str) -> str | None:
        """Redis's address as it may be shown, where a machine that asks from there has no use for it.

        One that asks from here may be behind a proxy or a tunnel: it has to try.
        """
        parts = urlsplit(self.redis_url)
        local = parts.scheme == "unix" or (parts.hostname or "localhost") in LOOPBACK
        return address_of(self.redis_url) if local and not is_loopback(address) else None
