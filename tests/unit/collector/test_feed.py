"""In what order a machine takes what hubs hand to it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from adsum_collector.control import feed
from adsum_collector.control.feed import CommandFeed
from adsum_collector.errors import DeliveryError
from adsum_shared.commands import DECISION_TTL_MS, REPORT_FIELD


class Line:
    """A connection with one reply: reports, a command, a report."""

    def __init__(self, end: str = "0-0", now_ms: int = 5) -> None:
        self.asked: list[str] = []
        self.end, self.now_ms = end, now_ms

    async def ask(self, _host: str, request: Any) -> Any:
        self.asked.append(request.commands)
        if request.commands == "":
            return SimpleNamespace(end=self.end, now_ms=self.now_ms)
        if len(self.asked) > 2:
            raise DeliveryError
        found = [SimpleNamespace(id=f"{n}-0", fields={REPORT_FIELD: b"%d" % n}) for n in (1, 2, 4)]
        found.insert(2, SimpleNamespace(id="3-0", fields={b"c": b"", b"s": b""}))
        return SimpleNamespace(commands=found, now_ms=self.now_ms)


async def follow(line: Any) -> list[str]:
    """What is taken of it, in order."""
    taken: list[str] = []

    async def relay(fields: dict[bytes, bytes], _age_ms: int) -> None:
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
    assert line.asked == ["", "0-0", "4-0"]


async def test_an_entry_dated_ahead_moves_no_cursor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "LOOK_S", 0)
    line = Line(end=f"{DECISION_TTL_MS + 9}-0", now_ms=3 - DECISION_TTL_MS)

    assert await follow(line) == ["command", "1", "2"]
    assert line.asked == ["", f"{line.now_ms}-0", "3-0"]
