"""Where the publisher goes on, for everything that can have happened to either side."""

from __future__ import annotations

import pytest

from adsum_collector.delivery.resume import EntryId, Head, Resume, wanted_after, where_to_resume

OURS = "sp"


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
        ("others wrote last", {"head": (3, 60, "other"), "applied": 20}, Resume(20, 4)),
        ("the last entry is gone", {"head": (3, 60, ""), "applied": 20}, Resume(20, 4)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_where_to_resume(case: str, given: dict[str, object], expected: Resume) -> None:
    about: dict[str, object] = {
        "incarnation": 3,
        "spool_id": OURS,
        "sent": 0,
        "applied": 0,
        **given,
    }
    head = about.pop("head")
    if isinstance(head, tuple):
        incarnation, seq, spool_id = (*head, OURS)[:3]
        head = Head(EntryId(incarnation, seq), spool_id, "n")

    assert where_to_resume(head=head, **about) == expected, case  # type: ignore[arg-type] # a table


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
        (b"sp:\xc2\xb2", None),
        (b"sp:-1", None),
        (b"sp:01", None),
        (b"sp:1 ", None),
        (b"sp:" + b"9" * 5000, None),
    ],
)
def test_what_a_hub_may_ask_for(want: bytes | None, after: int | None) -> None:
    assert wanted_after(want, "sp", 100) == after


def test_entry_ids_are_ordered_as_redis_orders_them() -> None:
    assert EntryId.parse(b"2-10") > EntryId.parse("2-9")
    assert EntryId.parse("3-1") > EntryId.parse("2-100")
    assert str(EntryId(3, 7)) == "3-7"


@pytest.mark.parametrize(
    ("raw", "leaves_room"),
    [
        ("1-1", True),
        ("9007199254740990-9007199254740991", True),
        ("9007199254740991-1", False),  # the next one would be absurd itself
        ("1-9007199254740992", False),
        ("18446744073709551615-18446744073709551615", False),
    ],
)
def test_after_an_absurd_id_no_entry_of_ours_can_follow(raw: str, leaves_room: bool) -> None:
    assert EntryId.parse(raw).leaves_room == leaves_room
