"""The tailer: what a copy holds is not told again, however slowly or late it was made."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import adsum_collector.transcripts.cursors as choice_module
import adsum_collector.transcripts.tailer as tailer_module
from adsum_collector.transcripts.cursors import Stamp
from tests.support import wait_until
from tests.tailers import Rig, age, open_rig
from tests.transcripts import append, line

#: More than of a head, so that each part of a copy is known by it.
LINES = [line(number, pad="x" * 300) for number in range(20)]


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    async with open_rig(tmp_path) as rig:
        yield rig


@pytest.fixture(autouse=True)
def quick_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tailer_module, "ROUND_S", 0.05)


@pytest.fixture
def never_still(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who copies is waited for, however slow the machine is."""
    monkeypatch.setattr(choice_module, "STILL_MS", 600_000)


@pytest.fixture
def soon_still(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice_module, "STILL_MS", 100)


@pytest.fixture
def copy(rig: Rig) -> Path:
    copy = rig.main(project="q")
    copy.parent.mkdir()
    return copy


async def told(rig: Rig, *lines: bytes) -> None:
    await rig.give_process()
    append(rig.main(), *lines)
    rig.start()
    await wait_until(lambda: len(rig.notes()) == len(lines))


async def waited_for(rig: Rig, path: Path) -> None:
    """As it is now, it has been looked at."""

    def is_waited_for() -> bool:
        file = rig.tailer._known.files.get(str(path))
        return bool(file and file.waits and file.waits.stamp == Stamp.of(path.stat()))

    await wait_until(is_waited_for)


async def read_to_its_end(rig: Rig, path: Path) -> None:
    def is_read() -> bool:
        file = rig.tailer._known.files.get(str(path))
        return bool(file and not file.waits and file.read == Stamp.of(path.stat()))

    await wait_until(is_read)


async def write_slowly(rig: Rig, path: Path, content: bytes, *, step: int = 1500) -> None:
    """As a copy's writer does, looked at after each part."""
    path.write_bytes(b"")
    for offset in range(0, len(content), step):
        await waited_for(rig, path)
        append(path, content[offset : offset + step])
    await read_to_its_end(rig, path)


async def test_a_copy_that_is_seen_while_it_is_written_is_not_told_again(
    rig: Rig, copy: Path, never_still: None
) -> None:
    await told(rig, *LINES)

    await write_slowly(rig, copy, rig.main().read_bytes())
    append(copy, line("more"))

    await wait_until(lambda: "more" in rig.notes())
    assert len(rig.notes()) == len(LINES) + 1


@pytest.mark.parametrize("lines", [0, 10])
async def test_a_file_that_holds_nothing_but_what_was_told_is_left_alone_until_it_grows(
    rig: Rig, copy: Path, never_still: None, lines: int
) -> None:
    await told(rig, *LINES)

    copy.write_bytes(b"".join(LINES[:lines]))

    await waited_for(rig, copy)
    assert rig.tailer._known.files[str(copy)].read == Stamp.of(copy.stat())


async def test_a_transcript_that_its_newer_copy_is_written_over_is_not_told_again(
    rig: Rig, copy: Path, never_still: None
) -> None:
    await told(rig, *LINES)
    shutil.copy2(rig.main(), copy)
    append(copy, *LINES)
    await wait_until(lambda: len(rig.notes()) == 2 * len(LINES))

    await write_slowly(rig, rig.main(), copy.read_bytes())
    append(rig.main(), line("more"))

    await wait_until(lambda: "more" in rig.notes())
    assert len(rig.notes()) == 2 * len(LINES) + 1


@pytest.mark.parametrize("running", [True, False])
async def test_a_transcript_that_its_newer_copy_was_written_over_at_once_is_not_told_again(
    rig: Rig, copy: Path, never_still: None, *, running: bool
) -> None:
    await told(rig, *LINES)
    shutil.copy2(rig.main(), copy)
    append(copy, line("more"))
    await wait_until(lambda: "more" in rig.notes())
    rig.intake.taken.clear()
    if not running:
        await rig.stop()

    append(rig.main(), line("more"), line("yet more"))
    if not running:
        await rig.restart()

    await wait_until(lambda: "yet more" in rig.notes())
    assert rig.notes() == ["yet more"]


@pytest.mark.parametrize("running", [True, False])
async def test_of_an_older_copy_only_what_is_written_to_it_later_is_told(
    rig: Rig, copy: Path, *, running: bool
) -> None:
    await told(rig, *LINES)
    copy.write_bytes(b"".join(LINES[:10]))
    await waited_for(rig, copy)
    assert len(rig.notes()) == len(LINES)

    rig.intake.taken.clear()
    if not running:
        await rig.stop()
    append(copy, line("more"))
    if not running:
        await rig.restart()

    await wait_until(rig.notes)
    assert rig.notes() == ["more"]


