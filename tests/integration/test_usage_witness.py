"""What sessions used up is told: of their history and as they go on, once, and whatever goes wrong."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path

import pytest

from adsum_collector.line_reader import open_transcript
from adsum_collector.usage import reading as usage_reading
from adsum_collector.usage import witness as usage_witness
from adsum_shared.signals import MetaChanged, SessionEnded, UsageTotalled
from adsum_shared.state import ScanProgress
from bench.corpus import History
from tests.ledgers import DAY_S, NOON_S, UsageRig, begin, open_usage, said
from tests.support import wait_until


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[UsageRig]:
    async with open_usage(tmp_path) as rig:
        yield rig


@pytest.fixture
def all_is_much(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever there is to read, the process reads it."""
    monkeypatch.setattr(usage_witness, "LITTLE_FILES", 0)


def day_of(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).date().isoformat()  # noqa: DTZ006 - this machine's


# ---- what is told -----------------------------------------------------------------------------


async def test_a_history_is_told_as_it_was_spent(rig: UsageRig) -> None:
    truth = History(rig.projects.parent, 20_000_000, seed=5).write()
    rig.start()

    await rig.settled()

    assert rig.outputs() == dict(truth.sessions)
    told = rig.of(UsageTotalled)
    assert {each.source for each in told} == {"transcript"}
    assert rig.witness.faults.total() == 0
    assert rig.witness.witness().state == "ok"


async def test_a_total_is_of_one_day_where_the_machine_is(rig: UsageRig) -> None:
    rig.write(rig.main("s"), begin(), said("a", 5), said("b", 7, NOON_S + DAY_S))
    rig.start()

    await rig.settled()

    told = rig.told()
    assert {key: each.output_tokens for key, each in told.items()} == {
        ("s", day_of(NOON_S)): 5,
        ("s", day_of(NOON_S + DAY_S)): 7,
    }
    assert told["s", day_of(NOON_S)].at == NOON_S * 1000


async def test_subagents_and_workflows_count_for_their_session(rig: UsageRig) -> None:
    rig.write(rig.main("s"), begin(), said("a", 1))
    rig.write(rig.child("s", "x"), said("b", 10))
    rig.write(rig.child("s", "y", "workflows", "run-1"), said("c", 100))
    # the CLI's own side requests are nobody's children, and cost as much
    rig.write(rig.child("s", "acompact-1f"), said("d", 1000))
    rig.write(rig.child("s", "aside_question-2"), said("e", 10_000))
    rig.write(rig.projects / "p" / "s" / "notes.jsonl", said("f", 100_000))
    rig.start()

    await rig.settled()

    assert rig.outputs() == {"s": 11_111}


async def test_what_grows_is_told_at_once_and_then_once_a_second(rig: UsageRig) -> None:
    path = rig.main("s")
    rig.alive.add("s")
    rig.write(path, begin(), said("a", 1), age=0)
    rig.start()
    await rig.settled()
    rig.intake.taken.clear()
    began = time.monotonic()
    for number in range(40):
        rig.append(path, said(f"b{number}", 10, time.time()))
        rig.walk()
        await asyncio.sleep(0.05)

    await wait_until(lambda: rig.outputs() == {"s": 400})

    # in these two seconds and the last round
    assert len(rig.of(UsageTotalled)) <= 2 + time.monotonic() - began


async def test_copies_of_a_message_grow_and_are_one(rig: UsageRig) -> None:
    path = rig.main("s")
    rig.alive.add("s")
    rig.write(path, begin(), said("a", 3), said("b", 1), said("a", 600))
    rig.start()
    await rig.settled()
    assert rig.outputs() == {"s": 601}

    rig.append(path, said("b", 50), said("a", 2))
    rig.walk()

    await wait_until(lambda: rig.outputs() == {"s": 650})


async def test_a_session_that_is_resumed_goes_on_in_its_own_file(rig: UsageRig) -> None:
    path = rig.main("s")
    rig.write(path, begin(), said("a", 3))
    rig.start()
    await rig.settled()

    rig.append(path, begin(NOON_S + 60), said("b", 4, NOON_S + 60))
    await rig.restart()

    await wait_until(lambda: rig.outputs() == {"s": 7})


