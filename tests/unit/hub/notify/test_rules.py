"""Who is told of what and when: entries of the settings, quiet hours, and the decision."""

from __future__ import annotations

from datetime import UTC, datetime, time
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from msgspec.structs import replace

from adsum_hub.notify.messages import message_of
from adsum_hub.notify.rules import (
    NOTHING,
    PUSH,
    STALE_MS,
    Case,
    Quiet,
    Rule,
    Sent,
    case_of_host,
    case_of_report,
    case_of_session,
    decide,
    read_config,
)
from adsum_shared.settings import EntryError
from adsum_shared.state import Group, HoldView, ReportView, RequestView
from tests.hubs import NOW, host, session

BERLIN = ZoneInfo("Europe/Berlin")
TEAM = {"name": "team", "url": "ntfy://example.org/topic"}
MINUTE = 60_000


def at(text: str) -> int:
    """UTC."""
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def rule(**entry: Any) -> Rule:
    return read_config([{"channels": [PUSH], **entry}], []).rules[0]


def case(state: str = "needs_permission", since: int = NOW, **changes: Any) -> Case:
    fields = {"on": "needs_you", "key": "h:s", "stamp": since, "urgency": 1, "host": "laptop"}
    return Case(**{"host_id": "h", **fields, "state": state, "since": since, **changes})


def decided(rules: list[Rule], before: Case | None, after: Case | None, **more: Any):
    begun = dict.fromkeys((each.id for each in rules), 0)
    return decide(rules, before, after, NOW, told=more.get("told", {}), begun=begun)


def said(*cases: Case, at: int = NOW) -> dict[str, dict[str, Sent]]:
    """What push has been told of, and when."""
    return {PUSH: {each.state: Sent(each.urgency, at) for each in cases}}


# --- settings


def test_without_a_rule_every_channel_is_told_after_a_minute():
    config = read_config([], [TEAM])

    assert [each.name for each in config.channels] == [PUSH, "team"]
    assert [(each.on, each.channels, each.after_ms) for each in config.rules] == [
        ("needs_you", (PUSH, "team"), MINUTE)
    ]
    assert all(each.content == "none" for each in config.channels)


def test_entries_may_come_as_json_from_the_environment():
    config = read_config(
        '[{"channels": ["team"], "host": "ci-*"}]', f'[{{"name": "team", "url": "{TEAM["url"]}"}}]'
    )

    assert config.rules[0].hosts == ("ci-*",)


@pytest.mark.parametrize(
    ("notify", "channel", "named"),
    [
        ([{"channels": ["nobody"]}], [], "[[notify]] 1: there is no channel 'nobody'. Name one of push"),
        ([{"channels": []}], [], "[[notify]] 1: `channels` is empty."),
        ([{"channels": [PUSH]}, {"channels": [PUSH], "after": -1}], [], "[[notify]] 2: `after` is -1"),
        ([{"channels": [PUSH], "on": "asleep"}], [], "no value that is known - at `on`. Write one of needs_you, delivered, review, report, host_offline."),
        ([{"channels": [PUSH], "on": 5}], [], "at `on`. Write one of needs_you, delivered"),
        ([], [{**TEAM, "content": "all"}], "at `content`. Write one of none, title."),
        ([{"channels": [PUSH], "when": 3}], [], "unknown field `when`"),
        ([{"channels": [PUSH], "on": "host_offline", "state": "idle"}], [], "has no `state`"),
        ("nonsense", [], "[[notify]]: it is no JSON"),
        ({"channels": [PUSH]}, [], "[[notify]]: it is not a list of entries. Begin every entry"),
        ([{"channels": [PUSH]}] * 51, [], "there are more than 50"),
        ([], [{"name": "team"}], "[[channel]] 1 (team): `url` is missing."),
        ([], [TEAM, TEAM], "[[channel]] 2 (team): the name is taken."),
        ([], [{"name": "push", "url": "ntfy://x"}], "[[channel]] 1 (push): `push` has no `url`."),
        ([], ["team"], "[[channel]] 1: Expected `object`, got `str`"),
    ],
)  # fmt: skip
def test_an_entry_that_cannot_be_used_is_named_with_the_next_step(
    notify: Any, channel: Any, named: str
):
    with pytest.raises(EntryError) as error:
        read_config(notify, channel)

    assert named in str(error.value)
    assert str(error.value).endswith(".")


