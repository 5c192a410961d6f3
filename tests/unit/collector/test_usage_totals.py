"""Every message is counted once: whoever tells it, in which order, and however often."""

from __future__ import annotations

import os
import random
import sqlite3
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime, tzinfo
from functools import reduce
from pathlib import Path
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adsum_collector.agents import known_agents
from adsum_collector.agents.records import (
    NO_WRITES,
    SPLIT,
    UNSPLIT,
    TranscriptFile,
    UsageRecord,
    joined,
)
from adsum_collector.transcripts.cursors import Stamp
from adsum_collector.usage.ledger import FileTurn, Ledger, Total
from adsum_collector.usage.merge import UsageGroup, UsageSource
from adsum_collector.usage.reading import Errand, UsageReading
from adsum_collector.usage.scan import Scanned, Scanner, ScanPlace
from bench.corpus import History
from tests.ledgers import Totals
from tests.unit.collector.test_usage_scan import append, said

NOON = 1_795_262_400_000  # 2026-11-21T12:00Z
HOUR = 3_600_000
MAIN = UsageSource(begun=1000, session_id="main")
FORK = UsageSource(begun=2000, session_id="fork")


def totals(zone: tzinfo | None = UTC, limit: int | None = None) -> Totals:
    return Totals(zone, lambda _model: limit)


def message(
    key: int, output: int = 1, request: int = 7, at: int = NOON, **fields: object
) -> UsageRecord:
    return UsageRecord(key=key, request=request, at=at, model="m", output=output, **fields)  # type: ignore[arg-type]


def group(session_id: str, day: str = "2026-11-21", model: str = "m") -> UsageGroup:
    return UsageGroup(session_id, day, model, fast=False, geo="", long=False)


def outputs(found: Totals) -> dict[str, int]:
    sums: dict[str, int] = defaultdict(int)
    for total in found:
        sums[total.group.session_id] += total.output
    return {session: output for session, output in sums.items() if output}


def test_what_a_message_used_up_is_added_to_its_group() -> None:
    found = totals()

    changed = found.add(
        MAIN,
        [
            message(1, 5, input=1, cache_read=2, cache_5m=3, cache_1h=4, writes=SPLIT),
            message(2, 6, input=10, cache_5m=20, writes=UNSPLIT, web_searches=2),
        ],
    )

    assert changed == list(found)
    assert changed == [Total(group("main"), 2, 11, 11, 2, 23, 4, web_searches=2)]
    assert len(found) == 2


def test_groups_are_apart_by_session_day_model_speed_place_and_size_of_prompt() -> None:
    found = totals(limit=100)
    other = UsageSource(1, "other")

    for source, record in [
        (MAIN, message(1)),
        (other, message(2)),
        (MAIN, message(3, at=NOON + 12 * HOUR)),
        (MAIN, UsageRecord(4, 7, NOON, "n", output=1)),
        (MAIN, message(5, fast=True)),
        (MAIN, message(6, geo="us")),
        (MAIN, message(7, input=50, cache_read=50)),
        (MAIN, message(8, input=50, cache_read=49, cache_5m=1, cache_1h=1)),
    ]:
        found.add(source, [record])

    assert {(total.group, total.messages) for total in found} == {
        (group("main"), 2),  # what makes the limit full is not over it
        (group("other"), 1),
        (group("main", day="2026-11-22"), 1),
        (group("main", model="n"), 1),
        (UsageGroup("main", "2026-11-21", "m", fast=True, geo="", long=False), 1),
        (UsageGroup("main", "2026-11-21", "m", fast=False, geo="us", long=False), 1),
        (UsageGroup("main", "2026-11-21", "m", fast=False, geo="", long=True), 1),
    }


def test_a_model_is_asked_for_its_limit_once_and_from_its_first_message_on() -> None:
    asked = []
    found = Totals(UTC, lambda model: asked.append(model) or 10)

    found.add(MAIN, [message(1, input=11), message(2, input=9), message(3, input=12)])

    assert asked == ["m"]
    assert {total.group.long: total.messages for total in found} == {True: 2, False: 1}


