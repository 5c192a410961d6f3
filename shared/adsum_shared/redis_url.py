"""URLs of Redis: one server, Sentinels that know the master, or the nodes of a cluster. Pure."""

import re
from dataclasses import dataclass
from typing import Literal
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

Kind = Literal["one", "sentinel", "cluster"]
Address = tuple[str, int]

#: Where none is given.
PORTS: dict[Kind, int] = {"one": 6379, "sentinel": 26379, "cluster": 6379}
_SCHEMES: dict[str, tuple[str, Kind]] = {
    "redis": ("redis", "one"),
    "rediss": ("rediss", "one"),
    "unix": ("unix", "one"),
    "redis+sentinel": ("redis", "sentinel"),
    "rediss+sentinel": ("rediss", "sentinel"),
    "redis+cluster": ("redis", "cluster"),
    "rediss+cluster": ("rediss", "cluster"),
}
#: The library's would take several places with ports, or addresses in brackets, for none. In a
#: path and a query no @ stands: there a password was torn that holds a bare / or ?.
_PARTS = re.compile(
    r"(?P<scheme>[a-z+]+)://(?P<netloc>[^/?#]*)(?P<path>[^?#@]*)(?:\?(?P<query>[^#@]*))?"
)
#: The Sentinels' own login, in the query: they have users and passwords of their own.
_OWN = ("sentinel_username", "sentinel_password")


class RedisUrlError(ValueError):
    """The URL cannot be used. The text holds nothing of it: any part may be a password's."""


@dataclass(frozen=True, slots=True)
class RedisUrl:
    """scheme: of one server. login: `user:password@` as it stood there. nodes: of a kind with several.

    master: the name that Sentinels know. own: the Sentinels' login, as `login`.
    """

    kind: Kind
    scheme: str
    login: str
    nodes: tuple[Address, ...]
    master: str = ""
    db: str = ""
    query: str = ""
    own: str = ""

    def of(self, address: Address) -> str:
        """The URL of one of the data servers."""
        db = f"/{self.db}" if self.db else ""
        return self._written(self.login, address) + db + (f"?{self.query}" if self.query else "")

    def of_sentinel(self, address: Address) -> str:
        asked = [(k, v) for k, v in parse_qsl(self.query) if k.startswith("ssl_")]
        return self._written(self.own, address) + (f"?{urlencode(asked)}" if asked else "")

    def _written(self, login: str, address: Address) -> str:
        return f"{self.scheme}://{login}{written(address)}"


def written(address: Address) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def read_url(url: str) -> RedisUrl:
    """Of several servers. Raises ValueError, whose words may quote the URL."""
    parts = _PARTS.fullmatch(url)
    if parts is None:
        raise ValueError("its form")
    scheme, kind = _SCHEMES[parts["scheme"]]
    login, at, places = parts["netloc"].rpartition("@")
    nodes = tuple(_address(each, PORTS[kind]) for each in places.split(","))
    words = parts["path"].strip("/").split("/") if parts["path"].strip("/") else []
    master = words.pop(0) if kind == "sentinel" and words else ""
    asked = dict(parse_qsl(parts["query"] or "", strict_parsing=bool(parts["query"])))
    user, password = (asked.pop(name, "") for name in _OWN)
    db = words.pop(0) if words else ""
    if words or (kind == "sentinel") != bool(master) or (db and not db.isdigit()):
        raise ValueError("its path")
    if kind == "cluster" and db.strip("0") + asked.get("db", "0").strip("0"):
        raise ValueError("a cluster has no databases")
    own = f"{quote(user, safe='')}:{quote(password, safe='')}@" if user or password else ""
    return RedisUrl(kind, scheme, login + at, nodes, master, db, urlencode(asked), own)


def _address(text: str, port: int) -> Address:
    if text.startswith("["):
        host, _, rest = text[1:].partition("]")
    else:
        host, colon, given = text.partition(":")
        rest = colon + given
    if not host or (rest and not rest.startswith(":")):
        raise ValueError("a host")
    number = int(rest[1:]) if rest[1:] else port
    if not 0 < number < 65_536:
        raise ValueError("a port")
    return host, number


def kind_of(url: str) -> Kind:
    """Of a URL that `check_url` lets pass."""
    return _SCHEMES.get(url.partition("://")[0], ("", "one"))[1]


def address_of(url: str) -> str:
    """What may be shown of a URL that `check_url` lets pass: not the login, nor the query."""
    if kind_of(url) != "one":
        read = read_url(url)
        places = ",".join(map(written, read.nodes))
        return f"{url.partition('://')[0]}://{places}{f'/{read.master}' if read.master else ''}"
    parts = urlsplit(url)
    if parts.scheme == "unix":
        return f"unix:{parts.path}"
    host = parts.hostname or "localhost"
    return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}:{parts.port or 6379}"


def with_ca(url: str, ca: str) -> str:
    """The URL with the authority's certificate in it, unless it names one itself."""
    if not url.startswith("rediss") or "ssl_ca_certs=" in url:
        return url
    return f"{url}{'&' if '?' in url else '?'}{urlencode({'ssl_ca_certs': ca})}"
