"""The list of tests that fail now and then: what is left out, and for how long."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

import pytest

from scripts.quarantine import QuarantinedTest, faults, read_quarantine

TODAY = date(2026, 11, 28)
ENTRY = """
[[test]]
id = "tests/test_shop.py::test_total"
cause = "Reads the clock twice."
date = 2026-11-14
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_shop.py").write_text("def test_total(): ...\n")
    (tmp_path / "tests" / "quarantine.toml").write_text(ENTRY)
    return tmp_path


def test_an_entry_fails_once_it_is_older_than_fourteen_days(root: Path) -> None:
    tests = read_quarantine(root)
    assert list(faults(tests, TODAY, root)) == []
    assert list(faults(tests, TODAY + timedelta(days=1), root)) == [
        "tests/test_shop.py::test_total: in quarantine since 2026-11-14. Fix it: Reads the clock twice."
    ]


@pytest.mark.parametrize(
    "test_id", ["tests/gone.py::test_total", "tests/test_shop.py::test_gone", "tests"]
)
def test_an_entry_of_no_test_fails(root: Path, test_id: str) -> None:
    [message] = faults([QuarantinedTest(test_id, "…", TODAY)], TODAY, root)
    assert "there is no such test" in message


def test_one_case_of_a_test_can_be_an_entry(root: Path) -> None:
    test = QuarantinedTest("tests/test_shop.py::test_total[7-x]", "…", TODAY)
    assert list(faults([test], TODAY, root)) == []


@pytest.mark.parametrize("field", ["id", "cause", "date"])
def test_an_entry_without_a_cause_or_date_is_refused(root: Path, field: str) -> None:
    lines = [line for line in ENTRY.splitlines() if not line.startswith(field)]
    (root / "tests" / "quarantine.toml").write_text("\n".join(lines))
    with pytest.raises(TypeError, match=field):
        read_quarantine(root)
