"""What costs is done at once while a budget lasts."""

from __future__ import annotations

from adsum_hub.live.broadcast import SendBudget


def test_nothing_waits_while_the_budget_lasts():
    budget = SendBudget(100, 50)
    waits = []
    for _ in range(5):
        waits.append(budget.wait(10, 7.0, 1.0))
        budget.spend(10, 7.0)

    assert waits == [0.0] * 5


def test_beyond_the_budget_one_waits_until_it_allows_the_next():
    budget = SendBudget(100, 50)
    budget.spend(50, 7.0)

    assert round(budget.wait(10, 7.0, 1.0), 6) == 0.1
    assert round(budget.wait(10, 7.04, 1.0), 6) == 0.06
    assert budget.wait(10, 7.11, 1.0) == 0.0


def test_what_is_dearer_than_all_that_can_be_saved_waits_the_longest_and_no_more():
    budget = SendBudget(100, 50)
    budget.spend(200, 7.0)

    assert round(budget.wait(200, 7.25, 1.0), 6) == 0.75
    assert budget.wait(200, 8.0, 1.0) == 0.0


def test_a_long_rest_saves_no_more_than_a_burst():
    budget = SendBudget(100, 50)
    budget.spend(50, 7.0)
    budget.spend(50, 9_000.0)

    assert round(budget.wait(10, 9_000.0, 1.0), 6) == 0.1
