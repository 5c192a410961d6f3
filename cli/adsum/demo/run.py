"""`adsum up --demo` shows a made-up fleet, apart from all that is real, then deletes it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import site
import socket
import sys
from asyncio.subprocess import Process
from collections.abc import Iterator, Mapping
from pathlib import Path

from platformdirs import user_state_path

from adsum.broker import broker_part, find_engine, place_of, prepare
from adsum.demo.story import SCRIPT
from adsum.outcome import CommandError
from adsum.supervise import Part, python_part, start_python, supervise
from adsum.text import saying
from adsum.up import LOOPBACK, held, say

#: The page of a real hub keeps things under its own address: the demo's is another.
PORT = 47993
MEMORY_MB = 128
#: In the demo's directory: nothing without it is ever deleted.
MARK = "this-is-adsums-demo"


def run_demo(state_dir: Path | None) -> None:
    """state_dir: the real one's; the demo lies beside it, never in it."""
    real = state_dir or user_state_path("adsum")
    folder = real.with_name(f"{real.name}-demo")
    # Nor does any variable of theirs: a public address, say, or whom to notify.
    for name in [name for name in os.environ if name.startswith("ADSUM_")]:
        del os.environ[name]
    port = _free_port()
    _require_ours(folder)
    with held(folder, f"http://{LOOPBACK}:{port}"), _emptied(folder):
        asyncio.run(_run(folder, port))
    say("The demo is over, and nothing of it is left.")


async def _run(folder: Path, port: int) -> None:
    stages = _stages(folder, port)

    async def started() -> None:
        url = f"http://{LOOPBACK}:{port}"
        lines = (
            "DEMO: six machines and forty sessions, all made up. Your own are not touched.",
            f"  Dashboard  {url}",
            "  Sign in    nobody has to",
            f"  Commands   adsum agents --hub {url}",
            "  Hooks      yours stay as they are",
            "  Ctrl-C ends it, and deletes what it wrote.",
        )
        saying.say("\n".join(lines), sys.stdout)

    await supervise(stages, say, started)


def _stages(folder: Path, port: int) -> list[list[Part]]:
    engine, place = find_engine(), prepare(folder)
    env = _env(folder, place.url, port)
    return [
        [broker_part(engine, place, MEMORY_MB, say)],
        [
            python_part("hub", (LOOPBACK, port), folder / "logs" / "hub.log", env),
            _fleet_part(folder, env),
        ],
    ]


def _env(folder: Path, url: str, port: int) -> dict[str, str]:
    """All there is: with a home of its own, no file of the user's says anything in the demo.

    PYTHONUSERBASE: or what was installed for the user alone would be out of sight.
    """
    home = folder / "home"
    home.mkdir(mode=0o700, exist_ok=True)
    return {
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home / "config"),
        "PYTHONUSERBASE": site.getuserbase(),
        "ADSUM_STATE_DIR": str(folder),
        "ADSUM_REDIS_URL": url,
        "ADSUM_HUB_HOST": LOOPBACK,
        "ADSUM_HUB_PORT": str(port),
        "ADSUM_SIGN_IN": "off",
        "ADSUM_DEMO": "on",
        "ADSUM_BUDGETS": json.dumps(SCRIPT["budgets"]),
        "ADSUM_LOG_LEVEL": "warning",
    }


def _fleet_part(folder: Path, env: Mapping[str, str]) -> Part:
    log, ready = folder / "logs" / "fleet.log", folder / "fleet" / "ready"

    async def launch() -> Process:
        ready.unlink(missing_ok=True)
        return await start_python(("adsum.demo.player",), log, env)

    async def is_ready() -> bool:
        return ready.exists()

    return Part("fleet", launch, is_ready, log)


def _free_port() -> int:
    """The demo's own; where that is taken, any."""
    for port in (PORT, 0):
        with socket.socket() as trial, contextlib.suppress(OSError):
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trial.bind((LOOPBACK, port))
            return int(trial.getsockname()[1])
    raise CommandError(f"No port on {LOOPBACK} is free. End some programs, then try again.")


def _require_ours(folder: Path) -> None:
    if folder.is_dir() and any(folder.iterdir()) and not (folder / MARK).exists():
        raise CommandError(
            f"{folder} is not empty and was not made by a demo. Move it away, or choose another "
            "state directory: the demo lies beside it (--state-dir)."
        )
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        (folder / MARK).touch(mode=0o600)
    except OSError as error:
        raise CommandError(
            f"{folder}, where the demo would lie, cannot be used: {error.strerror}. "
            "Choose another state directory with --state-dir."
        ) from error


@contextlib.contextmanager
def _emptied(folder: Path) -> Iterator[None]:
    """Before, of what a killed demo left; and after."""
    _empty(folder)
    try:
        yield
    finally:
        socket_folder = place_of(folder).socket.parent
        shutil.rmtree(folder, ignore_errors=True)
        if not socket_folder.is_relative_to(folder):  # a short one elsewhere, made for it alone
            shutil.rmtree(socket_folder, ignore_errors=True)


def _empty(folder: Path) -> None:
    for path in folder.iterdir():
        if path.name in (MARK, "up.lock"):
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
