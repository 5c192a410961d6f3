"""Followed files: whether one that is met first was written since we began."""

from __future__ import annotations

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
