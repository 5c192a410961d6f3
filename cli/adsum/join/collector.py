"""Starts and stops the collector of a machine that joins or leaves."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from adsum.outcome import CommandError
from adsum.service.job import NoServiceManagerError
from adsum.service.service import install_service, remove_service
from adsum.supervise import SUPERVISED
from adsum_collector.state_dir import holder_of

#: What is in the spool gets there within three seconds, or goes at the next start.
STOP_S = 12.0
LOOK_S = 0.05


def as_service(state_dir: Path) -> str:
    """What was done. Raises CommandError; then nothing has changed."""
    try:
        done = install_service(state_dir)
    except NoServiceManagerError as error:
        raise CommandError(
            f"{error.why}\nJoin with --no-service: the collector then runs as a process, until this "
            "machine stops."
        ) from error
    return " ".join(["runs as a service, also after a restart.", *done.notes])


def as_process(state_dir: Path) -> subprocess.Popen[bytes]:
    """It goes on when the terminal is closed, and ends with the machine."""
    logs = state_dir / "logs"
    logs.mkdir(mode=0o700, exist_ok=True)
    mine = ("ADSUM_JOIN_TOKEN", SUPERVISED)
    env = {name: value for name, value in os.environ.items() if name not in mine}
    with (logs / "collector.log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "adsum", "collector"],
            env={**env, "ADSUM_STATE_DIR": str(state_dir)},
            cwd=state_dir,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def end(process: subprocess.Popen[bytes]) -> None:
    """Also one so young that it holds no lock yet, so that nobody else could find it."""
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(STOP_S)


def stop(state_dir: Path) -> bool:
    """Its service, if there is one, and whoever runs on this directory. Whether anybody did.

    A hub's service on the same machine goes on. Raises CommandError.
    """
    gone: object = ()
    with contextlib.suppress(NoServiceManagerError):
        gone = remove_service(only_collector=True)
    holder = holder_of(state_dir)
    if holder is None or not holder.pid.isdecimal():
        return bool(gone)
    with contextlib.suppress(ProcessLookupError):
        os.kill(int(holder.pid), signal.SIGTERM)
    until = time.monotonic() + STOP_S
    while holder_of(state_dir) is not None:
        if time.monotonic() > until:
            raise CommandError(f"The collector (process {holder.pid}) does not stop. Kill it.")
        time.sleep(LOOK_S)
    return True
