"""The tailer: every line once, soon, whatever becomes of its file."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import adsum_collector.transcripts.tailer as tailer_module
from adsum_collector.file_events import Inotify
from adsum_collector.transcripts.cursors import decode_cursor, key_of
from adsum_shared.signals import Alive
from tests.support import wait_until
from tests.tailers import DAY_S, Rig, age, open_rig
from tests.transcripts import append, line


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    async with open_rig(tmp_path) as rig:
        yield rig


@pytest.fixture
def deaf(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system that tells no changes."""

    def refuse(_self: Inotify, _directory: str) -> None:
        raise OSError("no space left for watches")

    monkeypatch.setattr(Inotify, "enter", refuse)


@pytest.fixture
def quick_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tailer_module, "ROUND_S", 0.05)


@pytest.fixture
def no_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tailer_module, "ROUND_S", 3600.0)


async def test_beside_files_of_holes_another_sessions_line_is_told_soon(rig: Rig) -> None:
    for number, size in enumerate((1 << 40, 3 << 30)):
        append(rig.main(f"hole{number}"), line("begin"))
        os.truncate(rig.main(f"hole{number}"), size)
        await rig.give_process(f"hole{number}")
    rig.start()
    await wait_until(lambda: rig.tailer.too_long)
    append(rig.main(), line("told"))

    await wait_until(lambda: "told" in rig.notes(), timeout=5)

    assert rig.tailer.too_long == {str(rig.main("hole0")): 1 << 40}
    os.truncate(rig.main("hole0"), 100)
    await wait_until(lambda: not rig.tailer.too_long)


async def test_lines_of_a_session_that_sends_no_hooks_are_told(rig: Rig) -> None:
    rig.start()
    await rig.walked()
    append(rig.main(), line("one"), line("two"))
    await wait_until(lambda: len(rig.notes()) == 2)
    append(rig.main(), line("three"))
    await wait_until(lambda: len(rig.notes()) == 3)

    assert rig.notes() == ["one", "two", "three"]
    assert rig.tailer.files == 1
    assert rig.tailer.read_at > 0


async def test_a_hook_makes_its_transcript_be_read(rig: Rig, deaf: None, no_rounds: None) -> None:
    rig.start()
    await rig.walked()
    append(rig.main(), line("one"))

    rig.hook(path=rig.main())

    await wait_until(rig.notes)
    assert rig.tailer.faults["unwatched"] > 0


async def test_a_directory_that_tells_nothing_is_one_fault_however_often_it_is_walked(
    rig: Rig, deaf: None, quick_rounds: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tailer_module, "WALK_S", 0.0)
    monkeypatch.setattr(tailer_module, "WALK_SHARE", 0)
    rig.start()
    await rig.walked()
    for number in range(3):
        append(rig.main(f"s{number}"), line(number))
        await wait_until(lambda: len(rig.notes()) > number)  # noqa: B023 - asked before it changes

    assert rig.tailer.faults["unwatched"] == 2, "the root and the project"


async def test_a_line_that_comes_after_its_hook_is_read_soon(
    rig: Rig, deaf: None, no_rounds: None
) -> None:
    rig.start()
    await rig.walked()
    rig.hook(path=rig.main())
    first = rig.tailer._looks["s1"]
    await wait_until(lambda: rig.tailer._looks["s1"] is not first)

    append(rig.main(), line("one"))

    await wait_until(rig.notes, timeout=1.0)


async def test_a_hook_without_a_path_is_enough_for_a_known_session(
    rig: Rig, deaf: None, no_rounds: None
) -> None:
    append(rig.main(), line("one"))
    rig.start()
    await rig.walked()
    rig.hook()
    await wait_until(rig.notes)

    append(rig.child("a"), line("two"))
    rig.hook()

    await wait_until(lambda: rig.notes() == ["one", "two"])


async def test_a_burst_of_hooks_reads_each_line_once(rig: Rig) -> None:
    rig.start()
    for number in range(100):
        append(rig.main(), line(number))
        rig.hook(path=rig.main())
        if number % 10 == 0:
            await asyncio.sleep(0)

    await wait_until(lambda: len(rig.notes()) >= 100)
    assert rig.notes() == [str(number) for number in range(100)]


