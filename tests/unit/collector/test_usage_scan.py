"""What is read of a transcript's usage, one test per way in which a file can be odd."""

from __future__ import annotations

import json
import os
import shutil
import stat
import threading
import tracemalloc
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import adsum_collector.usage.scan as scan_module
from adsum_collector.agents.claude_code.usage_lines import Meter
from adsum_collector.agents.records import UsageRecord
from adsum_collector.line_reader import HUGE_LINE_BYTES
from adsum_collector.usage.scan import Scanned, Scanner, ScanPlace

UUID = "fecc7aa0-f380-4317-8753-593d6edf228d"


def said(number: int, output: int = 1, *, text: str = "", **fields: Any) -> bytes:
    """An assistant's line in the order of keys of the real one."""
    message = {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [{"type": "text", "text": text}],
        "usage": {"input_tokens": number, "output_tokens": output},
    }
    whole = {"parentUuid": UUID, "isSidechain": False, "message": message, "requestId": "r"}
    whole |= {"type": "assistant", "timestamp": "2026-11-21T23:31:46.260Z"} | fields
    return json.dumps(whole, separators=(",", ":")).encode() + b"\n"


def asked(text: str = "") -> bytes:
    message = {"role": "user", "content": text}
    whole = {"parentUuid": UUID, "isSidechain": False, "type": "user", "message": message}
    return json.dumps(whole, separators=(",", ":")).encode() + b"\n"


def odd(number: int) -> bytes:
    """Neither its begin nor its end shows whose line it is."""
    pad = "x" * 3000
    message = {
        "pad": pad,
        "role": "assistant",
        "usage": {"input_tokens": number},
        "id": f"msg_{number}",
        "model": "m",
    }
    whole = {"type": "assistant", "timestamp": "2026-11-21T23:31:46.260Z", "pad": pad}
    whole |= {"message": message, "tail": pad}
    return json.dumps(whole, separators=(",", ":")).encode() + b"\n"


def spaced(number: int) -> bytes:
    return json.dumps(json.loads(odd(number))).encode() + b"\n"


def disguised(number: int) -> bytes:
    """Its begin shows a user's words."""
    return said(number).replace(b'{"parentUuid"', b'{"answers":{"role":"user"},"parentUuid"')


def never() -> int:
    return 1 << 60


def always() -> int:
    return 0


def scan(path: Path, place: ScanPlace | None = None) -> Scanned:
    return Scanner(never).scan(str(path), place)


def scan_all(
    path: Path, place: ScanPlace | None = None
) -> tuple[list[UsageRecord], ScanPlace, Counter[str]]:
    scanner, records, faults = Scanner(never), [], Counter[str]()
    while True:
        scanned = scanner.scan(str(path), place)
        records += scanned.records
        faults.update(scanned.faults)
        place = scanned.place
        if not scanned.more:
            return records, place, faults


def numbers(records: list[UsageRecord]) -> list[int]:
    return [record.input for record in records]


def append(path: Path, *lines: bytes) -> None:
    with path.open("ab") as file:
        file.write(b"".join(lines))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "s1.jsonl"


# ---- F1: lines that are torn or dressed up ----------------------------------------------------


def test_each_line_is_read_once(path: Path) -> None:
    append(path, said(1), asked(), said(2))
    first = scan(path)
    append(path, said(3))
    second = scan(path, first.place)

    assert (numbers(first.records), numbers(second.records)) == ([1, 2], [3])
    assert scan(path, second.place).records == []
    assert not first.faults
    assert not second.faults


def test_half_a_line_waits_for_its_newline(path: Path) -> None:
    line = said(2)
    append(path, said(1), line[:100])
    first = scan(path)
    append(path, line[100:-1])
    second = scan(path, first.place)
    append(path, line[-1:])
    third = scan(path, second.place)

    assert [numbers(each.records) for each in (first, second, third)] == [[1], [], [2]]
    assert first.place.offset == second.place.offset == len(said(1))
    assert not first.faults


def test_without_any_newline_nothing_is_read(path: Path) -> None:
    append(path, said(1)[:-1])

    scanned = scan(path)

    assert (scanned.records, scanned.place.offset, scanned.more) == ([], 0, False)


def test_an_empty_file_is_nothing(path: Path) -> None:
    path.touch()

    assert scan(path).records == []


