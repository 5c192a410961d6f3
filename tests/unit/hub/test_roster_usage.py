"""Usage in the running roster: told once a second, today's sum, budgets, and history that comes and goes."""

from __future__ import annotations

import pytest

from adsum_hub.host import KEEP_DELIVERED_MS
from adsum_hub.rest.totals import _unfinished
from adsum_hub.roster import USAGE_MS, Accounts, Roster, local_day
from adsum_hub.snapshots import Snapshot
from adsum_hub.usage.budgets import Overspent, read_budgets
from adsum_shared import signals as s
from adsum_shared.envelope import Batch, Beat
from adsum_shared.signals import DEFAULT_AGENT, RateLimit, Signal
from adsum_shared.state import HostAgent, ScanProgress, SessionView
from tests.spenders import HOUR, NOON, TODAY, FlatPrices, spending

HOST = "host-1"


class Hub:
    """One host whose clock is the hub's."""

    def __init__(self, *budgets: dict[str, object]) -> None:
        sums = spending(FlatPrices())
        self.now = NOON
        self.seq = 0
        self.roster = Roster(Accounts(sums, Overspent(read_budgets(budgets), sums)))
        self.host = self.roster.add(HOST, Snapshot(), self.now)
        self.beat()

    def beat(self, **more: object) -> None:
        beat = Beat(HOST, "lab", self.now, "n", "sp", **more)  # type: ignore[arg-type]
        self.roster.hear(HOST, beat, 0, self.now)

    def happen(self, *signals: Signal) -> None:
        batch = Batch("sp", self.seq + 1, self.seq + len(signals), "n", self.now, signals)
        self.seq += len(signals)
        assert not self.roster.apply(HOST, batch, self.now)

    def tell(self, kind: type, session_id: str = "s", **data: object) -> None:
        data.setdefault("source", "transcript")
        data.setdefault("at", self.now)
        data.setdefault("seen", self.now)
        self.happen(kind(session_id=session_id, **data))

    def use(self, tokens: int, session_id: str = "s") -> None:
        self.tell(s.UsageTotalled, session_id, day=TODAY, model="m", input_tokens=tokens)

    def prompt(self, session_id: str = "s") -> None:
        self.tell(
            s.PromptSubmitted, session_id, source="hook", prompt_id=f"p{self.now}", text="go on"
        )

    def later(self, ms: int) -> None:
        self.now += ms
        self.beat()
        self.roster.next_deadline()
        self.roster.tick(self.now)

    def told(self) -> list[SessionView]:
        return list(self.roster.take_changes(self.now).sessions)

    @property
    def view(self) -> SessionView:
        return self.roster.views[f"{HOST}:s"]


def test_a_burst_of_usage_is_told_once_a_second() -> None:
    hub = Hub()
    hub.prompt()
    hub.told()
    told = 0
    for number in range(100):
        hub.use(number + 1)
        hub.later(20)
        told += len(hub.told())

    assert told <= 3  # in two seconds
    hub.later(USAGE_MS)
    hub.told()
    assert hub.view.usage is not None
    assert hub.view.usage.input_tokens == 100


def test_the_last_of_a_burst_has_a_deadline_of_its_own() -> None:
    hub = Hub()
    hub.prompt()
    hub.use(1)
    hub.told()
    hub.use(2)
    assert hub.told() == []

    assert hub.roster.next_deadline() == hub.now + USAGE_MS
    hub.later(USAGE_MS)
    assert [view.usage.input_tokens for view in hub.told() if view.usage] == [2]


def test_whatever_else_changes_is_told_at_once_with_all_that_was_used() -> None:
    hub = Hub()
    hub.prompt()
    hub.told()
    hub.use(5)
    hub.tell(s.ToolStarted, source="hook", tool="Bash", tool_use_id="t", prompt_id=f"p{NOON}")

    (view,) = hub.told()
    assert (view.state.state, view.usage and view.usage.input_tokens) == ("acting", 5)


def test_a_session_that_is_shown_for_the_first_time_does_not_wait() -> None:
    hub = Hub()
    hub.use(5)
    hub.prompt()

    assert [view.usage and view.usage.cost_usd for view in hub.told()] == [pytest.approx(0.05)]


def test_the_context_is_shown_with_its_size() -> None:
    hub = Hub()
    hub.prompt()
    hub.tell(s.GaugesReported, context_tokens=700, context_size=1_000)
    hub.told()

    assert (hub.view.context and (hub.view.context.tokens, hub.view.context.size)) == (700, 1_000)


