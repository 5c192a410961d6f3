"""The runner itself: it tests the copy, and only a failed assertion catches a mutant."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutants.runner import Edit, Mutant, Outdated, mutated, run_mutant, survival

INBOX = "hub/adsum_hub/inbox.py"
DROPS = Edit(INBOX, "admit", "batch.last <= seen", "False")
HARMLESS = Edit(INBOX, "admit", "batch.last <= seen", "seen >= batch.last")
DROPPED = "tests/unit/hub/test_sequence.py::test_what_is_applied_already_is_dropped"


def verdict(tmp_path: Path, edit: Edit, test: str) -> str:
    mutant = Mutant("A promise.", (edit,), (test,))
    return survival(mutant, run_mutant(mutant, tmp_path / "m", 60)) or "caught"


def test_a_change_that_a_test_notices_is_caught(tmp_path: Path) -> None:
    assert verdict(tmp_path, DROPS, DROPPED) == "caught"


@pytest.mark.parametrize(
    ("edit", "test", "problem"),
    [
        (HARMLESS, DROPPED, "passes although"),
        (DROPS._replace(new="unknown"), DROPPED, "did not fail by an assertion"),
        (DROPS, f"{DROPPED}_at_all", "was not run"),
    ],
    ids=["no test notices", "another error", "no such test"],
)
def test_anything_else_is_not_caught(tmp_path: Path, edit: Edit, test: str, problem: str) -> None:
    assert problem in verdict(tmp_path, edit, test)


@pytest.mark.parametrize(
    "source",
    [
        "def admit():\n    if (batch.last\n        <= seen):  # a comment\n        return 1",
        "class Inbox:\n    async def admit(self): return batch.last<=seen",
    ],
)
def test_layout_and_place_do_not_matter(source: str) -> None:
    assert "seen" not in mutated(source, DROPS)


@pytest.mark.parametrize("source", ["def admit(): pass", "def other(): batch.last <= seen"])
def test_a_mutant_that_does_not_fit_has_to_be_updated(source: str) -> None:
    with pytest.raises(Outdated, match="update this mutant"):
        mutated(source, DROPS)


def test_an_ellipsis_matches_any_expression_and_any_arguments() -> None:
    call = Edit(INBOX, "f", "g(...)", "None")
    test = Edit(INBOX, "f", "... in x", "False")

    assert mutated("def f(): return g(1, *a, key=2)", call).endswith("return None")
    assert mutated("def f(): return h(1) in x", test).endswith("return False")


def test_white_space_of_another_language_does_not_matter() -> None:
    edit = Edit("hub/adsum_hub/save.lua", "", "found ~= 1", "false")

    assert mutated("if found\n  ~=1 then", edit) == "if false then"
