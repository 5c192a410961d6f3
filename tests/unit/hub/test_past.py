"""History: who belongs to it, what is kept of it, how it is found, and that it calls for nobody."""

from __future__ import annotations

import msgspec
import pytest

from adsum_hub.facts import Facts
from adsum_hub.fold.fold import FRESH
from adsum_hub.past import MOST_PAST, PAST_MS, packed, search, stripped, surplus
from adsum_hub.snapshots import decode_facts
from adsum_hub.verdict.judge import judge
from adsum_shared import signals as s
from adsum_shared.state import Group
from tests.spenders import HOUR, MINUTE, NOON, TODAY, Spender


def old(session_id: str = "s", at: int = -HOUR) -> Spender:
    spender = Spender(session_id).about(at, ai_title="Fix the Login", project="web", cwd="/x/web")
    return spender.use(5, at).cost_report(1.0, at).tell(s.SessionEnded, at, reason="process")


def test_what_only_its_files_tell_of_is_history() -> None:
    facts = old().facts

    assert (facts.past, facts.lived, facts.materialised) == (True, False, False)


ALIVE: dict[str, tuple[type, dict[str, object]]] = {
    "a hook": (s.Alive, {"source": "hook"}),
    "the registry": (s.StatusReported, {"source": "registry", "status": "busy", "pid": 1}),
    "a process": (s.ProcessSeen, {"source": "process", "pid": 1}),
    "the status line": (s.Alive, {"source": "statusline"}),
    "a prompt in its transcript": (s.PromptSubmitted, {"prompt_id": "p"}),
    "a tool in its transcript": (s.ToolStarted, {"tool": "Bash", "tool_use_id": "t"}),
    "growth of its transcript": (s.Alive, {}),
    "its status line's dollars": (s.CostReported, {"source": "statusline", "cost_usd": 1.0}),
}


@pytest.mark.parametrize(("kind", "data"), ALIVE.values(), ids=ALIVE)
def test_it_lives_as_soon_as_it_is_seen_alive(kind: type, data: dict[str, object]) -> None:
    facts = old().tell(kind, **data).facts

    assert (facts.lived, facts.past) == (True, False)


def test_a_line_read_as_it_is_written_is_a_sign_of_life() -> None:
    fresh = Spender().tell(s.MetaChanged, 0, seen=NOON + FRESH, mode="plan").facts
    read_up = Spender().tell(s.MetaChanged, 0, seen=NOON + FRESH + 1, mode="plan").facts

    assert (fresh.lived, read_up.lived) == (True, False)


def test_whose_fork_it_is_is_no_sign_of_life() -> None:
    assert not Spender().tell(s.MetaChanged, 0, forked_from="parent").facts.lived


def test_nothing_but_an_id_is_no_history() -> None:
    assert not Facts("s").past


def busy() -> Spender:
    """A session that asks, runs, waits and has failed, all at once."""
    spender = Spender().about(title="Big").use(50).prompt(0)
    spender.tell(s.ToolStarted, 1, source="hook", tool="Bash", tool_use_id="t", digest="d")
    spender.tell(
        s.RequestOpened, 2, source="hook", request_kind="permission", tool="Bash", digest="d"
    )
    spender.tell(s.ChildStarted, 3, source="hook", child_id="c")
    spender.tell(s.ProcessSeen, 4, source="process", pid=7)
    spender.tell(s.StatusReported, 5, source="registry", status="waiting", pid=7)
    spender.tell(s.TurnEnded, 6, source="hook", last_message="Which one?")
    return spender


def test_of_a_stripped_session_nothing_calls_for_a_human() -> None:
    facts = busy().tell(s.ProcessGone, MINUTE, source="process", pid=7).facts
    state = judge(facts, NOON + HOUR).state
    kept = stripped(facts, state)

    assert judge(busy().facts, NOON + 10 * HOUR).state.group is Group.NEEDS_YOU
    assert judge(facts, NOON + HOUR).unread
    assert (kept.past, kept.materialised) == (True, False)
    assert not judge(kept, NOON + HOUR).unread
    assert not any((kept.turns, kept.requests, kept.tools, kept.children, kept.status))
    for at in (0, MINUTE, HOUR, 10_000 * HOUR):
        assert judge(kept, NOON + at).state.group is Group.DELIVERED


