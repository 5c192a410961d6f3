"""What a filter wants, in which order, and which exit code it comes to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from adsum import client
from adsum.client import Filter, exit_code, named, order
from adsum.outcome import CommandError, Exit
from adsum_shared.state import AgentState, Group, Reachability, SessionView


def view(
    name: str,
    group: Group = Group.AUTONOMOUS,
    *,
    urgency: int | None = None,
    since: int = 0,
    reachability: Reachability = "live",
    host: str = "laptop",
    state: str = "acting",
    rank: int = 0,
) -> SessionView:
    return SessionView(
        id=f"{host}-id:{name}",
        host_id=f"{host}-id",
        host=host,
        session_id=name,
        agent="claude_code",
        state=AgentState(group, state, state, 1.0, "hook", since),
        reachability=reachability,
        updated_at=since,
        rank=rank,
        urgency=urgency,
        project="adsum",
    )


def hub_of(monkeypatch: pytest.MonkeyPatch, *lists: str) -> list[str]:
    """A hub that has the next list of sessions at each page, two to a page; and what it was asked."""
    asked: list[str] = []

    def fetch(_url: str, _path: str, query: Mapping[str, str]) -> dict[str, Any]:
        names = lists[min(len(asked), len(lists) - 1)]
        asked.append(names)
        start, limit = int(query["offset"]), min(2, int(query["limit"]))
        page = [{"id": name} for name in names[start : start + limit]]
        return {"total": len(names), "sessions": page}

    monkeypatch.setattr(client, "fetch", fetch)
    return asked


def listed(most: int = 100) -> str:
    return "".join(each["id"] for each in client.fetch_pages("", "", {}, most)["sessions"])


@pytest.mark.parametrize(
    ("before", "after"), [("abcd", "dabc"), ("abcd", "bcd"), ("abcd", "eabcd")]
)
def test_no_session_is_missed_or_doubled_where_one_comes_moves_or_goes_between_two_pages(
    monkeypatch: pytest.MonkeyPatch, before: str, after: str
) -> None:
    hub_of(monkeypatch, before, after)
    assert listed() == after


def test_a_list_that_stands_still_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = hub_of(monkeypatch, "abcd")
    assert (listed(), len(asked)) == ("abcd", 2)


def test_of_a_list_that_never_stands_still_two_readings_are_put_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = hub_of(monkeypatch, "abcd", "dabc", "cdab", "abcd")
    assert (listed(), len(asked)) == ("cdab", 4)


def test_readings_put_together_are_no_more_than_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    hub_of(monkeypatch, "abcd", "dabc", "dcab", "edcab")
    assert listed(3) == "dca"


def test_a_list_is_in_the_hub_s_order_and_ties_go_by_id() -> None:
    views = [
        view("last", Group.NEEDS_YOU, urgency=1, rank=3),
        view("b", rank=2),
        view("a", Group.DELIVERED, rank=2),
        view("first", Group.DELIVERED, rank=1),
    ]
    assert [one.session_id for one in order(views)] == ["first", "a", "b", "last"]


@pytest.mark.parametrize(
    "chosen",
    [
        Filter(group="autonomous"),
        Filter(state="acting"),
        Filter(host="laptop"),
        Filter(host="laptop-id"),
        Filter(project="adsum"),
        Filter(),
    ],
)
def test_a_filter_wants_what_it_names(chosen: Filter) -> None:
    assert chosen.wants(view("a"))


@pytest.mark.parametrize(
    "chosen",
    [
        Filter(group="delivered"),
        Filter(state="idle"),
        Filter(host="lap"),
        Filter(project="x"),
        Filter(needs_you=True),
    ],
)
def test_a_filter_leaves_out_the_rest(chosen: Filter) -> None:
    assert not chosen.wants(view("a"))


def test_a_group_that_is_none_is_a_usage_error() -> None:
    with pytest.raises(CommandError, match=r"needs_you \(or waiting\), working") as wrong:
        Filter(group="sleeping")
    assert wrong.value.code is Exit.USAGE


def test_exit_codes() -> None:
    asks = view("a", Group.NEEDS_YOU, urgency=1)
    away = view("b", Group.NEEDS_YOU, urgency=1, reachability="offline")
    late = view("c", reachability="late")
    assert exit_code([asks], exit_status=False) is Exit.OK
    assert exit_code([late, asks], exit_status=True) is Exit.NEEDS_YOU
    assert exit_code([late], exit_status=True) is Exit.PARTIAL
    assert exit_code([away], exit_status=True) is Exit.PARTIAL
    assert exit_code([], exit_status=True) is Exit.OK


def test_an_id_may_be_named_by_its_start_with_or_without_its_host() -> None:
    views = [view("abc1"), view("abd2"), view("abd2", host="desk")]
    assert named(views, "abc") is views[0]
    assert named(views, "laptop-id:abd") is views[1]
    assert named([*views, view("abc12")], "abc1") is views[0]


def test_an_ambiguous_id_lists_the_candidates() -> None:
    with pytest.raises(CommandError) as refused:
        named([view(f"ab{n}") for n in range(12)], "ab")
    assert "12 sessions' ids start with 'ab'" in str(refused.value)
    assert "laptop-id:ab3" in str(refused.value)
    assert "… and 2 more" in str(refused.value)


def test_an_unknown_id_says_where_to_look() -> None:
    with pytest.raises(CommandError, match="All of them: adsum agents"):
        named([], "ab")


def test_a_group_goes_by_the_words_that_lists_use_too() -> None:
    assert Filter(group="working").query == Filter(group="autonomous").query
    assert Filter(group="Waiting").query == {"group": "needs_you"}
    assert Filter(group="done").group == "delivered"


def test_a_slip_in_an_id_is_met_with_the_nearest() -> None:
    with pytest.raises(CommandError, match=r"Did you mean 0a1b2c3d\?") as wrong:
        named([view("0a1b2c3d4e5f"), view("77777777")], "0a1b2d")
    assert "4e5f" not in str(wrong.value)
    with pytest.raises(CommandError) as wrong:
        named([view("77777777")], "0a1b")
    assert "Did you mean" not in str(wrong.value)
