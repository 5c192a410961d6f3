"""That the scan which is measured comes to the sums its history was made with."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from bench.corpus import History


@pytest.mark.parametrize("processes", ["1", "2"])
def test_one_process_or_two_come_to_what_was_spent(processes: str, tmp_path: Path) -> None:
    truth = History(tmp_path, 3_000_000, seed=5).write()
    places = [str(tmp_path / "projects"), str(tmp_path / "ledger")]
    command = [sys.executable, "-m", "bench.scan_run", "claude_code", *places, processes]

    told = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)

    assert told["sums"] == {"messages": truth.messages, **truth.sums}
    assert told["faults"] == {}


def test_a_history_is_like_real_ones_and_the_same_for_the_same_seed(tmp_path: Path) -> None:
    first, second = (History(tmp_path / name, 4_000_000, seed=3).write() for name in "ab")
    files = {path.relative_to(tmp_path / "a"): path for path in (tmp_path / "a").rglob("*.jsonl")}
    lines = [json.loads(line) for path in files.values() for line in path.read_bytes().splitlines()]
    kinds = Counter(line["type"] for line in lines)

    assert first == second
    assert all(
        (tmp_path / "b" / name).read_bytes() == path.read_bytes() for name, path in files.items()
    )
    assert (len(files), len(lines), kinds["assistant"]) == (
        first.files,
        first.lines,
        first.assistant_lines,
    )
    assert 0.45 < kinds["assistant"] / len(lines) < 0.65
    assert 2000 < first.size / first.lines < 4000
    assert {"user", "queue-operation", "mode", "cost-state"} < kinds.keys()
