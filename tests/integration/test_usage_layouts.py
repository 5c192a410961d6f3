"""Wherever the agent keeps its transcripts, what they tell is counted, or it is said that it is not."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from adsum_collector.usage import witness as usage_witness
from tests.ledgers import NOON_S, UsageRig, begin, open_usage, said

SESSION = "0f0f0f0f-0000-4000-8000-000000000001"


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[UsageRig]:
    async with open_usage(tmp_path) as rig:
        yield rig


def of(session: str, raw: bytes) -> bytes:
    line = json.loads(raw) | {"sessionId": session, "isSidechain": True}
    return json.dumps(line, separators=(",", ":")).encode() + b"\n"


def beside(rig: UsageRig, name: str) -> Path:
    return rig.main(f"agent-{name}")


@pytest.mark.parametrize("by_process", [False, True])
async def test_an_old_subagent_beside_the_sessions_counts_for_its_session(
    rig: UsageRig, monkeypatch: pytest.MonkeyPatch, *, by_process: bool
) -> None:
    monkeypatch.setattr(usage_witness, "LITTLE_FILES", 0 if by_process else 64)
    rig.write(rig.main(SESSION), begin(), said("a", 1))
    rig.write(beside(rig, "ghi"), of(SESSION, said("b", 2000)))
    rig.start()
    await rig.settled()
    assert rig.outputs() == {SESSION: 2001}

    rig.append(beside(rig, "ghi"), of(SESSION, said("c", 500)))
    await rig.restart()
    await rig.settled()

    assert rig.outputs() == {SESSION: 2501}
    assert not rig.witness.faults


async def test_an_old_subagent_of_nobody_is_a_fault(rig: UsageRig) -> None:
    rig.write(beside(rig, "ghi"), said("b", 2000))
    rig.start()
    await rig.settled()

    assert rig.outputs() == {}
    assert dict(rig.witness.faults) == {"nobody's file": 1}


async def test_a_session_of_a_project_in_a_group_of_projects_counts(rig: UsageRig) -> None:
    rig.write(rig.main(SESSION, "group/-tmp-nested"), begin(), said("a", 5))
    child = rig.projects / "group" / "-tmp-nested" / SESSION / "subagents" / "agent-x.jsonl"
    child.parent.mkdir(parents=True)
    rig.write(child, of(SESSION, said("b", 7)))
    rig.start()
    await rig.settled()

    assert rig.outputs() == {SESSION: 12}


async def test_of_several_directories_one_that_is_not_there_is_told(rig: UsageRig) -> None:
    gone = rig.projects / "gone"
    rig.witness.named = (rig.projects, gone)
    rig.start()
    await rig.settled()

    told = rig.witness.witness()
    assert told.state == "trouble"
    assert str(gone) in (told.note or "")
    assert f"{rig.projects}," not in (told.note or "")


async def test_the_only_directory_may_come_with_the_first_session(rig: UsageRig) -> None:
    rig.witness.named = (rig.projects / "gone",)
    rig.start()
    await rig.settled()

    assert rig.witness.witness().note is None


# ---- forks whose files do not say when they were begun -----------------------------------------

OWN = b'{"type":"permission-mode","permissionMode":"default"}\n'


def repeatable(name: str, output: int, after: float) -> bytes:
    return b'{"parentUuid":null,' + said(name, output, NOON_S + after)[1:]


SHARED = [repeatable("a", 1, 60), repeatable("b", 2, 120)]


@pytest.mark.parametrize("fork_first", [False, True])
async def test_a_parent_that_goes_on_longer_than_its_fork_keeps_what_it_said(
    rig: UsageRig, *, fork_first: bool
) -> None:
    files = {
        "z": [OWN, SHARED[0], OWN, SHARED[1], repeatable("c", 4, 7200)],
        "a": [OWN, *SHARED, repeatable("d", 8, 600)],
    }
    for session, age in (("z", 100), ("a", 50 if fork_first else 200)):
        rig.write(rig.main(session), *files[session], age=age)
    rig.start()
    await rig.settled()

    assert rig.outputs() == {"z": 7, "a": 8}
    assert rig.forks() == [("a", "z")]


@pytest.mark.parametrize("fork_first", [False, True])
async def test_a_fork_that_does_not_say_when_it_was_begun_takes_nothing_of_a_parent_that_does(
    rig: UsageRig, *, fork_first: bool
) -> None:
    rig.write(rig.main("z"), begin(), *SHARED, repeatable("c", 4, 7200), age=100)
    rig.write(rig.main("a"), OWN, *SHARED, age=50 if fork_first else 200)
    rig.start()
    await rig.settled()

    assert rig.outputs() == {"z": 7}
    assert rig.forks() == [("a", "z")]