async def test_a_hook_that_names_a_file_elsewhere_opens_nothing(rig: Rig, tmp_path: Path) -> None:
    other = tmp_path / "other" / "p" / "s1.jsonl"
    append(other, line("secret"))
    rig.start()
    rig.hook(path=other)
    rig.hook(path=rig.projects / ".." / ".." / "other" / "p" / "s1.jsonl")
    append(rig.main("s2"), line("one"))
    await wait_until(rig.notes)

    assert rig.notes() == ["one"]
    assert rig.tailer.faults["outside"] == 2


@pytest.mark.parametrize("name", ["a\0b", "\ud800", "x" * 5000, "y/" * 3000])
async def test_a_hook_that_names_what_can_be_no_file_ends_nothing(rig: Rig, name: str) -> None:
    rig.start()
    rig.hook(path=Path(f"{rig.projects}/p/{name}.jsonl"))
    append(rig.main(), line("one"))

    await wait_until(rig.notes)
    assert rig.tailer.faults["outside"] == ("\0" in name)


async def test_a_path_through_a_link_is_the_same_file(rig: Rig, tmp_path: Path) -> None:
    linked = tmp_path / "link"
    linked.symlink_to(rig.projects.parent)
    rig.projects = linked / "projects"
    rig.tailer = rig._tailer()
    rig.start()
    append(rig.main(), line("one"))

    rig.hook(path=tmp_path / "claude" / "projects" / "p" / "s1.jsonl")
    await wait_until(rig.notes)

    assert rig.tailer.files == 1
    assert not rig.tailer.faults["outside"]


async def test_a_directory_that_comes_later_is_read(rig: Rig, quick_rounds: None) -> None:
    rig.projects.rmdir()
    rig.start()
    await wait_until(lambda: rig.tailer._absent)
    append(rig.main(), line("one"))

    await wait_until(rig.notes)


async def test_a_directory_that_has_come_is_not_looked_at_whole_at_every_round(
    rig: Rig, quick_rounds: None
) -> None:
    """The next walk, which would tell as well, is half a minute away."""
    rig.projects.rmdir()
    rig.start()
    await wait_until(lambda: rig.tailer._absent)
    rig.projects.mkdir()

    await wait_until(lambda: not rig.tailer._absent)


async def test_a_hook_does_not_end_the_wait_for_a_directory(rig: Rig, quick_rounds: None) -> None:
    """Once it is there, its events are to be heard: the next walk may be half a minute away."""
    rig.projects.rmdir()
    rig.start()
    await wait_until(lambda: rig.tailer._absent)

    rig.hook(path=rig.main())
    await wait_until(lambda: not rig.tailer._ready)

    assert rig.tailer._absent == {str(rig.projects)}


async def test_rounds_find_what_the_file_system_does_not_tell(
    rig: Rig, deaf: None, quick_rounds: None
) -> None:
    append(rig.main(), line("one"))
    await rig.give_process()
    rig.start()
    await wait_until(lambda: rig.notes() == ["one"])

    append(rig.main(), line("two"))
    append(rig.child("a"), line("three"))

    await wait_until(lambda: len(rig.notes()) == 3)


async def test_a_walk_finds_new_sessions_the_file_system_does_not_tell(
    rig: Rig, deaf: None, quick_rounds: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tailer_module, "WALK_S", 0.1)
    monkeypatch.setattr(tailer_module, "WALK_SHARE", 1)
    rig.start()
    await rig.walked()

    append(rig.main("s2"), line("one"))

    await wait_until(rig.notes)


async def test_a_restart_goes_on_where_it_was(rig: Rig) -> None:
    await rig.give_process()
    append(rig.main(), line("one"))
    rig.start()
    await wait_until(rig.notes)
    await rig.stop()
    append(rig.main(), line("two"))

    await rig.restart()

    await wait_until(rig.notes)
    assert rig.notes() == ["two"]
    cursor = decode_cursor(rig.spool.state[key_of(str(rig.main()))])
    assert cursor is not None
    assert (cursor.offset, cursor.context) == (rig.main().stat().st_size, "2")


