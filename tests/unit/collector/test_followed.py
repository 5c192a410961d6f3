"""Followed files: whether one that is met first was written since we began, and by which path."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest

from adsum_collector.agents.records import TranscriptFile
from adsum_collector.transcripts.cursors import Stamp
from adsum_collector.transcripts.files import TranscriptFiles

BEGAN = 1_760_000_000_000


@pytest.mark.parametrize(
    ("mtime_ms", "lives"),
    [(BEGAN, True), (BEGAN - 4, True), (BEGAN - 1_000, False)],
    ids=["since", "in the kernel's tick before", "before"],
)
def test_a_file_written_since_we_began_is_a_sign_of_life(mtime_ms: int, lives: bool) -> None:
    known = TranscriptFiles(["/p"], lambda _: TranscriptFile("s1"), BEGAN)

    known.notice("/p/s1.jsonl", Stamp(mtime_ms * 1_000_000, 10, 1, 1), BEGAN)

    assert known.lives("s1") is lives


def stamp(size: int = 10) -> Stamp:
    return Stamp(BEGAN * 1_000_000, size, 1, 1)


@pytest.fixture
def known() -> TranscriptFiles:
    """s1.jsonl is followed below p, and may be reached below q."""
    known = TranscriptFiles(["/r"], lambda _: TranscriptFile("s1"), BEGAN)
    known.notice("/r/p/s1.jsonl", stamp(), BEGAN)
    return known


def test_a_file_that_another_look_has_found_by_another_path_is_not_followed_by_this_too(
    known: TranscriptFiles,
) -> None:
    assert known.notice("/r/q/s1.jsonl", stamp(), BEGAN) is None
    assert list(known.files) == ["/r/p/s1.jsonl"]


@pytest.mark.parametrize(
    ("size", "news"),
    [(20, {"/r/p/s1.jsonl": stamp(20)}), (10, {})],
    ids=["it grew", "it did not"],
)
async def test_what_is_told_of_a_file_by_another_path_is_news_of_the_one_it_is_followed_by(
    known: TranscriptFiles, size: int, news: dict[str, Stamp]
) -> None:
    async def look(paths: Iterable[str]) -> Mapping[str, Stamp | None]:
        return dict.fromkeys(paths, stamp(size))

    assert await known.by_one_path({"/r/q/s1.jsonl": stamp(size)}, look) == news