@pytest.mark.parametrize("first", ["fork", "original"])
async def test_a_forks_copies_are_its_parents(rig: UsageRig, first: str) -> None:
    def original() -> None:
        rig.write(rig.main("old"), begin(), said("a", 10), said("b", 20), age=7200)

    def fork() -> None:
        own = (begin(NOON_S + 60), said("a", 10), said("b", 20), said("c", 3, NOON_S + 70))
        rig.write(rig.main("fork"), *own)

    for write in (original, fork) if first == "original" else (fork, original):
        write()
        rig.walk()
        if rig.running is None:
            rig.start()
        await rig.settled()

    await wait_until(lambda: rig.outputs() == {"old": 30, "fork": 3})
    assert rig.forks() == [("fork", "old")]
    await rig.restart()
    await rig.settled()
    assert not rig.intake.taken


async def test_a_fork_that_repeats_only_the_end_is_one_also_if_it_is_read_first(
    rig: UsageRig,
) -> None:
    rig.write(rig.main("fork"), begin(NOON_S + 60), said("b", 20), said("c", 3))
    rig.start()
    await rig.settled()
    assert rig.forks() == []

    rig.write(rig.main("old"), begin(), said("a", 10), said("b", 20))
    rig.walk()

    await wait_until(lambda: rig.forks() == [("fork", "old")])
    assert rig.outputs() == {"old": 30, "fork": 3}


async def test_a_fork_is_one_also_if_its_begin_is_seen_before_its_copies(rig: UsageRig) -> None:
    rig.alive.add("fork")
    rig.write(rig.main("old"), begin(), said("a", 10))
    rig.write(rig.main("fork"), begin(NOON_S + 60), age=0)
    rig.start()
    await rig.settled()

    rig.append(rig.main("fork"), said("a", 10), said("b", 5))
    rig.walk()

    await wait_until(lambda: rig.forks() == [("fork", "old")])


async def test_a_copied_file_counts_nothing_twice_and_is_no_fork(rig: UsageRig) -> None:
    lines = (begin(), said("a", 10))
    rig.write(rig.main("s"), *lines)
    rig.write(rig.main("s", "elsewhere"), *lines)
    rig.write(rig.main("t"), *lines)
    rig.start()

    await rig.settled()

    assert rig.outputs() == {"s": 10}
    assert rig.forks() == []


async def test_a_fork_of_a_deleted_transcript_adds_its_own_alone(rig: UsageRig) -> None:
    path = rig.main("old")
    rig.write(path, begin(), said("a", 10))
    rig.start()
    await rig.settled()
    path.unlink()
    rig.write(rig.main("fork"), begin(NOON_S + 60), said("a", 10), said("c", 3))

    rig.walk()

    await wait_until(lambda: rig.outputs() == {"old": 10, "fork": 3})
    await wait_until(lambda: rig.forks() == [("fork", "old")])


# ---- the past of sessions that are over -------------------------------------------------------


async def test_of_a_session_that_is_over_its_past_is_told_once(rig: UsageRig) -> None:
    rig.write(rig.main("s"), begin(), said("a", 10), said("b", 1, NOON_S + 60))
    rig.start()
    await rig.settled()

    (meta,) = rig.of(MetaChanged)
    (end,) = rig.of(SessionEnded)
    assert (meta.session_id, meta.at, meta.model) == ("s", NOON_S * 1000, "claude-opus-4-6")
    assert (end.session_id, end.at, end.reason) == ("s", (NOON_S + 60) * 1000, "process")
    await rig.restart()
    await rig.settled()
    assert not rig.intake.taken


async def test_of_a_session_that_lives_nothing_is_said_but_what_it_used_up(rig: UsageRig) -> None:
    rig.alive.add("s")
    rig.write(rig.main("s"), begin(), said("a", 10))
    rig.write(rig.main("young"), begin(), said("b", 10), age=5)
    rig.start()

    await rig.settled()

    assert {type(signal) for signal in rig.intake.taken} == {UsageTotalled}


