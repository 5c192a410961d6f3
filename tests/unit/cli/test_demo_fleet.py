"""The demo's story: every state and every request is in it, it moves, and it is the same each time."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from adsum.demo import MACHINES, ROLES, SCRIPT, history, play_on, players
from adsum_shared.signals import DEFAULT_AGENT, encode_signal
from adsum_shared.state import GROUP_OF, Group
from tests.demo_fleets import MINUTE, START, Audience

#: What no hub shows: who is listed has a state.
NEVER = {"unknown"}
STEP_MS = 4_000


def told(minutes: int = 5) -> list[tuple[int, str, bytes]]:
    return [
        (at, machine.label, encode_signal(signal))
        for at, machine, said in play_on(list(players(START)), START + minutes * MINUTE)
        for signal in said
    ]


@pytest.fixture(scope="module")
def once() -> list[tuple[int, str, bytes]]:
    return told()


@pytest.fixture(scope="module")
def opening() -> Audience:
    """What whoever comes meets at once. Nobody changes it."""
    return Audience().at(START)


@pytest.fixture(scope="module")
def seen() -> dict[str, set[str]]:
    """Whatever an audience meets that stays for a while."""
    audience = Audience()
    found: dict[str, set[str]] = {
        name: set() for name in ("states", "requests", "children", "labels", "titles", "changed")
    }
    before: dict[str, str] = {}
    for now in range(START, START + 16 * MINUTE, STEP_MS):
        for view in audience.at(now).roster.views.values():
            found["states"].add(view.state.state)
            found["labels"].add(view.state.label)
            found["requests"] |= {request.kind for request in view.requests}
            found["children"] |= {child.kind for child in view.children}
            found["titles"].add(view.title or "")
            if before.setdefault(view.id, view.state.label) != view.state.label:
                found["changed"].add(view.id)
    return found


def test_every_state_is_seen_within_a_quarter_of_an_hour(seen: dict[str, set[str]]) -> None:
    assert seen["states"] == set(GROUP_OF) - NEVER


def test_every_kind_of_request_and_child_is_seen(seen: dict[str, set[str]]) -> None:
    assert seen["requests"] == {"permission", "question", "plan", "dialog"}
    assert seen["children"] == {"agent", "shell", "monitor", "workflow", "cron"}


def test_what_is_asked_of_a_subagent_and_what_hangs_is_told_in_words(
    seen: dict[str, set[str]],
) -> None:
    hangs = "Nothing from the model for"
    beginnings = ("API retry", "Interrupted", "Ready", "Over session budget", hangs)
    for words in beginnings:
        assert any(label.startswith(words) for label in seen["labels"]), words


def test_nobody_stands_still(seen: dict[str, set[str]]) -> None:
    # All but those of the machine that is away.
    assert len(seen["changed"]) >= len(ROLES) - 5


def test_each_session_has_a_title_of_its_own_and_keeps_it(seen: dict[str, set[str]]) -> None:
    titled = {title for title in seen["titles"] if title}
    assert len(titled) == len(ROLES)


def test_whoever_comes_meets_all_three_groups_at_once(opening: Audience) -> None:
    roster = opening.roster
    summary = roster.summary(START)

    assert len(roster.views) == len(ROLES) == 40
    assert min(summary.needs_you_count, summary.autonomous_count, summary.delivered_count) >= 3
    assert summary.offline_count == sum(role.machine == "dune" for role in ROLES)
    assert {view.state.group for view in roster.views.values()} == set(Group)


def test_whoever_comes_meets_every_state_at_once(opening: Audience) -> None:
    """If a plot has changed: another warm_ms brings them together again."""
    views = opening.roster.views.values()
    assert {view.state.state for view in views} == set(GROUP_OF) - NEVER


def test_the_machines_show_what_can_be_wrong_with_machines(opening: Audience) -> None:
    hosts = {host.label: host for host in opening.roster.all_hosts(START)}

    assert {label: host.reachability for label, host in hosts.items()} == {
        "atlas": "live",
        "birch": "live",
        "buildbox-2": "live",
        "harbor-vm": "live",
        "cedar": "late",
        "dune": "offline",
    }
    assert hosts["buildbox-2"].scan is not None
    assert hosts["harbor-vm"].clock_offset_ms == 43 * MINUTE
    assert all(host.limits for host in hosts.values())
    assert all(host.set_aside == 0 and host.problem is None for host in hosts.values())


def test_every_session_has_used_something_and_its_price_is_known(opening: Audience) -> None:
    roster = opening.roster
    opened = {view.id for view in roster.views.values() if view.state.label == "Ready"}

    for view in roster.views.values():
        if view.id not in opened:
            assert view.usage is not None
            assert view.usage.cost_usd or (view.plan and view.plan.limits)
            assert view.context is not None
            assert view.context.size


def test_hooks_are_missing_on_the_machine_that_says_so_and_tell_nothing_there(
    opening: Audience,
) -> None:
    views = opening.roster.views.values()
    unwell = [view for view in views if any(each.problem for each in view.witnesses)]

    assert {view.host for view in unwell} == {"dune"}
    assert len(unwell) == sum(role.machine == "dune" for role in ROLES)
    assert "hook" not in {view.state.source for view in unwell}


def test_sixty_days_have_been_worked_before(opening: Audience) -> None:
    spending = opening.roster.accounts.spending
    past = [day for day in sorted(spending.days()) if day < spending.day_of(START)]

    assert len(past) >= SCRIPT["days"]
    assert all(spending.day(day).total for day in past)
    assert sum(len(host.past) for host in opening.roster.hosts.values()) > 100


def test_the_story_is_the_same_each_time(once: list[tuple[int, str, bytes]]) -> None:
    assert once == told()


def test_a_story_that_is_asked_for_in_pieces_is_the_same(
    once: list[tuple[int, str, bytes]],
) -> None:
    cast = list(players(START))
    end = START + 5 * MINUTE
    pieces = [
        (at, machine.label, encode_signal(signal))
        for until in (*range(START - 30 * MINUTE, end, 7_000), end)
        for at, machine, said in play_on(cast, until)
        for signal in said
    ]
    assert pieces == once


def test_it_is_told_in_the_order_of_time_and_does_not_end() -> None:
    cast = list(players(START))
    times = [at for at, _, _ in play_on(cast, START + 30 * MINUTE)]

    assert all(one <= other for one, other in pairwise(times))
    assert all(player.due > START + 30 * MINUTE for player in cast)


def test_it_goes_on_at_human_pace() -> None:
    cast = list(players(START))
    list(play_on(cast, START))
    signals = sum(len(said) for _, _, said in play_on(cast, START + 30 * MINUTE))
    assert 1 < signals / (30 * 60) < 10


def test_a_clock_that_is_off_is_off_in_all_that_its_machine_says() -> None:
    skewed = next(machine for machine in MACHINES if machine.skew_ms)
    for at, machine, said in play_on(list(players(START)), START):
        if machine is skewed and at > START - MINUTE:
            assert any(signal.at >= at + skewed.skew_ms for signal in said)


def test_the_line_of_a_train_is_down_for_longer_than_a_hub_calls_live() -> None:
    train = next(machine for machine in MACHINES if machine.label == "cedar")
    up = [train.is_connected(now) for now in range(0, 56_000, 500)]
    assert Counter(up)[False] > 2 * Counter(up)[True] > 0


def test_who_is_away_comes_back_and_goes_again() -> None:
    away = next(machine for machine in MACHINES if machine.says_goodbye)
    up = [away.is_connected(now) for now in range(0, 40 * MINUTE, MINUTE)]
    assert not up[0]
    assert sum(a != b for a, b in pairwise(up)) == 4


def test_the_reading_of_a_history_comes_to_its_end_and_begins_anew() -> None:
    reads = next(machine for machine in MACHINES if machine.reads)
    again = SCRIPT["scan"]["again_ms"]
    told = [
        reads.beat(START, now, nonce="demo", spool_id="demo").scan
        for now in range(0, again + 1, MINUTE)
    ]
    done = [each.files_done for each in told if each is not None]

    assert None in told
    assert told[0] == told[-1]
    assert max(done) > 4_000


def test_every_role_has_a_plot_a_machine_and_a_job_of_its_own() -> None:
    wanted = Counter(role.project for role in ROLES)
    jobs = {name: project["jobs"] for name, project in SCRIPT["projects"].items()}

    assert {role.plot for role in ROLES} | {"engineer"} == set(SCRIPT["plots"])
    assert {role.machine for role in ROLES} == {machine.label for machine in MACHINES}
    assert all(len(jobs[name]) >= wanted[name] for name in jobs)
    titles = [job["title"] for each in jobs.values() for job in each]
    assert len(set(titles)) == len(titles)


def test_a_past_is_over_before_the_audience_comes() -> None:
    for machine in MACHINES:
        assert all(
            signal.at < START + machine.skew_ms and signal.seen <= START + machine.skew_ms
            for signal in history(machine, START)
        )


def test_another_agent_works_beside_and_a_plan_pays_for_one_of_its_sessions(
    opening: Audience,
) -> None:
    roster = opening.roster
    others = [view for view in roster.views.values() if view.agent != DEFAULT_AGENT]
    hosts = {host.label: host for host in roster.all_hosts(START)}

    assert [view.agent for view in others] == ["codex", "codex"]
    assert sorted(view.plan.name if view.plan else "" for view in others) == ["", "pro"]
    assert {limit.agent for limit in hosts["birch"].limits} == {"", "Codex"}
