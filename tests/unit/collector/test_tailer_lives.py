"""The tailer: of whom everything is told, of whom only the end, and of whom nothing."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

import adsum_collector.transcripts.tailer as tailer_module
from adsum_collector.transcripts import files as transcript_files
from adsum_collector.transcripts.tailer import Tailer
from adsum_shared.signals import CostReported, MetaChanged, SessionEnded
from tests.support import wait_until
from tests.tailers import DAY_S, Rig, age, open_rig
from tests.transcripts import append, line


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    async with open_rig(tmp_path) as rig:
        yield rig


@pytest.fixture
def quick_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tailer_module, "ROUND_S", 0.05)


async def test_nothing_is_read_before_it_is_known_who_lives(rig: Rig) -> None:
    append(rig.main(), line("one"))
    age(rig.main(), 600)
    running = asyncio.create_task(rig.tailer.run())
    rig.hook(path=rig.main())
    await wait_until(lambda: not rig.tailer._looks)  # all that the hook leads to
    assert rig.intake.taken == []

    rig.settled.set()

    await wait_until(lambda: rig.notes() == ["one"])
    assert rig.of(SessionEnded) == []
    running.cancel()


async def test_a_session_that_nobody_runs_tells_its_meta_and_its_end(rig: Rig) -> None:
    append(rig.main(), line("one", at=1000), line("Title", kind="meta", at=2000))
    append(rig.child("a"), line("two"))
    age(rig.main(), 600)
    age(rig.child("a"), 600)
    rig.start()
    (ended,) = await wait_until(lambda: rig.of(SessionEnded))

    assert (ended.reason, ended.source, ended.at) == ("process", "transcript", 2000)
    assert [signal.title for signal in rig.of(MetaChanged)] == ["Title"]
    assert rig.notes() == []


async def test_the_end_comes_after_all_that_is_told_of_the_session(rig: Rig) -> None:
    append(rig.main(), *(line(number, kind="meta", at=number) for number in range(250)))
    age(rig.main(), 600)
    rig.start()
    await wait_until(lambda: rig.of(SessionEnded))
    await rig.walked()

    assert len(rig.of(MetaChanged)) == 250
    assert [s.at for s in rig.intake.taken if isinstance(s, SessionEnded)] == [249]
    assert isinstance(rig.intake.taken[-1], SessionEnded)


async def test_an_end_is_told_once(rig: Rig) -> None:
    append(rig.main(), line("one", kind="silent"))
    age(rig.main(), 600)
    rig.start()
    (ended,) = await wait_until(lambda: rig.of(SessionEnded))
    assert abs(ended.at / 1000 - rig.main().stat().st_mtime) < 1

    await rig.restart()
    await wait_until(lambda: rig.tailer._known.files)
    await rig.walked()

    assert rig.intake.taken == []


async def test_an_end_that_a_full_spool_refused_is_told_later(rig: Rig, quick_rounds: None) -> None:
    append(rig.main(), line("one"))
    age(rig.main(), 600)
    rig.intake.full = True
    rig.start()
    await wait_until(lambda: rig.tailer.faults["not accepted"] > 1)
    assert rig.intake.taken == []

    rig.intake.full = False

    await wait_until(lambda: len(rig.of(SessionEnded)) == 1)


async def test_the_rest_of_a_session_that_ended_while_we_were_down_is_told_as_its_end(
    rig: Rig,
) -> None:
    rig.start()
    append(rig.main(), line("one"))
    await wait_until(rig.notes)
    await rig.stop()
    append(rig.main(), line("two", at=5000), line("Title", kind="meta", at=4000))
    age(rig.main(), 600)

    await rig.restart()

    (ended,) = await wait_until(lambda: rig.of(SessionEnded))
    assert ended.at == 5000
    assert rig.notes() == []
    assert len(rig.of(MetaChanged)) == 1


async def test_a_session_of_long_ago_is_not_read(rig: Rig) -> None:
    append(rig.main("old"), line("one"))
    age(rig.main("old"), 2 * DAY_S)
    append(rig.main("s2"), line("two"))
    age(rig.main("s2"), 600)
    rig.start()
    await wait_until(lambda: rig.of(SessionEnded))
    await rig.walked()

    assert {signal.session_id for signal in rig.intake.taken} == {"s2"}
    assert rig.tailer.files == 2


async def test_what_turns_out_to_be_no_sessions_has_no_end(rig: Rig) -> None:
    append(rig.main("review"), line("one", kind="nobody"))
    append(rig.main("s2"), line("two"))
    age(rig.main("review"), 300)
    age(rig.main("s2"), 600)
    rig.start()
    await wait_until(lambda: rig.of(SessionEnded))
    await rig.walked()

    assert {signal.session_id for signal in rig.intake.taken} == {"s2"}


async def test_a_file_written_to_just_before_we_came_is_not_called_over(
    rig: Rig, quick_rounds: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(rig.main(), line("one"))
    age(rig.main(), 30)
    rig.start()
    await rig.walked()
    append(rig.main(), line("two"))

    await wait_until(lambda: rig.notes() == ["one", "two"])
    assert rig.of(SessionEnded) == []


@pytest.mark.parametrize("sign", ["hook", "process", "growth"])
async def test_a_session_that_turns_out_to_live_is_read_from_its_tail(
    rig: Rig, quick_rounds: None, sign: str
) -> None:
    append(rig.main(), line("one"))
    age(rig.main(), 600)
    rig.start()
    await wait_until(lambda: rig.of(SessionEnded))
    assert rig.notes() == []

    if sign == "hook":
        rig.hook()
    elif sign == "process":
        await rig.give_process()
    else:
        append(rig.main(), line("two"))

    await wait_until(lambda: rig.notes()[:1] == ["one"])
    assert rig.notes() in (["one"], ["one", "two"])


async def test_a_session_that_lives_after_a_restart_is_read_from_its_tail(rig: Rig) -> None:
    append(rig.main(), line("one"))
    age(rig.main(), 600)
    rig.start()
    await wait_until(lambda: rig.of(SessionEnded))
    await rig.give_process()

    await rig.restart()

    await wait_until(lambda: rig.notes() == ["one"])


async def test_of_a_living_sessions_big_file_only_the_tail_is_read(rig: Rig) -> None:
    pad = "x" * 1000
    append(rig.main(), *(line(number, pad=pad) for number in range(2000)))
    await rig.give_process()
    rig.start()
    await wait_until(lambda: rig.notes()[-1:] == ["1999"])

    assert 200 < len(rig.notes()) < 270


@pytest.fixture
def walks(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Until it is set, no walk over the files comes to an end."""
    walks = threading.Event()

    def look_at(*args: Any) -> Any:
        walks.wait(20)
        return transcript_files.look_at(*args)

    monkeypatch.setattr(tailer_module, "look_at", look_at)
    yield walks
    walks.set()