async def test_lines_that_say_nothing_are_not_committed(rig: Rig) -> None:
    await rig.give_process()
    append(rig.main(), line("one", kind="silent"))
    rig.start()
    await wait_until(lambda: rig.tailer.read_at)

    assert key_of(str(rig.main())) not in rig.spool.state
    append(rig.main(), line("two"))
    await wait_until(rig.notes)
    cursor = decode_cursor(rig.spool.state[key_of(str(rig.main()))])
    assert cursor is not None
    assert cursor.context == "2"


async def test_a_full_spool_loses_nothing(rig: Rig, quick_rounds: None) -> None:
    rig.start()
    await rig.walked()
    rig.intake.full = True
    append(rig.main(), line("one"), line("{"))
    await wait_until(lambda: rig.tailer.faults["not accepted"] > 2)
    assert rig.tailer.read_at == 0

    rig.intake.full = False

    await wait_until(rig.notes)
    append(rig.main(), line("two"))
    await wait_until(lambda: rig.notes() == ["one", "{", "two"])


async def test_a_spool_that_fills_up_between_two_chunks_loses_nothing(
    rig: Rig, quick_rounds: None
) -> None:
    append(rig.main(), *(line(number) for number in range(250)))
    await rig.give_process()
    rig.intake.room = 2  # one for the cursors at start, one for the first chunk
    rig.start()
    await wait_until(lambda: rig.tailer.faults["not accepted"])

    rig.intake.room = 1 << 30

    await wait_until(lambda: len(rig.notes()) >= 250)
    assert rig.notes() == [str(number) for number in range(250)]


async def test_lines_that_say_nothing_and_should_are_counted(rig: Rig) -> None:
    rig.start()
    append(rig.main(), b"{\n", line("one"), b"]\n")
    await wait_until(rig.notes)

    assert rig.tailer.faults["no JSON"] == 2


async def test_a_big_file_is_read_in_order_and_lets_others_in(rig: Rig) -> None:
    rig.start()
    await rig.walked()
    append(rig.main(), line("begin"))
    await wait_until(rig.notes)
    pad = "x" * 1000
    append(rig.main(), *(line(number, pad=pad) for number in range(5000)))
    append(rig.main("s2"), line("other"))

    await wait_until(lambda: len(rig.notes()) == 5002)

    notes = rig.notes()
    assert notes.index("other") < 4000
    notes.remove("other")
    assert notes == ["begin", *(str(number) for number in range(5000))]


async def test_a_subagents_lines_come_with_its_sidecar_until_there_is_a_context(rig: Rig) -> None:
    append(rig.main(), line("main"))
    append(rig.child("a"), line("one"))
    rig.child("a").with_name("agent-a.meta.json").write_bytes(b"{x}")
    await rig.give_process()
    rig.start()
    await wait_until(lambda: len(rig.notes()) == 2)
    append(rig.child("a"), line("two"))
    await wait_until(lambda: len(rig.notes()) == 3)

    assert sorted(rig.notes()[:2]) == ["main", "one+{x}"]
    assert rig.notes()[2] == "two"
    assert [s.agent_id for s in rig.of(Alive) if s.note != "main"] == ["a", "a"]


async def test_a_workflows_subagent_is_found(rig: Rig) -> None:
    rig.start()
    await rig.walked()
    append(rig.projects / "p/s1/subagents/workflows/run/agent-b.jsonl", line("one"))

    await wait_until(rig.notes)


async def test_a_file_that_is_deleted_and_written_again_is_read_again(rig: Rig) -> None:
    rig.start()
    append(rig.main(), line("one"), line("two"))
    await wait_until(lambda: len(rig.notes()) == 2)
    rig.main().unlink()
    append(rig.main(), line("three"))

    await wait_until(lambda: len(rig.notes()) == 3)
    assert rig.notes() == ["one", "two", "three"]


async def test_a_file_that_has_gone_is_forgotten_by_a_walk(
    rig: Rig, deaf: None, quick_rounds: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tailer_module, "WALK_S", 0.05)
    monkeypatch.setattr(tailer_module, "WALK_SHARE", 1)
    append(rig.main(), line("one"))
    age(rig.main(), 2 * DAY_S)
    rig.start()
    await wait_until(lambda: rig.tailer.files == 1)

    rig.main().unlink()

    await wait_until(lambda: rig.tailer.files == 0)