@pytest.mark.parametrize(
    ("zone", "at", "day"),
    [
        ("UTC", "2026-11-21T23:59:59.999Z", "2026-11-21"),
        ("UTC", "2026-11-22T00:00:00.000Z", "2026-11-22"),
        ("Europe/Berlin", "2026-11-21T22:59:59Z", "2026-11-21"),
        ("Europe/Berlin", "2026-11-21T23:00:00Z", "2026-11-22"),
        ("Europe/Berlin", "2026-07-21T21:59:59Z", "2026-07-21"),
        ("Europe/Berlin", "2026-07-21T22:00:00Z", "2026-07-22"),
        ("Asia/Kathmandu", "2026-11-21T18:14:59Z", "2026-11-21"),
        ("Asia/Kathmandu", "2026-11-21T18:15:00Z", "2026-11-22"),
        ("Pacific/Apia", "2026-11-21T11:00:00Z", "2026-11-22"),
    ],
)
def test_days_are_the_users(zone: str, at: str, day: str) -> None:
    found = totals(ZoneInfo(zone))

    found.add(MAIN, [message(1, at=ms(at))])

    assert [total.group.day for total in found] == [day]


@pytest.fixture
def zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Sets the machine's."""
    yield lambda name: monkeypatch.setenv("TZ", name)
    monkeypatch.undo()
    time.tzset()


def test_a_machine_that_travels_has_days_of_where_it_is_and_keeps_those_of_where_it_was(
    zone: Callable[[str], None], tmp_path: Path
) -> None:
    found = totals(None)
    found.ledger = Ledger.open(tmp_path, lambda _model: None)
    zone("EAST-14")
    found.add(MAIN, [message(1, 10, at=NOON), message(2, 20, at=NOON)])
    zone("WEST+11")
    found.add(MAIN, [message(3, 1, at=NOON + HOUR)])
    # nor is a message moved, after a restart, by what is told of it again
    found.ledger.close()
    found.ledger = Ledger.open(tmp_path, lambda _model: None)
    found.add(FORK, [message(1, 10, at=NOON)])
    found.add(MAIN, [message(2, 25, at=NOON + 400)])

    sums = {total.group.day: (total.messages, total.output) for total in found}
    found.ledger.close()
    assert sums == {"2026-11-22": (2, 35), "2026-11-21": (1, 1)}


def ms(stamp: str) -> int:
    return round(datetime.fromisoformat(stamp).timestamp() * 1000)


# ---- copies -----------------------------------------------------------------------------------


def test_a_copy_changes_nothing() -> None:
    found = totals()
    found.add(MAIN, [message(1, 5)])

    assert found.add(MAIN, [message(1, 5), message(1, 4)]) == []
    assert outputs(found) == {"main": 5}


def test_a_copy_that_has_grown_changes_its_total_alone() -> None:
    found = totals()
    found.add(MAIN, [message(1, 5), message(2, 3, at=NOON + 24 * HOUR)])

    (changed,) = found.add(MAIN, [message(1, 631)])

    assert (changed.group.day, changed.messages, changed.output) == ("2026-11-21", 1, 631)


@pytest.mark.parametrize("order", [(MAIN, FORK), (FORK, MAIN)])
def test_what_a_fork_repeats_counts_for_whose_file_was_begun_first(
    order: Sequence[UsageSource],
) -> None:
    found = totals()
    lines = {MAIN: [message(1, 10), message(2, 20)], FORK: [message(1, 10), message(3, 3)]}

    for source in order:
        found.add(source, lines[source])

    assert outputs(found) == {"main": 30, "fork": 3}
    assert len(found) == 3


def test_a_total_that_all_moved_away_from_is_told_as_nothing() -> None:
    found = totals()
    found.add(FORK, [message(1, 10, input=4, cache_5m=2, writes=UNSPLIT, web_searches=1)])

    changed = found.add(MAIN, [message(1, 10)])

    assert {total.group.session_id: total for total in changed} == {
        "fork": Total(group("fork"), 0, 0, 0, 0, 0, 0, 0),
        "main": Total(group("main"), 1, 4, 10, 0, 2, 0, 1),
    }


#: A fork that says when it was begun, and one that only says by when; of a message said at NOON.
LATE, BY_LATE = UsageSource(NOON + HOUR, "a"), UsageSource(-NOON - HOUR, "a")


