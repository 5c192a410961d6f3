"""Which machines a report is not current of: said beside it, and in the exit code."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from adsum.client import fetch, no_hub
from adsum.outcome import Exit
from adsum.text.console import own_up
from adsum.text.plain import age, clean
from adsum.text.saying import say
from adsum.text.words import trouble_in
from adsum_shared.state import HostView, HubTrouble
from adsum_shared.usage import ScanProgress


@dataclass(frozen=True, slots=True)
class Freshness:
    """hosts: those that a report is about. now: the hub's clock, ms."""

    hosts: list[HostView]
    now: int
    trouble: HubTrouble | None = None

    def stale(self, until: str | None = None) -> list[HostView]:
        """Not live, and silent since before the end of `until`, an ISO date; None = now."""
        return [
            host
            for host in self.hosts
            if host.reachability != "live" and (until is None or _day(host.last_seen) <= until)
        ]

    def own_up(self, until: str | None = None, notes: Sequence[str] = ()) -> Exit:
        """Say on stderr what keeps the report from being whole. notes: what has been said."""
        for host in self.stale(until):
            seen = f"last seen {age(self.now - host.last_seen)} ago"
            _say(f"{clean(host.label)} is {host.reachability}, {seen}: what came later is missing.")
        for host in self.hosts:
            told = any(host.label in note and "reads its history" in note for note in notes)
            if host.scan is not None and not told:
                _say(f"{clean(host.label)} still reads its history: {_share(host.scan)} % so far.")
        if self.trouble is not None and (rest := _untold(self.trouble.problem, notes)):
            own_up(msgspec.structs.replace(self.trouble, problem=rest), self.now)
        return Exit.PARTIAL if self.stale(until) or self.trouble is not None else Exit.OK


def fetch_freshness(url: str, host: str | None) -> Freshness:
    """Of all hosts, or of the one with this label or id."""
    answer: Any = fetch(url, "/api/v1/hosts")
    if not isinstance(answer, dict) or "hosts" not in answer:
        raise no_hub(url)
    hosts = msgspec.convert(answer["hosts"], list[HostView])
    about = [one for one in hosts if host is None or host in (one.label, one.id)]
    return Freshness(about, answer["now"], trouble_in(answer))


def _share(scan: ScanProgress) -> int:
    """In percent, in the hub's words; never all of it, for what is read has still to be told."""
    return min(99, 100 * scan.bytes_done // scan.bytes) if scan.bytes > 0 else 0


def _untold(problem: str, notes: Sequence[str]) -> str:
    """Prices that cannot be used are a note of a report, and part of the hub's trouble as well."""
    for note in notes:
        problem = problem.replace(note, "")
    return problem.strip()


def _day(at: int) -> str:
    return time.strftime("%Y-%m-%d", time.localtime(at / 1000))


def _say(text: str) -> None:
    say(f"adsum: {text}")
