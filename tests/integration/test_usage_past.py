"""What the history tells of sessions that are over: their own cost report, their titles, and what not."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from adsum_collector.usage import witness as usage_witness
from adsum_hub.facts import Facts
from adsum_hub.fold.fold import fold
from adsum_shared.signals import CostReported, MetaChanged, ModelCost, SessionEnded
from tests.ledgers import DAY_S, NOON_S, UsageRig, begin, open_usage, said
from tests.support import wait_until


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[UsageRig]:
    async with open_usage(tmp_path) as rig:
        yield rig


@pytest.fixture
def soon_rested(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage_witness, "QUIET_MS", 1_500)
    monkeypatch.setattr(usage_witness, "IDLE_S", 0.2)


def cost_report(dollars: float) -> bytes:
    used = {"claude-opus-4-6": {"inputTokens": 2, "outputTokens": 9, "costUSD": dollars}}
    fields: dict[str, Any] = {"totalCostUSD": dollars, "modelUsage": used}
    return json.dumps({"type": "cost-state"} | fields).encode() + b"\n"


def prompt(text: str, at: float = NOON_S) -> bytes:
    stamp = datetime.fromtimestamp(at, UTC).isoformat()
    message = {"role": "user", "content": text}
    fields: dict[str, Any] = {"message": message, "timestamp": stamp, "promptId": "p1"}
    return json.dumps({"type": "user"} | fields).encode() + b"\n"


def facts(rig: UsageRig) -> Facts:
    """As a hub has them."""
    found: Facts | None = None
    for signal in rig.intake.taken:
        found = fold(found, signal)
    assert found is not None
    return found


@pytest.mark.parametrize("much", [False, True], ids=["by the thread", "by the process"])
async def test_the_last_books_of_a_session_that_is_over_are_told(
    rig: UsageRig, much: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if much:
        monkeypatch.setattr(usage_witness, "LITTLE_FILES", 0)
    later = NOON_S + 60
    rig.write(
        rig.main("s"),
        begin(),
        prompt("Go"),
        said("a", 4),
        cost_report(1.5),
        said("b", 5, later),
        cost_report(2.5),
    )
    rig.start()
    await rig.settled()

    (cost,) = rig.of(CostReported)
    assert (cost.session_id, cost.source, cost.cost_usd) == ("s", "transcript", 2.5)
    opus = ModelCost(cost_usd=2.5, input_tokens=2, output_tokens=9)
    assert cost.models == {"claude-opus-4-6": opus}
    assert cost.at == rig.of(SessionEnded)[0].at == later * 1000
    assert abs(cost.seen / 1000 - time.time()) < 60
    assert not facts(rig).lived


async def test_older_books_do_not_take_the_place_of_those_told_while_it_lived(
    rig: UsageRig,
) -> None:
    """It was resumed, and killed before it could write its cost report."""
    middle = [said(f"m{number}", 1, NOON_S + 5, pad="x" * 500) for number in range(200)]
    rig.write(
        rig.main("s"), begin(), said("a"), cost_report(1.5), *middle, said("z", 1, NOON_S + 60)
    )
    rig.start()
    await rig.settled()

    (cost,) = rig.of(CostReported)
    assert (cost.cost_usd, cost.at) == (1.5, NOON_S * 1000)


async def test_books_of_a_file_without_any_times_are_as_old_as_the_file(rig: UsageRig) -> None:
    rig.write(rig.main("s"), cost_report(1.5))
    rig.start()
    await rig.settled()

    (cost,) = rig.of(CostReported)
    assert abs(cost.at / 1000 - rig.main("s").stat().st_mtime) < 1


@pytest.mark.parametrize(("days", "reported"), [(0.9, [2.5]), (3, [])])
async def test_a_session_of_days_that_have_not_come_reports_nothing(
    rig: UsageRig, days: float, reported: list[float]
) -> None:
    late = time.time() + days * DAY_S
    rig.write(rig.main("s"), begin(), prompt("Go", late), said("a", 4, late), cost_report(2.5))
    rig.start()
    await rig.settled()

    assert [each.cost_usd for each in rig.of(CostReported)] == reported
    assert bool(rig.outputs()) == bool(reported)
    (ended,) = rig.of(SessionEnded)
    assert abs(ended.at / 1000 - rig.main("s").stat().st_mtime) < 1
    assert not facts(rig).lived


async def test_of_a_file_that_has_just_come_its_past_is_told_once_it_rests(
    rig: UsageRig, soon_rested: None
) -> None:
    rig.write(rig.main("s"), begin(), prompt("Make a shop"), said("a", 4), age=0)
    rig.start()
    await wait_until(rig.outputs)
    assert not rig.of(SessionEnded)

    await wait_until(lambda: rig.of(SessionEnded))
    await rig.settled()

    assert len(rig.of(SessionEnded)) == 1
    assert facts(rig).title == "Make a shop"


async def test_a_file_that_grows_before_it_rests_is_not_called_over(
    rig: UsageRig, soon_rested: None
) -> None:
    path = rig.main("s")
    rig.write(path, begin(), prompt("Make a shop"), said("a", 4), age=0)
    rig.start()
    await wait_until(rig.outputs)
    rig.alive.add("s")
    rig.append(path, said("b", 5))
    rig.walk()
    await wait_until(lambda: rig.outputs() == {"s": 9})

    await wait_until(lambda: not rig.witness._stale._young)
    await rig.settled()

    assert not rig.of(SessionEnded)


async def test_a_title_given_after_its_first_end_takes_the_first_prompts_place(
    rig: UsageRig,
) -> None:
    path = rig.main("s")
    rig.write(path, begin(), prompt("Make a shop"), said("a", 4, NOON_S + 5))
    rig.start()
    await rig.settled()
    assert facts(rig).title == "Make a shop"

    at = (NOON_S + 9) * 1000
    titled = MetaChanged(session_id="s", at=at, seen=at, source="transcript", ai_title="A shop")
    await rig.intake.accept([titled])

    assert facts(rig).title == "A shop"
