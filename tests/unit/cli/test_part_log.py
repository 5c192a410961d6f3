"""The end of a part's log, as it is quoted to a person."""

from __future__ import annotations

from pathlib import Path

from adsum.supervise import tail_of


def test_json_is_quoted_as_words(tmp_path: Path) -> None:
    log = tmp_path / "hub.log"
    log.write_text(
        '{"event": "the port is taken", "level": "error", "logger": "adsum_hub"}\nas it is\n'
    )

    assert tail_of(log, 0) == "  error: the port is taken\n  as it is"


def test_a_traceback_is_quoted_line_by_line_and_only_its_end(tmp_path: Path) -> None:
    log = tmp_path / "hub.log"
    log.write_text('{"event": "ended", "level": "critical", "exception": "Trace\\nA\\nB"}\n')

    assert tail_of(log, 0, lines=2) == "  A\n  B"


def test_what_is_not_whole_is_quoted_as_it_is(tmp_path: Path) -> None:
    log = tmp_path / "hub.log"
    log.write_text('{"event": "cut\n{"level": 3}\n[1]\n')

    assert tail_of(log, 0) == '  {"event": "cut\n  {"level": 3}\n  [1]'