@pytest.mark.parametrize(
    ("entry", "named"),
    [
        ({"state": ["idle", "needs_permision"]}, "`state` 'needs_permision' fits no state of `needs_you`"),
        ({"state": "retrying"}, "Name one of needs_permission, awaiting_input, error,"),
        ({"on": "delivered", "state": "needs_permission"}, "Name one of task_complete, session_ended,"),
        ({"state": "task_*"}, "'task_*' fits no state"),
        ({"state": ""}, "`state` fits no state"),
        ({"on": "report", "state": "task_complete"}, "Name one of passed, blocked, failed"),
    ],
)  # fmt: skip
def test_a_rule_that_no_state_would_ever_meet_is_refused_with_the_states_there_are(
    entry: dict[str, Any], named: str
):
    with pytest.raises(EntryError) as error:
        rule(**entry)

    assert named in str(error.value)
    assert "[[notify]] 1: " in str(error.value)


@pytest.mark.parametrize(
    "entry",
    [
        {"state": ["needs_permission", "awaiting_*"]},
        {"state": "*"},
        {"state": "IDLE"},
        {"state": []},
        {"on": "delivered", "state": ["session_ended", "task_[ac]*"]},
        {"on": "report", "state": ["blocked", "fail*"]},
    ],
)
def test_a_rule_that_a_state_may_meet_is_taken(entry: dict[str, Any]):
    assert rule(**entry).on == entry.get("on", "needs_you")


@pytest.mark.parametrize(
    "quiet",
    [
        {"from": "22:00", "to": "25:00", "zone": "UTC"},
        {"from": "10", "to": "11:00", "zone": "UTC"},
        {"from": "22:00", "to": "22:00", "zone": "UTC"},
        {"from": "22:00", "to": "07:00", "zone": "Mars/Olympus"},
        {"from": "22:00", "to": "07:00", "zone": "../../etc/passwd"},
        {"from": "22:00", "to": "07:00"},
    ],
)
def test_quiet_hours_that_cannot_be_are_refused(quiet: dict[str, str]):
    with pytest.raises(EntryError, match=r"\[\[notify\]\] 1"):
        rule(quiet=quiet)


SECRET = "slack://TokenA/TokenB/S3cretWord"


@pytest.mark.parametrize(
    ("notify", "channel"),
    [
        ([], [{"name": SECRET, "url": SECRET}]),
        ([], [{"name": "team", "url": "x" + SECRET.replace("://", ":")}]),
        ([], [{"name": "team", "url": 1, "content": SECRET}]),
        ([], [{"name": "team", "url": SECRET, "content": SECRET}]),
        ([], [{"name": "team", "url": SECRET, "colour": "red"}]),
        ([{"channels": [SECRET]}], []),
        ([{"channels": [PUSH], "on": SECRET}], []),
        ([{"channels": [PUSH], "state": SECRET}], []),
        ([], SECRET),
        ([], {"url": SECRET}),
    ],
)
def test_no_error_holds_anything_of_a_url_wherever_it_stands(notify: Any, channel: Any):
    with pytest.raises(EntryError) as error:
        read_config(notify, channel)

    assert "S3cret" not in str(error.value)
    assert "Token" not in str(error.value)
    assert error.value.__cause__ is None


def test_a_channel_does_not_show_its_url():
    channels = read_config([], [{"name": "team", "url": SECRET}]).channels

    assert "S3cret" not in repr(channels) + str(channels)


# --- quiet hours


