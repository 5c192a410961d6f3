"""In what order a machine takes what hubs hand to it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from adsum_collector.control import feed
from adsum_collector.control.feed import CommandFeed
from adsum_collector.errors import DeliveryError
from adsum_shared.commands import DECISION_TTL_MS, REPORT_FIELD, REPORT_TTL_MS


class Line:
    """A connection with one reply: reports, a command, a report.

    base: below their ids. late_ms: for so long the reply lies there before it is read.
    """

    def __init__(self, end: str = "0-0", now_ms: int = 5, base: int = 0, late_ms: int = 0) -> None:
        self.asked: list[str] = []
        self.end, self.now_ms, self.base, self.late_ms = end, now_ms, base, late_ms

    async def ask(self, _host: str, request: Any) -> Any:
        self.asked.append(request.commands)
        if request.commands == "":
            late_ms = self.late_ms if len(self.asked) > 1 else 0
            return SimpleNamespace(end=self.end, now_ms=self.now_ms + late_ms)
        if len(self.asked) > 2:
            raise DeliveryError
        fields = {n: {REPORT_FIELD: b"%d" % n} for n in (1, 2, 4)} | {3: {b"c": b"", b"s": b""}}
        found = [SimpleNamespace(id=f"{self.base + n}-0", fields=fields[n]) for n in (1, 2, 3, 4)]
        return SimpleNamespace(commands=found, now_ms=self.now_ms)


async def follow(line: Any) -> list[str]:
    """What is taken of it, in order."""
    taken: list[str] = []

    async def relay(fields: dict[bytes, bytes], age_ms: int) -> None:
        if age_ms <= REPORT_TTL_MS:
            taken.append(fields[REPORT_FIELD].decode())

    control: Any = SimpleNamespace(
        is_on=lambda: True,
        refuse=lambda _why: taken.append("command"),
        consent=SimpleNamespace(keys={}),
    )
    reports: Any = SimpleNamespace(public=None, relay=relay)
    following = CommandFeed(None, SimpleNamespace(host_id="h1"), control, reports)  # type: ignore[arg-type] # opened here
    with pytest.raises(DeliveryError):
        await following._follow(line)
    return taken


async def test_what_people_decide_goes_before_what_agents_report() -> None:
    line = Line()

    assert await follow(line) == ["command", "1", "2", "4"]
    assert line.asked == ["", "0-0", "", "4-0"]


async def test_what_was_given_before_it_listened_is_neither_relayed_nor_refused_again() -> None:
    assert await follow(Line(end="3-0")) == ["4"]


async def test_what_lay_in_a_stopped_process_is_as_old_as_it_is() -> None:
    assert await follow(Line(late_ms=REPORT_TTL_MS - 1)) == ["command", "4"]
    assert await follow(Line(late_ms=REPORT_TTL_MS + 5)) == ["command"]


async def test_an_entry_dated_ahead_moves_no_cursor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "LOOK_S", 0)
    base = 2 * DECISION_TTL_MS
    line = Line(end=f"{base + 9}-0", now_ms=base + 3 - DECISION_TTL_MS, base=base)

    assert await follow(line) == ["command", "1", "2"]
    assert line.asked == ["", "0-0", "", f"{base + 3}-0"]
