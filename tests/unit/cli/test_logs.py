"""`adsum logs`: the last lines, then what comes, across a log that is emptied."""

from __future__ import annotations

from pathlib import Path

import pytest

from adsum.outcome import CommandError, Exit
from adsum.supervise import Tail, readable, show_logs


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    (tmp_path / "logs").mkdir()
    return tmp_path / "logs"


def test_all_parts_are_told_apart_and_one_is_told_as_it_is(
    logs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (logs / "hub.log").write_text("one\ntwo\nthree\n")
    (logs / "broker.log").write_text("ready\n")
    show_logs(None, lines=2, state_dir=logs.parent)
    assert capsys.readouterr().out == "hub       two\nhub       three\nbroker    ready\n"
    show_logs("hub", lines=1, state_dir=logs.parent)
    assert capsys.readouterr().out == "three\n"


def test_no_line_of_a_log_moves_the_cursor(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (logs / "hub.log").write_bytes(b"a\x1b[2Jb\xff\n")
    show_logs("hub", lines=5, state_dir=logs.parent)
    assert capsys.readouterr().out == "a [2Jb�\n"


def test_what_comes_is_told_by_whole_lines(logs: Path) -> None:
    file = logs / "hub.log"
    file.write_text("one\ntw")
    tail = Tail("hub", file)
    assert tail.more() == ["one"]
    assert tail.more() == []
    with file.open("a") as open_file:
        open_file.write("o\nthree")
    assert tail.more() == ["two"]


def test_a_log_that_was_emptied_is_told_from_its_beginning(logs: Path) -> None:
    file = logs / "hub.log"
    tail = Tail("hub", file)
    assert (tail.more(), tail.more()) == ([], [])
    file.write_text("a long first line\n")
    assert tail.more() == ["a long first line"]
    file.write_text("new\n")
    assert tail.more() == ["new"]


def test_no_log_and_no_such_part_are_told(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="adsum up"):
        show_logs(None, lines=5, state_dir=tmp_path)
    with pytest.raises(CommandError, match="hub, collector, broker") as wrong:
        show_logs("hubb", lines=5, state_dir=tmp_path)
    assert wrong.value.code == Exit.USAGE


def test_a_line_of_json_is_told_as_people_read_one() -> None:
    line = '{"event": "it\\u001b[2J began", "logger": "hub.link", "level": "info", '
    line += '"time": "2026-11-22T15:43:42.089Z", "port": 7}'
    assert readable(line) == "2026-11-22 15:43:42 INFO    hub.link: it [2J began port=7"
    for other in ("plain words", "[1]", '"x"', '{"event": 1}'):
        assert readable(other) == other