def test_what_is_known_of_a_session_is_shown() -> None:
    hub = Hub()
    hub.prompt()
    hub.tell(s.MetaChanged, worktree="w", pr="https://x/1", forked_from="f", last_answer="Done.")
    hub.told()

    view = hub.view
    shown = (view.worktree, view.pr, view.forked_from, view.last_answer, view.last_prompt)
    assert shown == ("w", "https://x/1", "f", "Done.", "go on")
    assert view.ended_at is None


def test_today_is_summed_up_at_most_once_a_second() -> None:
    hub = Hub()
    hub.use(100)
    hub.told()
    first = hub.roster.summary(hub.now)
    hub.use(300)
    hub.told()
    soon, later = hub.roster.summary(hub.now + 999), hub.roster.summary(hub.now + 1_000)

    assert (first.total_cost_today_usd, first.total_tokens_today) == (pytest.approx(1.0), 100)
    assert soon == first
    assert (later.total_cost_today_usd, later.total_tokens_today) == (pytest.approx(3.0), 300)


def test_a_session_over_its_budget_needs_a_human_until_one_types() -> None:
    hub = Hub({"scope": "session", "usd": 1, "per": "day"})
    hub.prompt()
    hub.told()
    hub.later(1_000)
    hub.use(150)
    hub.told()
    hub.later(1_000)
    hub.told()

    assert hub.view.state.label == "Over session budget: $1.50 of $1.00 a day"
    assert (hub.view.urgency, hub.view.unread, hub.view.state.since) == (5, True, NOON + 1_000)

    hub.later(10)
    hub.prompt()
    hub.told()
    assert hub.view.state.state == "thinking"

    hub.later(1_000)
    hub.use(210)
    hub.told()
    hub.later(1_000)
    hub.told()
    assert hub.view.state.label == "Over session budget: $2.10 of $1.00 a day"


def test_a_session_that_is_over_is_over_no_budget() -> None:
    hub = Hub({"scope": "session", "usd": 1, "per": "day"})
    hub.prompt()
    hub.use(150)
    hub.tell(s.SessionEnded, source="hook")
    hub.told()
    hub.later(1_000)
    hub.told()

    assert hub.view.state.state == "session_ended"
    assert hub.view.ended_at == NOON


def past(hub: Hub, session_id: str = "s", at: int = NOON - HOUR) -> None:
    hub.tell(s.MetaChanged, session_id, at=at, ai_title="Old")
    hub.tell(s.UsageTotalled, session_id, at=at, day=TODAY, model="m", input_tokens=100)
    hub.tell(s.SessionEnded, session_id, at=at, reason="process")


def test_history_is_in_no_list_and_no_count_but_its_dollars_count() -> None:
    hub = Hub()
    past(hub)

    assert hub.told() == []
    summary = hub.roster.summary(hub.now)
    assert (hub.roster.views, summary.delivered_count, summary.total_tokens_today) == ({}, 0, 100)
    assert next(iter(hub.roster.all_hosts(hub.now))).sessions == 0


def test_history_that_comes_alive_is_listed_at_once() -> None:
    hub = Hub()
    past(hub)
    hub.told()
    hub.prompt()

    assert [view.title for view in hub.told()] == ["Old"]
    assert not hub.host.past


def test_what_was_delivered_a_week_ago_becomes_history() -> None:
    hub = Hub()
    hub.prompt()
    hub.use(100)
    hub.tell(s.SessionEnded, source="hook")
    hub.told()
    hub.host.take_dirty()
    hub.later(KEEP_DELIVERED_MS + 1)
    hub.roster.expire(hub.now)

    assert not hub.host.facts["s"].turns
    assert hub.roster.take_changes(hub.now).gone == (f"{HOST}:s",)
    found = hub.roster.find(f"{HOST}:s")
    assert found is not None
    assert hub.host.saved.dirty == {"s"}
    view = hub.roster.accounts.past_view(*found)
    assert (view.state.state, view.ended_at, view.usage and view.usage.input_tokens) == (
        "session_ended",
        NOON,
        100,
    )
    assert [each.kind for each in hub.roster.activity(f"{HOST}:s") or ()] == [
        "prompt.submitted",
        "session.ended",
    ]


