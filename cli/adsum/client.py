"""Asking a hub over REST, and saying what is wrong when it does not answer."""

from __future__ import annotations

import http.client
import json
import os
import ssl
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from platformdirs import user_config_path, user_state_path

from adsum.credentials import joined_to, running_here, token_for
from adsum.outcome import CommandError, Exit
from adsum_shared.tls import wrong_tls

DEFAULT_URL = "http://127.0.0.1:47893"
LOOPBACK = "127.0.0.1"
EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104 - told apart, not bound
TIMEOUT_S = 10.0
READY_WITHIN_S = 3.0


class HubAddress(str):
    """A hub's URL, with what lets this command in there.

    A str, since that is what sentences and requests need of it.
    """

    state_dir: Path
    config: dict[str, Any]
    #: A file with who may have signed for it; None: whom the system trusts.
    ca: str | None = None

    def headers(self) -> dict[str, str]:
        """Read each time: a hub that was started anew has a new token for this machine."""
        token = token_for(self, self.state_dir, self.config)
        return {"Authorization": f"Bearer {token}"} if token else {}


def headers_for(url: str) -> dict[str, str]:
    return url.headers() if isinstance(url, HubAddress) else {}


def connection_to(url: str, timeout_s: float) -> http.client.HTTPConnection:
    parts, tls = urlsplit(url), tls_to(url)
    host, port = parts.hostname or "", parts.port
    if tls is None:
        return http.client.HTTPConnection(host, port, timeout=timeout_s)
    return http.client.HTTPSConnection(host, port, timeout=timeout_s, context=tls)


def tls_to(url: str) -> ssl.SSLContext | None:
    """None: it is not spoken to by https. Raises CommandError."""
    if not url.startswith("https:"):
        return None
    ca = url.ca if isinstance(url, HubAddress) else None
    try:
        return ssl.create_default_context(cafile=ca)
    except OSError as error:
        why = getattr(error, "strerror", None) or "it holds no certificate"
        raise CommandError(
            f"{ca}, which this machine joined {url} with, cannot be used ({why}). Put it back, or "
            "join anew: adsum join --again --ca FILE",
            Exit.USAGE,
        ) from error


def hub_url(flag: str | None, state_dir: Path | None) -> HubAddress:
    """--hub and ADSUM_HUB_URL (the flag holds either) > what runs here > what was joined > as `up`."""
    config = read_config()
    home = state_dir or _state_dir(config)
    joined, ca = joined_to(home)
    url = (flag or running_here(home) or joined or _configured(config)).rstrip("/")
    parts = urlsplit(url)
    try:
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise CommandError(
            f"{url!r} is no address of a hub. It looks like {DEFAULT_URL}: correct --hub or "
            "ADSUM_HUB_URL.",
            Exit.USAGE,
        )
    address = HubAddress(url)
    address.state_dir, address.config = home, config
    address.ca = ca if url == joined else None
    return address


def fetch(
    url: str,
    path: str,
    query: Mapping[str, str] | None = None,
    *,
    timeout_s: float = TIMEOUT_S,
) -> Any:
    """The decoded JSON of GET `path`. Raises CommandError with the exit code that fits."""
    status, _, body = _ask(url, path, query, timeout_s=timeout_s)
    return _decoded(url, status, body)


def tell(url: str, method: str, path: str, told: Mapping[str, Any] | None = None) -> Any:
    """The decoded JSON of what changes something. Raises as `fetch` does."""
    status, _, body = _ask(url, path, method=method, told=told or {})
    return _decoded(url, status, body)


def fetch_csv(url: str, path: str, query: Mapping[str, str]) -> bytes:
    """The body of GET `path` as it comes: what is safe to open as a table the hub sees to."""
    status, kind, body = _ask(url, path, query, accept="text/csv")
    if status == 200 and kind.startswith("text/csv"):
        return body
    _decoded(url, status, body)  # says why, unless it is an answer to another question
    raise no_hub(url)


def _ask(
    url: str,
    path: str,
    query: Mapping[str, str] | None = None,
    *,
    method: str = "GET",
    told: Mapping[str, Any] | None = None,
    accept: str = "application/json",
    timeout_s: float = TIMEOUT_S,
) -> tuple[int, str, bytes]:
    """Status, content type and body."""
    parts = urlsplit(url)
    connection = connection_to(url, timeout_s)
    target = parts.path + path + (f"?{urlencode(query)}" if query else "")
    headers = {"Accept": accept, **headers_for(url)}
    text = None
    if told is not None:
        text, headers["Content-Type"] = json.dumps(told), "application/json"
    try:
        connection.request(method, target, text, headers)
        response = connection.getresponse()
        return response.status, response.headers.get("Content-Type", ""), response.read()
    except (OSError, http.client.HTTPException) as error:
        raise unreachable(url, error) from error
    finally:
        connection.close()


