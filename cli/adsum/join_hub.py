"""What a machine asks of the hub that it joins or leaves."""

from __future__ import annotations

import http.client
import ipaddress
import json
import ssl
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from adsum.outcome import CommandError, Exit
from adsum_shared.tls import wrong_tls

TIMEOUT_S = 10.0


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
        self._parts = parts = urlsplit(self.url)
        try:
            usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        except ValueError:
            usable = False
        if not usable or parts.path or "@" in parts.netloc:
            raise CommandError(
                "This is no address of a hub. It looks like https://hub.example.net or "
                "http://127.0.0.1:47893.",
                Exit.USAGE,
            )
        self.secret = secret
        self._context = require_usable(ca) if parts.scheme == "https" else None

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
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        if self.secret:
            headers["Authorization"] = f"Bearer {self.secret}"
        connection = self._connection()
        cannot = CommandError
        try:
            connection.connect()
            cannot = LostError
            body = None if told is None else json.dumps(told)
            connection.request("GET" if told is None else "POST", path, body, headers)
            response = connection.getresponse()
            status, raw = response.status, response.read()
        except ssl.SSLError as error:
            raise cannot(wrong_tls(self._parts.hostname or "", error), Exit.AUTH) from error
        except (OSError, http.client.HTTPException) as error:
            why = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise cannot(
                f"The hub at {self.url} cannot be reached from here ({why}). Is that its address, "
                "does it run, and does a firewall let this machine through?",
                Exit.UNREACHABLE,
            ) from error
        finally:
            connection.close()
        return self._answer(status, raw)

    def _connection(self) -> http.client.HTTPConnection:
        host, port = self._parts.hostname or "", self._parts.port
        if self._context is None:
            return http.client.HTTPConnection(host, port, timeout=TIMEOUT_S)
        return http.client.HTTPSConnection(host, port, timeout=TIMEOUT_S, context=self._context)

    def _answer(self, status: int, raw: bytes) -> Any:
        try:
            said = json.loads(raw)
        except ValueError:
            said = None
        if status == 200 and isinstance(said, dict):
            return said
        if isinstance(said, dict) and "error" in said:
            raise RefusedError(f"{said['error']} {said.get('next', '')}".rstrip(), status)
        if status in (404, 405):
            why = "it is older, and knows nothing of joining, or no hub of Adsum: upgrade it"
        else:
            why = f"HTTP {status}: something else answers there, or a proxy before it"
        lost = status == 200 or status >= 500
        raise (LostError if lost else CommandError)(
            f"{self.url} does not answer as a hub: {why}.", Exit.UNREACHABLE
        )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def require_usable(ca: Path | None) -> ssl.SSLContext:
    """For the hub; Redis is reached by it too, by whichever way the hub is. Raises CommandError."""
    try:
        return ssl.create_default_context(cafile=str(ca) if ca else None)
    except (OSError, ssl.SSLError) as error:
        why = getattr(error, "strerror", None) or "it holds no certificate"
        raise CommandError(f"--ca {ca} cannot be used ({why}).", Exit.USAGE) from error
