"""Requests that can be decided from elsewhere, and what became of the commands that did."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from adsum_hub.facts import COMMANDS_MAX, RELEASED_MAX, Facts
from adsum_hub.fold.fold import fold
from adsum_hub.verdict.judge import judge
from adsum_hub.views import Shown, ViewedHost, command_views, request_views, session_view
from adsum_shared import signals as s
from adsum_shared.commands import HOLD_VERSION, Displayed, binding_of
from adsum_shared.state import HoldView
from tests.story import T0, Story, working

BINDING = "b" * 64
HOLD = s.Hold(
    *(BINDING, ["allow", "always", "deny"], 60_000, ["Bash(make:*)"]),
    cwd="/w",
    version=HOLD_VERSION,
)


def held(at: float = 1.1, asked: str = "r1", **data: Any) -> Story:
    data.setdefault("payload", {"command": "make"})
    return working().start(1).ask(at, request_id=asked, hold=HOLD, **data)


def shown(**more: Any) -> str:
    about = ("S", "/w", "permission", "Bash", "shell", None, {"command": "make"})
    return binding_of(Displayed(*about, ("Bash(make:*)",))._replace(**more))


def hold_of(facts: Facts, at: float = 2, offset_ms: int = 0) -> HoldView | None:
    (view,) = request_views(judge(facts, T0 + int(at * 1000)).requests, offset_ms, facts)
    return view.hold


def test_a_held_request_says_by_what_and_until_when_in_the_hubs_time_it_can_be_decided() -> None:
    until = T0 + 1_100 + 60_000 - 777

    assert hold_of(held().told(), offset_ms=777) == HoldView(
        shown(), ("allow", "always", "deny"), until, ("Bash(make:*)",), cwd="/w"
    )


@pytest.mark.parametrize(
    ("planted", "bound"),
    [
        ({"payload": {"command": "git status"}}, {"payload": {"command": "git status"}}),
        ({"summary": "git status"}, {"summary": "git status"}),
        ({"role": "read"}, {"role": "read"}),
        ({"hold": msgspec.structs.replace(HOLD, cwd="/tmp")}, {"cwd": "/tmp"}),
        ({"hold": msgspec.structs.replace(HOLD, always=None)}, {"always": ()}),
    ],
)
def test_what_was_written_over_a_request_binds_to_what_it_shows(
    planted: dict[str, Any], bound: dict[str, Any]
) -> None:
    """Whoever may write to a machine's stream repeats the id and the binding of its collector."""
    same = {"digest": "Bash t1", "role": "shell", "payload": {"command": "make"}}
    about = {"hold": HOLD} | same | planted
    view = hold_of(held().ask(1.2, request_id="r1", **about).told())

    assert view is not None
    assert view.binding == shown(**bound) != shown()


def test_what_a_collector_binds_that_is_too_old_can_be_denied_and_not_allowed() -> None:
    hold = s.Hold(BINDING, ["allow", "always", "deny", "defer"], 60_000)
    view = hold_of(
        working().start(1).ask(1.1, request_id="r1", hold=hold, payload={"command": "make"}).told()
    )

    assert view is not None
    assert view.outdated
    assert (view.verbs, view.binding) == (("deny", "defer"), BINDING)


def test_who_has_agreed_is_told_until_it_is_decided() -> None:
    hold = msgspec.structs.replace(HOLD, persons=2)
    story = working().start(1).ask(1.1, request_id="r1", hold=hold, payload={"command": "make"})
    said = {"command_id": "c1", "verb": "allow", "by": "ann", "request_id": "r1"}
    facts = story.tell(s.CommandReported, 1.2, outcome="awaits_second", **said).told()
    (view,) = request_views(judge(facts, T0 + 2_000).requests, 0, facts)
    assert view.hold is not None
    assert (view.hold.persons, view.hold.agreed) == (2, ("ann",))

    facts = story.tell(s.CommandReported, 1.3, outcome="withdrawn", **said).told()
    (view,) = request_views(judge(facts, T0 + 2_000).requests, 0, facts)
    assert view.hold is not None
    assert view.hold.agreed == ()


@pytest.mark.parametrize("first", ["call", "request", "neither"])
def test_a_request_of_which_no_call_was_heard_is_marked(first: str) -> None:
    story = working()
    if first == "call":
        story.start(1)
    story.ask(1.1, request_id="r1", hold=HOLD, payload={"command": "make"})
    if first == "request":
        story.start(1.2)
    facts = story.told()
    (view,) = request_views(judge(facts, T0 + 2_000).requests, 0, facts)

    assert view.hold is not None
    assert view.hold.unverified == (first == "neither")


def test_the_mark_goes_from_what_is_shown_once_its_call_is_heard_of() -> None:
    story = working().ask(1.1, request_id="r1", hold=HOLD, payload={"command": "make"})
    place, facts = ViewedHost("h", "lab", "live", 0), story.told()
    verdict = story.verdict(2)
    shown = Shown(place, facts, verdict, session_view(place, "S", facts, verdict))

    facts = story.start(3).told()  # too late to be sure that it is this one's
    verdict = judge(facts, T0 + 4_000, last=verdict)
    view = session_view(place, "S", facts, verdict, shown)

    marks = [
        request.hold and request.hold.unverified
        for each in (shown.view, view)
        for request in each.requests
    ]
    assert marks == [True, False]


