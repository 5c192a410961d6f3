"""Budgets: how they are written, when they are crossed, and who is told until a human answers."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from adsum_hub.facts import Budget as Exceeded
from adsum_hub.settings import HubSettings
from adsum_hub.usage.budgets import BudgetLimit, Overspent, Worker, read_budgets
from adsum_hub.verdict.judge import judge
from adsum_shared.settings import EntryError
from adsum_shared.signals import PromptSubmitted
from adsum_shared.state import URGENCY, Group
from tests.spenders import HOUR, MINUTE, NOON, TODAY, FlatPrices, Spender, spending

#: A cent a token, so a hundred tokens are a dollar.
DAILY = {"scope": "session", "usd": 10, "per": "day"}


class Fleet:
    """Sessions by (host, session id), and the budgets they are under."""

    def __init__(self, *budgets: dict[str, Any], **rates: float) -> None:
        self.sums = spending(FlatPrices(**rates))
        self.overspent = Overspent(read_budgets(budgets), self.sums)
        self.sessions: dict[tuple[str, str], Spender] = {}

    def __getitem__(self, name: str) -> Spender:
        host, session_id = name.split("/")
        return self.sessions.setdefault((host, session_id), Spender(session_id))

    def over(self, now: int = 0) -> dict[str, Exceeded]:
        """now: ms since NOON."""
        for key, spender in self.sessions.items():
            self.sums.update(key, spender.facts)
        workers = [
            Worker(key, f"{key[0]}.local", one.facts, NOON + now)
            for key, one in self.sessions.items()
        ]
        return {"/".join(key): each for key, each in self.overspent.look(workers, TODAY).items()}


def test_a_session_within_its_budget_is_left_alone() -> None:
    fleet = Fleet(DAILY)
    fleet["h/s"].use(999)

    assert not fleet.over()


def test_a_limit_that_is_just_reached_is_reached() -> None:
    fleet = Fleet(DAILY)
    fleet["h/s"].use(1_000)

    assert fleet.over()["h/s"].spent == pytest.approx(10)


def test_it_is_since_the_step_in_which_the_limit_was_crossed() -> None:
    fleet = Fleet(DAILY)
    fleet["h/s"].use(400, 0).use(900, 10 * MINUTE).use(1_100, 20 * MINUTE).use(1_900, 30 * MINUTE)

    assert fleet.over()["h/s"].at == NOON + 20 * MINUTE


def test_steps_that_are_merged_never_move_a_crossing_to_later() -> None:
    fleet = Fleet(DAILY)
    since: list[int] = []
    for minute in range(0, 200, 2):
        fleet["h/s"].use(10 * minute, minute * MINUTE)
        since += [each.at - NOON for each in fleet.over().values()]

    assert len(since) == 50
    assert since[0] == 100 * MINUTE
    assert since == sorted(since, reverse=True)
    assert since[-1] >= 90 * MINUTE


def test_a_budget_that_was_crossed_hours_ago_is_not_answered_by_the_prompt_before() -> None:
    fleet = Fleet(DAILY)
    fleet["h/s"].use(900, 0).prompt(10 * MINUTE)
    for minute in range(11, 700):
        fleet["h/s"].use(900 + 10 * (minute - 10) // 7, minute * MINUTE)

    assert fleet.over()["h/s"].at >= NOON + 10 * MINUTE


def test_a_prompt_silences_it_for_that_session() -> None:
    fleet = Fleet(DAILY)
    fleet["h/s"].use(1_100).prompt(MINUTE).use(1_500, 2 * MINUTE)

    assert not fleet.over()


def test_a_prompt_before_the_crossing_is_no_answer_to_it() -> None:
    fleet = Fleet(DAILY)
    fleet["h/s"].use(900).prompt(1_000).use(1_100, 2_000)

    assert fleet.over()["h/s"].at == NOON + 2_000


def test_at_the_next_whole_multiple_it_is_told_again() -> None:
    fleet = Fleet(DAILY)
    fleet["h/s"].use(1_100).prompt(MINUTE).use(2_050, 2 * MINUTE)

    assert fleet.over()["h/s"].at == NOON + 2 * MINUTE


def test_what_another_day_cost_is_not_in_a_days_budget() -> None:
    fleet = Fleet(DAILY)
    fleet["h/s"].use(900, day="2026-11-19").use(900)

    assert not fleet.over()


@pytest.mark.parametrize(("per", "over"), [("day", False), ("7 days", True), ("30 days", True)])
def test_the_days_that_a_budget_looks_at(per: str, over: bool) -> None:
    fleet = Fleet({**DAILY, "per": per})
    fleet["h/s"].use(400, -72 * HOUR, day="2026-11-14").use(700)

    assert bool(fleet.over()) is over


def test_a_sessions_budget_looks_at_the_whole_of_it() -> None:
    fleet = Fleet({**DAILY, "per": "session"})
    fleet["h/s"].use(600, -9_000 * HOUR, day="2025-01-01").use(600)

    assert label(fleet.over()["h/s"]) == "Over session budget: $12.00 of $10.00"


@pytest.mark.parametrize("per", ["day", "session"])
def test_a_session_that_spends_nothing_for_a_day_is_over_no_budget(per: str) -> None:
    fleet = Fleet({**DAILY, "per": per})
    fleet["h/s"].use(1_100)

    assert fleet.over(24 * HOUR - 1).keys() == {"h/s"}
    assert not fleet.over(24 * HOUR)
    fleet["h/s"].use(1_101, 48 * HOUR)
    assert fleet.over(48 * HOUR).keys() == {"h/s"}


def test_sessions_of_a_project_share_its_budget_over_all_hosts() -> None:
    fleet = Fleet({"scope": "project", "usd": 10, "per": "day"})
    fleet["h/s"].about(project="web").use(600, 0)
    fleet["k/t"].about(project="web").use(600, MINUTE)
    fleet["k/u"].about(project="api").use(600, MINUTE)

    assert fleet.over().keys() == {"k/t"}  # the other has not worked since
    fleet["h/s"].use(610, 2 * MINUTE)
    assert {name: each.at for name, each in fleet.over().items()} == dict.fromkeys(
        ("h/s", "k/t"), NOON + MINUTE
    )


def test_an_answer_to_one_session_does_not_silence_another() -> None:
    fleet = Fleet({"scope": "team", "usd": 10, "per": "day"})
    fleet["h/s"].use(1_100, 0).prompt(2 * MINUTE).use(1_110, 3 * MINUTE)
    fleet["k/t"].use(10, MINUTE)

    assert fleet.over().keys() == {"k/t"}


def test_a_host_has_a_budget_of_its_own() -> None:
    fleet = Fleet({"scope": "host", "usd": 10, "per": "day", "name": "h*"})
    fleet["h/s"].use(600)
    fleet["h2/t"].use(600)
    assert not fleet.over()

    fleet["h2/u"].use(500)
    assert fleet.over().keys() == {"h2/t", "h2/u"}
    assert label(fleet.over()["h2/u"]) == "Over host budget (h2.local): $11.00 of $10.00 a day"


def test_a_name_is_a_pattern() -> None:
    fleet = Fleet({"scope": "project", "usd": 1, "per": "day", "name": "Web*"})
    fleet["h/s"].about(project="web-shop").use(200)
    fleet["h/t"].about(project="api").use(200)

    assert fleet.over().keys() == {"h/s"}


def test_a_session_without_a_project_is_in_no_projects_budget() -> None:
    fleet = Fleet({"scope": "project", "usd": 1, "per": "day"})
    fleet["h/s"].use(200)

    assert not fleet.over()


def test_of_several_the_one_that_was_crossed_first_is_told() -> None:
    fleet = Fleet({**DAILY, "usd": 5}, {**DAILY, "usd": 2, "per": "session"})
    fleet["h/s"].use(250, 0).use(600, 10 * MINUTE)

    assert fleet.over()["h/s"].limit == 5  # crossed once; the other a second time by then
    fleet["h/s"].use(610, 11 * MINUTE)
    assert fleet.over()["h/s"].at == NOON + 10 * MINUTE


def test_without_prices_nobody_is_over_a_budget() -> None:
    fleet = Fleet(DAILY)
    fleet["h/s"].use(10**9, model="odd")

    assert not fleet.over()


def test_whoever_has_the_same_facts_comes_to_the_same_conclusion_in_any_order() -> None:
    budgets = ({**DAILY, "usd": 3}, {"scope": "team", "usd": 7, "per": "7 days"})
    one, other = Fleet(*budgets), Fleet(*budgets)
    for minute in range(20):
        name = f"h{minute % 3}/s{minute % 5}"
        one[name].use(50 * minute, minute * MINUTE)
    for key in reversed(one.sessions):
        other.sessions[key] = one.sessions[key]

    assert one.over()
    assert other.over() == one.over()


def label(exceeded: Exceeded) -> str:
    facts = replace(Spender().prompt(-HOUR).facts, budget=exceeded)
    return judge(facts, NOON + HOUR).state.label


def test_the_state_says_how_much_of_which_budget() -> None:
    facts = replace(
        Spender().prompt(-HOUR).facts,
        budget=Exceeded(NOON, 1_012.4, 1_000, scope="team", per="in 7 days"),
    )
    found = judge(facts, NOON + HOUR).state

    assert (found.state, found.group, found.since) == ("budget_exceeded", Group.NEEDS_YOU, NOON)
    assert found.label == "Over team budget: $1,012.40 of $1,000.00 in 7 days"
    assert URGENCY[found.state] == 5


@pytest.mark.parametrize(
    ("spent", "limit", "said"),
    [
        (1.9, 0.001, "$1.90 of $0.001"),
        (0.02, 0.015, "$0.02 of $0.015"),
        (0.5, 0.25, "$0.50 of $0.25"),
        (12.4, 10, "$12.40 of $10.00"),
    ],
)
def test_a_limit_below_a_cent_is_not_shown_as_nothing(
    spent: float, limit: float, said: str
) -> None:
    assert label(Exceeded(NOON, spent, limit)) == f"Over budget: {said}"


def test_whose_budget_it_is_is_not_lost_where_labels_are_cut() -> None:
    short = label(Exceeded(NOON, 12.4, 10, "web", "project", "a day"))
    long = label(Exceeded(NOON, 12.4, 10, "w" * 99, "project", "a day"))

    assert short == "Over project budget (web): $12.40 of $10.00 a day"
    assert long.startswith(f"Over project budget ({'w' * 23}…): $12")


def test_a_prompt_lifts_the_state_at_once() -> None:
    spender = Spender().prompt(-HOUR).prompt(MINUTE)
    facts = replace(spender.facts, budget=Exceeded(NOON, 12, 10))

    assert judge(facts, NOON + MINUTE).state.state != "budget_exceeded"


def test_a_queued_prompt_is_an_answer_too() -> None:
    spender = Spender().prompt(-HOUR).tell(PromptSubmitted, MINUTE, origin="queued", text="more")
    facts = replace(spender.facts, budget=Exceeded(NOON, 12, 10))

    assert judge(facts, NOON + MINUTE).state.state != "budget_exceeded"


BAD: dict[str, tuple[Any, str]] = {
    "no table": (7, "Expected `object`, got `int`"),
    "a slip of the pen": (
        {**DAILY, "limit": 5},
        "unknown field `limit`. Correct it; an entry has `scope`, `usd`, `per`, `name`.",
    ),
    "no scope": (
        {"usd": 1, "per": "day"},
        "there is no `scope`. Write one of session, project, host, team.",
    ),
    "another scope": ({**DAILY, "scope": "user"}, "known - at `scope`. Write one of session"),
    "no time": (
        {"scope": "team", "usd": 1},
        "there is no `per`. Write one of session, day, 7 days, 30 days.",
    ),
    "no dollars": (
        {**DAILY, "usd": "ten"},
        "Expected `float`, got `str` - at `usd`. Correct it",
    ),
    "nothing": ({**DAILY, "usd": 0}, "`usd`"),
    "not a number": ({**DAILY, "usd": float("nan")}, "`usd`"),
    "endless": ({**DAILY, "usd": float("inf")}, "`usd`"),
    "too long for a float": ({**DAILY, "usd": 10**400}, "`usd`"),
    "true": ({**DAILY, "usd": True}, "`usd`"),
    "a name that is none": ({**DAILY, "name": 3}, "got `int` - at `name`"),
    "a team with a name": (
        {"scope": "team", "usd": 1, "per": "day", "name": "us"},
        "has no `name`",
    ),
    "unhashable": ({**DAILY, "scope": ["team"]}, "`scope`. Write one of"),
}


@pytest.mark.parametrize(("entry", "cause"), BAD.values(), ids=BAD)
def test_a_bad_entry_is_named_with_its_cause_and_the_next_step(entry: Any, cause: str) -> None:
    with pytest.raises(EntryError, match=r"^\[\[budgets\]\] 2: ") as found:
        read_budgets([DAILY, entry])

    assert cause in str(found.value)
    assert str(found.value).endswith(".")
    assert len(str(found.value)) < 300


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"scope": "team"}, "[[budgets]]: it is not a list of entries. Begin every entry with"),
        ("nonsense", "[[budgets]]: it is no JSON. Write ADSUM_BUDGETS as a JSON list"),
        ('{"scope": "team"}', "it is not a list of entries"),
    ],
)
def test_what_is_no_list_of_budgets_is_refused(given: Any, said: str) -> None:
    with pytest.raises(EntryError) as found:
        read_budgets(given)

    assert said in str(found.value)


def test_the_variable_is_named_only_where_it_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADSUM_BUDGETS", '[{"scope": "team", "usd": 5, "per": "year"}]')

    with pytest.raises(EntryError, match=r"^ADSUM_BUDGETS, entry 1: no value .* `per`. Write one"):
        HubSettings()


def test_settings_with_a_bad_budget_are_refused_in_their_own_words() -> None:
    with pytest.raises(EntryError, match=r"^\[\[budgets\]\] 1: no value .* `per`. Write one"):
        HubSettings(budgets=[{"scope": "team", "usd": 5, "per": "year"}])


def test_budgets_may_come_as_json_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADSUM_BUDGETS", '[{"scope": "session", "usd": 10, "per": "day"}]')

    assert read_budgets(HubSettings().budgets) == (BudgetLimit("session", 10.0, "day"),)


def test_a_crossing_does_not_wander_with_what_a_step_is_worth() -> None:
    """Of a dearer model the trail knows only tokens, so each report moves the shares of all steps."""
    fleet = Fleet(DAILY, dear=0.05)
    found: set[int] = set()
    for minute in range(44):
        fleet["h/s"].use(25 * (minute + 1), minute * MINUTE)
        found |= {each.at for each in fleet.over().values()}
    for minute in range(14):
        fleet["h/s"].use(10 * (minute + 1), (44 + minute) * MINUTE, model="dear")
        found |= {each.at for each in fleet.over().values()}

    assert found == {NOON + 39 * MINUTE}


def test_a_crossing_that_was_hours_before_is_dated_there() -> None:
    fleet = Fleet(DAILY | {"scope": "team"})
    fleet["h/late"].use(1_000, 5 * HOUR)
    assert fleet.over()["h/late"].at == NOON + 5 * HOUR

    fleet["h/early"].use(1_000, HOUR)
    fleet["h/late"].use(500, 6 * HOUR)
    assert fleet.over()["h/late"].at == NOON + HOUR


@pytest.mark.parametrize("per", ["day", "session"])
def test_a_session_is_over_its_budget_on_whichever_host_it_counts(per: str) -> None:
    fleet = Fleet(DAILY | {"per": per})
    fleet["a/s"].use(1_500)
    fleet["b/s"].use(1_500)

    assert fleet.over().keys() == {"a/s", "b/s"}
