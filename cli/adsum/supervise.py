"""Keeps parts running as child processes: it starts, restarts and stops them in order, and shows what they write."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import time
from abc import ABC, abstractmethod
from asyncio.subprocess import Process
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from adsum.client import home_of
from adsum.outcome import CommandError, put, require
from adsum_shared.private_files import open_private, write_private
from adsum_shared.redact import clean

Say = Callable[[str], None]

#: Set for supervised parts: their standard input is a pipe that closes when the supervisor is gone.
SUPERVISED = "ADSUM_SUPERVISED"

#: A part that died this soon after its start died quickly; after so many in a row we give up, or
#: try further ones more slowly where the others can do without it.
QUICK_S = 10.0
QUICK_DEATHS_MOST = 5
PAUSES_S = (0.1, 0.5, 1.0, 2.0, 5.0)
SLOW_S = 30.0
LOG_CHECK_S = 60.0
#: What is left for the ending in a hurry: hooks that stay behind unanswered paint red.
ENDING_S = 2.0

# The kernel ends the child when its parent is gone, even after kill -9. A launcher sets this, for
# Python code between fork and exec can dead-lock in a process that has threads.
_LAUNCH = """
import os, sys
if sys.platform == "linux":
    import ctypes
    ctypes.CDLL(None).prctl(1, 15)
    if os.getppid() != int(sys.argv[1]):
        sys.exit("the supervisor is gone")