async def test_a_file_that_goes_between_two_glances_is_no_fault(
    rig: Rig, deaf: None, no_rounds: None
) -> None:
    append(rig.main(), line("one"))
    rig.start()
    rig.hook(path=rig.main())
    await wait_until(rig.notes)
    await rig.walked()
    rig.main().unlink()

    rig.tailer._due[str(rig.main())] = None
    rig.tailer._wake.set()

    await wait_until(lambda: rig.tailer.files == 0)
    assert not rig.tailer.faults["unreadable"]


async def test_what_says_nothing_is_read_once_though_how_far_is_not_kept(rig: Rig) -> None:
    rig.start()
    append(rig.main(), line("one"))
    await wait_until(rig.notes)
    append(rig.main(), b"{\n")
    await wait_until(lambda: rig.tailer.faults["no JSON"])

    append(rig.main(), line("two"))

    await wait_until(lambda: rig.notes() == ["one", "two"])
    assert rig.tailer.faults["no JSON"] == 1


async def test_a_truncated_file_is_read_again_and_counted(rig: Rig) -> None:
    rig.start()
    append(rig.main(), line("one"), line("two"))
    await wait_until(lambda: len(rig.notes()) == 2)

    rig.main().write_bytes(line("one"))

    await wait_until(lambda: len(rig.notes()) == 3)
    assert rig.tailer.faults["truncated"] == 1


if os.getuid() != 0:  # nothing is forbidden to root

    async def test_a_forbidden_file_is_counted_and_tried_again(
        rig: Rig, quick_rounds: None
    ) -> None:
        rig.start()
        append(rig.main(), line("one"))
        rig.main().chmod(0)
        rig.hook(path=rig.main())
        await wait_until(lambda: rig.tailer.faults["unreadable"])
        rig.main().chmod(0o600)

        await wait_until(rig.notes)


async def test_the_same_failure_is_counted_once_however_often_it_is_tried(
    rig: Rig, quick_rounds: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[str] = []

    def refuse(path: str, *_args: object, **_more: object) -> None:
        tried.append(path)
        raise OSError(errno.EIO, "the disk is broken")

    with monkeypatch.context() as broken:
        broken.setattr(tailer_module, "read_chunk", refuse)
        rig.start()
        append(rig.main(), line("one"))
        rig.hook(path=rig.main())
        await wait_until(lambda: len(tried) > 3)
        assert rig.tailer.faults["unreadable"] == 1
        append(rig.main(), line("two"))
        await wait_until(lambda: rig.tailer.faults["unreadable"] == 2)

    await wait_until(lambda: rig.notes() == ["one", "two"])


async def test_what_cannot_be_read_is_tried_again(rig: Rig, quick_rounds: None) -> None:
    rig.start()
    await rig.walked()
    rig.main().mkdir(parents=True)
    rig.main("s2").symlink_to(rig.main("s2"))
    rig.hook("s1", rig.main("s1"))
    rig.hook("s2", rig.main("s2"))
    append(rig.main("s3"), line("one"))
    await wait_until(rig.notes)
    rig.main().rmdir()
    append(rig.main(), line("two"))

    await wait_until(lambda: rig.notes() == ["one", "two"])


async def test_files_of_nobody_are_left_alone(rig: Rig) -> None:
    append(rig.projects / "p" / "memory" / "x.jsonl", line("one"))
    append(rig.projects / "stray.jsonl", line("two"))
    rig.start()
    append(rig.main(), line("three"))
    await wait_until(rig.notes)

    assert rig.notes() == ["three"]
    assert rig.tailer.files == 1


async def test_old_cursors_are_removed_at_start(rig: Rig) -> None:
    await rig.spool.append([], state={"tail:/gone/s9.jsonl": b"{"})
    append(rig.main(), line("one"))
    rig.start()

    await wait_until(lambda: "tail:/gone/s9.jsonl" not in rig.spool.state)
