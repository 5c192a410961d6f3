"""One process of the fleet: spawned, killed, frozen, stopped; and whether it died by itself."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

import httpx

from tests import forked

START_S = 20.0


class Part:
    """module: run with `python -m`. url: where it answers /livez."""

    def __init__(self, name: str, module: str, env: Mapping[str, str], log: Path, url: str) -> None:
        self.name = name
        self.url = url
        self.log = log
        self._module = module
        self._env = bare_environment() | dict(env)
        self._process: forked.ForkedProcess | subprocess.Popen[bytes] | None = None
        #: exit codes of runs that nobody ended
        self.deaths: list[int] = []
        self.frozen = False

    @property
    def pid(self) -> int:
        """0 while it does not run."""
        return self._process.pid if self._process else 0

    def spawn(self) -> None:
        assert self._process is None, self.name
        self._process = forked.start(self._module, env=self._env, log=self.log)

    async def start(self) -> None:
        """Returns once it answers."""
        if self._process is None:
            self.spawn()
        deadline, deaths = time.monotonic() + START_S, len(self.deaths)
        while not await self.is_live():
            if time.monotonic() > deadline or len(self.deaths) > deaths + 2:
                raise AssertionError(f"{self.name} does not start: {self.log.read_text()[-2000:]}")
            if self.has_died():
                self.spawn()
            await asyncio.sleep(0.05)

    async def is_live(self) -> bool:
        try:
            async with httpx.AsyncClient(timeout=1.0, trust_env=False) as client:
                return (await client.get(f"{self.url}/livez")).status_code == 200
        except httpx.TransportError:
            return False

    def has_died(self) -> bool:
        """Notes it, and is then ready to be spawned anew."""
        if self._process is None or (code := self._process.poll()) is None:
            return False
        self.deaths.append(code)
        self._process = None
        return True

    async def kill(self) -> None:
        """As kill -9 or a power switch."""
        await self._end(signal.SIGKILL)

    async def stop(self) -> None:
        await self._end(signal.SIGTERM)

    def freeze(self) -> None:
        self._signal(signal.SIGSTOP)
        self.frozen = True

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)
        self.frozen = False

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)

    async def _end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(number)
        if self.frozen and number != signal.SIGKILL:
            process.send_signal(signal.SIGCONT)
        self.frozen = False
        try:
            await asyncio.to_thread(process.wait, 15)
        except subprocess.TimeoutExpired:
            process.kill()
            await asyncio.to_thread(process.wait)
            self.deaths.append(-int(number))  # it did not end when it was asked to
        else:
            if number == signal.SIGTERM and process.returncode:
                self.deaths.append(process.returncode)


def bare_environment() -> dict[str, str]:
    """Measured for coverage elsewhere: here it would only be slower."""
    ours = ("ADSUM_", "CLAUDE", "COV", "XDG_")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)}