async def test_of_a_session_that_came_to_life_before_it_was_told_no_end_is_told(
    rig: UsageRig,
) -> None:
    rig.write(rig.main("s"), begin(), said("a", 10))
    rig.intake.full = True
    rig.start()
    await wait_until(lambda: rig.witness.faults["not accepted"])
    rig.alive.add("s")
    rig.intake.full = False

    rig.append(rig.main("s"), said("b", 10))
    rig.walk()

    await wait_until(lambda: rig.outputs() == {"s": 20})
    await rig.settled()
    assert not rig.of(SessionEnded)


async def test_another_reader_is_told_all_of_it_again(rig: UsageRig) -> None:
    rig.write(rig.main("old"), begin(), said("a", 10))
    rig.write(rig.main("fork"), begin(NOON_S + 9), said("a", 10), said("b", 1))
    rig.start()
    await rig.settled()
    outputs, ended = rig.outputs(), len(rig.of(SessionEnded))

    rig.reader = "two"
    await rig.restart()
    await rig.settled()
    await wait_until(lambda: len(rig.of(SessionEnded)) == ended == 2)

    assert rig.outputs() == outputs
    assert rig.forks() == [("fork", "old")]


# ---- a restart --------------------------------------------------------------------------------

_opened: set[str] = set()
sys.addaudithook(
    lambda event, args: _opened.add(str(args[0])) if event == "open" and _opened else None
)


async def test_a_restart_with_nothing_changed_opens_no_transcript(rig: UsageRig) -> None:
    for number in range(5):
        rig.write(rig.main(f"s{number}"), begin(), said(f"a{number}", 10))
    rig.start()
    await rig.settled()
    _opened.add("anything")
    try:
        await rig.restart()
        await rig.settled()
        opened = {path for path in _opened if path.endswith(".jsonl")}
        rig.append(rig.main("s0"), said("z", 1))
        rig.walk()
        await wait_until(rig.outputs)
        assert [path for path in _opened if path.endswith(".jsonl")]  # the hook sees them
    finally:
        _opened.clear()

    assert not opened


async def test_a_restart_with_much_growth_reads_the_growth_alone(
    rig: UsageRig, all_is_much: None
) -> None:
    path = rig.main("s")
    rig.write(path, begin(), *(said(f"a{number}") for number in range(2000)))
    rig.start()
    await rig.settled()
    grown = said("b", 5, time.time())

    await rig.stop()
    rig.append(path, grown)
    rig.age(path, 3600)
    await rig.restart()
    progress = await wait_until(lambda: rig.witness.progress)
    await rig.settled()

    assert progress.bytes == len(grown)
    assert rig.outputs() == {"s": 5}  # of its day


# ---- files that misbehave ---------------------------------------------------------------------


async def test_a_truncated_file_is_read_from_its_begin_and_counted(rig: UsageRig) -> None:
    path = rig.main("s")
    rig.alive.add("s")
    rig.write(path, begin(), said("a", 10), said("b", 20))
    rig.start()
    await rig.settled()

    rig.write(path, begin(), said("c", 5))
    rig.walk()

    # what has been used up stays used
    await wait_until(lambda: rig.outputs() == {"s": 35})
    assert rig.witness.faults == {"truncated": 1}


async def test_a_replaced_file_is_read_from_its_begin(rig: UsageRig) -> None:
    path = rig.main("s")
    rig.alive.add("s")
    rig.write(path, begin(), said("a", 10))
    rig.start()
    await rig.settled()

    other = path.with_suffix(".tmp")
    rig.write(other, begin(), said("a", 10), said("b", 20), said("c", 30))
    other.replace(path)
    rig.walk()

    await wait_until(lambda: rig.outputs() == {"s": 60})
    assert rig.witness.faults == {"replaced": 1}