@pytest.mark.parametrize(
    ("now", "end"),
    [
        ("2026-01-10 20:59", None),
        ("2026-01-10 21:00", "2026-01-11 06:00"),
        ("2026-01-10 23:30", "2026-01-11 06:00"),
        ("2026-01-11 05:59", "2026-01-11 06:00"),
        ("2026-01-11 06:00", None),
    ],
)
def test_quiet_hours_last_over_midnight(now: str, end: str | None):
    quiet = Quiet(time(22), time(7), BERLIN)

    assert quiet.end(at(now)) == (at(end) if end else None)


def test_quiet_hours_within_a_day():
    quiet = Quiet(time(12), time(13), ZoneInfo("UTC"))

    assert quiet.end(at("2026-01-10 12:30")) == at("2026-01-10 13:00")
    assert quiet.end(at("2026-01-10 11:59")) is None
    assert quiet.end(at("2026-01-11 00:30")) is None


def test_the_night_the_clock_is_put_forward_is_an_hour_shorter():
    quiet = Quiet(time(22), time(7), BERLIN)

    assert quiet.end(at("2026-03-28 21:30")) == at("2026-03-29 05:00")
    assert quiet.end(at("2026-03-29 05:00")) is None


def test_the_night_the_clock_is_put_back_is_an_hour_longer():
    quiet = Quiet(time(22), time(7), BERLIN)

    assert quiet.end(at("2026-10-24 21:30")) == at("2026-10-25 06:00")
    assert quiet.end(at("2026-10-25 05:59")) == at("2026-10-25 06:00")


def test_an_end_within_the_hour_that_comes_twice_is_its_second_coming():
    quiet = Quiet(time(22), time(2, 30), BERLIN)

    assert quiet.end(at("2026-10-25 00:45")) == at("2026-10-25 01:30")
    assert quiet.end(at("2026-10-25 01:30")) is None


def test_an_end_that_the_clock_skips_is_where_the_old_clock_had_it():
    quiet = Quiet(time(22), time(2, 30), BERLIN)

    assert quiet.end(at("2026-03-29 00:30")) == at("2026-03-29 01:30")


def test_a_beginning_within_the_hour_that_comes_twice_is_its_first_coming():
    quiet = Quiet(time(2, 30), time(6), BERLIN)

    assert quiet.end(at("2026-10-25 00:30")) == at("2026-10-25 05:00")
    assert quiet.end(at("2026-10-25 01:15")) == at("2026-10-25 05:00")


def test_what_is_due_in_quiet_hours_waits_for_their_end():
    hushed = rule(quiet={"from": "22:00", "to": "07:00", "zone": "Europe/Berlin"})
    evening = at("2026-01-10 21:30")

    assert hushed.due_at(evening, evening) == at("2026-01-11 06:00")
    assert hushed.due_at(at("2026-01-10 12:00"), at("2026-01-10 12:00")) == at("2026-01-10 12:01")


def test_what_was_due_before_quiet_hours_and_was_not_told_waits_too():
    hushed = rule(quiet={"from": "22:00", "to": "07:00", "zone": "Europe/Berlin"})

    assert hushed.due_at(at("2026-01-10 20:00"), at("2026-01-10 23:00")) == at("2026-01-11 06:00")


def test_digests_come_at_the_same_moments_in_every_hub():
    gathered = rule(digest=900)

    assert gathered.due_at(at("2026-01-10 12:00:01"), NOW * 0) == at("2026-01-10 12:15")
    assert gathered.due_at(at("2026-01-10 12:13:59"), NOW * 0) == at("2026-01-10 12:15")
    assert gathered.due_at(at("2026-01-10 12:00"), at("2026-01-10 13:01")) == at("2026-01-10 13:15")


# --- what calls for a human


def needing(state: str = "needs_permission", **more: Any) -> Case | None:
    return case_of_session(session("s", Group.NEEDS_YOU, state, **more), NOW)


def test_a_working_session_calls_for_nobody():
    assert case_of_session(session("s"), NOW) is None


def test_a_session_that_was_only_opened_calls_for_nobody():
    from msgspec.structs import replace

    ready = replace(session("s", Group.NEEDS_YOU, "idle"), urgency=8)
    assert case_of_session(ready, NOW) is None


