"""Where the publisher goes on, for everything that can have happened to either side."""

from __future__ import annotations

import pytest

from adsum_collector.delivery.resume import (
    MOST_RUNS,
    CollectorRun,
    EntryId,
    Head,
    HubProgress,
    ResumePoint,
    Runs,
    key_of,
    read_runs,
    wanted_after,
    where_to_resume,
    written,
)
from adsum_collector.spool.spool_file import Span, left_of

OURS = "sp"


@pytest.mark.parametrize(
    ("case", "given", "expected"),
    [
        ("a first start", {"incarnation": 0, "head": None}, ResumePoint(0, 1)),
        ("a restart, all was sent", {"head": (3, 100)}, ResumePoint(100, 3)),
        ("a restart, some were not", {"head": (3, 60), "applied": 50}, ResumePoint(60, 3)),
        ("a lost reply: it did arrive", {"sent": 59, "head": (3, 60)}, ResumePoint(60, 3)),
        ("hubs stored what the stream lost", {"head": (3, 60), "applied": 80}, ResumePoint(80, 3)),
        ("the broker was wiped", {"sent": 100, "head": None}, ResumePoint(0, 4)),
        ("wiped, but for the snapshot", {"head": None, "applied": 90}, ResumePoint(90, 4)),
        ("the broker lost its tail", {"sent": 80, "head": (3, 60)}, ResumePoint(60, 4)),
        ("it lost a whole replay", {"head": (2, 90), "applied": 40}, ResumePoint(40, 4)),
        ("a higher incarnation is there", {"head": (7, 20), "applied": 20}, ResumePoint(20, 8)),
        (
            "the spool was lost with its past",
            {"incarnation": 0, "head": (7, 900)},
            ResumePoint(0, 8),
        ),
        ("others wrote last", {"head": (3, 60, "other"), "applied": 20}, ResumePoint(20, 4)),
        ("the last entry is gone", {"head": (3, 60, ""), "applied": 20}, ResumePoint(20, 4)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_where_to_resume(case: str, given: dict[str, object], expected: ResumePoint) -> None:
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


#: Run a gave 1 to 10, b 11 to 20, and c what came after.
RUNS = Runs([CollectorRun("a", 10), CollectorRun("b", 20), CollectorRun("c")])
LAST = 30


def head(nonce: str, seq: int) -> Head:
    return Head(EntryId(1, seq), "sp", nonce)


@pytest.mark.parametrize(
    ("case", "last_entry", "stored", "reason"),
    [
        ("nothing is there", None, HubProgress(), None),
        ("an earlier run of ours", head("b", 20), HubProgress(), None),
        ("this run, up to what we hold", head("c", 30), HubProgress(), None),
        (
            "hubs have our runs",
            None,
            HubProgress(applied=25, runs={"a": 10, "b": 20, "c": 25}),
            None,
        ),
        ("hubs have let go of the first", None, HubProgress(applied=25, runs={"c": 25}), None),
        ("hubs do not tell", None, HubProgress(applied=25), None),
        ("an unknown run in the stream", head("x", 21), HubProgress(), "copy"),
        ("one with an old number", head("x", 3), HubProgress(), "copy"),
        (
            "an unknown run that hubs have",
            None,
            HubProgress(applied=11, runs={"a": 10, "x": 11}),
            "copy",
        ),
        ("an earlier run went on", head("b", 21), HubProgress(), "rollback"),
        ("this run is further on", head("c", 31), HubProgress(), "rollback"),
        (
            "hubs had more of an earlier run",
            None,
            HubProgress(applied=25, runs={"a": 25}),
            "rollback",
        ),
        (
            "and unknown runs after it",
            None,
            HubProgress(applied=29, runs={"a": 10, "b": 25, "x": 29}),
            "rollback",
        ),
        ("hubs have more than we hold", None, HubProgress(applied=31), "rollback"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_when_a_spool_is_to_be_left(
    case: str, last_entry: Head | None, stored: HubProgress, reason: str | None
) -> None:
    assert RUNS.why_to_leave(last_entry, stored, LAST) == reason, case


@pytest.mark.parametrize(
    ("stored", "spans"),
    [
        ({}, ()),
        ({"a": 10, "b": 20, "c": 25}, ((1, 10), (11, 20), (21, 25))),
        ({"a": 10, "x": 12}, ((1, 10),)),
        ({"a": 10, "x": 12, "b": 15}, ((1, 10), (13, 15))),
        ({"x": 10, "b": 11}, ((11, 11),)),
        ({"a": 10, "b": 28, "x": 40}, ((1, 10), (11, 20))),
        ({"c": 99}, ((1, 30),)),
    ],
)
def test_what_hubs_have_of_us_is_what_runs_of_ours_brought(
    stored: dict[str, int], spans: tuple[Span, ...]
) -> None:
    assert RUNS.delivered(stored, LAST) == spans


@pytest.mark.parametrize(
    ("acked", "without", "left"),
    [
        (0, (), [(1, 9)]),
        (9, (), []),
        (3, ((1, 2), (5, 6)), [(4, 4), (7, 9)]),
        (3, ((2, 5), (9, 9)), [(6, 8)]),
        (0, ((1, 4), (12, 20)), [(5, 9)]),
        (0, ((1, 9),), []),
    ],
)
def test_what_is_left_to_deliver(acked: int, without: tuple[Span, ...], left: list[Span]) -> None:
    assert list(left_of(acked, without, 9)) == left


@pytest.mark.parametrize(
    ("seq", "author"), [(1, ("a", 10)), (10, ("a", 10)), (11, ("b", 20)), (21, ("c", None))]
)
def test_each_number_has_the_run_that_gave_it(seq: int, author: tuple[str, int | None]) -> None:
    assert RUNS.author(seq) == author


def test_a_run_that_begins_ends_the_one_before() -> None:
    assert RUNS.joined_by("d", 25) == (
        CollectorRun("a", 10),
        CollectorRun("b", 20),
        CollectorRun("c", 25),
        CollectorRun("d"),
    )
    assert "c" in RUNS
    assert "d" not in RUNS


def test_a_crash_loop_pushes_nobody_out_of_the_list() -> None:
    runs = RUNS
    for number in range(3 * MOST_RUNS):
        runs = Runs(runs.joined_by(f"idle{number}", LAST))

    assert runs.joined_by("next", LAST)[:3] == (
        CollectorRun("a", 10),
        CollectorRun("b", 20),
        CollectorRun("c", LAST),
    )


def test_the_list_is_bounded() -> None:
    runs = Runs()
    for number in range(3 * MOST_RUNS):
        runs = Runs(runs.joined_by(str(number), number))

    kept = runs.joined_by("last", 3 * MOST_RUNS)
    assert len(kept) == MOST_RUNS
    assert kept[-2:] == (CollectorRun(str(3 * MOST_RUNS - 1), 3 * MOST_RUNS), CollectorRun("last"))


def test_what_a_new_spool_takes_over_says_nothing_of_its_own_runs() -> None:
    state = {**_written({}, "old", RUNS.joined_by("d", 25)), "cursor": b"1"}

    assert "a" in read_runs(state, "old")
    assert "a" not in read_runs(state, "new")
    assert _written(state, "new", [CollectorRun("d")]) == {
        "cursor": b"1",
        key_of("new"): b'[["d",null]]',
    }


@pytest.mark.parametrize("raw", [b"", b"{", b"[1]", b'[["a"],["b","x"]]', b"\xff"])
def test_a_list_that_cannot_be_read_is_empty(raw: bytes) -> None:
    assert read_runs({key_of("sp"): raw}, "sp").joined_by("n", 0) == (CollectorRun("n"),)


def _written(
    state: dict[str, bytes], spool_id: str, runs: tuple[CollectorRun, ...] | list[CollectorRun]
) -> dict[str, bytes]:
    changed = {**state, **written(state, spool_id, runs)}
    return {key: value for key, value in changed.items() if value is not None}
