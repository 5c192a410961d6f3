"""What `adsum up` supervises: the embedded broker, and hub and collector as processes of their own."""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import Process
from collections.abc import Mapping, Sequence
from pathlib import Path

from adsum.parts.broker import (
    UNREADABLE,
    Place,
    command_line,
    dismiss_orphan,
    is_ready,
    move_aside,
    settle_files,
)
from adsum.parts.engine import Engine
from adsum.parts.supervise import Part, Say, launcher
from adsum_shared.private_files import open_private

#: Set for supervised parts: their standard input is a pipe that closes when the supervisor is gone.
SUPERVISED = "ADSUM_SUPERVISED"


#: A broker answers once it has read its files; at the slowest it reads so much in a second.
READ_MB_S = 16


def broker_part(engine: Engine, place: Place, memory_mb: int, say: Say) -> Part:
    argv = launcher(os.getpid(), command_line(engine, place, memory_mb))
    written = 0

    async def launch() -> Process:
        nonlocal written
        await dismiss_orphan(place)
        settle_files(place, engine, say)
        written = place.log.stat().st_size if place.log.exists() else 0
        # Its own session: Ctrl-C reaches only us, and we stop the parts in order.
        return await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )

    def mend() -> bool:
        damaged = _unreadable(place.log, written)
        if damaged:
            move_aside(place, "damaged", say)
        return damaged

    return Part(
        "broker",
        launch,
        lambda: is_ready(place.socket),
        place.log,
        patience_s=30.0 + memory_mb / READ_MB_S,
        mend=mend,
    )


def python_part(name: str, address: tuple[str, int], log: Path, env: Mapping[str, str]) -> Part:
    """`adsum hub` or `adsum collector` in a process of its own."""

    async def launch() -> Process:
        return await start_python(("adsum", name), log, env)

    # A hub that fails must not end the collector: then every hook of the user's would fail too.
    return Part(name, launch, lambda: answers_ok(*address), log, vital=name != "hub")


async def start_python(module: Sequence[str], log: Path, env: Mapping[str, str]) -> Process:
    """`python -m` with these words; it ends when its standard input, a pipe of ours, closes."""
    with os.fdopen(open_private(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND), "ab") as output:
        # -P: a folder named like one of our packages in the current directory must not win.
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", *module),
            stdin=asyncio.subprocess.PIPE,
            stdout=output,
            stderr=output,
            env={**os.environ, **env, SUPERVISED: "1"},
            start_new_session=True,
        )


async def answers_ok(host: str, port: int, path: str = "/livez") -> bool:
    """Whether a 200 comes back; a whole HTTP client takes longer to import than this to run."""
    try:
        reader, writer = await asyncio.wait_for(asyncio.open_connection(host, port), 1.0)
    except (OSError, TimeoutError):
        return False
    named = f"[{host}]" if ":" in host else host
    try:
        writer.write(f"GET {path} HTTP/1.0\r\nHost: {named}:{port}\r\n\r\n".encode())
        status = await asyncio.wait_for(reader.readline(), 2.0)
    except (OSError, TimeoutError):
        return False
    finally:
        writer.close()
    return b" 200" in status


def _unreadable(log: Path, start: int) -> bool:
    if not log.exists():
        return False
    with log.open("rb") as file:
        file.seek(start)
        written = file.read().decode("utf-8", "replace")
    return any(phrase in written for phrase in UNREADABLE)
