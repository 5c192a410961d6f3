"""What the system tells of changed files, on the system the tests run on and by watchfiles."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from adsum_collector.file_events import FileEvents, Inotify, Watched, file_events
from tests.support import wait_until

Listen = Callable[[FileEvents], set[str]]


@pytest.fixture
async def listen() -> AsyncIterator[Listen]:
    """Starts to listen; the set of paths told so far."""
    running: list[asyncio.Task[None]] = []

    def begin(events: FileEvents) -> set[str]:
        told: set[str] = set()

        async def collect() -> None:
            with contextlib.closing(events):
                async for paths in events.changes():
                    told.update(paths)

        running.append(asyncio.create_task(collect()))
        return told

    yield begin
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)


def is_wanted(name: str) -> bool:
    return name.endswith(".jsonl")


async def test_a_changed_file_is_told(tmp_path: Path, listen: Listen) -> None:
    events = file_events([tmp_path], is_wanted, recursive=True)
    events.enter(str(tmp_path))
    told = listen(events)
    (tmp_path / "x.txt").write_bytes(b"1")

    # watchfiles takes a while to begin
    def change() -> bool:
        (tmp_path / "a.jsonl").write_bytes(os.urandom(8))
        return bool(told)

    await wait_until(change)
    assert told == {str(tmp_path / "a.jsonl")}


async def test_watchfiles_tells_the_same_once_the_directory_is_there(
    tmp_path: Path, listen: Listen
) -> None:
    root = tmp_path / "later"
    events = Watched([root], is_wanted, recursive=True)
    told = listen(events)
    await asyncio.sleep(0)
    (root / "sub").mkdir(parents=True)

    def change() -> bool:
        (root / "sub" / "x.txt").write_bytes(os.urandom(8))
        (root / "sub" / "a.jsonl").write_bytes(os.urandom(8))
        return bool(told)

    await wait_until(change)
    assert told == {str(root / "sub" / "a.jsonl")}


if sys.platform == "linux":

    @pytest.fixture
    def events(tmp_path: Path) -> Inotify:
        events = Inotify([tmp_path], is_wanted)
        events.enter(str(tmp_path))
        return events

    async def test_moves_deletions_and_directories_are_told(
        tmp_path: Path, events: Inotify, listen: Listen
    ) -> None:
        (tmp_path / "a.jsonl").write_bytes(b"")
        told = listen(events)
        (tmp_path / "a.jsonl").rename(tmp_path / "b.jsonl")
        (tmp_path / "b.jsonl").unlink()
        (tmp_path / "d").mkdir()
        await wait_until(lambda: len(told) == 3)

        assert told == {str(tmp_path / name) for name in ("a.jsonl", "b.jsonl", "d")}

    async def test_a_file_that_is_written_all_the_time_wakes_us_rarely(
        tmp_path: Path, events: Inotify
    ) -> None:
        woken = 0

        async def collect() -> None:
            nonlocal woken
            async for _ in events.changes():
                woken += 1

        task = asyncio.create_task(collect())
        began = time.monotonic()
        with (tmp_path / "a.jsonl").open("ab", buffering=0) as file:
            while time.monotonic() - began < 0.2:
                file.write(b"x")
                await asyncio.sleep(0)
        task.cancel()
        events.close()

        assert 2 <= woken <= 12

    async def test_more_events_than_the_kernel_keeps_mean_a_look_at_everything(
        tmp_path: Path, events: Inotify, listen: Listen
    ) -> None:
        most = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
        first, second = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
        first.write_bytes(b"")
        for _ in range(most // 2 + 2):
            first.rename(second)
            second.rename(first)
        told = listen(events)

        await wait_until(lambda: str(tmp_path) in told)

    async def test_a_directory_that_went_and_came_back_can_be_entered_again(
        tmp_path: Path, events: Inotify, listen: Listen
    ) -> None:
        sub = tmp_path / "sub"
        sub.mkdir()
        events.enter(str(sub))
        told = listen(events)
        sub.rmdir()
        await wait_until(lambda: str(sub) not in events._directories.values())
        sub.mkdir()
        events.enter(str(sub))
        (sub / "a.jsonl").write_bytes(b"")

        await wait_until(lambda: str(sub / "a.jsonl") in told)

    async def test_a_renamed_directory_is_told_by_its_new_name_and_its_old_name_is_free(
        tmp_path: Path, events: Inotify, listen: Listen
    ) -> None:
        old, now = tmp_path / "old", tmp_path / "now"
        old.mkdir()
        events.enter(str(old))
        told = listen(events)
        old.rename(now)
        events.enter(str(now))
        old.mkdir()
        events.enter(str(old))
        (old / "a.jsonl").write_bytes(b"")
        (now / "b.jsonl").write_bytes(b"")

        await wait_until(lambda: {str(old / "a.jsonl"), str(now / "b.jsonl")} <= told)

    def test_one_that_nobody_follows_gives_its_instance_back(tmp_path: Path) -> None:
        descriptor = Inotify([tmp_path], is_wanted)._descriptor
        gc.collect()
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(descriptor)

    async def test_what_cannot_be_watched_is_an_error(tmp_path: Path, events: Inotify) -> None:
        with pytest.raises(FileNotFoundError):
            events.enter(str(tmp_path / "none"))
        events.close()
        with pytest.raises(OSError, match="Bad file descriptor"):
            events.enter(str(tmp_path))

    async def test_without_a_descriptor_it_is_silent(
        tmp_path: Path, events: Inotify, listen: Listen
    ) -> None:
        events.close()
        told = listen(events)
        (tmp_path / "a.jsonl").write_bytes(b"")
        await asyncio.sleep(0.01)

        assert told == set()
