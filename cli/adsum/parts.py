"""What `adsum up` supervises: the embedded broker, and hub and collector as processes of their own."""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import Process
from collections.abc import Mapping
from pathlib import Path

from adsum.broker import (
    UNREADABLE,
    Place,
    command_line,
    dismiss_orphan,
    is_ready,
    move_aside,
    settle_files,
)
from adsum.engine import Engine
from adsum.supervise import Part, Say, launcher

#: Set for supervised parts: their standard input is a pipe that closes when the supervisor is gone.
SUPERVISED = "ADSUM_SUPERVISED"


def broker_part(engine: Engine, place: Place, memory_mb: int, say: Say) -> Part:
    argv = launcher(os.getpid(), command_line(engine, place, memory_mb))

    async def spawn() -> Process:
        await dismiss_orphan(place)
        settle_files(place, engine, say)
        # Its own session: Ctrl-C reaches only us, and we stop the parts in order.
        return await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )

    async def launch() -> Process:
        written = place.log.stat().st_size if place.log.exists() else 0
        process = await spawn()
        while process.returncode is None and not await is_ready(place.socket):  # noqa: ASYNC110 - another process, no event to wait for
            await asyncio.sleep(0.02)
        if process.returncode is not None and _unreadable(place.log, written):
            move_aside(place, "damaged", say)
            return await spawn()
        return process

    return Part("broker", launch, lambda: is_ready(place.socket), place.log)


def python_part(name: str, address: tuple[str, int], log: Path, env: Mapping[str, str]) -> Part:
    """`adsum hub` or `adsum collector` in a process of its own."""

    async def launch() -> Process:
        with log.open("ab") as output:
            # -P: a folder named like one of our packages in the current directory must not win.
            return await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", "adsum", name),
                stdin=asyncio.subprocess.PIPE,
                stdout=output,
                stderr=output,
                env={**os.environ, **env, SUPERVISED: "1"},
                start_new_session=True,
            )

    return Part(name, launch, lambda: answers_ok(*address), log)


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
    with log.open("rb") as file:
        file.seek(start)
        written = file.read().decode("utf-8", "replace")
    return any(phrase in written for phrase in UNREADABLE)
