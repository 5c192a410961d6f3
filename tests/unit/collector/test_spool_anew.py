"""A new beginning of the spool: what goes along, and what hubs have already."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from adsum_collector.spool.spool import Spool, SpoolGap
from adsum_collector.spool.spool_directory import SpoolDirectory
from adsum_collector.spool.spool_file import Append, Span, SpoolLimits
from tests.spools import SMALL, Clock, fill, prompt, put, read_all


@pytest.fixture
def files(tmp_path: Path) -> Iterator[SpoolDirectory]:
    """Twenty-five signals in three files, of which hubs have the first five."""
    files = SpoolDirectory(tmp_path / "spool", SMALL, Clock())
    fill(files, 25)
    files.acknowledge(5, files.meta.spool_id)
    yield files
    files.close()


@pytest.mark.parametrize(
    ("without", "kept"),
    [
        ((), range(6, 26)),
        (((1, 12),), range(13, 26)),
        (((8, 9), (20, 25)), [6, 7, *range(10, 20)]),
        (((1, 25),), []),
    ],
    ids=["nothing more", "over a file's end", "with holes between", "everything"],
)
def test_what_hubs_have_stays_behind_and_the_rest_goes_along_in_order(
    files: SpoolDirectory, without: tuple[Span, ...], kept: list[int]
) -> None:
    files.begin_anew("copy", 7, instead_of=files.meta.spool_id, without=without, spool_id="chosen")

    rows, gaps = read_all(files)
    assert list(rows.values()) == [prompt(number - 1) for number in kept]
    assert gaps == [SpoolGap(1, 1, "copy")]
    assert (files.meta.spool_id, files.meta.incarnation, files.meta.acked) == ("chosen", 7, 0)
    assert put(files, b"next") == len(kept) + 2


def test_state_goes_along_but_for_what_changes_with_it(files: SpoolDirectory) -> None:
    files.commit([Append([], state={"cursor": b"1", "host": b"old", "arrived": b"9"})])

    files.begin_anew(
        "copy", 1, instead_of=files.meta.spool_id, state={"host": b"new", "arrived": None}
    )

    assert files.state == {"cursor": b"1", "host": b"new"}


def test_a_message_that_comes_again_after_it_is_still_known(files: SpoolDirectory) -> None:
    put(files, b"told", message_id="once")
    files.begin_anew("copy", 1, instead_of=files.meta.spool_id)
    before = files.last

    put(files, b"told", message_id="once")

    assert files.last == before


@pytest.mark.parametrize("complete", [True, False], ids=["new file complete", "new file begun"])
def test_a_kill_in_the_middle_leaves_the_one_spool_or_the_other(
    files: SpoolDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, complete: bool
) -> None:
    old, directory = files.meta.spool_id, tmp_path / "spool"
    current = files.current

    def copy_at(*_: object) -> None:
        shutil.copytree(directory, tmp_path / "killed", dirs_exist_ok=True)

    if complete:
        monkeypatch.setattr(current, "close", copy_at)
    else:
        monkeypatch.setattr("adsum_collector.spool.spool_file.connect", copy_at)
    with pytest.MonkeyPatch.context() as here:
        here.setattr("adsum_collector.spool.spool_directory.unlink", lambda _path: None)
        try:
            files.begin_anew("copy", 1, instead_of=files.meta.spool_id, spool_id="chosen")
        except Exception:  # noqa: BLE001 - as it stood then is what counts
            assert not complete
    monkeypatch.undo()
    current.close()

    after = SpoolDirectory(tmp_path / "killed", SMALL, Clock())
    assert after.meta.spool_id == ("chosen" if complete else old)
    assert list(read_all(after)[0].values())[-20:] == [prompt(at) for at in range(5, 25)]
    after.close()


async def test_the_gap_that_begins_a_spool_has_one_time_however_often_it_is_read(
    tmp_path: Path,
) -> None:
    clock = Clock()
    spool = await Spool.open(tmp_path / "spool", SpoolLimits(min_free_bytes=0), clock)
    await spool.begin_anew("copy", 1, at=123)
    clock.now += 60

    assert await spool.read(0, 9, 999) == SpoolGap(1, 1, "copy", 123)
    await spool.close()


async def test_numbers_of_a_spool_that_is_gone_begin_nothing_anew(tmp_path: Path) -> None:
    spool = await Spool.open(tmp_path / "spool", SpoolLimits(min_free_bytes=0))
    await spool.append([b"1", b"2"])
    before = spool._files.meta.spool_id
    spool.spool_id = "the one that was there before the damage"

    await spool.begin_anew("copy", 1, without=[(1, 2)])

    assert spool._files.meta.spool_id == before
    assert await spool.read(0, 9, 999) is not None
    await spool.close()
