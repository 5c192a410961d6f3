"""What a turn that is over left to review: since when, until when, and that no state changes by it."""

from __future__ import annotations

import random
from itertools import permutations
from typing import Any

import msgspec
import pytest

from adsum_hub.domains.built_in import sdlc
from adsum_hub.facts import DELIVERED_MAX
from adsum_hub.fold.fold import fold
from adsum_hub.snapshots import decode_facts
from adsum_hub.verdict.judge import Review, judge
from adsum_hub.views import ViewedHost, session_view
from adsum_shared import signals as s
from adsum_shared.privacy import private_as
from adsum_shared.signals import Delivery
from tests.story import T0, Story, working

PLACE = ViewedHost("h", "lab", "live", 0)
PR = "https://github.com/o/r/pull/12"


def commit(sha: str = "a1b2c3d", branch: str | None = "feature/auth", deed: Any = "commit") -> Any:
    return Delivery(deed, sha, branch)


def made(story: Story, at: float, *what: Delivery, name: str = "t1", **data: Any) -> Story:
    story.start(at - 0.5, name)
    return story.finish(at, name, delivered=list(what), **data)


def delivered(*what: Delivery) -> Story:
    return made(working(), 2, *(what or (commit(),))).stop(3)


def review(story: Story, at: float = 9) -> Review | None:
    return story.verdict(at).review


def label(story: Story, at: float = 9) -> str | None:
    shown = session_view(PLACE, "S", story.told(), story.verdict(at)).review
    return None if shown is None else shown.label


def test_a_turn_that_ended_with_a_commit_awaits_review() -> None:
    story = delivered()

    assert review(story) == Review(1, T0 + 2000, "a1b2c3d", "feature/auth")
    assert label(story) == "1 commit on feature/auth (a1b2c3d)"
    assert review(made(working(), 2, commit())) is None  # it is not over


def test_it_changes_no_state_and_nothing_that_is_made_of_it() -> None:
    with_commit, without = delivered(), made(working(), 2).stop(3)

    a, b = with_commit.verdict(9), without.verdict(9)

    assert (a.state, a.unread, a.began) == (b.state, b.unread, b.began)
    views = [
        session_view(PLACE, "S", each.told(), each.verdict(9)) for each in (with_commit, without)
    ]
    assert views[0].rank == views[1].rank
    assert views[0].urgency == views[1].urgency


def test_several_are_counted_and_the_latest_is_named() -> None:
    story = made(delivered_in_two(), 4, Delivery("pull_request", PR), name="t3").stop(5)

    assert label(story) == "3 commits on main (ccc), pull request #12"
    assert (review(story) or Review(0, 0)).pr == PR


def delivered_in_two() -> Story:
    story = made(working(), 2, commit("aaa"), commit("bbb"))
    return made(story, 3, commit("ccc", "main"), name="t2")


def test_an_amended_commit_is_none_more() -> None:
    assert label(delivered(commit("aaa"), commit("bbb", deed="amend"))) == (
        "1 commit on feature/auth (bbb)"
    )
    # The one before it is of an earlier turn, or of somebody else.
    assert label(delivered(commit("bbb", deed="amend"))) == "1 commit on feature/auth (bbb)"


def test_the_next_prompt_ends_it_and_a_background_task_does_not() -> None:
    story = delivered()
    assert review(story.prompt(4, "p2", origin="system").stop(5, "p2")) is not None

    assert review(story.prompt(6, "p3").stop(7, "p3")) is None


def test_a_run_without_a_prompt_counts_all() -> None:
    story = Story().start(1, prompt_id=None).finish(2, prompt_id=None, delivered=[commit()])

    assert review(story.stop(3, None)) is not None


@pytest.mark.parametrize(
    ("then", "stands"),
    [
        (lambda story: story.tell(s.SessionEnded, 4, reason="prompt_input_exit"), True),
        (lambda story: story.tell(s.TurnInterrupted, 4), True),
        (lambda story: story.decided(4, "control.dismissed"), False),
        (lambda story: story.tell(s.TurnFailed, 4, prompt_id="p1"), False),
        (lambda story: story.tell(s.ChildStarted, 2.5, child_id="c", child_kind="agent"), False),
        (lambda story: story.tell(s.ChildStarted, 2.5, child_id="c", child_kind="shell"), True),
        (lambda story: story.start(2.6, "t9").ask(2.8, name="t9", agent_id="sub"), False),
    ],
    ids=["closed", "esc", "dismissed", "failed", "a subagent", "a server", "a request"],
)
def test_what_comes_after_it(then: Any, *, stands: bool) -> None:
    assert (review(then(delivered())) is not None) is stands


def test_what_the_machine_keeps_to_itself_is_counted_all_the_same() -> None:
    terse = private_as("metadata", "salt")
    call = {"tool": "Bash", "tool_use_id": "t", "session_id": "S", "at": T0 + 1, "seen": T0 + 1}
    told = terse(s.ToolFinished(**call, delivered=[commit(), Delivery("pull_request", PR)]))  # type: ignore[arg-type]

    story = working()
    story.facts = fold(story.facts, told)

    assert label(story.stop(3)) == "1 commit (a1b2c3d), a pull request"


def test_two_witnesses_in_any_order_say_the_same() -> None:
    def told(order: tuple[int, ...]) -> tuple[Review | None, Any]:
        story = working()
        for step in order:
            at = 2 + step / 10
            story.finish(at, "t1", source=("hook", "transcript")[step % 2], delivered=[commit()])
        return review(story.stop(3)), story.told().delivered

    assert len({repr(told(order)) for order in permutations(range(3))}) == 1


def test_only_the_latest_are_kept_and_come_through_a_snapshot() -> None:
    story = working()
    numbers = list(range(DELIVERED_MAX + 9))
    random.Random(7).shuffle(numbers)
    for number in numbers:
        story.finish(2 + number, f"t{number}", delivered=[commit(f"{number:07x}")])
    facts = story.stop(999).told()

    assert len(facts.delivered) == DELIVERED_MAX
    again = decode_facts(msgspec.json.encode(facts))
    assert again is not None
    assert judge(again, T0 + 999_999).review == judge(facts, T0 + 999_999).review


def test_a_domain_words_it() -> None:
    story = delivered()
    found = sdlc(session_view(PLACE, "S", story.told(), story.verdict(9)))

    assert found is not None
    assert found.label == "To review: 1 commit on feature/auth (a1b2c3d)"
