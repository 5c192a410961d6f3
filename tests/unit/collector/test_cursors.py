"""Cursors in the spool's state: found again, and not for ever."""

from __future__ import annotations

import os
from pathlib import Path

from adsum_collector.transcripts.cursors import (
    GONE_MS,
    KEPT_MS,
    MOST_CURSORS,
    PREFIX,
    Cursor,
    Stamp,
    decode_cursor,
    encode_cursor,
    find_cursors,
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


def test_a_file_that_moved_away_and_back_has_a_cursor_in_both_places() -> None:
    old, new = cursor(), cursor(inode=8)
    kept = state(("/a/s1.jsonl", old), ("/b/s1.jsonl", new))

    assert find_cursors(kept, "/a/s1.jsonl", stamp(), "s1") == (old, [("/b/s1.jsonl", new)])
    assert find_cursors(kept, "/b/s1.jsonl", stamp(), "s1") == (new, [("/a/s1.jsonl", old)])


def test_a_cursor_is_found_by_its_path() -> None:
    kept = state(("/p/s1.jsonl", cursor()), ("/p/s2.jsonl", cursor(inode=8)))

    assert find_cursors(kept, "/p/s2.jsonl", stamp(8), "s1") == (cursor(inode=8), [])
    assert find_cursors(kept, "/p/s3.jsonl", stamp(9), "s1") == (None, [])


def test_a_cursor_follows_its_file_into_another_directory() -> None:
    kept = state(("/p/s1/subagents/agent-a.jsonl", cursor()))

    moved = "/p/s2/subagents/agent-a.jsonl"
    assert find_cursors(kept, moved, stamp(), "s2") == (
        None,
        [("/p/s1/subagents/agent-a.jsonl", cursor())],
    )


def test_a_cursor_does_not_follow_a_file_of_another_name() -> None:
    kept = state(("/p/s1.jsonl", cursor()), ("/p/s1/subagents/agent-a.jsonl", cursor()))

    assert find_cursors(kept, "/q/s2.jsonl", stamp(), "s2") == (None, [])


def test_a_cursor_is_tried_on_what_may_be_a_copy_of_its_file() -> None:
    kept = state(("/p/s1.jsonl", cursor()), ("/o/s1.jsonl", cursor(NOW - 1)))

    found = find_cursors(kept, "/q/s1.jsonl", stamp(8), "s1")
    assert found == (None, [("/p/s1.jsonl", cursor()), ("/o/s1.jsonl", cursor(NOW - 1))])


def test_a_cursor_is_not_tried_on_another_sessions_copy_of_its_file() -> None:
    kept = state(("/p/s1/subagents/agent-a.jsonl", cursor()))

    assert find_cursors(kept, "/p/s2/subagents/agent-a.jsonl", stamp(8), "s2") == (None, [])


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


def test_a_living_sessions_cursor_is_none_of_too_many_though_it_is_the_oldest() -> None:
    others = ((f"/p/{n}.jsonl", cursor(NOW - n)) for n in range(MOST_CURSORS))
    kept = state(("/p/s1.jsonl", cursor(NOW - 2 * KEPT_MS)), *others)

    assert outdated(kept, None, ["/p/s1.jsonl"], NOW) == {}


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
