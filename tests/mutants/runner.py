"""Run tests against a copy of the packages in which one mechanism is disabled.

It is also the pytest plug-in that records, in those runs, how each test ended.
"""

from __future__ import annotations

import ast
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests import forked

ROOT = Path(__file__).parent.parent.parent
#: The folders that hold the packages, as an editable installation puts them on the path.
FOLDERS = ("cli", "collector", "hub", "shared")
PACKAGES = ("cli/adsum", "collector/adsum_collector", "hub/adsum_hub", "shared/adsum_shared")
#: The variable that names the file in which a run records its outcomes.
REPORT = "MUTANTS_REPORT"
ENDING_S = 20.0


class Edit(NamedTuple):
    """Replace `old` by `new` wherever `old` occurs in one function.

    Both are one expression or statement of Python, compared by syntax: layout, quotes and comments do
    not matter. In `old`, `...` matches any expression, and `f(...)` a call of `f` with any arguments.
    In a file of another language both are text, compared without white space; `function` is empty.
    """

    file: str
    function: str
    old: str
    new: str


class Mutant(NamedTuple):
    promise: str
    edits: tuple[Edit, ...]
    #: Ids of tests. Each of them fails with the edits; of a parametrized test, at least one case.
    caught_by: tuple[str, ...]


class Outdated(Exception):  # noqa: N818 - describes the mutant
    """The function no longer holds what the mutant replaces."""


def mutated(source: str, edit: Edit) -> str:
    """Return the file's text with the edit. Raises Outdated."""
    if edit.file.endswith(".py"):
        tree = ast.parse(source)
        swap = _Swap(_fragment(edit.old), _fragment(edit.new))
        swap.visit(_function(tree, edit))
        text, count = ast.unparse(tree), swap.count
    else:
        pattern = r"\s*".join(map(re.escape, "".join(edit.old.split())))
        text, count = re.subn(pattern, lambda _: edit.new, source)
    if not count:
        raise Outdated(f"update this mutant: {edit.file} {edit.function} has no\n{edit.old}")
    return text


def _fragment(code: str) -> ast.AST:
    statement = ast.parse(code).body[0]
    return statement.value if isinstance(statement, ast.Expr) else statement


def _function(tree: ast.AST, edit: Edit) -> ast.AST:
    for name in edit.function.split("."):
        inner = (node for node in ast.walk(tree) if getattr(node, "name", None) == name)
        if (found := next(inner, None)) is None:
            raise Outdated(f"update this mutant: {edit.file} has no function {edit.function}")
        tree = found
    return tree


class _Swap(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self.old, self.new, self.count = old, new, 0

    def visit(self, node: ast.AST) -> ast.AST:
        if _matches(self.old, node):
            self.count += 1
            return self.new
        return self.generic_visit(node)


def _matches(old: Any, node: Any) -> bool:
    if isinstance(old, ast.Constant) and old.value is ... and isinstance(node, ast.expr):
        return True
    if type(old) is not type(node):
        return False
    if isinstance(old, list):
        return len(old) == len(node) and all(map(_matches, old, node))
    if not isinstance(old, ast.AST):
        return bool(old == node)
    if isinstance(old, ast.Call) and [*map(ast.unparse, old.args)] == ["..."]:
        return _matches(old.func, node.func)
    names = (name for name in old._fields if name != "ctx")
    return all(_matches(getattr(old, name), getattr(node, name)) for name in names)


def copy_packages(to: Path, edits: Sequence[Edit]) -> None:
    """Copy each package that is edited, with its compiled modules, and link the others."""
    for package in PACKAGES:
        (to / package).parent.mkdir(parents=True)
        if any(edit.file.startswith(f"{package}/") for edit in edits):
            shutil.copytree(ROOT / package, to / package)
        else:
            (to / package).symlink_to(ROOT / package)
    for edit in edits:
        file = to / edit.file
        file.write_text(mutated(file.read_text(), edit))


class Report(NamedTuple):
    #: (test id, `passed`, `failed` by an assertion, or `broken` by anything else)
    outcomes: list[tuple[str, str]]
    output: str

    def of(self, test: str) -> set[str]:
        return {end for name, end in self.outcomes if test in (name, name.partition("[")[0])}


def run_mutant(mutant: Mutant, directory: Path, limit_s: float) -> Report:
    """Run the mutant's tests in a process that imports the copy first. Raises Outdated."""
    copy, report, log = directory / "copy", directory / "report", directory / "output"
    try:
        copy_packages(copy, mutant.edits)
        # Coverage of a copy is of no use.
        env = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
        env.pop("PYTHONDONTWRITEBYTECODE", None)  # each run would compile all modules again
        path = os.pathsep.join(str(copy / folder) for folder in FOLDERS)
        env |= {REPORT: str(report), "PYTHONPATH": path}
        words = ["-q", "--tb=short", "-p", "no:cacheprovider", "-p", __name__, "--timeout=30"]
        # A library's plug-in was imported before this process forked.
        words += [
            "-W",
            "ignore::pytest.PytestAssertRewriteWarning",
            f"--basetemp={directory / 't'}",
        ]
        run = forked.start("pytest", *words, *mutant.caught_by, env=env, log=log, daemon=False)
        try:
            run.wait(limit_s)
        except subprocess.TimeoutExpired:
            run.send_signal(signal.SIGINT)  # so that the tests end their processes
            with contextlib.suppress(subprocess.TimeoutExpired):
                run.wait(ENDING_S)
            run.kill()
        lines = report.read_text().splitlines() if report.exists() else []
        return Report([tuple(json.loads(line)) for line in lines], log.read_text())
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def survival(mutant: Mutant, report: Report) -> str | None:
    """Return why the mutant is not caught; None if each of its tests failed by an assertion."""
    for test in mutant.caught_by:
        outcomes = report.of(test)
        if "failed" in outcomes:
            continue
        if outcomes == {"passed"}:
            return f"{test} passes although this is broken: {mutant.promise}"
        problem = "did not fail by an assertion" if outcomes else "was not run"
        return f"{test} {problem}\n{report.output}"
    return None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[Any]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if REPORT in os.environ and (report.when == "call" or not report.passed):
        raised = call.excinfo.value if call.excinfo is not None else None
        missing = isinstance(raised, pytest.fail.Exception) and "DID NOT RAISE" in str(raised)
        # A time-out or an unexpected error shows nothing.
        shown = report.when == "call" and (missing or isinstance(raised, AssertionError))
        outcome = "passed" if report.passed else "failed" if shown else "broken"
        with Path(os.environ[REPORT]).open("a") as file:
            file.write(json.dumps([item.nodeid, outcome]) + "\n")
    return report
