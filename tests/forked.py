"""Starts Python programs by forking a process that has imported them, which takes most of their time.

A hub's imports cost a core a second, a collector's two thirds of one. What is forked is a process of
its own like any other: with its environment, log and signals. Only its command line in the process
table is not the one that a user would see.
"""

from __future__ import annotations

import os
import runpy
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

#: What hubs, collectors and the command line import.
PROGRAMS = (
    "adsum_hub.app",
    "adsum_collector.app",
    "adsum.app",
    "adsum.foreground",
    "tests.collectors",
)

OURS = {*("adsum", "adsum_collector", "adsum_hub", "adsum_shared"), *("bench", "scripts", "tests")}

_context = get_context("forkserver")
_context.set_forkserver_preload([__name__, *PROGRAMS])


def _network() -> str:
    """This thread's."""
    link = Path("/proc/thread-self/ns/net")
    return str(link.readlink()) if sys.platform == "linux" else ""


#: Of the process that forks: it is started from where this module was imported.
HOME = _network()


class ForkedProcess:
    """What tests use of a `subprocess.Popen`."""

    def __init__(self, target: Callable[..., None], *words: Any, daemon: bool = True) -> None:
        self._process = _context.Process(target=target, args=words, daemon=daemon)
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired("a forked process", timeout or 0)
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        if self._process.exitcode is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)


class Streams(NamedTuple):
    """Files in the place of a process's own three. What is printed is appended."""

    output: Path
    errors: Path
    given: Path = Path(os.devnull)


def start(
    module: str, *words: str, env: Mapping[str, str], log: Path, daemon: bool = True, **options: Any
) -> ForkedProcess | subprocess.Popen[bytes]:
    """`python -m module words`, its output appended to `log`.

    daemon: it ends with this process, and may not fork itself. options: of `subprocess.Popen`, which
    starts it if any are given, and where this thread is in another network than what forks.
    """
    if not options and _network() == HOME:
        return ForkedProcess(
            _become, module, words, dict(env), None, Streams(log, log), daemon=daemon
        )
    with log.open("ab") as output:
        command = [sys.executable, "-m", module, *words]
        return subprocess.Popen(command, env=env, stdout=output, stderr=output, **options)


def run(
    *words: str,
    module: str = "adsum",
    env: Mapping[str, str],
    cwd: Path | None = None,
    told: str = "",
    timeout: float = 60,
) -> subprocess.CompletedProcess[str]:
    """`python -m module words` to its end, with nothing but what it is told on its standard input."""
    done = run_bytes(*words, module=module, env=env, cwd=cwd, told=told.encode(), timeout=timeout)
    output, errors = done.stdout.decode(), done.stderr.decode()
    return subprocess.CompletedProcess(done.args, done.returncode, output, errors)


def run_bytes(
    *words: str,
    module: str = "adsum",
    env: Mapping[str, str],
    cwd: Path | None = None,
    told: bytes = b"",
    timeout: float = 60,
) -> subprocess.CompletedProcess[bytes]:
    """The same, of what is no text."""
    with tempfile.TemporaryDirectory() as directory:
        streams = Streams(*(Path(directory, name) for name in Streams._fields))
        streams.given.write_bytes(told)
        process = ForkedProcess(_become, module, words, dict(env), cwd, streams, daemon=False)
        try:
            code = process.wait(timeout)
        finally:
            process.kill()
        output, errors = streams.output.read_bytes(), streams.errors.read_bytes()
    return subprocess.CompletedProcess([module, *words], code, output, errors)


def _become(
    module: str, words: Sequence[str], env: Mapping[str, str], cwd: Path | None, streams: Streams
) -> None:
    os.environ.clear()
    os.environ.update(env)
    if cwd is not None:
        os.chdir(cwd)
    redirect(streams)
    if "PYTHONPATH" in env:
        look_first(env["PYTHONPATH"].split(os.pathsep))
    sys.argv = [module, *words]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def look_first(directories: Sequence[str]) -> None:
    """For modules of ours. Those that were imported are forgotten, as they came from elsewhere."""
    sys.path[:0] = directories
    for name in list(sys.modules):
        if name.partition(".")[0] in OURS:
            del sys.modules[name]


def redirect(streams: Streams) -> None:
    """All that this process reads and prints, through its three streams, is in files."""
    for number, path in enumerate((streams.given, streams.output, streams.errors)):
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT if number else os.O_RDONLY
        file = os.open(path, flags, 0o600)
        os.dup2(file, number)
        os.close(file)
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", closefd=False, buffering=1, errors="backslashreplace")