def test_history_is_not_dropped_with_what_never_was_a_session() -> None:
    hub = Hub()
    past(hub)
    hub.tell(s.SessionStarted, "phantom", source="hook", reason="resume")
    hub.told()
    hub.later(KEEP_DELIVERED_MS + HOUR)
    hub.roster.expire(hub.now)

    assert list(hub.host.facts) == ["s"]


def test_history_that_is_dropped_is_counted_and_leaves_the_sums() -> None:
    hub = Hub()
    past(hub, at=NOON - 401 * 24 * HOUR)
    hub.told()
    hub.roster.expire(hub.now)

    assert hub.roster.counts["history_dropped"] == 1
    assert hub.roster.accounts.spending.day(TODAY).tokens == 0
    assert hub.host.saved.gone == {"s"}


def test_limits_are_the_latest_of_any_session_and_go_when_they_are_reset() -> None:
    hub = Hub()
    hub.prompt()
    hub.prompt("t")
    hub.tell(s.GaugesReported, "t", limits=[RateLimit("five_hour", 40.0, NOON + HOUR)])
    hub.told()
    hub.tell(s.GaugesReported, at=NOON - 1, limits=[RateLimit("five_hour", 10.0, NOON + HOUR)])
    hub.told()

    assert [each.used_percent for each in hub.host.view(hub.now).limits] == [40.0]
    assert hub.host.view(NOON + HOUR).limits == ()


def test_how_far_a_machine_has_read_its_history_is_shown_while_it_is_heard() -> None:
    hub = Hub()
    hub.beat(scan=ScanProgress(10, 5, 100, 50))
    assert hub.host.view(hub.now).scan == ScanProgress(10, 5, 100, 50)

    hub.now += 10 * HOUR
    hub.roster.tick(hub.now)
    assert hub.host.view(hub.now).scan is None


@pytest.mark.parametrize("at", [-(10**14), 0, 253_402_300_799_999])
def test_any_time_has_a_day(at: int) -> None:
    assert len(local_day(at)) == len("2026-11-20")


def test_what_another_hub_has_dropped_leaves_the_sums() -> None:
    hub = Hub()
    past(hub)
    hub.told()
    hub.roster.reload(HOST, Snapshot(), hub.now)
    hub.told()

    assert not hub.host.past
    assert hub.roster.accounts.spending.day(TODAY).tokens == 0


def test_without_anything_new_budgets_are_not_looked_at_again() -> None:
    hub = Hub({"scope": "session", "usd": 1, "per": "day"})
    hub.prompt()
    hub.use(150)
    hub.told()
    assert hub.roster.accounts.look([hub.host], hub.now) == [(HOST, "s")]

    hub.host.over = {}
    assert hub.roster.accounts.look([hub.host], hub.now + 1_000) == []
    hub.use(160)
    hub.told()
    assert hub.roster.accounts.look([hub.host], hub.now + 2_000) == [(HOST, "s")]


def test_a_hub_that_starts_later_finds_the_same_sessions_over_their_budget() -> None:
    budget = {"scope": "session", "usd": 1, "per": "day"}
    hub, late = Hub(budget), Hub(budget)
    hub.prompt()
    hub.tell(s.TaskCreated, source="hook", task_id="1", subject="All of it")
    hub.told()
    hub.later(1_000)
    hub.use(150)
    hub.told()
    hub.later(1_000)
    hub.told()
    hub.tell(s.TaskCompleted, source="hook", task_id="1", prompt_id=f"p{NOON}")
    hub.tell(s.TurnEnded, source="hook", prompt_id=f"p{NOON}", last_message="Done.")
    hub.told()
    late.now = hub.now
    late.roster.reload(HOST, Snapshot(sessions=dict(hub.host.facts)), hub.now)
    for each in (hub, late):
        for _ in range(2):
            each.told()
            each.later(1_000)
        each.told()

    assert hub.view.state.state == "budget_exceeded"
    assert late.view.state == hub.view.state


def test_budgets_are_found_before_a_hub_started_anew_shows_its_list() -> None:
    budget = {"scope": "session", "usd": 1, "per": "day"}
    hub, late = Hub(budget), Hub(budget)
    hub.prompt()
    hub.later(1_000)
    hub.use(150)
    hub.told()
    late.now = hub.now
    late.roster.tick(late.now)
    late.roster.reload(HOST, Snapshot(sessions=dict(hub.host.facts)), late.now)
    late.told()

    assert late.roster.settle(late.now)
    late.told()
    assert late.view.state.state == "budget_exceeded"
    assert not late.roster.settle(late.now)


