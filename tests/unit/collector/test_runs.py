"""Whose numbers are whose, when a disk was copied or set back."""

from __future__ import annotations

import pytest

from adsum_collector.delivery.resume import EntryId, Head, Stored
from adsum_collector.delivery.runs import MOST, Run, Runs, key_of, read_runs, written
from adsum_collector.spans import Span, left_of

#: Run a gave 1 to 10, b 11 to 20, and c what came after.
RUNS = Runs([Run("a", 10), Run("b", 20), Run("c")])
LAST = 30


def head(nonce: str, seq: int) -> Head:
    return Head(EntryId(1, seq), "sp", nonce)


@pytest.mark.parametrize(
    ("case", "last_entry", "stored", "reason"),
    [
        ("nothing is there", None, Stored(), None),
        ("an earlier run of ours", head("b", 20), Stored(), None),
        ("this run, up to what we hold", head("c", 30), Stored(), None),
        ("hubs have our runs", None, Stored(applied=25, runs={"a": 10, "b": 20, "c": 25}), None),
        ("hubs have let go of the first", None, Stored(applied=25, runs={"c": 25}), None),
        ("hubs do not tell", None, Stored(applied=25), None),
        ("an unknown run in the stream", head("x", 21), Stored(), "copy"),
        ("one with an old number", head("x", 3), Stored(), "copy"),
        (
            "an unknown run that hubs have",
            None,
            Stored(applied=11, runs={"a": 10, "x": 11}),
            "copy",
        ),
        ("an earlier run went on", head("b", 21), Stored(), "rollback"),
        ("this run is further on", head("c", 31), Stored(), "rollback"),
        ("hubs had more of an earlier run", None, Stored(applied=25, runs={"a": 25}), "rollback"),
        (
            "and unknown runs after it",
            None,
            Stored(applied=29, runs={"a": 10, "b": 25, "x": 29}),
            "rollback",
        ),
        ("hubs have more than we hold", None, Stored(applied=31), "rollback"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_when_a_spool_is_to_be_left(
    case: str, last_entry: Head | None, stored: Stored, reason: str | None
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


def test_what_an_older_version_sent_under_nonces_it_did_not_keep_is_ours() -> None:
    upgraded = Runs(Runs().joined_by("n", 20))
    stored = Stored(applied=15, runs={"old": 15})

    assert upgraded.why_to_leave(head("old", 20), stored, 20) is None
    assert upgraded.delivered({"old": 15, "n": 18}, 18) == ((1, 15), (16, 18))
    assert upgraded.author(16) == ("n", None)
    again = Runs(upgraded.joined_by("m", 25))
    assert again.why_to_leave(head("old", 20), stored, 25) is None
    assert [again.author(seq) for seq in (16, 25, 26)] == [("n", 25), ("n", 25), ("m", None)]
    assert again.why_to_leave(head("x", 26), stored, 30) == "copy"
    assert again.delivered({"old": 15, "x": 26}, 30) == ((1, 15),)


def test_a_run_that_begins_ends_the_one_before() -> None:
    assert RUNS.joined_by("d", 25) == (Run("a", 10), Run("b", 20), Run("c", 25), Run("d"))
    assert "c" in RUNS
    assert "d" not in RUNS


def test_a_crash_loop_pushes_nobody_out_of_the_list() -> None:
    runs = RUNS
    for number in range(3 * MOST):
        runs = Runs(runs.joined_by(f"idle{number}", LAST))

    assert runs.joined_by("next", LAST)[:3] == (Run("a", 10), Run("b", 20), Run("c", LAST))


def test_the_list_is_bounded() -> None:
    runs = Runs()
    for number in range(3 * MOST):
        runs = Runs(runs.joined_by(str(number), number))

    kept = runs.joined_by("last", 3 * MOST)
    assert len(kept) == MOST
    assert kept[-2:] == (Run(str(3 * MOST - 1), 3 * MOST), Run("last"))


def test_what_a_new_spool_takes_over_says_nothing_of_its_own_runs() -> None:
    state = {**_written({}, "old", RUNS.joined_by("d", 25)), "cursor": b"1"}

    assert "a" in read_runs(state, "old")
    assert "a" not in read_runs(state, "new")
    assert _written(state, "new", [Run("d")]) == {"cursor": b"1", key_of("new"): b'[["d",null]]'}


@pytest.mark.parametrize("raw", [b"", b"{", b"[1]", b'[["a"],["b","x"]]', b"\xff"])
def test_a_list_that_cannot_be_read_is_empty(raw: bytes) -> None:
    assert read_runs({key_of("sp"): raw}, "sp").joined_by("n", 0) == (Run("n"),)


def _written(
    state: dict[str, bytes], spool_id: str, runs: tuple[Run, ...] | list[Run]
) -> dict[str, bytes]:
    changed = {**state, **written(state, spool_id, runs)}
    return {key: value for key, value in changed.items() if value is not None}
