"""What of a witness's signals is kept, and what is left out with an answer all the same."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

import pytest

from adsum_collector.intake import Intake
from adsum_hub import inbox
from adsum_shared.signals import Alive, decode_signal, is_session_id


class FakeSpool:
    def __init__(self) -> None:
        self.kept: list[str] = []
        self.state: dict[str, bytes] = {}
        self.last_seq = 0

    async def append(
        self,
        signals: Sequence[bytes],
        message_id: str | None = None,
        state: Mapping[str, bytes | None] | None = None,
    ) -> int:
        del message_id, state
        self.kept += [decode_signal(raw).session_id for raw in signals]
        self.last_seq = len(self.kept)
        return self.last_seq


def alive(session_id: str) -> Alive:
    return Alive(session_id=session_id, at=1, seen=1)


@pytest.mark.parametrize(
    "wrong", ["a\nb", "\x1b[31m", "x" * 201, "a\u2028b", "a\u202eb", "\x9b", "", "a\tb"], ids=repr
)
async def test_a_session_whose_id_no_hub_takes_is_left_out_counted_and_said_once(
    caplog: pytest.LogCaptureFixture, wrong: str
) -> None:
    caplog.set_level(logging.INFO)
    spool = FakeSpool()
    intake = Intake(spool, lambda signal: signal)  # type: ignore[arg-type] # a fake

    assert await intake.accept([alive("a")]) == 1
    assert await intake.accept([alive(wrong)]) == 1
    assert await intake.accept([alive(wrong), alive("b"), alive(wrong)]) == 2

    assert spool.kept == ["a", "b"]
    assert (intake.accepted, intake.left_out) == (2, 3)
    assert len(caplog.messages) == 1
    assert caplog.messages[0].isprintable()


def test_hubs_and_collectors_judge_ids_by_the_same_words() -> None:
    assert vars(inbox)["is_session_id"] is is_session_id
    assert is_session_id("x" * 200)
    assert is_session_id("0b5d0c38-93c1-4a1c-9d1e-0d6f6b1c2e3f")