os.execv(sys.argv[2], sys.argv[2:])
"""


class Part(ABC):
    """One child. log: what it writes. vital: without it the others are of no use."""

    patience_s = 30.0
    grace_s = 10.0
    vital = True

    def __init__(self, name: str, log: Path) -> None:
        self.name, self.log = name, log

    @abstractmethod
    async def launch(self) -> Process: ...

    @abstractmethod
    async def ready(self) -> bool:
        """Whether it serves."""

    def mend(self, written: bytes) -> bool:  # noqa: ARG002 - of those that can
        """Whether the cause is removed by which it ended before it served; written: to its log."""
        return False


def launcher(parent: int, argv: Sequence[str]) -> list[str]:
    """The command line that runs `argv` bound to the life of process `parent`."""
    return [sys.executable, "-I", "-S", "-c", _LAUNCH, str(parent), *argv]


class PythonPart(Part):
    """`python -m` with these words; it ends when its standard input, a pipe of ours, closes.

    logs: the folder of its log. env: besides ours.
    """

    def __init__(self, name: str, logs: Path, env: Mapping[str, str], *module: str) -> None:
        super().__init__(name, logs / f"{name}.log")
        self._env, self._module = env, module

    async def launch(self) -> Process:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        with os.fdopen(open_private(self.log, flags), "ab") as output:
            # -P: a folder named like one of our packages in the current directory must not win.
            return await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", *self._module),
                stdin=asyncio.subprocess.PIPE,
                stdout=output,
                stderr=output,
                env={**os.environ, **self._env, SUPERVISED: "1"},
                start_new_session=True,
            )


class ServerPart(PythonPart):
    """`adsum hub` or `adsum collector` in a process of its own. address: where it listens."""

    def __init__(
        self, name: str, address: tuple[str, int], logs: Path, env: Mapping[str, str]
    ) -> None:
        super().__init__(name, logs, env, "adsum", name)
        self._address = address
        # A hub that fails must not end the collector: then every hook of the user's would fail too.
        self.vital = name != "hub"

    async def ready(self) -> bool:
        """Whether a 200 comes back; an HTTP client takes longer to import than this to run."""
        host, port = self._address
        named = f"[{host}]" if ":" in host else host
        try:
            async with asyncio.timeout(2.0):
                reader, writer = await asyncio.open_connection(host, port)
                with contextlib.closing(writer):
                    writer.write(f"GET /livez HTTP/1.0\r\nHost: {named}:{port}\r\n\r\n".encode())
                    return b" 200" in await reader.readline()
        except (OSError, TimeoutError):
            return False


class Supervisor:
    """stages: started one after the other, the parts of one stage together."""

    def __init__(self, stages: Sequence[Sequence[Part]], say: Say) -> None:
        self._stages = stages
        self._parts = [part for stage in stages for part in stage]
        self._say = say
        self._running: dict[str, Process] = {}
        self._stopping = asyncio.Event()
        self._hurry = asyncio.Event()

    def stop(self) -> None:
        """Once: in order. Twice: at once."""
        if self._stopping.is_set():
            self._hurry.set()
        self._stopping.set()

    def hang_up(self) -> None:
        """In order, however often: a closed terminal's hang-up comes from its shell and the kernel."""
        self._stopping.set()

    async def run(
        self,
        started: Callable[[], Awaitable[None]],
        ending: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """Until `stop`. Raises CommandError when a part cannot be started or kept.

        ending: done while everything still runs, in a hurry only if it does not take long.
        """
        work = asyncio.create_task(self._work(started))
        try:
            await _until(work, self._stopping)
        finally:
            work.cancel()
            [error] = await asyncio.gather(work, return_exceptions=True)
            try:
                if ending is not None:
                    await self._soon(ending())
            finally:
                for part in reversed(self._parts):
                    await self._end(part)
        while isinstance(error, ExceptionGroup):
            error = error.exceptions[0]
        if isinstance(error, Exception):
            raise error

    async def _soon(self, work: Awaitable[None]) -> None:
        """Until it is done, or ENDING_S after `stop` was called again. Raises what it raises."""
        task = asyncio.ensure_future(work)
        try:
            await _until(task, self._hurry)
            await asyncio.wait({task}, timeout=ENDING_S)
            if task.done():
                task.result()
        finally:
            task.cancel()

    async def _work(self, started: Callable[[], Awaitable[None]]) -> None:
        for stage in self._stages:
            async with asyncio.TaskGroup() as tasks:
                for part in stage:
                    tasks.create_task(self._start(part))
        await started()
        async with asyncio.TaskGroup() as tasks:
            for part in self._parts:
                tasks.create_task(self._keep(part))
            tasks.create_task(self._trim_logs())

    async def _start(self, part: Part) -> None:
        part.log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        before = part.log.stat().st_size if part.log.exists() else 0
        process = self._running[part.name] = await part.launch()
        deadline = time.monotonic() + part.patience_s
        mended = False
        while not await part.ready():
            if process.returncode is not None:
                if not mended and part.mend(_written(part.log, before)):
                    mended = True
                    process = self._running[part.name] = await part.launch()
                    continue
                raise CommandError(
                    f"The {part.name} does not start ({_ending(process)}):\n"
                    f"{tail_of(part.log, before)}\nIts whole log: {part.log}"
                )
            if time.monotonic() > deadline:
                raise CommandError(
                    f"The {part.name} does not answer within {part.patience_s:.0f} s. "
                    f"Its log: {part.log}"
                )
            await asyncio.sleep(0.03)

    async def _keep(self, part: Part) -> None:
        deaths = 0
        while True:
            process = self._running[part.name]
            gone = asyncio.create_task(process.wait())
            if not (await asyncio.wait({gone}, timeout=QUICK_S))[0]:
                if deaths > QUICK_DEATHS_MOST:
                    self._say(f"The {part.name} is back.")
                deaths = 0
            await gone
            deaths += 1
            await asyncio.sleep(self._pause(part, deaths, process))
            # One that is tried slowly is spoken of again when it has stayed.
            slowly = deaths > QUICK_DEATHS_MOST
            try:
                await self._start(part)
            except CommandError as error:
                # Counted as one more quick death: the next turn of the loop gives up in the end.
                if not slowly:
                    self._say(str(error))
                await self._end(part)
            else:
                if not slowly:
                    self._say(f"The {part.name} is back.")

    def _pause(self, part: Part, deaths: int, process: Process) -> float:
        """Seconds until the next start, announced. deaths: quick ones in a row."""
        if deaths <= QUICK_DEATHS_MOST:
            self._say(f"The {part.name} ended ({_ending(process)}); starting it again.")
            return PAUSES_S[min(deaths, len(PAUSES_S)) - 1]
        often = (
            f"The {part.name} ended {deaths} times in a row, at last {_ending(process)}. "
            f"Its log says why: {part.log}"
        )
        if part.vital:
            raise CommandError(often)
        if deaths == QUICK_DEATHS_MOST + 1:
            self._say(f"{often}\nIt is tried again every {SLOW_S:.0f} s; the others go on.")
        return SLOW_S

    async def _end(self, part: Part) -> None:
        process = self._running.get(part.name)
        if process is None or process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        gone = asyncio.create_task(process.wait())
        await _until(gone, self._hurry, part.grace_s)
        if not gone.done():
            self._say(f"The {part.name} does not stop by itself; it is ended.")
            with contextlib.suppress(ProcessLookupError):
                process.kill()
        await gone

    async def _trim_logs(self) -> None:
        """Children append, so a log may be cut under their hands; one old half is kept."""
        while True:
            for part in self._parts:
                trim_log(part.log)
            await asyncio.sleep(LOG_CHECK_S)


async def supervise(
    stages: Sequence[Sequence[Part]],
    say: Say,
    started: Callable[[], Awaitable[None]],
    ending: Callable[[], Awaitable[None]] | None = None,
) -> None:
    """Runs a supervisor until a signal stops it."""
    supervisor = Supervisor(stages, say)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, supervisor.stop)
    loop.add_signal_handler(signal.SIGHUP, supervisor.hang_up)
    await supervisor.run(started, ending)


