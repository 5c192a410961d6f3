"""The runner itself: a copy is what is tested, and only a failed assertion counts as a catch."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutants.runner import Edit, Mutant, Outdated, copy_packages, run_mutant, survival
from tests.mutants.swapped import can_be_swapped, run_swapped

SEQUENCE = "hub/adsum_hub/inbox.py"
HARMLESS = Edit(SEQUENCE, "def admit(", "# no change at all\ndef admit(")
DROPPED = "tests/unit/hub/test_sequence.py::test_what_is_applied_already_is_dropped"


def verdict(tmp_path: Path, edit: Edit, *tests: str) -> str | None:
    mutant = Mutant("a change", "nothing is lost", (edit,), tests)
    return survival(mutant, run_mutant(mutant, tmp_path / "mutant"))


def test_what_runs_is_the_copy_in_spawned_processes_too(tmp_path: Path) -> None:
    renamed = Edit(
        "shared/adsum_shared/__init__.py", '__version__ = "', '__version__ = "of a copy"  # "'
    )
    probe = "tests/mutants/probe.py"

    found = verdict(tmp_path, renamed, f"{probe}::test_here", f"{probe}::test_in_a_spawned_process")

    assert found is None


@pytest.mark.parametrize("old", ["no such line", "applied"], ids=["gone", "there twice"])
def test_a_mutant_whose_text_has_moved_on_is_to_be_updated(tmp_path: Path, old: str) -> None:
    with pytest.raises(Outdated, match="update this mutant"):
        copy_packages(tmp_path, [Edit(SEQUENCE, old, "")])


def test_a_change_that_no_test_notices_has_survived(tmp_path: Path) -> None:
    found = verdict(tmp_path, HARMLESS, DROPPED)

    assert found is not None
    assert "passes with it" in found


def test_a_change_with_which_nothing_can_be_imported_is_not_caught(tmp_path: Path) -> None:
    found = verdict(tmp_path, Edit(SEQUENCE, "def admit(", "def admit(("), DROPPED)

    assert found is not None
    assert "was not run" in found


def test_a_test_that_ends_with_another_error_has_not_caught_it(tmp_path: Path) -> None:
    found = verdict(tmp_path, Edit(SEQUENCE, "seen = applied", "seen = unknown"), DROPPED)

    assert found is not None
    assert "broke instead" in found


def test_a_test_that_is_not_there_catches_nothing(tmp_path: Path) -> None:
    found = verdict(tmp_path, HARMLESS, f"{DROPPED}_at_all")

    assert found is not None
    assert "was not run" in found


def in_memory(edit: Edit, *tests: str) -> str | None:
    mutant = Mutant("a change", "nothing is lost", (edit,), tests)
    return survival(mutant, run_swapped([mutant])["a change"])


DROPS_NOTHING = Edit(SEQUENCE, "if batch.last <= seen:", "if False:")


def test_a_function_that_is_changed_in_memory_is_noticed_and_a_harmless_change_is_not() -> None:
    assert in_memory(DROPS_NOTHING, DROPPED) is None
    assert "passes with it" in (in_memory(HARMLESS, DROPPED) or "")


@pytest.mark.parametrize(
    ("edit", "test"),
    [
        (Edit(SEQUENCE, "def admit(", "ADMITTED = 1\n\n\ndef admit("), DROPPED),
        (Edit(SEQUENCE, "no such line", ""), DROPPED),
        (Edit(SEQUENCE, "def admit(", "def admit(("), DROPPED),
        (DROPS_NOTHING, "tests/integration/test_hub.py::test_any"),
    ],
    ids=["outside functions", "gone", "no Python", "no unit test"],
)
def test_what_memory_cannot_show_is_run_in_a_copy(edit: Edit, test: str) -> None:
    assert not can_be_swapped(Mutant("a change", "nothing is lost", (edit,), (test,)))