@pytest.mark.parametrize(
    ("first", "copy"),
    [
        # it was there when the message was said
        (UsageSource(NOON - HOUR, "z"), LATE),
        (UsageSource(NOON - HOUR, "z"), BY_LATE),
        (UsageSource(-NOON + HOUR, "z"), LATE),
        (UsageSource(-NOON + HOUR, "z"), BY_LATE),
        # by whatever time it was begun, the other was not there yet
        (UsageSource(-NOON - 2 * HOUR, "z"), LATE),
        # nobody knows: the one that has copied less
        (UsageSource(-NOON, "z"), BY_LATE),
        (UsageSource(-NOON - HOUR + 1, "z"), BY_LATE),
        (UsageSource(-NOON, "a"), UsageSource(-NOON, "z")),
    ],
)
def test_a_message_counts_for_the_file_that_was_there_when_it_was_said(
    first: UsageSource, copy: UsageSource
) -> None:
    for order in ((first, copy), (copy, first)):
        found = totals()
        for source in order:
            found.add(source, [message(1, 10)])

        assert outputs(found) == {first.session_id: 10}


def test_a_file_that_says_nothing_of_its_age_is_as_young_as_what_it_holds() -> None:
    def turn(session: str, last: int) -> FileTurn:
        records = [message(1, 5), message(last, 5, at=NOON + last * HOUR)]
        whose, stamp = TranscriptFile(session), Stamp(1, 2, 3, 4)
        scanned = Scanned(records, ScanPlace(held=records[-1].at), more=False, faults={})
        return FileTurn(session.encode(), whose, stamp, scanned)

    for order in ((2, 3), (3, 2)):
        found = totals()
        for last in order:
            found.ledger.take([turn(str(last), last)], NOON + 9 * HOUR)

        assert outputs(found) == {"2": 10, "3": 5}
        assert [(fork.path, fork.forked_from) for fork in found.ledger.forks()] == [("3", "2")]


@pytest.mark.parametrize("fork_first", [False, True])
def test_a_file_that_never_says_when_it_was_begun_is_one_source_however_often_it_grows(
    tmp_path: Path, *, fork_first: bool
) -> None:
    def answer(number: int) -> bytes:
        return said(number, timestamp=f"2026-11-21T12:{number:02}:00Z")

    ledger = Ledger.open(tmp_path, lambda _model: None, UTC)
    reading = UsageReading(ledger, known_agents()[0], lambda: NOON + HOUR)
    parent, fork = tmp_path / "z.jsonl", tmp_path / "a.jsonl"
    errands = {
        path: Errand(os.fsencode(path), TranscriptFile(path.stem)) for path in (parent, fork)
    }
    append(fork, *map(answer, range(1, 30)), answer(59))

    if fork_first:
        list(reading.read([errands[fork]]))
    for number in range(1, 50):
        append(parent, answer(number))
        list(reading.read([errands[parent]]))
    list(reading.read([errands[fork]]))
    counted = {total.group.session_id: total.messages for total in ledger if total.messages}
    ledger.close()

    with closing(sqlite3.connect(tmp_path / "usage.db")) as db:
        (sources,) = db.execute("SELECT count(*) FROM sources").fetchone()
    assert sources == 2
    assert counted == {"z": 49, "a": 1}


def test_files_that_were_begun_together_are_told_apart_by_their_sessions() -> None:
    for order in (("a", "b"), ("b", "a")):
        found = totals()
        for session in order:
            found.add(UsageSource(5, session), [message(1, 10)])

        assert outputs(found) == {"a": 10}


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_side_questions_copy_of_a_main_message_is_not_counted(order: tuple[int, int]) -> None:
    found = totals()
    told = [
        (FORK, message(1, 10)),
        (MAIN, message(1, 50_000, request=99, at=NOON - HOUR, sidechain=True)),
    ]

    for number in order:
        found.add(told[number][0], [told[number][1]])

    assert outputs(found) == {"fork": 10}


def test_a_side_message_that_nobody_else_tells_is_counted_once() -> None:
    found = totals()

    found.add(MAIN, [message(1, 5, request=each, sidechain=True) for each in (7, 8, 0)])

    assert outputs(found) == {"main": 5}


@pytest.mark.parametrize("requests", [(7, 8), (7, 0), (7, 8 + (7 << 16))])
def test_one_id_with_two_requests_is_two_messages(requests: tuple[int, int]) -> None:
    found = totals()

    for _ in range(2):
        found.add(MAIN, [message(1, 5, request=each) for each in requests])

    assert outputs(found) == {"main": 10}
    assert len(found) == 2