async def _until(
    task: asyncio.Future[Any], event: asyncio.Event, timeout_s: float | None = None
) -> None:
    """Until the task is done, the event is set, or the time is over."""
    waiting = asyncio.create_task(event.wait())
    try:
        await asyncio.wait({task, waiting}, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()


def _ending(process: Process) -> str:
    code = process.returncode
    if code is None:
        return "it does not answer"
    if code < 0:
        return f"killed by {signal.Signals(-code).name}"
    return f"exit code {code}"


LOG_MOST = 10 * 1024 * 1024


def trim_log(log: Path, most: int = LOG_MOST) -> None:
    if log.exists() and log.stat().st_size > most:
        write_private(log.with_suffix(".old.log"), log.read_bytes(), durable=False)
        os.truncate(log, 0)


def _written(log: Path, start: int) -> bytes:
    """Since it was `start` bytes long; of a log that was cut meanwhile all."""
    if not log.exists():
        return b""
    with log.open("rb") as file:
        file.seek(start if start <= log.stat().st_size else 0)
        return file.read()


def tail_of(log: Path, start: int, lines: int = 8) -> str:
    """The last lines written since `start`, indented."""
    text = _written(log, start)[-8192:].decode("utf-8", "replace").removesuffix("\n")
    told = [line for each in text.split("\n") for line in for_people(each).split("\n")]
    return "\n".join(f"  {line}" for line in told[-lines:] if text) or "  (it wrote nothing)"


def for_people(line: str) -> str:
    """A part logs JSON to a file; who reads its end at a terminal is a person."""
    try:
        entry = json.loads(line)
        said = f"{entry['level']}: {clean(entry['event'])}"
    except (ValueError, KeyError, TypeError):
        return line  # no JSON; or cut, where the file is long
    return f"{said}\n{entry['exception']}" if "exception" in entry else said


PARTS = ("hub", "collector", "broker")
POLL_S = 0.25
#: The last lines are looked for in so much of a file's end.
TAIL_BYTES = 1 << 20


@dataclass(slots=True)
class Tail:
    """One log, and how far it has been read: from TAIL_BYTES before its end on.

    rest: the start of a line that is not whole yet.
    """

    part: str
    file: Path
    read: int = -1
    rest: bytes = b""

    def more(self) -> list[str]:
        """The whole lines that came since; from the beginning, if it was emptied or made anew."""
        try:
            with self.file.open("rb") as file:
                size = file.seek(0, 2)
                if self.read < 0:
                    self.read = max(0, size - TAIL_BYTES)
                elif size < self.read:
                    self.read, self.rest = 0, b""
                file.seek(self.read)
                text = self.rest + file.read()
                self.read = file.tell()
        except FileNotFoundError:
            self.read, self.rest = 0, b""
            return []
        *whole, self.rest = text.split(b"\n")
        # What a log quotes may come from an agent.
        return [clean(line.decode("utf-8", "replace").expandtabs()) for line in whole]


def show_logs(
    part: str | None, *, lines: int, state_dir: Path | None, follow: bool = False
) -> None:
    require(part in (None, *PARTS), f"{part!r} writes no log. Give one of {', '.join(PARTS)}.")
    folder = home_of(state_dir) / "logs"
    tails = [Tail(each, folder / f"{each}.log") for each in ((part,) if part else PARTS)]
    if not any(tail.file.exists() for tail in tails) and not follow:
        raise CommandError(
            f"No log in {folder} yet. `adsum up` and a service write them there; a part that was "
            "started by hand writes to its terminal."
        )
    for tail in tails:
        found = tail.more()
        _print(tail.part, found[max(0, len(found) - lines) :], named=part is None)
    # Leaving it is its normal end, not an error.
    with contextlib.suppress(KeyboardInterrupt):
        while follow:
            for tail in tails:
                _print(tail.part, tail.more(), named=part is None)
            time.sleep(POLL_S)


def _print(part: str, lines: Sequence[str], *, named: bool) -> None:
    for line in lines:
        # In a pipe it is data, and stays as it was written.
        text = readable(line) if sys.stdout.isatty() else line
        put(f"{part:<9} {text}" if named else text)


def readable(line: str) -> str:
    """A line of JSON as people read one: when, how grave, who, what, and the rest by name."""
    try:
        record = json.loads(line)
        what, at = record.pop("event"), record.pop("time")
    except (ValueError, KeyError, TypeError, AttributeError):
        return line
    level, logger = str(record.pop("level", "info")).upper(), record.pop("logger", "")
    rest = "".join(f" {name}={value}" for name, value in record.items())
    return clean(f"{str(at)[:19].replace('T', ' ')} {level:<7} {logger}: {what}{rest}")