def test_what_an_unreachable_machine_said_last_calls_for_nobody():
    assert needing(reachability="offline") is None
    assert needing(reachability="late") is not None


def test_a_guessed_question_is_told_as_an_idle_session():
    from msgspec.structs import replace

    asked = session("s", Group.NEEDS_YOU, "awaiting_input")
    guessed = replace(asked, state=replace(asked.state, confidence=0.6))

    found = case_of_session(guessed, NOW)
    assert found is not None
    assert found.state == "idle"
    assert needing("awaiting_input").state == "awaiting_input"


def test_a_state_of_tomorrow_is_told_by_its_group():
    assert rule().matches(needing("needs_coffee"))


def test_a_machine_that_is_late_is_not_offline():
    assert case_of_host(host(reachability="late"), NOW) is None
    assert case_of_host(host(reachability="offline"), NOW).since == NOW


# --- the decision


def test_a_need_is_due_after_the_rules_delay():
    assert decided([rule(after=60)], None, case()).pending == {PUSH: NOW + MINUTE}


def test_a_flicker_is_never_told_even_without_a_delay():
    assert decided([rule(after=0)], None, case()).pending == {PUSH: NOW + 1_000}


def test_a_form_that_is_held_for_seconds_is_due_at_once():
    verbs, kind = ("elicit", "deny", "defer", "extend"), "dialog"
    request = RequestView("r1", kind, NOW, hold=HoldView("b", verbs, NOW + 300_000))
    view = session("a", Group.NEEDS_YOU, "awaiting_input", since=NOW, requests=(request,))
    form = case_of_session(view, NOW)

    assert decided([rule(after=60)], None, form).pending == {PUSH: NOW}
    other = replace(view, requests=(replace(request, hold=None),))
    assert decided([rule(after=60)], None, case_of_session(other, NOW)).pending == {
        PUSH: NOW + MINUTE
    }


def test_a_need_that_passes_is_cancelled():
    assert decided([rule()], case(), None).cancelled


def test_the_same_need_told_anew_changes_nothing():
    assert decided([rule()], case(), case(label="Needs permission: Bash")) is NOTHING


def test_a_more_urgent_need_is_told_although_the_session_needed_somebody_before():
    idle = case("idle", NOW - 300_000, urgency=7)

    found = decided([rule()], idle, case(), told=said(idle))
    assert found.cancelled
    assert found.pending == {PUSH: NOW + MINUTE}


def test_a_less_urgent_need_of_a_session_is_covered_by_what_was_told():
    asked = case(since=NOW - 300_000)
    found = decided([rule()], asked, case("idle", urgency=7), told=said(asked))

    assert found.pending == {}
    assert found.covered == (PUSH,)


def test_another_need_that_a_told_one_has_hidden_is_told_once_it_stands_for_the_delay():
    """A budget that was crossed while a permission was open, which was then answered."""
    asked = case(since=NOW - 120_000)
    over = case("budget_exceeded", NOW - 100_000, urgency=5)

    found = decided([rule(after=5)], asked, over, told=said(asked, at=NOW - 115_000))
    assert (found.pending, found.covered) == ({PUSH: NOW + 5_000}, ())


def test_a_need_of_the_same_kind_that_came_after_the_message_is_told():
    first, second = case(since=NOW - 120_000), case(since=NOW - 10_000)

    assert decided([rule()], first, second, told=said(first, at=NOW - 60_000)).pending
    assert decided([rule()], first, second, told=said(first, at=NOW - 5_000)).covered == (PUSH,)


def test_a_budget_that_is_crossed_again_unanswered_is_no_news():
    first = case("budget_exceeded", NOW - 120_000, urgency=5)
    again = case("budget_exceeded", NOW - 10_000, urgency=5)

    assert decided([rule()], first, again, told=said(first, at=NOW - 60_000)).covered == (PUSH,)


def test_what_was_not_told_covers_nothing():
    found = decided([rule()], case(since=NOW - 10), case("idle", urgency=7))

    assert found.pending == {PUSH: NOW + MINUTE}


