"""Take one mechanism of delivery away, and a test fails: no mechanism without a test of its own."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.brokers import require_binary
from tests.mutants import (
    codex,
    collector,
    control,
    decisions,
    doors,
    files_only,
    hub,
    page,
    suspending,
    verdict,
)
from tests.mutants.runner import (
    WHOLE_S,
    Mutant,
    Outdated,
    Report,
    copy_packages,
    run_mutant,
    run_tests,
    survival,
)

MUTANTS = (
    *hub.MUTANTS,
    *collector.MUTANTS,
    *decisions.MUTANTS,
    *control.MUTANTS,
    *doors.MUTANTS,
    *codex.MUTANTS,
    *files_only.MUTANTS,
    *suspending.MUTANTS,
    *page.MUTANTS,
    *verdict.MUTANTS,
)
#: A test that fails does so by waiting: several at a time keep the cores busy.
AT_ONCE = 2 * (os.cpu_count() or 1) + 1

pytestmark = [pytest.mark.redis, pytest.mark.timeout(200)]


@pytest.fixture(scope="module")
def pool() -> Iterator[ThreadPoolExecutor]:
    require_binary()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield pool
        pool.shutdown(cancel_futures=True)


@pytest.fixture(scope="module")
def asked(request: pytest.FixtureRequest) -> Sequence[Mutant]:
    """The mutants that this run is about."""
    names = {item.name for item in request.session.items}
    return [mutant for mutant in MUTANTS if f"test_caught[{mutant.name}]" in names] or MUTANTS


@pytest.fixture(scope="module")
def whole(
    pool: ThreadPoolExecutor, asked: Sequence[Mutant], tmp_path_factory: pytest.TempPathFactory
) -> Future[Report]:
    """All named tests with nothing changed: begun first, as it takes longest."""
    directory = tmp_path_factory.mktemp("whole")
    named = sorted({test for mutant in asked for test in mutant.caught_by})
    copy_packages(directory / "copy")
    return pool.submit(run_tests, named, directory / "copy", directory / "run", WHOLE_S)


@pytest.fixture(scope="module")
def reports(
    pool: ThreadPoolExecutor,
    whole: Future[Report],
    asked: Sequence[Mutant],
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, Future[Report]]:
    directory = tmp_path_factory.mktemp("mutants")
    return {
        mutant.name: pool.submit(run_mutant, mutant, directory / str(number))
        for number, mutant in enumerate(asked)
    }


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_caught(mutant: Mutant, reports: dict[str, Future[Report]]) -> None:
    try:
        problem = survival(mutant, reports[mutant.name].result())
    except Outdated as outdated:
        problem = str(outdated)
    if problem is not None:
        pytest.fail(problem, pytrace=False)


def test_the_named_tests_pass_where_nothing_is_changed(whole: Future[Report]) -> None:
    """Else a fault of the copy, and no mutant, would make them fail."""
    report = whole.result()

    assert not report.elsewhere
    assert {each.outcome for each in report.results} == {"passed"}, report.output


def test_no_two_mutants_bear_one_name() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)


def test_every_named_test_is_there() -> None:
    root = Path(__file__).parent.parent.parent
    for test in {test for mutant in MUTANTS for test in mutant.caught_by}:
        path, _, name = test.partition("::")
        assert f"def {name.partition('[')[0]}(" in (root / path).read_text(), test