async def test_a_file_rewritten_in_place_is_read_from_its_begin(rig: UsageRig) -> None:
    path = rig.main("s")
    rig.alive.add("s")
    rig.write(path, begin(), said("a", 10), said("b", 20))
    rig.start()
    await rig.settled()

    rig.write(path, begin(), said("c", 10), said("d", 20), said("e", 30))
    rig.walk()

    await wait_until(lambda: rig.outputs() == {"s": 90})
    assert rig.witness.faults == {"rewritten": 1}


async def test_a_moved_file_is_the_same_messages(rig: UsageRig) -> None:
    path = rig.main("s")
    rig.write(path, begin(), said("a", 10))
    rig.start()
    await rig.settled()
    rig.intake.taken.clear()

    path.rename(rig.main("s", "elsewhere"))
    rig.walk()
    await rig.settled()

    assert not rig.of(UsageTotalled)


async def test_a_torn_line_counts_once_it_is_whole(rig: UsageRig) -> None:
    path, line = rig.main("s"), said("b", 20)
    rig.alive.add("s")
    rig.write(path, begin(), said("a", 10), line[:100])
    rig.start()
    await rig.settled()
    assert rig.outputs() == {"s": 10}

    rig.append(path, line[100:])
    rig.walk()

    await wait_until(lambda: rig.outputs() == {"s": 30})


async def test_dates_in_the_future_and_absurd_numbers_are_counted_as_faults(rig: UsageRig) -> None:
    soon, late = time.time() + 3600, time.time() + 3 * DAY_S
    rig.write(
        rig.main("s"), begin(), said("a", 1, soon), said("b", 20, late), said("c", 10**13),
        said("d", -5), said("e", 100),
    )  # fmt: skip
    rig.start()

    await rig.settled()

    assert rig.outputs() == {"s": 101}
    assert rig.witness.faults == {"date in the future": 1, "odd usage": 2}
    assert rig.witness.witness().counts == {"date in the future": 1, "odd usage": 2}


