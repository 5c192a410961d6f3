"""Cursors in the spool's state: found again, and not for ever."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from adsum_collector.cursors import (
    GONE_MS,
    KEPT_MS,
    MOST_CURSORS,
    PREFIX,
    Cursor,
    Stamp,
    decode_cursor,
    encode_cursor,
    find_cursor,
    key_of,
    outdated,
)

NOW = 1_800_000_000_000


def cursor(at: int = NOW, inode: int = 7) -> Cursor:
    return Cursor(inode=inode, head="ab", head_size=2, offset=10, context="c", at=at)


def stamp(inode: int = 7) -> Stamp:
    return Stamp(mtime_ns=0, size=20, inode=inode, dev=1)


def state(*cursors: tuple[str, Cursor]) -> dict[str, bytes]:
    return {"process:s1": b"1 2"} | {key_of(path): encode_cursor(each) for path, each in cursors}


def test_a_cursor_survives_its_encoding() -> None:
    assert decode_cursor(encode_cursor(cursor())) == cursor()


def test_what_is_no_cursor_is_none() -> None:
    assert decode_cursor(None) is None
    assert decode_cursor(b"{") is None
    assert decode_cursor(b'{"offset": "x"}') is None


def test_a_path_that_is_no_text_has_a_key_that_is() -> None:
    path = os.fsdecode(b"/home/\xff/s1.jsonl")

    assert key_of(path).encode().startswith(PREFIX.encode())
    assert key_of(path).endswith("/s1.jsonl")


def test_of_a_file_that_moved_away_and_back_the_latest_cursor_counts() -> None:
    old, new = cursor(), msgspec.structs.replace(cursor(), offset=15)
    kept = state(("/a/s1.jsonl", old), ("/b/s1.jsonl", new))

    assert find_cursor(kept, "/a/s1.jsonl", stamp(), "s1").cursor == new
    assert find_cursor(kept, "/b/s1.jsonl", stamp(), "s1").cursor == new


def test_a_deleted_file_whose_number_was_given_again_does_not_hide_the_new_ones_cursor() -> None:
    deleted = msgspec.structs.replace(cursor(), head="other", offset=18, at=1_000)
    own = msgspec.structs.replace(cursor(), offset=15, at=2_000)
    kept = state(("/b/s1.jsonl", deleted), ("/a/s1.jsonl", own))

    assert find_cursor(kept, "/a/s1.jsonl", stamp(), "s1").cursor == own


@pytest.mark.parametrize("number", [7, 8])
def test_the_next_cursor_is_later_than_any_of_its_name_whatever_file_that_was_of(
    number: int,
) -> None:
    kept = state(("/a/s1.jsonl", cursor(NOW)), ("/b/s1.jsonl", cursor(NOW + 5)))

    assert find_cursor(kept, "/c/s1.jsonl", stamp(number), "s1").after == NOW + 6
    assert find_cursor(kept, "/c/s2.jsonl", stamp(number), "s1").after == 0


def test_a_cursor_beyond_the_files_end_does_not_beat_its_own() -> None:
    own, beyond = cursor(), msgspec.structs.replace(cursor(), offset=500)
    kept = state(("/b/s1.jsonl", beyond), ("/a/s1.jsonl", own))

    assert find_cursor(kept, "/a/s1.jsonl", stamp(), "s1").cursor == own


def test_a_cursor_is_found_by_its_path() -> None:
    kept = state(("/p/s1.jsonl", cursor()), ("/p/s2.jsonl", cursor(inode=8)))

    assert find_cursor(kept, "/p/s2.jsonl", stamp(8), "s1").cursor == cursor(inode=8)
    assert find_cursor(kept, "/p/s3.jsonl", stamp(9), "s1").cursor is None


def test_a_cursor_follows_its_file_into_another_directory() -> None:
    kept = state(("/p/s1.jsonl", cursor()))

    assert find_cursor(kept, "/q/s1.jsonl", stamp(), "s1").cursor == cursor()


def test_a_cursor_does_not_follow_a_file_of_another_name() -> None:
    kept = state(("/p/s1.jsonl", cursor()))

    assert find_cursor(kept, "/q/s2.jsonl", stamp(), "s2") == (None, 0, False)


def test_a_cursor_is_tried_on_what_may_be_a_copy_of_its_file() -> None:
    kept = state(("/p/s1.jsonl", cursor()), ("/o/s1.jsonl", cursor(NOW - 1)))

    assert find_cursor(kept, "/q/s1.jsonl", stamp(8), "s1") == (cursor(), NOW + 1, True)


def test_a_cursor_is_not_tried_on_another_sessions_copy_of_its_file() -> None:
    kept = state(("/p/s1/subagents/agent-a.jsonl", cursor()))

    assert find_cursor(kept, "/p/s2/subagents/agent-a.jsonl", stamp(8), "s2").cursor is None


def test_cursors_that_stood_still_go() -> None:
    kept = state(("/p/old.jsonl", cursor(NOW - KEPT_MS - 1)), ("/p/s1.jsonl", cursor()))

    assert outdated(kept, None, (), NOW) == {key_of("/p/old.jsonl"): None}


def test_cursors_of_files_that_have_gone_go_after_a_while() -> None:
    kept = state(
        ("/p/gone.jsonl", cursor(NOW - GONE_MS - 1)),
        ("/p/just.jsonl", cursor(NOW - 1000)),
        ("/p/there.jsonl", cursor(NOW - GONE_MS - 1)),
    )

    assert outdated(kept, {"/p/there.jsonl"}, (), NOW) == {key_of("/p/gone.jsonl"): None}


def test_the_cursor_of_a_file_that_moved_stays_until_it_is_kept_under_the_new_path() -> None:
    old = ("/p/s1.jsonl", cursor(NOW - GONE_MS - 1))

    assert outdated(state(old), {"/q/s1.jsonl"}, (), NOW) == {}
    kept = state(old, ("/q/s1.jsonl", cursor()))
    assert outdated(kept, {"/q/s1.jsonl"}, (), NOW) == {key_of("/p/s1.jsonl"): None}


def test_the_cursor_of_a_living_sessions_file_stays_however_long_it_stood_still() -> None:
    kept = state(("/p/s1.jsonl", cursor(NOW - KEPT_MS - 1)))

    assert outdated(kept, {"/p/s1.jsonl"}, ["/p/s1.jsonl"], NOW) == {}


def test_nothing_goes_for_a_list_of_files_that_nobody_has() -> None:
    assert outdated(state(("/p/gone.jsonl", cursor(NOW - GONE_MS - 1))), None, (), NOW) == {}


def test_of_too_many_cursors_the_oldest_go() -> None:
    kept = state(*((f"/p/{n}.jsonl", cursor(NOW - n)) for n in range(MOST_CURSORS + 3)))

    assert outdated(kept, None, (), NOW).keys() == {
        key_of(f"/p/{MOST_CURSORS + n}.jsonl") for n in range(3)
    }


def test_unreadable_cursors_go_and_what_is_none_stays() -> None:
    assert outdated({"process:s1": b"1 2", PREFIX + "/p": b"{"}, None, (), NOW) == {
        PREFIX + "/p": None
    }


def test_a_stamp_tells_a_file_that_has_changed(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"1")
    before = Stamp.of(path.stat())
    assert Stamp.of(path.stat()) == before

    path.write_bytes(b"12")

    assert Stamp.of(path.stat()) != before
