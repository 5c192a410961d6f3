"""Runs named tests against a copy of the packages in which a few lines are changed."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tests import forked

ROOT = Path(__file__).parent.parent.parent
#: The folders that hold the packages, as an editable installation puts them on the path.
FOLDERS = ("cli", "collector", "hub", "shared")
PACKAGES = ("cli/adsum", "collector/adsum_collector", "hub/adsum_hub", "shared/adsum_shared")
#: Where the tests of one run write down what became of each; see `recorder.py`.
REPORT = "MUTANTS_REPORT"
LONGEST_S = 150.0
#: All that any mutant names, beside mutants.
WHOLE_S = 600.0
ENDING_S = 20.0


class Edit(NamedTuple):
    """file: from the checkout's root. old: text that stands in it exactly once."""

    file: str
    old: str
    new: str


class Mutant(NamedTuple):
    """name: what the program does with it. harm: what would be lost, doubled or stuck.

    caught_by: ids of tests, each of which fails with it; of a test with parameters, one at least.
    """

    name: str
    harm: str
    edits: tuple[Edit, ...]
    caught_by: tuple[str, ...]


class Outdated(Exception):  # noqa: N818 - what the mutant is
    """The source has moved on: the mutant is to be written anew, or it tests nothing."""


class Result(NamedTuple):
    """outcome: `passed`, `failed` by an assertion, or `broken`: whatever else may happen."""

    test: str
    outcome: str
    seconds: float


class Report(NamedTuple):
    """elsewhere: packages that were imported from another place than the copy."""

    results: tuple[Result, ...]
    elsewhere: tuple[str, ...]
    output: str

    def of(self, test: str) -> list[Result]:
        return [
            each
            for each in self.results
            if each.test.partition("[")[0] == test or each.test == test
        ]


def edited(text: str, edit: Edit) -> str:
    """Raises Outdated."""
    if text.count(edit.old) != 1:
        raise Outdated(
            f"update this mutant: {edit.file} holds {text.count(edit.old)} times\n{edit.old}"
        )
    return text.replace(edit.old, edit.new)


def copy_packages(to: Path, edits: Sequence[Edit] = ()) -> None:
    """With their compiled modules, which stay valid: only what is edited is compiled again."""
    for package in PACKAGES:
        if any(edit.file.startswith(f"{package}/") for edit in edits):
            shutil.copytree(ROOT / package, to / package)
        else:
            (to / package).parent.mkdir(parents=True)
            (to / package).symlink_to(ROOT / package)
    for edit in edits:
        file = to / edit.file
        file.write_text(edited(file.read_text(), edit))
        for compiled in (file.parent / "__pycache__").glob(f"{file.stem}.*"):
            compiled.unlink()


def run_tests(
    tests: Sequence[str], copy: Path, scratch: Path, longest_s: float = LONGEST_S
) -> Report:
    """In a process of its own, with the copy first on its path and on that of all it spawns."""
    scratch.mkdir(parents=True)
    report = scratch / "report.jsonl"
    # Coverage of a copy is coverage of nothing.
    env = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
    env.pop("PYTHONDONTWRITEBYTECODE", None)  # or each run compiles pytest's plug-ins and ours anew
    env |= {REPORT: str(report), "PYTHONPATH": os.pathsep.join(str(copy / at) for at in FOLDERS)}
    words = ["-q", "--tb=short", "-p", "no:cacheprovider", "-p", "tests.mutants.recorder"]
    words += [f"--basetemp={scratch / 'tmp'}", "--timeout=30", "--continue-on-collection-errors"]
    # Libraries that have plug-ins were imported before it forked.
    words += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
    said = scratch / "output"
    run = forked.start("pytest", *words, *tests, env=env, log=said, daemon=False)
    try:
        run.wait(longest_s)
    except subprocess.TimeoutExpired:
        run.send_signal(signal.SIGINT)  # it ends the brokers and hubs of its tests
        with contextlib.suppress(subprocess.TimeoutExpired):
            run.wait(ENDING_S)
        run.kill()
        said.write_text(f"not done after {longest_s:g} s\n{said.read_text()}")
    return read_report(scratch, copy)


def read_report(scratch: Path, copy: Path) -> Report:
    """What the run has left there. copy: whose packages it was to test."""
    report, said = scratch / "report.jsonl", scratch / "output"
    lines = report.read_text().splitlines() if report.exists() else []
    facts = [json.loads(line) for line in lines]
    paths: dict[str, str] = facts[0] if facts else {}
    return Report(
        tuple(Result(**fact) for fact in facts[1:]),
        tuple(
            f"{name} from {path}" for name, path in paths.items() if not path.startswith(str(copy))
        ),
        said.read_text() if said.exists() else "",
    )


def run_mutant(mutant: Mutant, directory: Path, longest_s: float = LONGEST_S) -> Report:
    """Raises Outdated."""
    if not mutant.caught_by:
        return Report((), (), "")  # pytest would run all there are
    copy = directory / "copy"
    try:
        copy_packages(copy, mutant.edits)
        return run_tests(mutant.caught_by, copy, directory / "run", longest_s)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def survival(mutant: Mutant, report: Report) -> str | None:
    """Why the mutant does not count as caught; None if each of its tests failed by an assertion."""
    if report.elsewhere:
        return f"not the copy was tested: {', '.join(report.elsewhere)}"
    for test in mutant.caught_by:
        outcomes = {each.outcome for each in report.of(test)}
        if "failed" in outcomes:
            continue
        if not outcomes:
            return f"{test} was not run\n{report.output}"
        if outcomes == {"passed"}:
            return f"{test} passes with it: without this, {mutant.harm}, and no test says so"
        return f"{test} broke instead of failing by an assertion\n{report.output}"
    return None
