"""The chain of the trail: what breaks it, and what does not."""

import json
import os
from pathlib import Path

import pytest

from adsum_collector.control import consent
from adsum_collector.control.consent import TRAIL_FILE as TRAIL
from adsum_collector.control.consent import Trail, check_trail, read_trail


def test_a_line_that_is_changed_or_taken_out_breaks_the_chain(tmp_path: Path) -> None:
    first = Trail(tmp_path)
    for number in range(3):
        first.add(number, "held", about=f"{number}")
    Trail(tmp_path).add(3, "ended")  # another run of the collector goes on
    whole = list(read_trail(tmp_path))

    assert check_trail(iter(whole)).lines == 4
    assert check_trail(iter(whole)).fault is None
    assert check_trail(iter([whole[0].replace(b'"0"', b'"9"'), *whole[1:]])).fault
    assert check_trail(iter([whole[0], *whole[2:]])).fault
    assert check_trail(iter([whole[1], whole[0], *whole[2:]])).fault
    assert (tmp_path / TRAIL).stat().st_mode & 0o077 == 0


def test_a_line_that_holds_more_than_was_written_breaks_the_chain(tmp_path: Path) -> None:
    """Its meaning, and so its hash, is what a reader makes of it: the text itself must be ours."""
    Trail(tmp_path).add(1, "held", about="git status")
    Trail(tmp_path).add(2, "ended")
    first, second = read_trail(tmp_path)

    for changed in (
        first.replace(b'"about"', b'"about":"rm -rf /","about"'),
        first.replace(b'"about"', b'"note":"forged","about"'),
        first.replace(b",", b", ", 1),
    ):
        assert json.loads(changed)["about"] == "git status"
        assert "line 1 " in (check_trail(iter([changed, second])).fault or "")
    for garbage in (b"garbage\n", b'{"n":2,"at"\n', b"\n"):
        assert "line 2 " in (check_trail(iter([first, garbage, second])).fault or "")


def test_what_is_no_text_is_replaced_in_the_trail(tmp_path: Path) -> None:
    Trail(tmp_path).add(1, "command", about="/caf\udce9")

    assert check_trail(read_trail(tmp_path)).fault is None
    assert [json.loads(line)["about"] for line in read_trail(tmp_path)] == ["/caf?"]


def test_half_a_line_that_a_crash_left_swallows_none_that_follow(tmp_path: Path) -> None:
    Trail(tmp_path).add(1, "held")
    with os.fdopen(os.open(tmp_path / TRAIL, os.O_WRONLY | os.O_APPEND), "wb") as file:
        file.write(b'{"n":2,"at"')

    assert check_trail(read_trail(tmp_path))[::2] == (1, None)
    Trail(tmp_path).add(2, "ended")

    assert check_trail(read_trail(tmp_path))[::2] == (2, None)
    assert len((tmp_path / TRAIL).read_bytes().splitlines()) == 2


def test_a_trail_that_is_full_goes_on_in_a_new_file_and_stays_one_chain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consent, "FILE_BYTES", 1_000)
    monkeypatch.setattr(consent, "MOST_ASIDE", 2)
    for number in range(9):
        Trail(tmp_path).add(number, "held", about=str(number))
    assert check_trail(read_trail(tmp_path)) == (9, *check_trail(read_trail(tmp_path))[1:])
    for number in range(9, 60):
        Trail(tmp_path).add(number, "held", about=str(number))

    whole = list(read_trail(tmp_path))
    checked = check_trail(iter(whole))
    assert checked.fault is None
    assert checked.dropped > 0
    assert checked.lines == len(whole)
    assert json.loads(whole[-1])["about"] == "59"
    assert sum(each.stat().st_size for each in tmp_path.iterdir()) < 5_000
    assert "taken away" in (check_trail(iter(whole[1:])).fault or "")
    last = len((tmp_path / TRAIL).read_bytes().splitlines())
    assert "taken away" in (check_trail(iter(whole[-last:])).fault or "")


def test_a_trail_that_was_just_put_aside_goes_on_after_a_crash(tmp_path: Path) -> None:
    Trail(tmp_path).add(1, "held")
    (tmp_path / TRAIL).rename(tmp_path / f"{TRAIL}.1")

    Trail(tmp_path).add(2, "ended")

    assert check_trail(read_trail(tmp_path))[::2] == (2, None)
