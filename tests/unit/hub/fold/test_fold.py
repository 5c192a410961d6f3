"""Facts: witnesses of one thing meet in one place, bounded, and nothing is concluded."""

from __future__ import annotations

import msgspec
import pytest

from adsum_hub.facts import (
    ACTIVITY_MAX,
    AT_HAND_MAX,
    CHILDREN_MAX,
    REQUESTS_MAX,
    TASKS_MAX,
    TOOLS_MAX,
    Facts,
)
from adsum_hub.fold.activity import NAMELESS
from adsum_hub.fold.fold import FULL_STEPS, MOST_DAYS, OLD_STEPS, STEPS, fold
from adsum_shared import signals as s
from tests.story import T0, Story, working


def test_every_kind_of_signal_has_its_step() -> None:
    assert set(STEPS) == {*s.Signal.__subclasses__(), s.UnknownSignal}


def test_a_repeated_signal_leaves_the_very_same_facts() -> None:
    story = working().start(1, source="transcript").ask(1.1)
    facts = story.told()

    assert story.start(1, source="transcript").ask(1.1).told() is facts


def test_facts_survive_the_snapshot() -> None:
    story = working().start(1).ask(1.1, payload={"command": "x"}).finish(2).stop(3)
    story.tell(s.ProcessSeen, 0, pid=7, started=T0).status(3.1, "idle")
    story.tell(s.UsageTotalled, 4, day="2026-11-21", model="m", input_tokens=5)

    facts = story.told()
    assert msgspec.json.decode(msgspec.json.encode(facts), type=Facts) == facts


def test_a_finish_that_comes_first_is_born_closed() -> None:
    story = working().finish(2).start(1)

    assert story.state(3) == "thinking"


def test_a_request_that_comes_after_its_tools_finish_is_born_closed() -> None:
    story = working().start(1).finish(2).ask(2.1)

    assert story.asked(3) == []


def test_a_request_whose_close_comes_first_is_born_closed() -> None:
    story = working().tell(s.RequestClosed, 5, tool_use_id="t1")
    story.tell(s.RequestOpened, 1, request_kind="question", tool_use_id="t1")

    assert story.asked(6) == []


def test_a_request_binds_to_the_latest_call_with_its_input() -> None:
    story = working().start(1, "t1", digest="make").ask(1.1, digest="make").finish(2, "t1")
    story.start(3, "t2", digest="make").ask(3.1, digest="make")
    assert story.asked(4) == ["permission"]

    assert story.finish(5, "t2").asked(6) == []


def test_a_request_binds_to_no_call_younger_than_itself() -> None:
    story = working().start(1, "t1", digest="make").finish(2, "t1").start(3, "t2", digest="make")

    assert story.ask(1.1, digest="make").asked(4) == []


@pytest.mark.parametrize("stamped", [60.99, 61.003], ids=["in order", "out of order"])
@pytest.mark.parametrize("overtakes", [False, True])
@pytest.mark.parametrize("before", [False, True], ids=["first", "again"])
def test_a_request_is_of_its_call_although_its_hook_overtakes_that_of_the_call(
    before: bool, overtakes: bool, stamped: float
) -> None:
    """Each hook is a process of its own; 4 ms apart, a fifth arrives in the other order."""
    story = working()
    if before:
        story.start(1, "t1", digest="make").finish(5, "t1")
    hold = s.Hold("b", ["allow"], 600_000, None, 1)
    asks = {"digest": "make", "request_id": "r", "hold": hold, "payload": {"command": "make"}}
    if overtakes:
        story.ask(61, **asks).start(stamped, "t2", digest="make")
    else:
        story.start(stamped, "t2", digest="make").ask(61, **asks)

    asked = [(key, each.hold, each.payload) for key, each in story.verdict(62).requests]
    assert asked == [("t2", hold, {"command": "make"})]
    assert story.finish(63, "t2").start(64, "t3", "Read").state(65) == "acting"


@pytest.mark.parametrize("overtakes", [False, True])
def test_a_request_is_not_of_the_call_that_was_denied_in_the_turn_before(overtakes: bool) -> None:
    """By Esc, of which only the transcript tells; then the human says what else, and it asks again."""
    story = working().start(1, "t1", digest="make").ask(1.1, digest="make")
    story.finish(5, "t1", source="transcript", ok=False, denied=True)
    story.tell(s.TurnInterrupted, 5, source="transcript", prompt_id="p1").prompt(20, "p2")
    of_it = {"digest": "make", "prompt_id": "p2"}
    if overtakes:
        story.ask(25, **of_it).start(24.99, "t2", **of_it)
    else:
        story.start(24.99, "t2", **of_it).ask(25, **of_it)

    assert [key for key, _ in story.verdict(26).requests] == ["t2"]