def test_bom_crlf_nul_and_empty_lines_hide_nothing(path: Path) -> None:
    append(path, b"\xef\xbb\xbf", said(1)[:-1], b"\r\n", b"\n\r\n\n", said(2))
    append(path, b"\0" * 700, said(3)[:-1], b"\0\n", b"\0\0\n", said(4))

    scanned = scan(path)

    assert numbers(scanned.records) == [1, 2, 3, 4]
    assert not scanned.faults


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(st.integers(0, 300), max_size=40), st.integers(70, 900), st.data())
def test_wherever_the_buffer_ends_each_line_is_read_once(
    tmp_path: Path, sizes: list[int], buffer: int, data: st.DataObject
) -> None:
    path = tmp_path / "s1.jsonl"
    lines = [
        said(number, text="x" * size) if number % 3 else asked("y" * size)
        for number, size in enumerate(sizes)
    ]
    whole = b"".join(lines)
    cut = data.draw(st.integers(0, len(whole)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scan_module, "BUFFER_BYTES", buffer)
        patch.setattr(scan_module, "TURN_BYTES", data.draw(st.integers(1, 5000)))
        path.write_bytes(whole[:cut])
        first, place, _ = scan_all(path)
        path.write_bytes(whole)
        second, place, faults = scan_all(path, place)

    assert numbers(first + second) == [number for number in range(len(sizes)) if number % 3]
    assert place.offset == len(whole)
    assert not faults


def test_advice_outlives_the_buffer_it_was_read_into(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan_module, "BUFFER_BYTES", 700)
    advice = {"type": "advisor_message", "model": "n", "input_tokens": 5}
    usage = {"input_tokens": 1, "output_tokens": 1, "iterations": [advice]}
    line = json.loads(said(1))
    line["message"]["usage"] = usage
    append(path, json.dumps(line, separators=(",", ":")).encode() + b"\n", *[asked("y" * 300)] * 9)

    assert [(each.model, each.input) for each in scan(path).records] == [("m", 1), ("n", 5)]


# ---- F2: files that are changed behind our back -----------------------------------------------


def test_a_file_in_place_of_another_is_read_from_its_begin(path: Path) -> None:
    append(path, said(1), said(2))
    place = scan(path).place
    path.rename(path.with_suffix(".1"))
    append(path, said(3), said(4), said(5))

    scanned = scan(path, place)

    assert numbers(scanned.records) == [3, 4, 5]
    assert scanned.faults == {"replaced": 1}


def test_a_file_cut_short_is_read_from_its_begin(path: Path) -> None:
    append(path, said(1), said(2))
    place = scan(path).place
    path.write_bytes(said(3))

    scanned = scan(path, place)

    assert numbers(scanned.records) == [3]
    assert scanned.faults == {"truncated": 1}


def test_a_file_copied_away_and_cut_goes_on_as_what_it_now_is(path: Path) -> None:
    append(path, said(1), said(2))
    place = scan(path).place
    shutil.copy(path, path.with_suffix(".1"))
    os.truncate(path, 0)
    emptied = scan(path, place)
    append(path, said(3))

    assert emptied.records == []
    assert emptied.faults == {"truncated": 1}
    assert numbers(scan(path, emptied.place).records) == [3]


def test_a_file_rewritten_in_place_is_seen_though_its_first_kilobyte_is_the_same(
    path: Path,
) -> None:
    same = asked("z" * 2000)
    append(path, same, said(1))
    place = scan(path).place
    with path.open("r+b") as file:
        file.write(same + said(2) + said(3))

    scanned = scan(path, place)

    assert numbers(scanned.records) == [2, 3]
    assert scanned.faults == {"rewritten": 1}


def test_a_link_that_points_elsewhere_now_is_another_file(tmp_path: Path) -> None:
    append(tmp_path / "a", said(1))
    append(tmp_path / "b", said(2), said(3))
    link = tmp_path / "s1.jsonl"
    link.symlink_to(tmp_path / "a")
    place = scan(link).place
    link.unlink()
    link.symlink_to(tmp_path / "b")

    assert numbers(scan(link, place).records) == [2, 3]


def test_a_directory_that_moved_is_gone_on_with_by_who_knows_where_to(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    append(tmp_path / "a" / "s1.jsonl", said(1))
    place = scan(tmp_path / "a" / "s1.jsonl").place
    (tmp_path / "a").rename(tmp_path / "b")
    append(tmp_path / "b" / "s1.jsonl", said(2))

    scanned = scan(tmp_path / "b" / "s1.jsonl", place)

    assert numbers(scanned.records) == [2]
    assert not scanned.faults


def test_one_scanner_reads_many_files_and_mixes_nothing(tmp_path: Path) -> None:
    scanner = Scanner(never)
    for number in range(1, 301):
        append(tmp_path / f"{number}.jsonl", said(number), said(number + 1000)[:-1])

    found = [scanner.scan(str(tmp_path / f"{number}.jsonl")).records for number in range(1, 301)]

    assert [numbers(each) for each in found] == [[number] for number in range(1, 301)]


def test_a_file_that_is_not_there_is_an_error(path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        scan(path)


# ---- F3: what is too large, or no file at all --------------------------------------------------


def test_a_line_of_a_hundred_megabytes_is_left_out_in_bounded_memory(path: Path) -> None:
    block = b"x" * (1 << 20)
    append(path, said(1), b'{"role":"assistant","text":"')
    for _ in range(100):
        append(path, block)
    append(path, b'"}\n', said(2))
    tracemalloc.start()

    records, _, faults = scan_all(path)

    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert numbers(records) == [1, 2]
    assert faults == {"huge line": 1}
    assert peak < 5 << 20


def test_a_line_larger_than_the_buffer_is_read(path: Path) -> None:
    append(path, said(1), said(2, text="x" * (3 << 20)), asked("y" * (3 << 20)), said(3))

    scanned = scan(path)

    assert numbers(scanned.records) == [1, 2, 3]
    assert not scanned.faults


def test_a_large_line_without_an_end_yet_is_waited_for(path: Path) -> None:
    line = said(2, text="x" * (3 << 20))
    append(path, said(1), line[:-1])
    first = scan(path)
    append(path, b"\n")

    assert (numbers(first.records), first.more) == ([1], False)
    assert numbers(scan(path, first.place).records) == [2]


def test_a_large_file_is_read_in_turns_of_bounded_memory(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan_module, "TURN_BYTES", 4 << 20)
    for number in range(200):
        append(path, said(number, text="x" * 1000), asked("y" * 100_000))
    tracemalloc.start()

    first = scan(path)

    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    records, place, _ = scan_all(path)
    assert first.more
    assert 4 << 20 <= first.place.offset < 6 << 20
    assert peak < 3 << 20
    assert numbers(records) == list(range(200))
    assert place.offset == path.stat().st_size


def test_a_gigabyte_of_nothing_is_read_in_bounded_memory(path: Path) -> None:
    append(path, said(1))
    os.truncate(path, 1 << 30)
    append(path, b"\n", said(2))
    tracemalloc.start()

    records, _, faults = scan_all(path)

    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert numbers(records) == [1, 2]
    assert faults == {"huge line": 1}
    assert peak < 5 << 20


def test_a_hole_is_read_in_turns_and_only_once(path: Path) -> None:
    append(path, said(1))
    os.truncate(path, 1 << 30)
    first = scan(path)
    records, place, faults = scan_all(path)
    read = []

    def reading(descriptor: int, buffers: Any, readv: Any = os.readv) -> int:
        read.append(readv(descriptor, buffers))
        return read[-1]

    append(path, b"still the same line")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "readv", reading)
        grown = scan(path, place)
    append(path, b"\n", said(2))

    assert first.more
    assert first.place.offset < scan_module.TURN_BYTES + (32 << 20)
    assert (numbers(records), faults) == ([1], {"huge line": 1})
    assert sum(read) == len(b"still the same line")
    assert numbers(scan(path, grown.place).records) == [2]


def test_the_line_after_one_that_is_just_too_long_is_read(path: Path) -> None:
    for past in (1, 300_000, 1 << 20, 3 << 19):
        path.write_bytes(b"x" * (HUGE_LINE_BYTES + past) + b"\n" + said(past))
        records, _, faults = scan_all(path)

        assert (numbers(records), faults) == ([past], {"huge line": 1})


@pytest.mark.timeout(10)
def test_what_is_no_plain_file_is_an_error_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    for other in (tmp_path / "pipe.jsonl", Path("/dev/zero"), tmp_path):
        with pytest.raises(OSError, match="no plain file"):
            scan(other)


# ---- F4: content ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "bad",
    [
        b"\xff\xfe\x00 no text",
        b'{"role":"assistant","half an emoji":"\\ud83d"',
        b'{"role":"assistant","usage":{"input_tokens":NaN}}',
        b'{"role":"assistant","a":' + b"[" * 100_000,
        b'{"role":"assistant","a":1,"a":2}',
        b'{"role":"assistant","' + b"k" * 10_000_000 + b'":1}',
        b'{"role":"assistant","usage":{"input_tokens":1' + b"0" * 400 + b"}}",
        b'{"__proto__":{"role":"assistant"},"constructor":{"usage":{"input_tokens":1}}}',
        said(77).replace(b'"input_tokens":77', b'"input_tokens":-77')[:-1],
        b"[" * 50,
    ],
    ids=[
        "utf8",
        "surrogate",
        "nan",
        "deep",
        "twice",
        "key",
        "int",
        "proto",
        "negative",
        "brackets",
    ],
)
def test_a_bad_line_costs_no_other(path: Path, bad: bytes) -> None:
    append(path, said(1), bad + b"\n", said(2), asked(), said(3))

    scanned = scan(path)

    assert numbers(scanned.records) == [1, 2, 3]
    assert sum(scanned.faults.values()) <= 1


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(st.binary(max_size=60).map(lambda noise: noise.replace(b"\n", b"")), max_size=8))
def test_noise_costs_no_line(tmp_path: Path, noise: list[bytes]) -> None:
    path = tmp_path / "s1.jsonl"
    path.write_bytes(b"".join(each + b"\n" + said(n) for n, each in enumerate(noise)))

    assert numbers(Scanner(always).scan(str(path)).records) == list(range(len(noise)))


