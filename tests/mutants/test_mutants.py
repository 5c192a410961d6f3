"""Disable one mechanism, and a test fails: each promise of delivery, access, control and states."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from tests.brokers import require_binary
from tests.mutants import access, control, delivery, states
from tests.mutants.runner import ROOT, Mutant, Report, run_mutant, survival

MUTANTS = (*delivery.MUTANTS, *access.MUTANTS, *control.MUTANTS, *states.MUTANTS)
#: A mutant's test often fails by waiting: several at a time keep the cores busy.
AT_ONCE = 3 * (os.cpu_count() or 1) + 1
LIMIT_S = 150.0
WHOLE_S = 600.0


@pytest.fixture(scope="module")
def chosen(request: pytest.FixtureRequest) -> Sequence[Mutant]:
    """The mutants of this run."""
    names = {item.name for item in request.session.items}
    return [mutant for mutant in MUTANTS if f"test_caught[{mutant.promise}]" in names]


@pytest.fixture(scope="module")
def unchanged(chosen: Sequence[Mutant]) -> Mutant:
    """All tests of this run, and no edit."""
    tests = {test for mutant in chosen for test in mutant.caught_by}
    return Mutant("Nothing is changed.", (), tuple(sorted(tests)))


@pytest.fixture(scope="module")
def reports(
    chosen: Sequence[Mutant], unchanged: Mutant, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Future[Report]]]:
    require_binary()
    directory = tmp_path_factory.mktemp("m")
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield {
            # The unchanged run is the longest, so it starts first.
            mutant.promise: pool.submit(
                run_mutant, mutant, directory / str(number), LIMIT_S if number else WHOLE_S
            )
            for number, mutant in enumerate([unchanged, *chosen])
        }
        pool.shutdown(cancel_futures=True)


@pytest.mark.redis
@pytest.mark.timeout(WHOLE_S)
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.promise)
def test_caught(mutant: Mutant, reports: dict[str, Future[Report]]) -> None:
    problem = survival(mutant, reports[mutant.promise].result())
    if problem is not None:
        pytest.fail(problem, pytrace=False)


@pytest.mark.redis
@pytest.mark.timeout(WHOLE_S)
def test_the_named_tests_pass_where_nothing_is_changed(
    unchanged: Mutant, reports: dict[str, Future[Report]]
) -> None:
    report = reports[unchanged.promise].result()

    for test in unchanged.caught_by:
        assert report.of(test) == {"passed"}, f"{test}\n{report.output}"


def test_each_promise_is_listed_once() -> None:
    assert len({mutant.promise for mutant in MUTANTS}) == len(MUTANTS)


def test_each_named_test_exists() -> None:
    for test in {test for mutant in MUTANTS for test in mutant.caught_by}:
        path, _, name = test.partition("::")
        assert f"def {name.partition('[')[0]}(" in (ROOT / path).read_text(), test
