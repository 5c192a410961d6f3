"""The tailer and the adapter: what a session is called, and what the hub makes of one of long ago."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from adsum_collector.agents import known_agents
from adsum_hub.facts import Facts
from adsum_hub.fold.fold import fold
from adsum_shared.signals import AnySignal, CostReported, MetaChanged, PromptSubmitted, SessionEnded
from tests import claude_lines
from tests.claude_lines import SESSION, assistant, line, text, user
from tests.support import wait_until
from tests.tailers import DAY_S, Rig, age, open_rig
from tests.transcripts import append

HOUR_MS = 3_600_000
PAD = "x" * 4_000
USED = {"opus": {"inputTokens": 5, "outputTokens": 7, "costUSD": 2.5}}


class AgentRig(Rig):
    transcripts = known_agents()[0].transcripts


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    async with open_rig(tmp_path, AgentRig) as rig:
        yield rig


def now() -> int:
    return time.time_ns() // 1_000_000


def turns(number: int, at: int) -> list[bytes]:
    """A prompt and its answer, so often, a second between two."""
    lines: list[bytes] = []
    for each in range(number):
        asked = at + each * 1000
        lines.append(
            user(f"Prompt {each}", at=asked, promptId=f"p{each}", origin={"kind": "human"})
        )
        lines.append(assistant(text(PAD), stop="end_turn", at=asked + 500))
    return lines


def write(path: Path, *lines: bytes) -> None:
    append(path, *(each + b"\n" for each in lines))


def facts_of(signals: list[AnySignal]) -> Facts:
    facts: Facts | None = None
    for signal in signals:
        facts = fold(facts, signal)
    assert facts is not None
    return facts


@pytest.mark.parametrize("sign", ["growth", "process"])
async def test_a_long_session_is_called_by_its_first_prompt_however_late_it_is_met(
    rig: Rig, sign: str
) -> None:
    path, began = rig.main(SESSION), now() - HOUR_MS
    write(path, *turns(200, began))
    if sign == "process":
        await rig.give_process(SESSION)
    else:
        age(path, 600)
    rig.start()
    await rig.walked()

    write(path, *turns(1, now()))

    await wait_until(lambda: rig.of(PromptSubmitted))
    facts = facts_of(rig.intake.taken)
    assert facts.first_prompt
    assert facts.first_prompt[1] != "Prompt 0"  # what the tail alone tells
    assert (facts.title, facts.started_at) == ("Prompt 0", began)


async def test_a_title_given_later_takes_the_first_prompts_place(rig: Rig) -> None:
    path, began = rig.main(SESSION), now() - HOUR_MS
    write(path, *turns(200, began), line("ai-title", at=None, aiTitle="A shop"))
    await rig.give_process(SESSION)
    rig.start()

    await wait_until(lambda: rig.of(MetaChanged))
    await wait_until(lambda: facts_of(rig.intake.taken).title == "A shop")


async def test_the_title_of_the_head_is_told_where_the_tail_has_none(rig: Rig) -> None:
    path, began = rig.main(SESSION), now() - HOUR_MS
    head = line("custom-title", at=None, customTitle="Shop")
    write(path, user("Make a shop", at=began), head, *turns(200, began + 1))
    await rig.give_process(SESSION)
    rig.start()

    await wait_until(lambda: rig.of(MetaChanged))
    assert facts_of(rig.intake.taken).title == "Shop"


async def test_a_session_of_long_ago_is_history_to_the_hub(rig: Rig) -> None:
    """Restored an hour ago: what it was about is told, and nothing makes it one that lived."""
    began = now() - 90 * DAY_S * 1000
    mode = line("permission-mode", at=None, permissionMode="plan")
    cost_report = line("cost-state", at=None, totalCostUSD=2.5, modelUsage=USED)
    write(rig.main(SESSION), mode, *turns(3, began), cost_report)
    age(rig.main(SESSION), 3600)
    rig.start()

    (ended,) = await wait_until(lambda: rig.of(SessionEnded))
    facts = facts_of(rig.intake.taken)
    assert (facts.lived, facts.past, facts.materialised) == (False, True, False)
    assert ended.at == facts.ended_at == began + 2500
    assert facts.latest_prompt == "Prompt 2"


@pytest.mark.parametrize(("days", "reported"), [(0, 2.5), (0.9, 2.5), (2, None)])
async def test_books_of_days_that_have_not_come_are_not_told(
    rig: Rig, days: float, reported: float | None
) -> None:
    at = now() + int(days * DAY_S * 1000)
    cost_report: dict[str, Any] = {"totalCostUSD": 2.5, "modelUsage": USED}
    write(rig.main(SESSION), user("Go", at=at), line("cost-state", at=None, **cost_report))
    await rig.give_process(SESSION)
    rig.start()

    await wait_until(lambda: rig.of(SessionEnded))
    told = rig.of(CostReported)
    assert [each.cost_usd for each in told] == ([reported] if reported else [])
    assert rig.tailer.faults == ({} if reported else {"date in the future": 1})


def test_the_time_of_lines_is_that_of_the_last_that_bears_one() -> None:
    written = known_agents()[0].transcripts.written
    at = claude_lines.AT
    lines = [
        user("a", at=at + 9_000),
        user("b", at=at),
        line("mode", at=None),
        b"{",
        b"[]",
        b"\xff",
    ]
    assert written(lines) == at
    assert written([*lines, line("user", at=None, timestamp="soon")]) == at
    assert written(lines[2:]) == written([]) == 0