def test_a_session_is_over_its_budget_no_longer_once_it_has_spent_nothing_for_a_day() -> None:
    hub = Hub({"scope": "session", "usd": 1, "per": "session"})
    hub.prompt()
    hub.later(1_000)
    hub.use(150)
    hub.told()
    hub.later(1_000)
    hub.told()
    assert hub.view.state.state == "budget_exceeded"

    hub.later(24 * HOUR)
    hub.told()
    assert hub.view.state.state != "budget_exceeded"


def test_who_shares_a_budget_is_not_told_of_with_every_cent() -> None:
    hub = Hub({"scope": "team", "usd": 100, "per": "day"})
    hub.prompt()
    hub.use(10_500)
    hub.told()
    told = 0
    for number in range(10):
        hub.later(1_000)
        hub.use(number + 1, "other")  # ten cents altogether
        told += sum(view.session_id == "s" for view in hub.told())

    assert hub.view.state.state == "budget_exceeded"
    assert told <= 2


def test_dollars_of_a_session_that_nobody_ever_listed_outlive_it() -> None:
    hub = Hub()
    hub.tell(s.CostReported, source="statusline", cost_usd=2.5)
    assert hub.told() == []
    hub.later(KEEP_DELIVERED_MS + 1)
    hub.roster.expire(hub.now)

    assert hub.told() == []
    assert hub.roster.accounts.spending.day(TODAY).total == 2.5
    assert hub.host.facts["s"].past


def test_once_a_price_is_known_the_session_is_told_anew() -> None:
    hub = Hub()
    hub.prompt()
    hub.tell(s.UsageTotalled, day=TODAY, model="odd", input_tokens=100)
    hub.told()
    hub.later(USAGE_MS)
    hub.told()
    assert hub.view.usage is not None
    assert (hub.view.usage.cost_usd, hub.view.usage.unpriced_tokens) == (None, 100)

    hub.later(USAGE_MS)
    hub.roster.reprice(FlatPrices(odd=0.02))
    (view,) = hub.told()
    assert view.usage is not None
    assert (view.usage.cost_usd, view.usage.unpriced_tokens) == (2.0, 0)
    assert hub.roster.accounts.spending.day(TODAY).total == 2.0


def test_two_agents_accounts_have_limits_of_their_own() -> None:
    hub = Hub()
    hub.beat(agents=(HostAgent("other", "Other"),))
    for session, agent, used in (("s", DEFAULT_AGENT, 40.0), ("t", "other", 9.0)):
        hub.tell(s.PromptSubmitted, session, source="hook", prompt_id="p", agent=agent)
        limits = [RateLimit("five_hour", used)]
        hub.tell(s.GaugesReported, session, agent=agent, limits=limits)
    hub.told()

    found = [(each.agent, each.used_percent) for each in hub.host.view(hub.now).limits]
    assert found == [("", 40.0), ("Other", 9.0)]


def test_what_a_plan_pays_shows_its_limits_and_no_dollars_until_tokens_are_billed() -> None:
    hub = Hub()
    hub.prompt()
    hub.use(100)
    limits = [RateLimit("five_hour", 34.0, NOON + HOUR), RateLimit("seven_day", 5.0)]
    hub.tell(s.GaugesReported, agent="other", plan="pro", limits=limits)
    hub.later(USAGE_MS)
    hub.told()
    plan, usage = hub.view.plan, hub.view.usage
    assert plan is not None
    assert usage is not None
    assert (plan.name, [each.used_percent for each in plan.limits]) == ("pro", [34.0, 5.0])
    assert (usage.cost_source, usage.cost_usd, usage.input_tokens) == ("plan", None, 100)
    assert hub.roster.accounts.spending.day(TODAY).total == 0
    (note,) = _unfinished(hub.roster, hub.now)
    assert "On lab the plan pro pays for" in note
    assert "five hour limit 34 % used, resets in 0 h 5" in note

    hub.tell(s.GaugesReported, at=hub.now + 1, plan="")
    hub.later(USAGE_MS)
    hub.told()
    assert hub.view.plan is None
    assert hub.view.usage is not None
    assert hub.view.usage.cost_usd == pytest.approx(1.0)