@pytest.mark.parametrize("hold_first", [False, True])
def test_what_a_decision_is_bound_to_is_shown_whoever_told_of_the_call(hold_first: bool) -> None:
    """Another witness tells of the same request, cut, or without what the agent adds to it."""
    held_at, other_at = (1.1, 1.2) if hold_first else (1.2, 1.1)
    story = working().start(1)
    for at in sorted((held_at, other_at)):
        if at == held_at:
            story.ask(at, request_id="r1", hold=HOLD, payload={"command": "make", "cwd": "/w"})
        else:
            story.ask(at, payload={"command": "make"}, summary="make it", role="other")
    facts = story.told()
    (view,) = request_views(judge(facts, T0 + 2_000).requests, 0, facts)

    assert view.payload == {"command": "make", "cwd": "/w"}
    assert view.hold is not None
    assert view.hold.binding == shown(payload=view.payload)


def test_a_hold_that_has_ended_stays_so_whichever_comes_first_and_it_still_asks() -> None:
    after = held().tell(s.HoldEnded, 1.5, request_id="r1").told()
    first = working().tell(s.HoldEnded, 1.5, request_id="r1")
    before = first.start(1).ask(1.1, request_id="r1", hold=HOLD).told()

    assert hold_of(after) is None
    assert hold_of(before) is None


def test_asked_anew_about_one_call_the_later_hold_is_the_one_to_decide() -> None:
    story = held().tell(s.HoldEnded, 1.5, request_id="r1")
    story.ask(1.6, request_id="r2", hold=HOLD)
    facts = story.ask(1.1, request_id="r1", hold=HOLD).told()  # the first, delivered again
    (view,) = request_views(judge(facts, T0 + 2_000).requests)

    assert view.id == "r2"
    assert view.hold is not None


def test_a_request_that_is_closed_is_held_no_more() -> None:
    facts = held().finish(1.4).told()

    assert [request.hold for request in facts.requests.values()] == [None]


@pytest.mark.parametrize(
    "payload",
    [
        None,
        {"command": "make…"},
        {"command": "deploy --token [redacted:value:ab12]"},
        {"edits": [{"new": "…"}]},
        {"lines": ["x"] * 200},
        {f"field {n}": "x" for n in range(20)},
    ],
)
def test_what_is_not_shown_whole_can_be_denied_and_not_allowed(payload: Any) -> None:
    view = hold_of(held(payload=payload).told())

    assert view is not None
    assert view.partial
    assert (view.verbs, view.binding) == (("deny",), BINDING)


def report(outcome: str, at: int, command: str = "c1", **more: Any) -> s.CommandReported:
    return s.CommandReported(
        session_id="S",
        at=at,
        seen=at,
        command_id=command,
        verb="allow",
        outcome=outcome,
        **more,
    )


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0), (2, 0, 1), (0, 2, 2)])
def test_of_several_reports_the_one_that_knows_more_stands(order: tuple[int, ...]) -> None:
    told = [
        report("queued", 5, by="ann"),
        report("sent", 5, by="ann"),
        report("overruled", 5, by="ann", reason="the terminal was first"),
    ]
    facts = None
    for number in order:
        facts = fold(facts, told[number])
    assert facts is not None

    (view,) = command_views(facts, 2)
    assert (view.outcome, view.at, view.by) == ("overruled", 3, "ann")
    assert view.reason == "the terminal was first"


def test_so_many_are_kept_and_shown_newest_last() -> None:
    facts = None
    for number in range(COMMANDS_MAX + 5):
        facts = fold(facts, report("sent", number, f"c{number}"))
        facts = fold(
            facts, s.HoldEnded(session_id="S", at=number, seen=number, request_id=f"r{number}")
        )
    assert facts is not None

    views = command_views(facts, 0)
    assert [view.at for view in views] == [*range(5, COMMANDS_MAX + 5)]
    assert len(facts.unheld) == RELEASED_MAX


def test_what_a_collector_did_about_a_request_is_no_sign_of_life() -> None:
    """Not even one that a session of history would come back by."""
    before = held().told()
    ended = s.HoldEnded(session_id="S", at=T0 + 90_000, seen=T0 + 90_000, request_id="r1")
    after = fold(fold(before, ended), report("took_effect", T0 + 90_000))

    assert (after.updated_at, after.moved, after.known) == (
        before.updated_at,
        before.moved,
        before.known,
    )
    past = fold(None, s.SessionEnded(session_id="S", at=1, seen=1, source="transcript"))
    assert fold(past, report("too_late", 2)).past


def test_what_became_of_a_command_is_among_what_the_session_did() -> None:
    facts = fold(held().told(), report("took_effect", T0 + 2_000, by="ann"))

    assert facts.activity[-1].text == "allow by ann: took effect"
