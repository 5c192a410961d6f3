"""Asking a hub over REST, and saying what is wrong when it does not answer."""

from __future__ import annotations

import http.client
import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from platformdirs import user_config_path, user_state_path

from adsum.outcome import CommandError, Exit

DEFAULT_URL = "http://127.0.0.1:47893"
TIMEOUT_S = 10.0


def hub_url(flag: str | None, state_dir: Path | None) -> str:
    """--hub and ADSUM_HUB_URL (the flag holds either) > the hub that runs here > the default."""
    url = (flag or _running_here(state_dir) or DEFAULT_URL).rstrip("/")
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
    return url


def fetch(url: str, path: str, query: Mapping[str, str] | None = None) -> Any:
    """The decoded JSON of GET `path`. Raises CommandError with the exit code that fits."""
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=TIMEOUT_S)
    target = parts.path + path + (f"?{urlencode(query)}" if query else "")
    try:
        connection.request("GET", target, headers={"Accept": "application/json"})
        response = connection.getresponse()
        body = response.read()
    except (OSError, http.client.HTTPException) as error:
        raise unreachable(url, error) from error
    finally:
        connection.close()
    return _decoded(url, response.status, body)


def unreachable(url: str, error: Exception) -> CommandError:
    reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return CommandError(
        f"No hub answers at {url} ({reason}). Start one on this machine with `adsum up`, or name "
        "another with --hub or ADSUM_HUB_URL.",
        Exit.UNREACHABLE,
    )


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
        raise CommandError(f"The hub at {url} refuses: {why} {step}".rstrip(), Exit.AUTH)
    if "error" in said:
        raise CommandError(f"{said['error']} {said.get('next', '')}".rstrip())
    if status == 422:
        raise CommandError(f"The hub does not understand the question: {said.get('detail')}")
    raise CommandError(
        f"{url} answers, but not as a hub of Adsum (HTTP {status}). Correct --hub or "
        "ADSUM_HUB_URL.",
        Exit.UNREACHABLE,
    )


def _running_here(state_dir: Path | None) -> str | None:
    try:
        url = json.loads(((state_dir or _state_dir()) / "hub.json").read_bytes())["url"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return str(url)


def _state_dir() -> Path:
    """As AdsumSettings reads it; importing that would double the time to the first row."""
    try:
        config = tomllib.loads((user_config_path("adsum") / "config.toml").read_text("utf-8"))
    except (OSError, ValueError):
        config = {}
    chosen = config.get("state_dir")
    return Path(chosen).expanduser() if isinstance(chosen, str) else user_state_path("adsum")
