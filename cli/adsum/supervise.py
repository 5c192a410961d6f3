"""Keeps parts running as child processes: it starts, restarts and stops them in order."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import time
from asyncio.subprocess import Process
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from adsum.outcome import CommandError
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


@dataclass(frozen=True, slots=True)
class Part:
    """One child. launch: starts the process; ready: whether it serves; log: what it writes.

    vital: without it the others are of no use. mend: asked once when it ended before it served;
    true if it has removed the cause and a second start is worth it.
    """

    name: str
    launch: Callable[[], Awaitable[Process]]
    ready: Callable[[], Awaitable[bool]]
    log: Path
    patience_s: float = 30.0
    grace_s: float = 10.0
    vital: bool = True
    mend: Callable[[], bool] = lambda: False


def launcher(parent: int, argv: Sequence[str]) -> list[str]:
    """The command line that runs `argv` bound to the life of process `parent`."""
    return [sys.executable, "-I", "-S", "-c", _LAUNCH, str(parent), *argv]


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
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait({work, stopping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
            work.cancel()
            ended = await asyncio.gather(work, return_exceptions=True)
            try:
                if ending is not None:
                    await self._soon(ending())
            finally:
                for part in reversed(self._parts):
                    await self._end(part)
        if isinstance(ended[0], Exception):
            raise ended[0]

    async def _soon(self, work: Awaitable[None]) -> None:
        """Until it is done, or ENDING_S after `stop` was called again. Raises what it raises."""
        task = asyncio.ensure_future(work)
        hurry = asyncio.create_task(self._hurry.wait())
        try:
            await asyncio.wait({task, hurry}, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait({task}, timeout=ENDING_S)
            if task.done():
                task.result()
        finally:
            hurry.cancel()
            task.cancel()

    async def _work(self, started: Callable[[], Awaitable[None]]) -> None:
        for stage in self._stages:
            await _together([self._start(part) for part in stage])
        await started()
        await _together([*(self._keep(part) for part in self._parts), self._trim_logs()])

    async def _start(self, part: Part) -> None:
        part.log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        before = part.log.stat().st_size if part.log.exists() else 0
        process = self._running[part.name] = await part.launch()
        deadline = time.monotonic() + part.patience_s
        mended = False
        while not await part.ready():
            if process.returncode is not None:
                if not mended and part.mend():
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
            if await _outlives(process, QUICK_S):
                if deaths > QUICK_DEATHS_MOST:
                    self._say(f"The {part.name} is back.")
                deaths = 0
                await process.wait()
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
        hurry = asyncio.create_task(self._hurry.wait())
        await asyncio.wait({gone, hurry}, timeout=part.grace_s, return_when=asyncio.FIRST_COMPLETED)
        hurry.cancel()
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


async def _outlives(process: Process, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await process.wait()
    except TimeoutError:
        return True
    return False


async def _together(works: Sequence[Coroutine[None, None, None]]) -> None:
    """Until all are done or one fails; its error is raised as it is, without a group around it."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


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


def tail_of(log: Path, start: int, lines: int = 8) -> str:
    """The last lines written since `start`, indented."""
    if not log.exists():
        return "  (it wrote nothing)"
    with log.open("rb") as file:
        size = log.stat().st_size
        file.seek(max(start if start <= size else 0, size - 8192))
        text = file.read().decode("utf-8", "replace")
    told = [line for each in text.split("\n") for line in for_people(each).split("\n")]
    told = told[:-1] if told[-1:] == [""] else told
    return "\n".join(f"  {line}" for line in told[-lines:]) or "  (it wrote nothing)"


def for_people(line: str) -> str:
    """A part logs JSON to a file; who reads its end at a terminal is a person."""
    try:
        entry = json.loads(line)
        said = f"{entry['level']}: {clean(entry['event'])}"
    except (ValueError, KeyError, TypeError):
        return line  # no JSON; or cut, where the file is long
    return f"{said}\n{entry['exception']}" if "exception" in entry else said