def test_a_thousand_requests_under_one_id_are_a_thousand_messages() -> None:
    found = totals()
    draw = random.Random(1)

    for _ in range(2):
        found.add(MAIN, [message(1, 1, request=draw.getrandbits(32) | 1) for _ in range(1000)])
        draw = random.Random(1)

    assert len(found) == 1000


def test_the_largest_numbers_fit() -> None:
    most = 2**32 - 1
    found = totals(limit=1)

    for _ in range(2):
        found.add(
            MAIN,
            [
                UsageRecord(
                    2**61 - 2, most, most * 1000 + 999, "m", input=most, output=most,
                    cache_read=most, cache_5m=most, cache_1h=most, writes=2, web_searches=255,
                )
            ],
        )  # fmt: skip

    (total,) = found
    assert (total.messages, total.output, total.cache_1h, total.web_searches) == (
        1,
        most,
        most,
        255,
    )


def test_each_of_many_messages_keeps_its_own_numbers() -> None:
    """They are written with one statement, and what is kept of them is of one length."""
    found = totals()
    draw = random.Random(3)
    records = [message(draw.getrandbits(61), output) for output in range(1, 500)]
    found.add(MAIN, records)
    draw.shuffle(records)
    for record in records[:100]:
        found.add(MAIN, [message(record.key, record.output + 1000)])

    assert outputs(found) == {"main": sum(range(1, 500)) + 100 * 1000}
    assert len(found) == 499


# ---- any order, any increments ----------------------------------------------------------------

SOURCES = [
    *(UsageSource(5, "a"), UsageSource(5, "b"), UsageSource(9, "a"), UsageSource(NOON + HOUR, "x")),
    *(UsageSource(-NOON - 1, "c"), UsageSource(-NOON - 14 * HOUR, "d")),
]


def of_its_time(record: UsageRecord) -> UsageRecord:
    """All copies of a message are of about one time: whose it is goes by that."""
    return msgspec.structs.replace(record, at=record.at + (13 * HOUR if record.key > 4 else 0))


RECORDS = st.builds(
    UsageRecord,
    key=st.integers(1, 6),
    request=st.sampled_from([0, 7, 8]),
    at=st.sampled_from([NOON, NOON + 400]),
    model=st.sampled_from("mn"),
    fast=st.booleans(),
    geo=st.sampled_from(["", "us"]),
    sidechain=st.booleans(),
    input=st.integers(0, 9),
    output=st.integers(0, 9),
    cache_read=st.integers(0, 9),
    cache_5m=st.integers(0, 9),
    cache_1h=st.integers(0, 9),
    writes=st.sampled_from([NO_WRITES, UNSPLIT, SPLIT]),
    web_searches=st.integers(0, 2),
).map(of_its_time)
TOLD = st.lists(st.tuples(st.sampled_from(SOURCES), RECORDS), max_size=25)


def expected(told: Sequence[tuple[UsageSource, UsageRecord]]) -> set[Total]:
    """The rules, without any thrift: first whose message it is, then what it used up."""
    by_key: dict[int, list[tuple[UsageSource, UsageRecord]]] = defaultdict(list)
    for source, record in told:
        by_key[record.key].append((source, record))
    sums: dict[UsageGroup, list[int]] = defaultdict(lambda: [0] * 7)
    for copies in by_key.values():
        main = [(source, record) for source, record in copies if not record.sidechain]
        apart: dict[int, list[tuple[UsageSource, UsageRecord]]] = defaultdict(list)
        for source, record in main or copies:
            apart[record.request if main else 0].append((source, record))
        for alike in apart.values():
            one = reduce(joined, [record for _, record in alike])
            owner = alike[0][0]
            for source, _ in alike:
                owner = source if source.outranks(owner, one.at) else owner
            prompt = one.input + one.cache_read + one.cache_5m + one.cache_1h
            day = "2026-11-21" if one.at < NOON + 12 * HOUR else "2026-11-22"
            its = UsageGroup(owner.session_id, day, one.model, one.fast, one.geo, prompt > 15)
            numbers = [1, one.input, one.output, one.cache_read, one.cache_5m, one.cache_1h]
            numbers += [one.web_searches]
            sums[its] = [a + b for a, b in zip(sums[its], numbers, strict=True)]
    return {Total(its, *numbers) for its, numbers in sums.items()}


