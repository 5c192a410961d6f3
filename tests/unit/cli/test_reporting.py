"""Whether anybody takes what hooks post."""

from __future__ import annotations

from adsum.hooks_commands import unanswered
from tests.brokers import free_port
from tests.hubs import stand_in_hub


def test_a_port_where_nobody_answers_is_told_with_what_is_shown_and_the_next_step() -> None:
    port = free_port()
    said = unanswered(port, 19, 15) or ""
    assert said.startswith(f"Nobody answers at port {port} (")
    assert "all 19 hooks tell in vain" in said
    assert "red line" in said
    assert "red line" not in (unanswered(port, 19, 0) or "")
    assert "`adsum up`" in said


def test_a_port_that_answers_is_no_matter() -> None:
    with stand_in_hub() as hub:
        assert unanswered(hub.port, 19, 15) is None