@pytest.mark.parametrize("running", [True, False])
async def test_of_an_older_copy_that_was_resumed_before_it_was_seen_nothing_is_lost(
    rig: Rig, copy: Path, *, running: bool
) -> None:
    await told(rig, *LINES)
    rig.intake.taken.clear()
    if not running:
        await rig.stop()
    # before it is there as a transcript, it is whole
    made = copy.with_suffix(".tmp")
    made.write_bytes(b"".join(LINES[:10]) + line("one") + line("two"))
    made.rename(copy)
    if not running:
        await rig.restart()

    await wait_until(lambda: "two" in rig.notes())
    append(copy, line("three"))

    await wait_until(lambda: "three" in rig.notes())
    assert rig.notes() == ["one", "two", "three"]


async def test_an_older_copy_that_is_written_to_without_a_pause_is_told_at_once(
    rig: Rig, copy: Path, never_still: None
) -> None:
    await told(rig, *LINES)
    rig.intake.taken.clear()
    copy.write_bytes(b"".join(LINES[:10]))
    for number in range(5):
        append(copy, line(f"n{number}"))
        await wait_until(lambda number=number: f"n{number}" in rig.notes())  # type: ignore[misc]

    assert rig.notes() == [f"n{number}" for number in range(5)]


async def test_of_an_older_copy_seen_while_its_session_was_over_nothing_is_lost_once_that_lives(
    rig: Rig, copy: Path
) -> None:
    append(rig.main(), *LINES)
    rig.start()
    rig.hook("s1", rig.main())
    await wait_until(lambda: len(rig.notes()) == len(LINES))
    await rig.stop()
    copy.write_bytes(b"".join(LINES[:10]))
    for path in (rig.main(), copy):
        age(path, 500)
    await rig.restart()
    await waited_for(rig, copy)

    for number in range(5):
        append(copy, line(f"n{number}"))
        rig.hook("s1", copy)
        await wait_until(lambda number=number: f"n{number}" in rig.notes())  # type: ignore[misc]

    assert rig.notes() == [f"n{number}" for number in range(5)]


async def test_of_an_older_copy_whose_original_has_gone_all_is_told_rather_than_nothing(
    rig: Rig, copy: Path, soon_still: None
) -> None:
    await told(rig, *LINES)
    rig.intake.taken.clear()
    rig.main().unlink()

    append(copy, *LINES[:3], line("more"))

    await wait_until(lambda: "more" in rig.notes())
    assert rig.notes() == ["0", "1", "2", "more"]


async def test_a_transcript_that_only_got_shorter_is_read_anew_so_that_nothing_is_lost(
    rig: Rig, soon_still: None
) -> None:
    await told(rig, *LINES)
    rig.intake.taken.clear()

    rig.main().write_bytes(LINES[0] + line("another"))

    await wait_until(rig.notes)
    assert rig.notes() == ["0", "another"]
    assert rig.tailer.faults["truncated"] == 1


async def test_a_transcript_that_its_newer_copy_is_written_over_in_place_is_not_told_again(
    rig: Rig, copy: Path
) -> None:
    """It never is seen shorter."""
    await told(rig, *LINES)
    shutil.copy2(rig.main(), copy)
    append(copy, *LINES)
    await wait_until(lambda: len(rig.notes()) == 2 * len(LINES))

    append(rig.main(), *LINES[:10])
    await waited_for(rig, rig.main())
    append(rig.main(), *LINES[10:], line("more"))

    await wait_until(lambda: "more" in rig.notes())
    assert len(rig.notes()) == 2 * len(LINES) + 1


async def test_a_transcript_that_goes_on_unlike_its_newer_copy_is_told(
    rig: Rig, copy: Path
) -> None:
    await told(rig, *LINES)
    shutil.copy2(rig.main(), copy)
    append(copy, *LINES)
    await wait_until(lambda: len(rig.notes()) == 2 * len(LINES))
    rig.intake.taken.clear()

    append(rig.main(), *LINES[:5], line("one"))
    await wait_until(rig.notes)
    append(rig.main(), line("two"))

    await wait_until(lambda: "two" in rig.notes())
    assert rig.notes() == ["one", "two"]


async def test_a_transcript_that_is_written_anew_as_it_was_is_not_told_again(
    rig: Rig, never_still: None
) -> None:
    await told(rig, *LINES)

    await write_slowly(rig, rig.main(), b"".join(LINES))
    append(rig.main(), line("more"))

    await wait_until(lambda: "more" in rig.notes())
    assert len(rig.notes()) == len(LINES) + 1
    assert not rig.tailer.faults
