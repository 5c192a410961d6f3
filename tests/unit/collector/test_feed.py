"""In what order a machine takes what hubs hand to it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from adsum_collector.control.feed import CommandFeed
from adsum_collector.errors import DeliveryError
from adsum_shared.commands import REPORT_FIELD


class Line:
    """A connection with one reply: reports, a command, a report."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def ask(self, _host: str, request: Any) -> Any:
        self.asked.append(request.commands)
        if request.commands == "":
            return SimpleNamespace(end="0-0")
        if len(self.asked) > 2:
            raise DeliveryError
        found = [SimpleNamespace(id=f"{n}-0", fields={REPORT_FIELD: b"%d" % n}) for n in (1, 2, 4)]
        found.insert(2, SimpleNamespace(id="3-0", fields={b"c": b"", b"s": b""}))
        return SimpleNamespace(commands=found, now_ms=5)


async def test_what_people_decide_goes_before_what_agents_report() -> None:
    taken: list[str] = []

    async def relay(fields: dict[bytes, bytes], _age_ms: int) -> None:
        taken.append(fields[REPORT_FIELD].decode())

    control: Any = SimpleNamespace(
        is_on=lambda: True,
        refuse=lambda _why: taken.append("command"),
        consent=SimpleNamespace(keys={}),
    )
    reports: Any = SimpleNamespace(public=None, relay=relay)
    line: Any = Line()
    feed = CommandFeed(None, SimpleNamespace(host_id="h1"), control, reports)  # type: ignore[arg-type] # opened here
    with pytest.raises(DeliveryError):
        await feed._follow(line)

    assert taken == ["command", "1", "2", "4"]
    assert line.asked == ["", "0-0", "4-0"]
