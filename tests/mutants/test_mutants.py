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
    run_mutant,
    survival,
)
from tests.mutants.swapped import can_be_swapped, run_swapped

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
AT_ONCE = 3 * (os.cpu_count() or 1) + 1

#: The name of the one that is none.
UNCHANGED = "nothing is changed"

pytestmark = [pytest.mark.redis, pytest.mark.timeout(WHOLE_S)]


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
def swapped(pool: ThreadPoolExecutor, asked: Sequence[Mutant]) -> Future[dict[str, Report]]:
    """Of those that can be run in memory; under UNCHANGED all of their tests, with nothing changed."""
    found = [mutant for mutant in asked if can_be_swapped(mutant)]
    nothing = Mutant(UNCHANGED, "nothing is lost", (), named_by(found))
    return pool.submit(run_swapped, [nothing, *found])


@pytest.fixture(scope="module")
def copied(asked: Sequence[Mutant]) -> list[Mutant]:
    return [mutant for mutant in asked if not can_be_swapped(mutant)]


@pytest.fixture(scope="module")
def whole(
    pool: ThreadPoolExecutor, copied: list[Mutant], tmp_path_factory: pytest.TempPathFactory
) -> Future[Report]:
    """All tests that run in copies, in one with nothing changed: begun first, as it takes longest."""
    nothing = Mutant(UNCHANGED, "nothing is lost", (), named_by(copied))
    return pool.submit(run_mutant, nothing, tmp_path_factory.mktemp("whole") / "all", WHOLE_S)


@pytest.fixture(scope="module")
def reports(
    pool: ThreadPoolExecutor,
    whole: Future[Report],
    copied: list[Mutant],
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, Future[Report]]:
    directory = tmp_path_factory.mktemp("mutants")
    return {
        mutant.name: pool.submit(run_mutant, mutant, directory / str(number))
        for number, mutant in enumerate(copied)
    }


def named_by(mutants: Sequence[Mutant]) -> tuple[str, ...]:
    return tuple(sorted({test for mutant in mutants for test in mutant.caught_by}))


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_caught(
    mutant: Mutant,
    reports: dict[str, Future[Report]],
    swapped: Future[dict[str, Report]],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    try:
        if mutant.name in reports:
            problem = survival(mutant, reports[mutant.name].result())
        else:
            problem = survival(mutant, swapped.result()[mutant.name])
            if problem is not None:  # its test may start a process, or the function be wrapped
                problem = survival(
                    mutant, run_mutant(mutant, tmp_path_factory.mktemp("again") / "m")
                )
    except Outdated as outdated:
        problem = str(outdated)
    if problem is not None:
        pytest.fail(problem, pytrace=False)


def test_the_named_tests_pass_where_nothing_is_changed(
    asked: Sequence[Mutant], whole: Future[Report], swapped: Future[dict[str, Report]]
) -> None:
    """Else a fault of the copy, or of how functions are changed, would make them fail."""
    reports = whole.result(), swapped.result()[UNCHANGED]
    for report in reports:
        assert not report.elsewhere
        assert {each.outcome for each in report.results} <= {"passed"}, report.output
    ran = [test for test in named_by(asked) if any(report.of(test) for report in reports)]
    assert ran == list(named_by(asked)), "\n".join(report.output for report in reports)


def test_no_two_mutants_bear_one_name() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)


def test_every_named_test_is_there() -> None:
    root = Path(__file__).parent.parent.parent
    for test in {test for mutant in MUTANTS for test in mutant.caught_by}:
        path, _, name = test.partition("::")
        assert f"def {name.partition('[')[0]}(" in (root / path).read_text(), test
