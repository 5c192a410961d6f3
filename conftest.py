"""Under CI=true a skipped test is a failed one: a green run must mean that everything ran."""

from __future__ import annotations

import os
from collections.abc import Generator
from typing import Any

import pytest

from scripts.quarantine import read_quarantine

#: What CI may do without: npm hands out the CLIs, or none; and a container may not
#: make network namespaces nor mount anything, whatever is installed in it.
MAY_BE_MISSING = (
    "claude-code from npm",
    "codex from npm",
    "network namespaces are not permitted",
    "small file systems are not permitted",
)


def _forbid_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    if os.environ.get("CI") != "true" or not report.skipped or hasattr(report, "wasxfail"):
        return
    where, reason = "", str(report.longrepr)
    if isinstance(report.longrepr, tuple):
        where, reason = f"{report.longrepr[0]}:{report.longrepr[1]}: ", report.longrepr[2]
    reason = reason.removeprefix("Skipped: ")
    if reason.startswith(MAY_BE_MISSING):
        return
    report.outcome = "failed"
    report.longrepr = f"{where}skipped, which CI does not allow: {reason}"


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[Any]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    del item, call
    report = yield
    _forbid_skip(report)
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    del collector
    report = yield
    _forbid_skip(report)
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of tests/quarantine.toml, so that `-m "not quarantine"` leaves them out."""
    ids = {test.id for test in read_quarantine()}
    for item in items:
        if ids & {item.nodeid, item.nodeid.partition("[")[0]}:
            item.add_marker("quarantine")
