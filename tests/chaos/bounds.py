"""What the parts may use at most, looked at twice a second."""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from pathlib import Path

import psutil

from tests.chaos.fleet import Fleet
from tests.chaos.oracle import Finding

LOOK_S = 0.5
#: Beside what its cap allows: a log, a reserve, a file that is being rewritten.
SPOOL_EXTRA_MB = 12
LIMITS = {
    "collector MB": 120,
    "hub MB": 120,
    "collector files": 80,
    "hub files": 80,
    "link waiting kB": 256,
    "link connections": 64,
}


class Bounds:
    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self.most: defaultdict[str, float] = defaultdict(float)
        self.findings: list[Finding] = []

    async def watch(self) -> None:
        """For ever. A part that died by itself is a finding, and started again as by a supervisor."""
        while True:
            for part in self._fleet.parts:
                if part.has_died():
                    part.spawn()
            self._look()
            await asyncio.sleep(LOOK_S)

    def _look(self) -> None:
        fleet = self._fleet
        for part in [*fleet.parts, *fleet.twins]:
            what = "hub" if part.name in fleet.hubs else "collector"
            with contextlib.suppress(psutil.Error):
                process = psutil.Process(part.pid) if part.pid else None
                if process is not None:
                    self._note(f"{what} MB", process.memory_info().rss / 1e6)
                    self._note(f"{what} files", process.num_fds())
        for machine in fleet.machines.values():
            self._note("spool MB", _size(machine.state / "spool") / 1e6)
        for link in fleet.links.values():
            self._note("link waiting kB", link.most_waiting / 1e3)
            self._note("link connections", link.most_open)

    def _note(self, what: str, value: float) -> None:
        self.most[what] = max(self.most[what], round(value, 1))

    def verdict(self) -> list[Finding]:
        limits = LIMITS | {"spool MB": self._fleet.cap_mb * 2 + SPOOL_EXTRA_MB}
        found = [
            Finding("bounds", what, f"{self.most[what]} of at most {limit}")
            for what, limit in limits.items()
            if self.most[what] > limit
        ]
        for part in [*self._fleet.parts, *self._fleet.twins]:
            found += [Finding("died", part.name, f"exit code {code}") for code in part.deaths]
        return found


def _size(directory: Path) -> int:
    total = 0
    for path in directory.glob("*"):
        with contextlib.suppress(OSError):
            total += path.stat().st_size
    return total
