"""The option --quarter: run a quarter of the mutants, and those of the files that changed lately."""

from __future__ import annotations

import subprocess

import pytest

from tests.mutants.runner import ROOT
from tests.mutants.test_mutants import MUTANTS

#: The number of commits, back from the given one, whose files count as recently changed.
LATEST = 10


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--quarter",
        metavar="COMMIT",
        help="run the quarter of the mutants that the hash of COMMIT chooses, and each mutant of a "
        f"file that COMMIT or one of the {LATEST - 1} commits before it changed",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if (commit := config.getoption("--quarter", None)) is None:
        return
    commit = _git("rev-parse", "--verify", commit)[0]
    changed = set(_git("log", f"-{LATEST}", "--format=", "--name-only", commit))
    quarter = MUTANTS[int(commit, 16) % 4 :: 4]
    extra = {mutant for mutant in MUTANTS if any(edit.file in changed for edit in mutant.edits)}
    chosen = extra.union(quarter)
    left_out = {f"test_caught[{mutant.promise}]" for mutant in MUTANTS if mutant not in chosen}
    config.hook.pytest_deselected(items=[item for item in items if item.name in left_out])
    items[:] = [item for item in items if item.name not in left_out]
    print(
        f"\n{len(quarter)} of {len(MUTANTS)} mutants by the hash of the commit, and "
        f"{len(chosen) - len(quarter)} more of files that its last {LATEST} commits changed.\n"
        f"To run the same again: pytest tests/mutants --quarter={commit}"
    )


def _git(*words: str) -> list[str]:
    done = subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True)
    return done.stdout.split()
