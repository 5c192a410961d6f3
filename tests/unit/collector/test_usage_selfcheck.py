"""Lines that tell something and look like nothing: found out, and counted whatever came before."""

from __future__ import annotations

import itertools
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest

from adsum_collector.agents import known_agents
from adsum_collector.agents.records import TranscriptFile
from adsum_collector.usage.ledger import Ledger
from adsum_collector.usage.reading import Errand, UsageBatch, UsageReading
from adsum_collector.usage.scan import FIRST, MISSED, Scanner
from tests.unit.collector.test_usage_scan import (
    always,
    append,
    asked,
    disguised,
    never,
    numbers,
    odd,
    said,
    scan,
    spaced,
)

NOW = 1_795_400_000_000
Line = Callable[[int], bytes]
#: What is decoded of a reading's first lines leaves these alone.
LATER = [asked() for _ in range(FIRST)]


def other_order(number: int) -> bytes:
    """Its usage stands before what was said, and who said it after."""
    line = json.loads(said(number, text="x" * 5000))
    message = line.pop("message")
    order = ("usage", "content", "id", "model", "type", "role")
    whole = {"message": {name: message[name] for name in order}, **line}
    return json.dumps(whole, separators=(",", ":")).encode() + b"\n"


def spaced_out(number: int) -> bytes:
    """A space after each colon and comma, in the order of the real one."""
    return json.dumps(json.loads(said(number, text="x" * 50))).encode() + b"\n"


def large(number: int) -> bytes:
    """Larger than the buffer."""
    return json.dumps(json.loads(said(number, text="x" * (1 << 20)))).encode() + b"\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "s1.jsonl"


# ---- of one file ------------------------------------------------------------------------------


@pytest.mark.parametrize("line", [odd, disguised, spaced, spaced_out, other_order])
def test_an_answer_among_a_files_first_lines_is_found_whatever_it_looks_like(
    path: Path, line: Line
) -> None:
    append(path, *LATER[1:], line(2), said(3), *LATER, line(4))

    scanned = scan(path)

    assert numbers(scanned.records) == [2, 3, 4]
    assert scanned.faults == {MISSED: 1}
    assert scanned.place.care == 1


@pytest.mark.parametrize("line", [odd, disguised, spaced, spaced_out, other_order])
def test_an_answer_among_the_first_lines_that_a_file_grows_by_is_found(
    path: Path, line: Line
) -> None:
    append(path, *LATER, said(1), line(2))
    first = scan(path)
    append(path, asked(), line(3))

    second = scan(path, first.place)

    assert (numbers(first.records), numbers(second.records)) == ([1], [1, 2, 3])


@pytest.mark.parametrize("line", [odd, disguised, spaced])
def test_a_sample_of_what_is_left_out_makes_the_file_be_read_with_more_care(
    path: Path, line: Line
) -> None:
    append(path, said(1), *LATER, line(2), said(3), line(4))

    hasty, careful = scan(path), Scanner(always).scan(str(path))

    assert numbers(hasty.records) == [1, 3]
    assert numbers(careful.records) == [1, 2, 3, 4]
    assert careful.faults == {MISSED: 1}
    assert careful.place.offset == hasty.place.offset
    assert (hasty.place.care, careful.place.care) == (0, 1)


def test_a_mark_written_in_another_way_makes_all_be_decoded(path: Path) -> None:
    append(path, said(1), odd(2).replace(b'"usage"', rb'"\u0075sage"'))

    scanned = scan(path)

    assert numbers(scanned.records) == [1, 2]
    assert (scanned.faults, scanned.place.care) == ({MISSED: 2}, 2)


def test_a_large_line_with_spaces_is_read(path: Path) -> None:
    append(path, said(1), large(2), said(3))

    assert numbers(scan(path).records) == [1, 2, 3]


def test_what_was_missed_before_is_read_then_and_what_follows_is_not_missed(path: Path) -> None:
    append(path, said(1), *LATER, odd(2))
    first = scan(path)
    append(path, *LATER, odd(3))
    second = Scanner(always).scan(str(path), first.place)
    append(path, *LATER, odd(4))
    third = scan(path, second.place)

    assert [numbers(each.records) for each in (first, second, third)] == [[1], [1, 2, 3], [4]]
    assert not third.faults


def test_another_file_in_place_of_an_odd_one_is_read_like_any(path: Path) -> None:
    append(path, odd(1))
    place = Scanner(always).scan(str(path)).place
    path.write_bytes(b"")

    assert (place.care, scan(path, place).place.care) == (1, 0)


