"""A pytest plug-in: writes down where the packages came from and how each test ended."""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tests.mutants.runner import PACKAGES, REPORT


def pytest_sessionstart() -> None:
    paths = {}
    for package in PACKAGES:
        found = importlib.util.find_spec(Path(package).name)
        paths[package] = str(found.origin if found else None)
    _write(paths)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[Any]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if call.when == "call" or (call.when == "setup" and not report.passed):
        outcome = "passed" if report.passed else "broken"
        if call.when == "call" and call.excinfo is not None and _is_assertion(call.excinfo):
            outcome = "failed"
        _write({"test": item.nodeid, "outcome": outcome, "seconds": round(call.duration, 2)})
    return report


def _is_assertion(raised: pytest.ExceptionInfo[BaseException]) -> bool:
    """A test that ran out of time, or met an error nobody expected, has shown nothing."""
    return isinstance(raised.value, AssertionError) or (
        isinstance(raised.value, pytest.fail.Exception) and "DID NOT RAISE" in str(raised.value)
    )


def _write(fact: dict[str, Any]) -> None:
    with Path(os.environ[REPORT]).open("a") as file:
        file.write(json.dumps(fact) + "\n")
