"""Where the publisher goes on, for everything that can have happened to either side."""

from __future__ import annotations

import pytest

from adsum_collector.resume import EntryId, Resume, wanted_after, where_to_resume


@pytest.mark.parametrize(
    ("case", "given", "expected"),
    [
        ("a first start", {"incarnation": 0, "head": None}, Resume(0, 1)),
        ("a restart, all was sent", {"head": (3, 100)}, Resume(100, 3)),
        ("a restart, some were not", {"head": (3, 60), "applied": 50}, Resume(60, 3)),
        ("a lost reply: it did arrive", {"sent": 59, "head": (3, 60)}, Resume(60, 3)),
        ("hubs stored what the stream lost", {"head": (3, 60), "applied": 80}, Resume(80, 3)),
        ("the broker was wiped", {"sent": 100, "head": None}, Resume(0, 4)),
        ("wiped, but for the snapshot", {"head": None, "applied": 90}, Resume(90, 4)),
        ("the broker lost its tail", {"sent": 80, "head": (3, 60)}, Resume(60, 4)),
        ("it lost a whole replay", {"head": (2, 90), "applied": 40}, Resume(40, 4)),
        ("a higher incarnation is there", {"head": (7, 20), "applied": 20}, Resume(20, 8)),
        ("the spool was lost with its past", {"incarnation": 0, "head": (7, 900)}, Resume(0, 8)),
        ("hubs have more than this disk", {"head": (3, 90), "applied": 101}, Resume(0, 4, True)),
        ("the stream has more", {"head": (3, 101)}, Resume(0, 4, True)),
        ("both, and higher", {"head": (5, 300), "applied": 300}, Resume(0, 6, True)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_where_to_resume(case: str, given: dict[str, object], expected: Resume) -> None:
    about: dict[str, object] = {"incarnation": 3, "last_seq": 100, "sent": 0, "applied": 0, **given}
    head = about.pop("head")
    about["head"] = EntryId(*head) if isinstance(head, tuple) else None

    assert where_to_resume(**about) == expected, case  # type: ignore[arg-type] # a table of keywords


@pytest.mark.parametrize(
    ("want", "after"),
    [
        (b"sp:1", 0),
        (b"sp:57", 56),
        (b"sp:100", 99),
        (None, None),
        (b"other:5", None),
        (b"sp:0", None),
        (b"sp:101", None),
        (b"sp:x", None),
        (b"sp", None),
        (b"\xff:1", None),
    ],
)
def test_what_a_hub_may_ask_for(want: bytes | None, after: int | None) -> None:
    assert wanted_after(want, "sp", 100) == after


def test_entry_ids_are_ordered_as_redis_orders_them() -> None:
    assert EntryId.parse(b"2-10") > EntryId.parse("2-9")
    assert EntryId.parse("3-1") > EntryId.parse("2-100")
    assert str(EntryId(3, 7)) == "3-7"