def test_of_a_stripped_session_what_it_was_about_is_kept() -> None:
    facts = busy().end(MINUTE).tell(s.ProcessGone, MINUTE, source="process", pid=7).facts
    kept = stripped(facts, judge(facts, NOON + HOUR).state)

    assert (kept.title, kept.usage, kept.activity) == ("Big", facts.usage, facts.activity)
    assert (kept.last_answer, kept.latest_prompt) == ("Which one?", "go on")
    assert (kept.born, kept.ended_at) == (facts.born, NOON + MINUTE)


def test_what_is_told_again_of_a_stripped_session_does_not_revive_it() -> None:
    facts = busy().tell(s.ProcessGone, MINUTE, source="process", pid=7).facts
    again = Spender("s", stripped(facts, judge(facts, NOON + HOUR).state))
    again.use(60).cost_report(2.0).about(ai_title="x").end(2 * MINUTE)

    assert again.facts.past


def test_a_stripped_session_that_is_resumed_lives() -> None:
    facts = busy().tell(s.ProcessGone, MINUTE, source="process", pid=7).facts
    again = Spender("s", stripped(facts, judge(facts, NOON + HOUR).state)).prompt(3 * HOUR)

    assert again.facts.materialised
    assert judge(again.facts, NOON + 3 * HOUR + 1).state.group is Group.AUTONOMOUS


def test_history_that_is_too_old_is_dropped() -> None:
    facts = {"old": old("old", -PAST_MS - HOUR).facts, "new": old("new", HOUR - PAST_MS).facts}

    assert surplus({key: each.ended_at for key, each in facts.items()}, NOON) == {"old"}


def test_of_too_much_history_the_oldest_is_dropped() -> None:
    kept = old("kept").facts
    facts = {f"k{number}": kept for number in range(MOST_PAST)}
    facts |= {"older": old("older", -2 * HOUR).facts, "oldest": old("oldest", -3 * HOUR).facts}

    assert surplus({key: each.ended_at for key, each in facts.items()}, NOON) == {"older", "oldest"}


@pytest.mark.parametrize(
    "words",
    ["login", "FIX login", "web", "/x/web", "laptop", "session-1", "main", "pull/7", ""],
)
def test_all_words_must_occur_wherever_a_person_would_look(words: str) -> None:
    facts = old("session-1").about(branch="main", pr="https://x/pull/7").facts

    assert search(words).finds(facts, "Laptop")


@pytest.mark.parametrize("words", ["login logout", "fixing", "desktop"])
def test_one_word_that_does_not_occur_is_enough(words: str) -> None:
    assert not search(words).finds(old().facts, "laptop")


@pytest.mark.parametrize(("project", "found"), [("web", True), ("we", False)])
def test_a_project_is_asked_for_by_its_whole_name(project: str, found: bool) -> None:
    assert search(None, None, project).finds(old().facts, "laptop") is found


def test_a_given_title_goes_before_the_agents_own() -> None:
    spender = Spender().prompt(0)
    assert spender.facts.title == "go on"
    spender.about(ai_title="Made up")
    assert spender.facts.title == "Made up"
    spender.about(title="Given")
    assert spender.facts.title == "Given"


def test_an_empty_text_means_that_it_is_no_more() -> None:
    spender = Spender().about(worktree="w").about(0, worktree="")

    assert spender.facts.about("worktree") is None


def test_packed_facts_are_the_same_facts() -> None:
    facts = old().facts
    found = decode_facts(msgspec.json.encode(facts))

    assert packed(facts) == facts == found
    assert found is not None
    # what is shared is never changed in place
    again = Spender("s", found).prompt(1).facts
    assert again.turns
    assert not found.turns
    assert not packed(old("t").facts).turns


def test_a_stripped_session_still_says_when_it_had_spent_how_much() -> None:
    facts = busy().use(90, 2 * HOUR).end(3 * HOUR).facts
    kept = stripped(facts, None)

    assert kept.trail == facts.trail
    assert len(kept.trail[TODAY]) == 2