def test_by_itself_a_scanner_samples_one_line_in_two_hundred(path: Path) -> None:
    append(path, *[asked() for _ in range(20_000)], odd(1), *[odd(2) for _ in range(3000)])

    scanned = Scanner().scan(str(path))

    assert numbers(scanned.records) == [1, 2]
    assert scanned.faults == {MISSED: 1}


def test_first_lines_that_hold_no_answer_are_not_decoded(path: Path) -> None:
    decoded: list[bytes] = []
    scanner = Scanner(never)
    scanner.lines = scanner.lines._replace(
        has_usage=lambda raw: decoded.append(bytes(raw)) is not None
    )
    append(path, asked(), asked('"assistant"'), said(1), *[asked()] * 300)

    scanner.scan(str(path))

    assert decoded == []


# ---- of many ----------------------------------------------------------------------------------


def test_lines_left_out_are_sampled_across_files_and_a_find_is_of_use_to_all_that_follow(
    tmp_path: Path,
) -> None:
    scanner = Scanner(lambda: 5)
    for number in range(1, 9):
        append(tmp_path / f"{number}.jsonl", *LATER, odd(number))

    found = [scanner.scan(str(tmp_path / f"{number}.jsonl")) for number in range(1, 9)]

    assert [numbers(each.records) for each in found] == [[], [], [], [], [], [6], [7], [8]]
    assert [each.place.care for each in found] == [0] * 5 + [1] * 3


def test_a_file_that_was_read_with_less_care_is_read_from_its_begin(tmp_path: Path) -> None:
    one, other = tmp_path / "1.jsonl", tmp_path / "2.jsonl"
    append(one, *LATER, odd(1), said(2))
    append(other, odd(3))
    scanner = Scanner(never)
    hasty = scanner.scan(str(one))
    scanner.scan(str(other))

    once, twice = (scanner.scan(str(one), hasty.place) for _ in range(2))

    assert numbers(hasty.records) == [2]
    assert numbers(once.records) == numbers(twice.records) == [1, 2]
    assert not once.faults
    assert scanner.scan(str(one), once.place).records == []


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with closing(Ledger.open(tmp_path, lambda _model: None, UTC)) as opened:
        yield opened


def read(ledger: Ledger, errands: Sequence[Errand]) -> list[UsageBatch]:
    return list(UsageReading(ledger, known_agents()[0], lambda: NOW).read(errands))


def corpus(directory: Path, *kinds: Any, answers: int = 20) -> list[Errand]:
    """A file of each of these lines."""
    every = []
    for number, line in enumerate(kinds):
        path = directory / f"s{number}.jsonl"
        for at in range(answers):
            append(path, asked(), line(1 + number * answers + at))
        every.append(Errand(os.fsencode(path), TranscriptFile(f"s{number}"), past=True))
    return every


def sums(ledger: Ledger) -> tuple[int, int]:
    found = list(ledger)
    return sum(each.messages for each in found), sum(each.input for each in found)


def truth(every: Sequence[Errand], answers: int = 20) -> tuple[int, int]:
    number = len(every) * answers
    return number, number * (number + 1) // 2