@pytest.mark.parametrize("ends", [s.ToolFinished, s.RequestClosed])
def test_a_request_whose_call_was_over_before_its_own_hook_came_is_closed(ends: type) -> None:
    story = working().ask(1, digest="make", payload={"command": "make"})
    story.tell(ends, 2, tool_use_id="t1", **({"tool": "Bash"} if ends is s.ToolFinished else {}))
    assert story.asked(3) == ["permission"]

    assert story.start(0.99, "t1", digest="make").asked(3) == []
    assert [each.payload for each in story.told().requests.values()] == [None]


def test_a_call_takes_over_no_request_that_was_asked_long_before() -> None:
    """Whose own call's hook was lost: when that is answered, nobody tells."""
    story = working().ask(1, digest="make").start(4, "t2", digest="make").finish(5, "t2")

    assert story.asked(6) == ["permission"]


def test_a_request_binds_only_to_its_own_agents_call() -> None:
    story = working().start(1, "t1", digest="make", agent_id="a1").start(1.05, "t2", digest="make")
    story.ask(1.1, digest="make", agent_id="a1").finish(2, "t2")

    assert story.asked(3) == ["permission"]


def test_a_transcripts_input_binds_no_request() -> None:
    story = working().start(1, "t1", digest="plan", source="transcript").ask(1.1, digest="plan")
    story.finish(2, "t1", source="transcript")

    assert story.asked(3) == ["permission"]


def test_with_its_pre_tool_use_lost_a_request_ends_with_the_post_tool_use_of_equal_input() -> None:
    story = working().ask(1.1, digest="make").finish(2, "t1", digest="other")
    assert story.asked(3) == ["permission"]

    assert story.finish(4, "t2", digest="make").asked(5) == []


def test_a_closed_request_keeps_nothing_of_what_was_asked() -> None:
    story = working().start(1).ask(1.1, payload={"command": "x" * 5_000}).finish(2)

    assert len(msgspec.json.encode(story.told())) < 2_000


def test_meta_is_last_by_event_time_field_by_field() -> None:
    story = (
        Story().tell(s.MetaChanged, 5, cwd="/new", model="m1").tell(s.MetaChanged, 1, cwd="/old")
    )
    story.tell(s.MetaChanged, 6, model="m2")

    facts = story.told()
    assert [*map(facts.about, ("cwd", "model", "branch"))] == ["/new", "m2", None]


def test_a_sessions_project_is_where_it_began_whatever_directory_it_enters() -> None:
    story = Story().tell(s.MetaChanged, 5, cwd="/shop/frontend/src", project="src")
    story.tell(s.MetaChanged, 1, cwd="/shop", project="shop")
    story.tell(s.MetaChanged, 6, cwd="/shop/frontend", project="frontend")

    assert [*map(story.told().about, ("cwd", "project"))] == ["/shop/frontend", "shop"]


def test_a_given_title_beats_the_first_prompt_and_that_the_registrys_name() -> None:
    story = Story().tell(s.MetaChanged, 0, title="app-b9", source="registry")
    assert story.told().title == "app-b9"

    story.prompt(2, "p2", text="second").prompt(1, "p1", text="\nFix the button\nplease")
    assert story.told().title == "Fix the button"

    assert story.tell(s.MetaChanged, 0, title="Buttons").told().title == "Buttons"


def test_a_later_total_takes_the_place_of_an_earlier_one() -> None:
    story = Story()
    for out in (10, 30, 20):
        story.tell(s.UsageTotalled, out, day="d", model="m", output_tokens=out)
    story.tell(s.UsageTotalled, 1, day="d", model="m", fast=True, output_tokens=1)

    assert [each.output_tokens for each in story.told().usage.values()] == [20, 1]


def test_a_total_that_all_moved_away_from_goes() -> None:
    story = Story().tell(s.UsageTotalled, 1, day="d", model="m", output_tokens=9)

    assert story.tell(s.UsageTotalled, 2, day="d", model="m").told().usage == {}


def test_a_session_start_alone_lists_no_session() -> None:
    story = Story().tell(s.SessionStarted, 0).tell(s.MetaChanged, 0, cwd="/x")
    story.tell(s.ProcessSeen, 0, pid=7)
    assert not story.told().materialised
    assert not story.tell(s.SessionEnded, 1, prompt_id="p0").told().materialised

    assert story.prompt(2).told().materialised


def test_a_phantom_that_the_registry_named_for_a_moment_is_listed_no_more() -> None:
    story = Story().status(0, "idle")
    assert story.told().materialised

    assert not story.tell(s.SessionEnded, 0.1, source="registry").told().materialised


