"""The product as real processes on ports of its own, for measurements."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

REDIS, COLLECTOR, HUB = 48300, 48301, 48302
REDIS_URL = f"redis://127.0.0.1:{REDIS}"


@contextlib.contextmanager
def running(*command: str, **env: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(command, env=os.environ | env)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()


async def until(check: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 20
    while not check():
        if time.monotonic() > deadline:
            raise SystemExit(f"{what} did not start")
        await asyncio.sleep(0.05)


def listening(port: int) -> Callable[[], bool]:
    def check() -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 0.2):
            return True
        return False

    return check


@dataclass
class Stage:
    root: Path
    env: dict[str, str]
    parts: dict[str, subprocess.Popen[bytes]]

    @property
    def token(self) -> str:
        return (self.root / "state" / "token").read_text().strip()


async def set_up(stack: contextlib.ExitStack) -> Stage:
    """Redis, collector and hub, each listening; all gone when the stack is closed."""
    engine = shutil.which("redis-server") or shutil.which("valkey-server")
    if engine is None:
        raise SystemExit("needs redis-server or valkey-server on PATH")
    root = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    (root / "redis").mkdir()
    options = ("--dir", str(root / "redis"), "--save", "", "--appendonly", "yes")
    logs = ("--loglevel", "warning", "--logfile", str(root / "redis.log"))
    stack.enter_context(running(engine, "--port", str(REDIS), *options, *logs))
    await until(listening(REDIS), "redis")
    env = {
        "ADSUM_STATE_DIR": str(root / "state"),
        "ADSUM_REDIS_URL": REDIS_URL,
        "ADSUM_COLLECTOR_PORT": str(COLLECTOR),
        "ADSUM_HUB_PORT": str(HUB),
        "ADSUM_SIGN_IN": "off",
        "ADSUM_LOG_LEVEL": "warning",
        "HOME": str(root),
    }
    parts = {
        name: stack.enter_context(running(sys.executable, "-m", "adsum", name, **env))
        for name in ("collector", "hub")
    }
    await until(listening(COLLECTOR), "collector")
    await until(listening(HUB), "hub")
    await asyncio.sleep(1.5)
    return Stage(root, os.environ | env, parts)
