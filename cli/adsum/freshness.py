"""Which machines a report is not current of: said beside it, and in the exit code."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from adsum.amounts import percent, span
from adsum.client import fetch, no_hub
from adsum.console import own_up
from adsum.outcome import Exit
from adsum.render import age, clean
from adsum.words import trouble_in
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
                _say(f"{clean(host.label)} still reads its history{_how_far(host.scan)}.")
        if self.trouble is not None:
            own_up(self.trouble, self.now)
        return Exit.PARTIAL if self.stale(until) or self.trouble is not None else Exit.OK


def fetch_freshness(url: str, host: str | None) -> Freshness:
    """Of all hosts, or of the one with this label or id."""
    answer: Any = fetch(url, "/api/v1/hosts")
    if not isinstance(answer, dict) or "hosts" not in answer:
        raise no_hub(url)
    hosts = msgspec.convert(answer["hosts"], list[HostView])
    about = [one for one in hosts if host is None or host in (one.label, one.id)]
    return Freshness(about, answer["now"], trouble_in(answer))


def _how_far(scan: ScanProgress) -> str:
    said = [percent(scan.bytes_done, scan.bytes)] if scan.bytes > 0 else []
    if scan.left_s is not None:
        said.append(f"{span(scan.left_s * 1000)} left")
    return f" ({', '.join(said)}), more will come" if said else ", more will come"


def _day(at: int) -> str:
    return time.strftime("%Y-%m-%d", time.localtime(at / 1000))


def _say(text: str) -> None:
    print(f"adsum: {text}", file=sys.stderr)  # noqa: T201 - for people