@pytest.mark.slow
@settings(max_examples=300)
@given(
    TOLD, st.randoms(use_true_random=False), st.lists(st.integers(1, 5), min_size=25, max_size=25)
)
def test_any_order_and_any_increments_give_the_same_sums(
    told: list[tuple[UsageSource, UsageRecord]], draw: random.Random, sizes: list[int]
) -> None:
    found = totals(limit=15)
    kept: dict[UsageGroup, Total] = {}
    queues = {source: [record for each, record in told if each == source] for source in SOURCES}
    for queue in queues.values():
        draw.shuffle(queue)
    while any(queues.values()):
        batch = []
        for source in draw.sample(left := [s for s, q in queues.items() if q], len(left)):
            size = sizes.pop() if sizes else 1
            batch.append((source, queues[source][:size]))
            del queues[source][:size]
        for total in found.add_all(batch[:2]):
            kept[total.group] = total
        for total in found.add_all(batch[2:]):
            kept[total.group] = total

    assert {total for total in found if total.messages} == expected(told)
    # who heard of changes only knows the same
    assert {total for total in found if total.messages} == {
        total for total in kept.values() if total.messages
    }


# ---- made-up histories, and what it all weighs ------------------------------------------------


def test_a_history_adds_up_to_what_was_spent_whichever_file_is_read_first(tmp_path: Path) -> None:
    truth = History(tmp_path, 4_000_000, seed=11, gateways=0.2).write()
    paths = sorted((tmp_path / "projects").rglob("*.jsonl"))
    assert truth.assistant_lines > truth.messages > 100
    for seed in range(4):
        random.Random(seed).shuffle(paths)
        scanner, found = Scanner(), totals()
        for path in paths:
            scanned = scanner.scan(str(path))
            session = path.relative_to(tmp_path / "projects").parts[1].removesuffix(".jsonl")
            found.add(UsageSource(scanned.place.begun or -NOON, session), scanned.records)
            assert not scanned.faults

        assert len(found) == truth.messages
        for name, number in truth.sums.items():
            assert sum(getattr(total, name) for total in found) == number
        assert outputs(found) == dict(truth.sessions)


def test_a_message_weighs_little_on_the_disk(tmp_path: Path) -> None:
    draw = random.Random(1)
    ledger = Ledger.open(tmp_path, lambda _model: None)
    for _ in range(5):
        records = [message(draw.getrandbits(61), at=NOON + each) for each in range(10_000)]
        scanned = Scanned(records, ScanPlace(), False, {})
        ledger.take([FileTurn(b"f", TranscriptFile("s"), Stamp(0, 0, 0, 0), scanned)], NOON)
    ledger.close()

    assert (tmp_path / "usage.db").stat().st_size < 50_000 * 90


def test_a_file_that_was_not_read_to_its_end_is_not_taken_for_one_that_was() -> None:
    ledger = Ledger.in_memory(lambda _model: None)
    stamp = Stamp(5, 1 << 30, 7, 8)
    for path, more in (("part", True), ("whole", False)):
        scanned = Scanned([message(1)], ScanPlace(offset=9), more=more, faults={})
        ledger.take([FileTurn(path.encode(), TranscriptFile("s"), stamp, scanned)], NOON)

    assert ledger.stamps()["whole"] == stamp
    assert ledger.stamps()["part"].mtime_ns == 0
    assert ledger.place(b"part") == ScanPlace(offset=9)


def test_a_batch_that_fails_leaves_nothing_and_harms_no_later_one() -> None:
    class RefusedError(Exception):
        pass

    def limit(model: str) -> None:
        if model == "bad":
            raise RefusedError

    ledger = Ledger.in_memory(limit)
    good, bad = message(1, 5), UsageRecord(2, 7, NOON, "bad", output=1)

    def turn(*records: UsageRecord) -> FileTurn:
        scanned = Scanned([*records], ScanPlace(offset=9), more=False, faults={})
        return FileTurn(b"f", TranscriptFile("s"), Stamp(1, 2, 3, 4), scanned)

    with pytest.raises(RefusedError):
        ledger.take([turn(good), turn(bad)], NOON)
    assert (list(ledger), len(ledger), ledger.stamps()) == ([], 0, {})

    ledger.take([turn(good)], NOON)
    assert [total.output for total in ledger] == [5]