def unreachable(url: str, error: Exception) -> CommandError:
    if isinstance(error, ssl.SSLCertVerificationError):
        pinned = isinstance(url, HubAddress) and url.ca
        own = "adsum join --again --ca FILE" if pinned else "SSL_CERT_FILE=FILE"
        return CommandError(wrong_tls(urlsplit(url).hostname or url, error, own), Exit.AUTH)
    return CommandError(
        f"No hub answers at {url} ({reason_of(error)}). Start one on this machine with `adsum up`, or name "
        "another with --hub or ADSUM_HUB_URL.",
        Exit.UNREACHABLE,
    )


def reason_of(error: Exception) -> str:
    """In a few words. asyncio puts the address into what is otherwise the system's own text."""
    if isinstance(error, ConnectionError) and error.errno:
        return os.strerror(error.errno)
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _decoded(url: str, status: int, body: bytes) -> Any:
    try:
        answer = json.loads(body)
    except ValueError:
        answer = None
    if status == 200 and answer is not None:
        return answer
    said = answer if isinstance(answer, dict) else {}
    if status in (401, 403):
        why, step = said.get("error", "it gives no reason"), said.get("next", "")
        raise refused(url, f"{why} {step}".rstrip())
    if "error" in said:
        code = Exit.USAGE if status in (400, 422) else Exit.ERROR
        raise CommandError(f"{said['error']} {said.get('next', '')}".rstrip(), code)
    if status == 422:
        why = _misunderstood(said.get("detail"))
        raise CommandError(f"The hub does not understand the question: {why}", Exit.USAGE)
    raise no_hub(url, f" (HTTP {status})")


def refused(url: str, why: str = "it gives no reason") -> CommandError:
    return CommandError(f"The hub at {url} refuses: {why}", Exit.AUTH)


def _misunderstood(detail: Any) -> str:
    """As FastAPI tells it: a list of what is wrong with which parameter."""
    if not isinstance(detail, list):
        return str(detail)
    told = [each for each in detail if isinstance(each, dict) and each.get("loc")]
    return "; ".join(f"{each['loc'][-1]}: {each.get('msg')}" for each in told) or str(detail)


def no_hub(url: str, why: str = "") -> CommandError:
    return CommandError(
        f"{url} answers, but not as a hub of Adsum{why}. Correct --hub or ADSUM_HUB_URL.",
        Exit.UNREACHABLE,
    )


def read_config() -> dict[str, Any]:
    """As AdsumSettings reads it; importing that would double the time to the first row.

    Raises CommandError: without what stands there another hub would be asked.
    """
    file = user_config_path("adsum") / "config.toml"
    try:
        return tomllib.loads(file.read_text("utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise CommandError(f"{file} cannot be read ({error.strerror}).", Exit.USAGE) from error
    except ValueError as error:
        raise CommandError(f"{file} is not TOML: {error}.", Exit.USAGE) from error


def _configured(config: dict[str, Any]) -> str:
    """Where a hub of this machine would listen, as HubSettings has it."""
    preset = urlsplit(DEFAULT_URL)
    host = os.environ.get("ADSUM_HUB_HOST") or str(config.get("hub_host") or LOOPBACK)
    port = os.environ.get("ADSUM_HUB_PORT") or str(config.get("hub_port") or preset.port)
    if not (port.strip().isdecimal() and 0 < int(port) < 65_536):
        raise CommandError(
            f"{port!r} is no port of a hub: correct ADSUM_HUB_PORT, or hub_port in "
            f"{user_config_path('adsum') / 'config.toml'}.",
            Exit.USAGE,
        )
    host = LOOPBACK if host in EVERYWHERE else host
    return f"http://{f'[{host}]' if ':' in host else host}:{int(port)}"


def home_of(state_dir: Path | None) -> Path:
    """The state directory that a command works on; the flag holds the variable's as well."""
    return state_dir or _state_dir(read_config())


def _state_dir(config: dict[str, Any]) -> Path:
    chosen = config.get("state_dir")
    return Path(chosen).expanduser() if isinstance(chosen, str) else user_state_path("adsum")


class SilentError(Exception):
    """Nobody answers there, or somebody else. The text is the reason."""


def readiness(url: str) -> dict[str, Any]:
    """The facts, whether they say ready or not. Raises SilentError."""
    connection = connection_to(url, READY_WITHIN_S)
    try:
        headers = {"Accept": "application/json", **headers_for(url)}
        connection.request("GET", f"{urlsplit(url).path}/readyz", headers=headers)
        facts = json.loads(connection.getresponse().read())
    except (OSError, http.client.HTTPException) as error:
        raise SilentError(getattr(error, "strerror", None) or str(error) or "no answer") from error
    except ValueError as error:
        raise SilentError("another program answers there") from error
    finally:
        connection.close()
    if not isinstance(facts, dict) or "ready" not in facts:
        raise SilentError("another program answers there")
    return facts