# ---- what was left out and should not have been -----------------------------------------------


def test_a_short_line_before_an_assistants_is_not_taken_for_one(path: Path) -> None:
    append(path, b'{"type":"mode","mode":"normal"}\n', said(1), b"{}\n", asked(), said(2))

    scanned = scan(path)

    assert numbers(scanned.records) == [1, 2]
    assert not scanned.faults


def test_an_assistants_line_is_known_by_its_end_if_not_by_its_begin(path: Path) -> None:
    late = said(1).replace(b'{"parentUuid"', b'{"cwd":"' + b"/x" * 800 + b'","parentUuid"')
    append(path, late, said(2))

    assert numbers(scan(path).records) == [1, 2]


def test_a_users_line_that_holds_a_subagents_usage_is_not_counted(path: Path) -> None:
    result = asked().replace(b"}\n", b',"toolUseResult":{"usage":{"input_tokens":99}}}\n')
    append(path, result, said(1))

    scanned = scan(path)

    assert numbers(scanned.records) == [1]
    assert not scanned.faults


# ---- when a file was begun --------------------------------------------------------------------

QUEUED = b'{"type":"queue-operation","operation":"enqueue","timestamp":"2026-11-21T23:31:47Z"}\n'
REQUEST = b'{"type":"api-request-shape","sessionId":"s","timestamp":"2026-11-21T23:31:50Z"}\n'