async def test_who_has_a_process_is_read_before_any_walk_newest_first(
    rig: Rig, walks: threading.Event
) -> None:
    for number, session in enumerate(["old", "new", "middle"]):
        append(rig.main(session, project=f"p{number}"), line(session))
        await rig.give_process(session)
    append(rig.main("nobody"), line("nobody"))
    for seconds, path in ((900, rig.main("old", "p0")), (500, rig.main("middle", "p2"))):
        age(path, seconds)
    rig.start()

    await wait_until(lambda: len(rig.notes()) == 3)
    assert rig.notes() == ["new", "middle", "old"]
    walks.set()
    await wait_until(lambda: "nobody" in rig.notes())


async def test_one_that_never_ends_does_not_hold_up_the_first_walk(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = Tailer._read

    async def endless(self: Tailer, file: Any) -> None:
        await read(self, file)
        if file.path == str(rig.main()):
            self._due[file.path] = None

    monkeypatch.setattr(Tailer, "_read", endless)
    monkeypatch.setattr(tailer_module, "LIVING_S", 0.1)
    append(rig.main(), line("one"))
    await rig.give_process()
    rig.start()
    append(rig.main("s2"), line("two"))

    await wait_until(lambda: sorted(rig.notes()) == ["one", "two"])


async def test_what_a_session_cost_is_told_when_it_is_over_and_its_gauges_are_not(rig: Rig) -> None:
    append(rig.main(), line(7, kind="cost"), line(7, kind="gauges"), line("one"))
    age(rig.main(), 600)
    rig.start()
    await wait_until(lambda: rig.of(SessionEnded))

    assert [type(each) for each in rig.intake.taken] == [CostReported, SessionEnded]


# ---- whose lines are of another day than their file ---------------------------------------------


def restored(seconds: float, **fields: Any) -> bytes:
    """A line written so long before now."""
    return line("one", written=int((time.time() - seconds) * 1000), **fields)


@pytest.mark.parametrize("seconds", [660, 90 * DAY_S, -2 * DAY_S])
async def test_a_file_of_another_day_that_comes_up_is_no_sign_of_life(
    rig: Rig, quick_rounds: None, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transcript_files, "QUIET_MS", 500)
    rig.start()
    append(rig.main(), restored(seconds))
    append(rig.main(), restored(seconds), line("without a time"))
    append(rig.child("a"), restored(seconds))
    append(rig.main("s2"), line("two"))
    await wait_until(lambda: rig.notes() == ["two"])
    await rig.walked()
    assert not rig.tailer.lives("s1")

    (ended,) = await wait_until(lambda: rig.of(SessionEnded))
    assert ended.session_id == "s1"
    assert rig.notes() == ["two"]


@pytest.mark.parametrize("seconds", [0, 540, -3600])
async def test_a_file_whose_lines_are_nearly_of_now_is_a_sign_of_life(
    rig: Rig, seconds: float
) -> None:
    """Clocks of machines that share a home differ."""
    rig.start()
    append(rig.main(), restored(90 * DAY_S), restored(seconds))

    await wait_until(lambda: len(rig.notes()) == 2)


async def test_an_old_session_that_is_resumed_lives_from_its_first_new_line_on(rig: Rig) -> None:
    rig.start()
    append(rig.main(), restored(90 * DAY_S))
    await rig.walked()
    assert rig.notes() == []

    append(rig.main(), restored(0))

    await wait_until(lambda: len(rig.notes()) == 2)


@pytest.mark.parametrize("sign", ["hook", "process"])
async def test_a_restored_file_whose_session_lives_by_another_sign_is_read(
    rig: Rig, quick_rounds: None, sign: str
) -> None:
    rig.start()
    append(rig.main(), restored(90 * DAY_S))
    await rig.walked()

    if sign == "hook":
        rig.hook()
    else:
        await rig.give_process()

    await wait_until(lambda: rig.notes() == ["one"])


@pytest.mark.parametrize("pad", [0, 20_000, 100_000, 2_000_000])
async def test_the_time_of_a_file_is_found_behind_lines_of_any_length(rig: Rig, pad: int) -> None:
    rig.start()
    append(
        rig.main(), restored(0), restored(DAY_S), line("x" * pad), line("y" * pad, kind="silent")
    )
    append(rig.main("s2"), line("two"))

    await wait_until(lambda: rig.notes() == ["two"])
    assert not rig.tailer.lives("s1")


async def test_what_bears_no_time_is_as_old_as_what_does(rig: Rig) -> None:
    """Of a session that is over; what was said now would be a sign of life to the hub."""
    at = int((time.time() - 90 * DAY_S) * 1000)
    ahead = int((time.time() + 9 * DAY_S) * 1000)
    append(rig.main(), line("Title", kind="meta"), line("one", written=at, at=at))
    append(rig.main("s2"), line("Title", kind="meta"), line("one", written=ahead))
    age(rig.main(), 600)
    age(rig.main("s2"), 600)
    rig.start()
    await wait_until(lambda: len(rig.of(SessionEnded)) == 2)

    old, late = sorted(rig.of(MetaChanged), key=lambda each: each.at)
    assert (old.at, old.session_id) == (at, "s1")
    assert abs(late.at / 1000 - rig.main("s2").stat().st_mtime) < 1
    assert {each.at for each in rig.of(SessionEnded)} == {old.at, late.at}
    assert time.time() * 1000 - late.seen < 60_000


@pytest.mark.parametrize("odd", ["../p/s1", "a\0b", "x" * 5000, ""])
async def test_a_session_whose_name_is_no_files_has_none(rig: Rig, odd: str) -> None:
    append(rig.main(), line("one"))
    age(rig.main(), 600)
    await rig.give_process(odd)
    rig.start()

    (ended,) = await wait_until(lambda: rig.of(SessionEnded))
    assert ended.session_id == "s1"
    assert rig.notes() == []
