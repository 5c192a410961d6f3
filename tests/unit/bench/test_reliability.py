"""The table of reliability: what it adds up, and that a loss cannot hide in it."""

from __future__ import annotations

from pathlib import Path

import msgspec

from bench.reliability import MIXED, Result, read, table


def result(seed: int, **fields: object) -> Result:
    plain = {
        "seed": seed,
        "events": {"ok": 1000, "unknown": 3},
        "faults": {"hub killed": 2},
        "line_faults": {"torn": 1},
        "kinds": {},
        "recovery_s": {"hub killed": [0.5, 1.5]},
        "live_s": 2.0,
    }
    return msgspec.convert(plain | fields, Result)


def row(found: str, name: str) -> list[str]:
    lines = [line for line in found.splitlines() if line.startswith(f"| {name} |")]
    assert len(lines) == 1
    return [cell.strip() for cell in lines[0].strip("|").split("|")][1:]


def test_runs_signals_and_faults_add_up_and_recovery_has_its_middle_and_its_worst() -> None:
    found = table([result(1), result(2, faults={"hub killed": 1}, recovery_s={"hub killed": [9]})])

    counts = ["2", "2,000", "3", "0", "0", "1.50 s", "9.00 s"]
    assert row(found, "hub killed")[:7] == counts
    assert row(found, MIXED)[:6] == ["2", "2,000", "5", "0", "0", "2.00 s"]
    assert row(found, MIXED)[-1] == "`make chaos SEEDS=2`"


def test_what_was_lost_or_doubled_stands_in_the_row_of_every_fault_of_its_run() -> None:
    kinds = {"lost": 3, "silent loss": 1, "torn": 1, "doubled": 2, "extra": 1, "slow": 7}
    found = table([result(1, kinds=kinds, faults={"hub killed": 1, "FLUSHALL": 1})])

    for name in ("hub killed", "FLUSHALL", MIXED):
        assert row(found, name)[3:5] == ["5", "3"]


def test_runs_of_one_fault_alone_are_no_part_of_the_mixed_ones() -> None:
    found = table([result(1), result(2, only=["hub killed"])])

    assert row(found, "hub killed")[0] == "2"
    assert row(found, MIXED)[0] == "1"


def test_results_are_read_from_several_files_and_unknown_fields_do_not_matter(
    tmp_path: Path,
) -> None:
    for name in ("a", "b"):
        line = msgspec.json.encode(msgspec.to_builtins(result(1)) | {"more": 1})
        (tmp_path / name).write_bytes(line + b"\n")

    assert len(list(read([tmp_path / "a", tmp_path / "b"]))) == 2