@pytest.mark.parametrize("line", [odd, disguised, spaced, spaced_out, other_order])
def test_a_history_all_of_whose_lines_are_odd_comes_to_its_sums(
    tmp_path: Path, ledger: Ledger, line: Line
) -> None:
    every = corpus(tmp_path, *[line] * 20)

    batches = read(ledger, every)

    assert sums(ledger) == truth(every)
    assert sum((Counter(each.faults) for each in batches), Counter()) == {MISSED: 1}


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_whatever_the_order_of_files_a_history_comes_to_its_sums(
    tmp_path: Path, ledger: Ledger, order: Sequence[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("adsum_collector.usage.scan.SAMPLED", 1 << 14)

    def begun_late(number: int) -> bytes:
        """Of a file whose begin gives nothing away."""
        return (b"" if number % 20 != 1 else b"".join(LATER)) + spaced_out(number)

    every = corpus(tmp_path, begun_late, other_order, said, begun_late)

    read(ledger, [every[at] for at in order])

    assert sums(ledger) == truth(every)


def test_only_what_was_read_with_less_care_is_read_again_and_its_past_told_once(
    tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("adsum_collector.usage.reading.BATCH_RECORDS", 1)
    every = corpus(tmp_path, said, spaced_out, said)

    batches = read(ledger, every)

    done = Counter(path for each in batches for path, _ in each.done)
    pasts = Counter(past.path for each in batches for past in each.pasts)
    assert [done[each.path] for each in every] == [2, 1, 1]
    assert [pasts[each.path] for each in every] == [1, 1, 1]
    assert all(stamp.mtime_ns for stamp in ledger.stamps().values())


class Errands(list[Errand]):
    """Something happens once all of them have been read."""

    def __init__(self, errands: Sequence[Errand], then: Callable[[], None]) -> None:
        super().__init__(errands)
        self._then = then

    def __iter__(self) -> Iterator[Errand]:
        yield from super().__iter__()
        self._then()


def test_a_file_that_is_gone_before_it_can_be_read_again_keeps_no_other_waiting(
    tmp_path: Path, ledger: Ledger
) -> None:
    every = corpus(tmp_path, said, said, spaced_out)

    def one_goes() -> None:
        Path(os.fsdecode(every[0].path)).unlink()

    list(UsageReading(ledger, known_agents()[0], lambda: NOW).read(Errands(every, one_goes)))

    assert sums(ledger) == truth(every)


def test_after_a_kill_what_was_to_be_read_again_still_is(
    tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("adsum_collector.usage.scan.SAMPLED", 1 << 14)
    late = tmp_path / "late.jsonl"
    append(late, *LATER, odd(1000))
    first = Errand(os.fsencode(late), TranscriptFile("late"))
    every = corpus(tmp_path, spaced_out)
    reading = UsageReading(ledger, known_agents()[0], lambda: NOW)

    def killed() -> None:
        raise SystemExit

    monkeypatch.setattr("adsum_collector.usage.reading.BATCH_RECORDS", 1)
    with pytest.raises(SystemExit):
        list(reading.read(Errands([first, *every], killed)))
    missing = sums(ledger)
    unread = [path for path, stamp in ledger.stamps().items() if not stamp.mtime_ns]
    again = read(ledger, [first])

    assert missing == truth(every)
    assert unread == [str(late)]
    assert sums(ledger) == (21, truth(every)[1] + 1000)
    assert not any(each.faults for each in again)


def test_what_a_thread_learns_makes_all_that_a_process_has_read_be_read_again_once(
    tmp_path: Path, ledger: Ledger
) -> None:
    child = Errand(os.fsencode(tmp_path / "agent.jsonl"), TranscriptFile("s1", "agent"))
    main = Errand(os.fsencode(tmp_path / "main.jsonl"), TranscriptFile("s1"))
    live = Errand(os.fsencode(tmp_path / "live.jsonl"), TranscriptFile("live"))
    for errand, number in ((main, 1), (child, 2)):
        append(Path(os.fsdecode(errand.path)), *LATER, odd(number))
    append(Path(os.fsdecode(live.path)), odd(3))

    def unread() -> set[str]:
        return {path for path, stamp in ledger.stamps().items() if not stamp.mtime_ns}

    def learn(*errands: Errand) -> None:
        reading = UsageReading(ledger, known_agents()[0], lambda: NOW)
        reading._reader.scanner = Scanner(never)
        list(reading.read(errands))

    learn(main, child)
    missed, due = sums(ledger), unread()
    learn(live)
    learnt, due_then = sums(ledger), unread()
    learn(main, child)
    append(Path(os.fsdecode(live.path)), odd(4))
    other = Errand(os.fsencode(tmp_path / "other.jsonl"), TranscriptFile("other"))
    append(Path(os.fsdecode(other.path)), odd(5))
    learn(other, live)

    assert (missed, due) == ((0, 0), set())
    assert (learnt, due_then) == ((1, 3), {os.fsdecode(each.path) for each in (main, child)})
    assert (sums(ledger), unread()) == ((5, 15), set())


def test_what_grows_teaches_to_read_what_grew_before_with_more_care(
    tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("adsum_collector.usage.scan.SAMPLED", 1 << 14)
    early, live = corpus(tmp_path, said, said, answers=1)
    for errand in (early, live):
        append(Path(os.fsdecode(errand.path)), *LATER)
    append(Path(os.fsdecode(early.path)), odd(100))
    reading = UsageReading(ledger, known_agents()[0], lambda: NOW)
    list(reading.read([early, live]))
    before = sums(ledger)
    append(Path(os.fsdecode(live.path)), spaced_out(1000))

    list(reading.read([live]))

    assert (before, sums(ledger)) == ((2, 3), (4, 1103))