def test_a_delivery_is_not_covered_by_what_was_told_before():
    done = case("task_complete", on="delivered", urgency=9)

    assert decided([rule(on="delivered")], None, done, told=said(case())).pending == {
        PUSH: NOW + 1_000
    }


def test_the_earliest_of_several_rules_for_a_channel_counts():
    rules = [rule(after=300), rule(after=30, state="needs_*"), rule(after=5, state="error")]

    assert decided(rules, None, case()).pending == {PUSH: NOW + 30_000}


def test_a_need_older_than_the_rule_is_not_told():
    each = rule(after=3600)

    old = decide([each], None, case(since=NOW - 10), NOW, told={}, begun={each.id: NOW - 5})
    new = decide([each], None, case(since=NOW - 5), NOW, told={}, begun={each.id: NOW - 5})
    assert (old.pending, new.pending) == ({}, {PUSH: NOW - 5 + 3_600_000})


def test_a_rule_that_nobody_knows_the_age_of_tells_nothing_old():
    assert decide([rule()], None, case(since=NOW - 1), NOW, told={}, begun={}).pending == {}


def test_a_need_of_last_week_is_nobodys_news():
    assert decided([rule()], None, case(since=NOW - STALE_MS - 1)).pending == {}


def test_another_delay_is_the_same_rule_and_another_pattern_is_not():
    assert rule(after=5).id == rule(after=50).id
    assert rule(host="ci-*").id != rule().id


@pytest.mark.parametrize(
    ("entry", "fits"),
    [
        ({}, True),
        ({"state": "needs_*"}, True),
        ({"state": ["error", "needs_permission"]}, True),
        ({"state": "error"}, False),
        ({"host": "LAP*"}, True),
        ({"host": "laptop-id"}, True),
        ({"host": "ci-*"}, False),
        ({"project": "ads*"}, True),
        ({"project": "web"}, False),
        ({"on": "delivered"}, False),
    ],
)
def test_a_rule_is_for_what_fits_its_patterns(entry: dict[str, Any], fits: bool):
    assert rule(**entry).matches(needing()) is fits


def test_a_rule_for_deliveries_is_for_finished_tasks_unless_it_says_otherwise():
    closed = case_of_session(session("s", Group.DELIVERED, "session_ended"), NOW)
    done = case_of_session(session("s", Group.DELIVERED, "task_complete"), NOW)

    assert not rule(on="delivered").matches(closed)
    assert rule(on="delivered").matches(done)
    assert rule(on="delivered", state="session_*").matches(closed)


def test_a_rule_may_be_of_one_agent_by_its_name_or_its_title():
    asks = case_of_session(replace(session("s", Group.NEEDS_YOU), agent="codex"), NOW, "Codex CLI")
    assert asks is not None

    assert rule(agent="codex").matches(asks)
    assert rule(agent=["x", "codex cli"]).matches(asks)
    assert not rule(agent="claude*").matches(asks)
    assert rule(agent="codex").id != rule().id
    with pytest.raises(EntryError, match="no `agent`"):
        rule(on="host_offline", agent="codex")


def test_a_session_without_a_project_fits_no_pattern_of_projects():
    assert not rule(project="*").matches(case(project=None))


def test_a_report_is_a_case_beside_what_the_state_calls_for():
    told = ReportView("blocked", NOW, "PAN-80", "No access")
    view = replace(session("s", "idle"), report=told)
    found = case_of_report(view, NOW)
    assert found is not None
    assert (found.on, found.state, found.label) == ("report", "blocked", "Reported: blocked PAN-80")
    assert rule(on="report", state="blocked").matches(found)
    assert not rule(on="report", state="passed").matches(found)
    assert not rule().matches(found)
    assert found.key != case(key=view.id).key
    assert case_of_report(replace(view, reachability="offline"), NOW) is None
    assert case_of_report(replace(view, report=None), NOW) is None
    message = message_of([found], "none")
    assert (message.title, message.id) == ("Reported: blocked", view.id)
    assert "PAN-80" not in message.title + message.body  # a channel without content is told none
