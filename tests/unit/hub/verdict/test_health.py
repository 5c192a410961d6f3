"""Witness health of a session: who was heard, and hooks that are missing or come twice."""

from __future__ import annotations

import msgspec
import pytest

from adsum_hub.facts import Facts
from adsum_hub.verdict.ground import ground_of
from adsum_hub.verdict.judge import GRACE, hook_problem, missing_from
from adsum_hub.verdict.reading import Clock
from adsum_hub.views import witness_views
from adsum_shared import signals as s
from adsum_shared.signals import LATENESS
from tests.story import T0, Story, working

PATIENCE = (LATENESS + GRACE) / 1000


def problem(story: Story, at: float, *, over: bool = False) -> str | None:
    """What is said of the hooks; None also if nothing is said of them at all."""
    clock = Clock(T0 + round(at * 1000))
    return hook_problem(ground_of(story.told()), clock, over=over)


def typed(story: Story, at: float, prompt_id: str | None = "p1", **more: object) -> Story:
    """A prompt that only the transcript tells of."""
    return story.prompt(at, prompt_id, text="go on", source="transcript", **more)


def test_every_witness_heard_is_named_in_a_fixed_order_with_its_latest_word() -> None:
    story = Story().tell(s.Alive, 9, source="statusline").status(5, "busy")
    typed(story, 2).start(4).prompt(3)
    story.tell(s.ProcessSeen, 1, pid=7, source="process")

    found = witness_views(story.told())

    assert [(view.name, view.heard_at - T0, view.problem) for view in found] == [
        ("hook", 4_000, None),
        ("transcript", 2_000, None),
        ("registry", 5_000, None),
        ("process", 1_000, None),
        ("statusline", 9_000, None),
    ]


def test_who_was_never_heard_is_not_named() -> None:
    assert [view.name for view in witness_views(working().told())] == ["hook"]


def test_hooks_are_missing_once_a_typed_prompts_own_has_not_come_in_time() -> None:
    story = typed(Story().tell(s.SessionStarted, 0), 10)

    assert problem(story, 10 + PATIENCE - 0.001) is None
    assert problem(story, 10 + PATIENCE) == "missing"


def test_no_hook_is_missed_of_what_happened_before_anybody_looked() -> None:
    """A collector that starts reads up what its sessions did, and their registry entries."""
    late = T0 + 60_000
    story = typed(Story(), 10, seen=late).stop(12, source="transcript", seen=late)
    story.status(12, "busy", seen=late)

    assert problem(story, 120) is None
    assert problem(typed(story, 130, "p2"), 140) == "missing"


def test_hooks_that_were_never_heard_are_named_all_the_same() -> None:
    story = typed(Story(), 10)

    found = witness_views(story.told(), story.verdict(60).hooks)

    assert [(view.name, view.heard_at, view.problem) for view in found] == [
        ("hook", 0, "missing"),
        ("transcript", T0 + 10_000, None),
    ]


def test_any_later_hook_ends_it() -> None:
    story = typed(Story(), 10)
    assert problem(story, 30) == "missing"

    assert problem(story.start(29), 30) is None


def test_a_hook_stamped_late_is_still_the_prompts_own() -> None:
    assert problem(typed(Story(), 10).prompt(12.1), 60) is None


def test_a_prompt_close_behind_a_hook_may_be_that_hooks_own() -> None:
    assert problem(typed(Story().tell(s.Alive, 9, event="UserPromptSubmit"), 10), 60) is None


def test_a_session_nobody_has_prompted_misses_nothing() -> None:
    story = Story().tell(s.SessionStarted, 0, source="transcript").status(1, "idle")

    assert problem(story, 600) is None


def test_a_report_of_background_work_is_no_typed_prompt() -> None:
    story = Story().prompt(0).stop(1)
    story.prompt(60, "p2", origin="system", source="transcript")

    assert problem(story, 120) is None


def test_a_prompt_that_waited_in_the_queue_had_its_hook_when_it_was_typed() -> None:
    story = working().prompt(5, origin="queued")
    story.stop(60, source="transcript").tell(s.PromptDequeued, 60, source="transcript")
    typed(story, 60.1, "p2")

    assert problem(story, 90) is None


def test_a_prompt_typed_long_after_the_queue_ran_empty_counts() -> None:
    story = working().prompt(5, origin="queued").tell(s.PromptDequeued, 20, source="transcript")
    typed(story, 60, "p2")

    assert problem(story, 90) == "missing"


def test_a_headless_prompt_that_goes_through_the_queue_at_once_counts() -> None:
    story = Story().tell(s.PromptSubmitted, 1, origin="queued", source="transcript")
    typed(story.tell(s.PromptDequeued, 1.01, source="transcript"), 1.05)

    assert problem(story, 60) == "missing"


def test_short_turns_do_not_put_it_off_for_ever() -> None:
    story = Story().prompt(0).stop(1)
    for turn in range(1, 5):
        typed(story, turn * 4, f"p{turn + 1}").stop(turn * 4 + 1, source="transcript")

    assert problem(story, 17) == "missing"


def test_a_busy_registry_tells_it_where_no_hook_was_ever_heard() -> None:
    story = Story().status(10, "busy")

    assert problem(story, 10 + PATIENCE - 0.001) is None
    assert problem(story, 10 + PATIENCE) == "missing"


def test_busy_after_an_approval_at_the_terminal_is_no_prompt() -> None:
    story = (
        working().status(0.1, "busy").start(1).ask(1.1).status(1.2, "waiting", "permission prompt")
    )
    story.status(300, "busy")

    assert problem(story, 500) is None


def test_a_session_that_is_over_misses_nothing() -> None:
    assert problem(typed(Story(), 10), 60, over=True) is None


def test_it_is_known_beforehand_when_they_will_be_missing() -> None:
    story = typed(Story(), 10)

    assert missing_from(ground_of(story.told())) == T0 + 10_000 + LATENESS + GRACE
    assert missing_from(ground_of(story.prompt(10.2).told())) is None


@pytest.mark.parametrize("second", [1, 1.003])
def test_a_call_hooked_twice_is_doubled(second: float) -> None:
    story = working().start(1)
    assert problem(story, 2) is None

    assert problem(story.start(second), 2) == "doubled"


def test_a_call_seen_by_hook_and_transcript_is_not_doubled() -> None:
    story = working().start(1).start(1.1, source="transcript").start(1.1, source="transcript")

    assert problem(story, 2) is None


def test_in_whatever_order_the_doubles_come_the_latest_is_kept() -> None:
    forward = working().start(1).start(1.003).start(5, "t2").start(5.004, "t2").told()
    backward = working().start(5.004, "t2").start(5, "t2").start(1.003).start(1).told()

    assert forward.doubled == backward.doubled == T0 + 5_004
    assert msgspec.json.decode(msgspec.json.encode(forward), type=Facts) == forward


def test_doubled_fades_when_a_later_prompts_hooks_come_once() -> None:
    story = working().start(1).start(1.003).finish(2).stop(3)
    story.start(3.1, "t2").stop(6)
    assert problem(story, 7) == "doubled", "the same prompt's"

    story.prompt(10, "p2").start(11, "t3", prompt_id="p2")
    assert problem(story, 12) == "doubled", "its second delivery may be on its way"

    assert problem(story.stop(13, "p2"), 14) is None


def test_doubled_stays_while_later_prompts_hooks_come_twice() -> None:
    story = working().start(1).start(1.003).stop(3)
    story.prompt(10, "p2").start(11, "t3", prompt_id="p2").start(11.002, "t3", prompt_id="p2")

    assert problem(story.stop(20, "p2"), 21) == "doubled"