def test_a_process_in_reserve_is_no_session_until_the_registry_names_one() -> None:
    """Its hook is 0.02 to 0.06 s sooner than its registry file."""
    story = Story().tell(s.Alive, 0, event="SessionStart")
    story.tell(s.ProcessSeen, 0, source="process", pid=7, started=T0)
    assert not story.told().materialised

    story.tell(s.SessionEnded, 0.05, source="registry", reason=s.SPARE)
    assert not story.told().materialised
    assert story.status(9, "busy").told().materialised
    assert story.state(10) == "thinking"


def test_a_session_whose_process_turns_out_to_be_one_in_reserve_is_taken_back() -> None:
    story = Story().tell(s.SessionStarted, 0).tell(s.ProcessSeen, 0, source="process", pid=7)
    assert story.told().materialised

    assert not story.tell(s.SessionEnded, 0.05, source="registry").told().materialised


def test_a_session_that_another_goes_on_with_is_over_though_the_registry_calls_it_busy() -> None:
    story = working().status(0.1, "busy").start(1)
    story.tell(s.SessionEnded, 5, source="transcript", reason=s.LEFT).status(5.1, "busy")
    assert story.label(6) == "Session closed (another session took over)"

    # the cost report comes after it, and says less
    assert story.tell(s.SessionEnded, 5.2, source="transcript", reason="closed").state(6) == (
        "session_ended"
    )
    assert story.prompt(9, "p2").state(9) == "thinking"


def test_what_the_registry_names_is_not_listed_before_it_has_shown_its_prompt_box() -> None:
    """The chooser of `--resume` bears an id that never lives; a directory may not be trusted yet."""
    story = Story().tell(s.ProcessSeen, 0, pid=7, source="registry").status(0, None)
    assert not story.told().materialised

    assert Story().status(0, None).tell(s.SessionStarted, 1).told().materialised
    assert story.status(5, "idle").told().materialised


def test_a_session_known_only_from_its_registry_stays_listed_when_it_ends() -> None:
    story = Story().status(0, "busy").tell(s.SessionEnded, 9, source="registry")

    assert story.told().materialised
    assert story.state(10) == "session_ended"


def test_every_map_is_bounded_and_open_things_outlive_closed_ones() -> None:
    story = working().start(0.5, "open").ask(0.6, name="open")
    for n in range(200):
        at = 1 + n
        story.start(at, f"t{n}").ask(at + 0.1, name=f"t{n}").finish(at + 0.2, f"t{n}")
        story.tell(s.ChildStarted, at, child_id=f"a{n}").tell(s.ChildFinished, at, child_id=f"a{n}")
        story.tell(s.TaskCreated, at, task_id=str(n)).tell(s.TaskCompleted, at, task_id=str(n))
        story.tell(s.RequestClosed, at, request_id=f"r{n}").prompt(at, f"q{n}", origin="system")
        story.tell(s.UsageTotalled, at, day=f"d{n:03}", model="m", output_tokens=1)

    facts = story.told()
    assert len(facts.tools) <= AT_HAND_MAX
    assert len(facts.calls) <= TOOLS_MAX
    assert len(facts.requests) == REQUESTS_MAX
    assert len(facts.children) == CHILDREN_MAX
    assert len(facts.tasks) == TASKS_MAX
    assert len(facts.activity) == ACTIVITY_MAX
    assert len(facts.usage) == 200
    assert sum(map(len, facts.trail.values())) <= FULL_STEPS + MOST_DAYS * OLD_STEPS
    assert "open" in facts.calls
    assert story.asked(300) == ["permission"]
    assert len(msgspec.json.encode(facts)) < 60_000


def test_the_activity_is_in_order_of_events_and_names_each_once() -> None:
    story = working().start(3, "t2", summary="make").start(1, "t1").finish(2, "t1")
    story.start(3.1, "t2", source="transcript")

    assert [(entry.kind, entry.text) for entry in story.told().activity] == [
        ("prompt.submitted", "go on"),
        ("tool.started", "Bash"),
        ("tool.finished", "Bash"),
        ("tool.started", "Bash: make"),
    ]


def test_a_signal_of_a_kind_nobody_knows_changes_nothing() -> None:
    signal = s.UnknownSignal("telepathy", "S", T0, T0, {"kind": "telepathy"})
    facts = working().told()

    assert fold(facts, signal) is facts
    assert fold(None, signal) == Facts("S")


def test_a_call_that_ends_beside_many_others_keeps_its_tools_name() -> None:
    story = working()
    for n in range(AT_HAND_MAX + 1):
        story.start(1 + n / 10, f"t{n}")

    story.finish(3, "t0", tool=NAMELESS, ok=False, error="Exit code 1")

    assert story.told().activity[-1].text == "Bash failed: Exit code 1"