async def test_a_file_that_cannot_be_read_harms_no_other(
    rig: UsageRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.write(rig.main("locked"), begin(), said("a", 1))
    rig.write(rig.main("s"), begin(), said("b", 2))

    def refused(path: str) -> int:  # by the mode root would not be
        if "locked" in path:
            raise PermissionError(13, "Permission denied", path)
        return open_transcript(path)

    monkeypatch.setattr(usage_reading, "open_transcript", refused)
    rig.start()

    await rig.settled()

    assert rig.outputs() == {"s": 2}
    assert rig.witness.faults == {"unreadable": 1}


async def test_a_pipe_in_place_of_a_transcript_holds_nobody_up(rig: UsageRig) -> None:
    path = rig.main("pipe")
    rig.write(path, begin())
    rig.write(rig.main("s"), begin(), said("b", 2))
    rig.walk()
    path.unlink()
    os.mkfifo(path)
    rig.start()

    await rig.settled()

    assert rig.outputs() == {"s": 2}
    assert rig.witness.faults == {"unreadable": 1}


# ---- the process ------------------------------------------------------------------------------


async def begun(rig: UsageRig) -> None:
    """It is known how much there is to be read."""
    await wait_until(lambda: rig.witness.progress and rig.witness.progress.files)


async def test_a_first_start_says_that_it_still_counts_until_all_is_reported(
    rig: UsageRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(usage_witness, "IDLE_S", 0.2)
    rig.write(rig.main("s"), begin(), said("a", 1))
    rig.running = asyncio.create_task(rig.witness.run())
    await wait_until(lambda: rig.witness.idle)
    assert rig.witness.progress == ScanProgress(0, 0, 0, 0)  # nobody has looked what there is

    rig.intake.full = True
    rig.walk()
    rig.witness.walked()
    await wait_until(lambda: rig.witness.faults["not accepted"])
    assert rig.witness.progress is not None

    rig.intake.full = False
    await wait_until(lambda: rig.witness.progress is None)
    assert rig.outputs() == {"s": 1}

    await rig.restart()
    await wait_until(lambda: rig.witness.idle)
    assert rig.witness.progress is None


async def test_what_a_process_has_read_is_not_all_until_it_is_reported(
    rig: UsageRig, all_is_much: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(usage_witness, "IDLE_S", 0.2)
    rig.write(rig.main("s"), begin(), said("a", 1))
    rig.intake.full = True
    rig.start()
    await wait_until(lambda: rig.witness.read_at)
    await wait_until(rig.witness._worker.is_free)
    assert rig.witness.progress is not None
    assert rig.witness.progress.percent == 99

    rig.intake.full = False
    await wait_until(lambda: rig.witness.progress is None)
    assert rig.outputs() == {"s": 1}


async def test_two_processes_come_to_the_same_sums_as_one(
    rig: UsageRig, all_is_much: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(usage_witness, "MUCH_BYTES", 0)
    monkeypatch.setattr(usage_witness, "_cores", lambda: 2)
    truth = History(rig.projects.parent, 5_000_000, seed=6).write()
    rig.start()

    await rig.settled()

    assert sum(rig.outputs().values()) == truth.sums["output"]
    assert not +rig.witness.faults


async def test_the_process_reads_the_living_first_and_tells_how_far_it_is(
    rig: UsageRig, all_is_much: None
) -> None:
    for number in range(30):
        rig.write(rig.main(f"s{number}"), begin(), said(f"a{number}"), age=number * 60)
    rig.alive.add("s29")
    rig.start()
    await begun(rig)
    assert rig.witness.progress is not None
    assert (rig.witness.progress.files, rig.witness.progress.files_done) == (30, 0)

    await rig.settled()

    assert rig.witness.progress is None
    assert len(rig.outputs()) == 30
    assert rig.of(UsageTotalled)[0].session_id == "s29"


async def test_what_grows_while_the_process_reads_is_not_missed(
    rig: UsageRig, all_is_much: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    truth = History(rig.projects.parent, 30_000_000, seed=6).write()
    path = rig.main("live")
    rig.alive.add("live")
    rig.write(path, begin(), said("a", 1), age=0)
    rig.start()
    await begun(rig)
    monkeypatch.undo()
    for number in range(20):
        rig.append(path, said(f"b{number}", 10, time.time()))
        rig.walk()
        await asyncio.sleep(0.05)

    await rig.settled()

    assert rig.outputs() == {**truth.sessions, "live": 201}


async def test_a_process_that_is_killed_is_told_of_and_begun_again(
    rig: UsageRig, all_is_much: None
) -> None:
    truth = History(rig.projects.parent, 60_000_000, seed=7).write()
    rig.start()
    child = await wait_until(lambda: children_of(os.getpid()))
    os.kill(child[0], 9)
    await wait_until(lambda: rig.witness.witness().state == "trouble")
    assert "signal 9" in (rig.witness.witness().note or "")

    await wait_until(lambda: rig.outputs() == dict(truth.sessions), 20)

    await wait_until(lambda: rig.witness.witness().state == "ok")


async def test_the_process_ends_with_the_witness(rig: UsageRig, all_is_much: None) -> None:
    History(rig.projects.parent, 30_000_000, seed=7).write()
    rig.start()
    (child,) = await wait_until(lambda: children_of(os.getpid()))

    await rig.stop()

    assert not Path(f"/proc/{child}").exists()


async def test_a_stop_that_is_broken_off_and_made_again_waits_for_the_process(
    rig: UsageRig, all_is_much: None
) -> None:
    History(rig.projects.parent, 30_000_000, seed=7).write()
    rig.start()
    (child,) = await wait_until(lambda: children_of(os.getpid()))
    history = rig.witness._worker

    first = asyncio.create_task(history.stop())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    first.cancel()
    await history.stop()

    assert not Path(f"/proc/{child}").exists()


def children_of(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").iterdir()
    found = [int(each) for task in tasks for each in (task / "children").read_text().split()]
    return [pid for pid in found if b"usage.reading" in Path(f"/proc/{pid}/cmdline").read_bytes()]