def test_a_file_was_begun_when_its_own_first_line_was_written(path: Path) -> None:
    append(path, b'{"type":"mode"}\n', asked(), said(1), REQUEST, QUEUED)

    assert scan(path).place.begun == 1_795_303_910_000


def test_that_is_kept_while_the_file_grows_and_told_as_soon_as_it_is_known(path: Path) -> None:
    append(path, asked(), said(1))
    first = scan(path)
    append(path, QUEUED)
    second = scan(path, first.place)
    append(path, REQUEST)

    assert first.place.begun is None
    assert second.place.begun == 1_795_303_907_000
    assert scan(path, second.place).place.begun == 1_795_303_907_000


def test_another_file_in_its_place_was_begun_at_another_time(path: Path) -> None:
    append(path, QUEUED, said(1))
    place = scan(path).place
    path.write_bytes(said(2))

    assert scan(path, place).place.begun is None


# ---- nothing but reading ----------------------------------------------------------------------


def test_the_file_is_left_as_it_was(path: Path) -> None:
    append(path, said(1))
    os.utime(path, (1_000_000_000, 1_000_000_000))
    path.chmod(stat.S_IRUSR)
    before = path.stat()

    scan(path)

    after = path.stat()
    assert (after.st_mtime_ns, after.st_size, after.st_mode) == (
        before.st_mtime_ns,
        before.st_size,
        before.st_mode,
    )
    if hasattr(os, "O_NOATIME"):
        assert after.st_atime_ns == before.st_atime_ns


def test_a_file_that_grows_meanwhile_is_read_as_far_as_lines_are_whole(path: Path) -> None:
    append(path, said(0))
    done = threading.Event()

    def write() -> None:
        for number in range(1, 400):
            line = said(number, text="x" * 3000)
            append(path, line[:1000])
            append(path, line[1000:])
        done.set()

    writer = threading.Thread(target=write)
    writer.start()
    scanner, records, place = Scanner(never), [], None
    while True:
        last = done.is_set()
        scanned = scanner.scan(str(path), place)
        assert not scanned.faults
        records += scanned.records
        place = scanned.place
        if last and not scanned.more:
            break
    writer.join()

    assert numbers(records) == list(range(400))


def test_what_is_read_is_what_the_lines_tell(path: Path) -> None:
    lines = [said(n // 3, n, text='"usage":{ \\ "role":"user"' * (n % 7)) for n in range(50)]
    append(path, *lines)
    meter = Meter()
    meter.take(lines)

    assert scan(path).records == meter.records()
