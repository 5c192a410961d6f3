"""What is written next, and when a hub keeps its hands off."""

from __future__ import annotations

from adsum_hub.snapshots import Saved, Snapshot


def saved(**fields: object) -> Saved:
    fresh = Saved()
    fresh.adopt(Snapshot(**{"version": 5, "cursor": "1-9", "applied": {"sp": 9}} | fields))  # type: ignore[arg-type]
    return fresh


def test_nothing_new_is_nothing_to_write():
    assert not saved().is_due({"sp": 9}, "1-9")


def test_numbers_sessions_and_the_cursor_alone_are_worth_writing():
    changed = saved()
    changed.change({"s"})

    assert saved().is_due({"sp": 10}, "1-9")
    assert saved().is_due({"sp": 9}, "1-10")
    assert changed.is_due({"sp": 9}, "1-9")


def test_a_hub_behind_what_is_stored_writes_nothing():
    behind = saved()
    behind.change({"s"})

    assert not behind.is_due({"sp": 8}, "1-8")
    assert not behind.is_due({"other": 99}, "1-99")


def test_what_a_newer_version_has_stored_is_never_written():
    newer = saved(newer=2)
    newer.change({"s"})

    assert not newer.is_due({"sp": 10}, "1-10")


def test_who_is_overtaken_by_one_that_knows_as_much_has_nothing_left_to_write():
    overtaken = saved()
    overtaken.change({"s"})

    overtaken.overtaken(Snapshot(6, "1-12", {"sp": 12}), {"sp": 10}, {"s"})

    assert (overtaken.version, overtaken.dirty) == (6, set())


def test_who_is_overtaken_by_one_that_knows_less_goes_on():
    overtaken = saved()
    overtaken.change({"s"})

    overtaken.overtaken(Snapshot(6, "1-10", {"sp": 10}), {"sp": 12}, {"s", "t"})

    assert overtaken.dirty == {"s"}
    assert overtaken.is_due({"sp": 12}, "1-12")


def test_a_snapshot_that_went_back_is_written_whole_under_a_version_never_given():
    back = saved()

    back.overtaken(Snapshot(), {"sp": 9}, {"s", "t"})

    assert back.dirty == {"s", "t"}
    assert (back.version, back.highest) == (0, 5)
    assert back.is_due({"sp": 9}, "1-9")


def test_after_redis_lost_versions_none_is_given_that_another_hub_may_have_given_unseen():
    back = saved()

    back.overtaken(Snapshot(), {"sp": 9}, {"s"})

    assert back.keep(()).above > back.highest + 10


def test_what_could_not_be_written_is_still_to_be_written_and_who_came_back_is_not_removed():
    refused = saved()
    refused.change({"s"})
    refused.drop({"t", "u"})
    dirty, gone = refused.take()
    assert not refused.is_due({"sp": 9}, "1-9")

    refused.refused(dirty, gone, {"s", "u"})

    assert (refused.dirty, refused.gone) == ({"s"}, {"t"})


def test_an_unreadable_session_that_was_written_is_one_that_was_set_aside():
    written = saved(unreadable=("a", "b"))

    written.written(6, Snapshot(5, "1-10", {"sp": 10}), {"a"})

    assert (written.unreadable, written.aside) == ({"b"}, {"a"})


def test_what_cannot_be_read_is_kept_whatever_is_written():
    known = saved(unreadable=("a", "b"), aside=("c",))

    keep = known.keep({"a", "s"})

    assert (keep.aside, keep.fields, keep.above) == (["a"], ["s:b", "x:c"], 5)
