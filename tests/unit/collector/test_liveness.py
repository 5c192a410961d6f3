"""What registry files and the process table tell: the decisions, without files or processes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import permutations
from typing import Any

import msgspec
import pytest

import adsum_collector.processes as processes_module
from adsum_collector.processes import AgentProcess, ProcessTable, state_changes, watched
from adsum_collector.watch import (
    CPU_INTERVAL_MS,
    Entry,
    Known,
    Work,
    news_of_absence,
    news_of_entry,
    news_of_processes,
    news_of_work,
    read_entry,
)
from adsum_shared.signals import (
    Alive,
    AnySignal,
    MetaChanged,
    ProcessGone,
    ProcessSeen,
    ProcessStill,
    SessionEnded,
    StatusReported,
)

START = 1_000_000
AGENT = AgentProcess(100, START)


def status(
    word: str | None = "busy", at: int = START + 500, session_id: str = "s1", started: int = START
) -> StatusReported:
    return StatusReported(
        session_id=session_id,
        at=at,
        seen=at + 50,
        source="registry",
        status=word,
        pid=AGENT.pid,
        started=started,
    )


def entry(*signals: AnySignal, session_id: str = "s1") -> Entry:
    return Entry(session_id, AGENT, signals or (status(session_id=session_id),))


def kinds(news: list[AnySignal]) -> list[str]:
    return [type(signal).__name__ for signal in news]


def test_a_new_file_tells_process_and_status() -> None:
    news = news_of_entry(entry(), None, {}, START + 600)

    assert kinds(news) == ["ProcessSeen", "StatusReported"]
    assert news[0] == ProcessSeen(
        session_id="s1",
        at=START + 600,
        seen=START + 600,
        source="registry",
        pid=100,
        started=START,
    )


def test_a_process_known_already_is_not_told_again() -> None:
    assert kinds(news_of_entry(entry(), None, {"s1": AGENT}, 0)) == ["StatusReported"]


def test_a_file_that_says_the_same_tells_nothing() -> None:
    again = entry(msgspec.structs.replace(status(), seen=START + 9999))

    assert news_of_entry(again, Known(entry()), {"s1": AGENT}, 0) == []


def test_only_what_changed_is_told() -> None:
    meta = MetaChanged(session_id="s1", at=START + 500, seen=0, title="t")
    before = entry(status(), meta)
    after = entry(
        status("waiting", START + 900), msgspec.structs.replace(meta, at=START + 900, seen=7)
    )

    assert news_of_entry(after, Known(before), {"s1": AGENT}, 0) == [status("waiting", START + 900)]


def test_the_same_process_with_another_session_ends_the_old_one() -> None:
    after = entry(status("idle", START + 900, "s2"), session_id="s2")

    news = news_of_entry(after, Known(entry()), {"s1": AGENT}, START + 950)

    assert kinds(news) == ["SessionEnded", "ProcessSeen", "StatusReported"]
    assert [signal.session_id for signal in news] == ["s1", "s2", "s2"]


def test_a_session_that_its_hook_has_ended_is_told_as_left_when_its_process_names_another() -> None:
    after = entry(status("idle", START + 900, "s2"), session_id="s2")

    news = news_of_entry(after, Known(entry()), {}, START + 950)

    assert kinds(news) == ["SessionEnded", "ProcessSeen", "StatusReported"]
    assert (news[0].session_id, news[0].source) == ("s1", "registry")


def test_a_session_that_another_process_took_up_is_not_ended_by_the_first() -> None:
    after = entry(status("idle", START + 900, "s2"), session_id="s2")
    elsewhere = AgentProcess(200, START + 600)

    news = news_of_entry(after, Known(entry()), {"s1": elsewhere}, START + 950)

    assert kinds(news) == ["ProcessSeen", "StatusReported"]


@pytest.mark.parametrize("there", [{}, {"s2": AgentProcess(200, START + 60_000)}, {"s2": AGENT}])
def test_a_process_that_comes_to_a_session_from_another_has_it_from_then_on(
    there: dict[str, AgentProcess],
) -> None:
    """However old it is: of two that have it the one that came last counts."""
    after = entry(status("idle", START + 90_000, "s2"), session_id="s2")
    others = [Entry("s2", process) for process in there.values()]

    news = news_of_entry(after, Known(entry()), {"s1": AGENT} | there, START + 90_050, others)

    (seen,) = [signal for signal in news if isinstance(signal, ProcessSeen)]
    assert (seen.session_id, seen.pid, seen.moved, seen.again) == ("s2", 100, True, False)


@pytest.mark.parametrize(("known", "moved"), [({"s1": AGENT}, []), ({}, [True])])
def test_what_is_found_at_our_start_came_last_where_nobody_is_known(
    known: dict[str, AgentProcess], moved: list[bool]
) -> None:
    news = news_of_entry(entry(), None, known, START + 90_000, starts=True)

    assert [each.moved for each in news if isinstance(each, ProcessSeen)] == moved


def test_a_status_inherited_from_the_session_before_is_not_told_as_its_own() -> None:
    after = entry(status("busy", START + 500, "s2"), session_id="s2")

    news = news_of_entry(after, Known(entry()), {}, 0)

    assert isinstance(news[-1], StatusReported)
    assert (news[-1].session_id, news[-1].status) == ("s2", None)


def test_a_file_gone_for_a_moment_tells_nothing() -> None:
    known = Known(entry(), missing_since=START)

    assert news_of_absence(known, {"s1": AGENT}, START + 199) == []


def test_a_file_gone_for_good_ends_the_session() -> None:
    known = Known(entry(), missing_since=START)

    assert news_of_absence(known, {"s1": AGENT}, START + 200) == [
        SessionEnded(session_id="s1", at=START + 200, seen=START + 200, source="registry")
    ]
    assert news_of_absence(known, {}, START + 200) == []


#: A second terminal on the same session, opened before the other one.
SECOND = Entry("s1", AgentProcess(50, START - 9_000), (status("waiting", START - 100),))


@pytest.mark.parametrize("how", ["closed", "cleared", "killed"])
def test_a_second_terminal_on_the_session_has_it_still_once_the_first_was(how: str) -> None:
    """As nothing but its file tells, by which the hook of the first is overruled."""
    others = [
        Entry("s2", AGENT),
        SECOND,
        msgspec.structs.replace(SECOND, process=AgentProcess(9, 1)),
    ]
    news = {
        "closed": lambda: news_of_absence(Known(entry(), START), {}, START + 950, others),
        "cleared": lambda: news_of_entry(
            entry(status("idle", START + 900, "s2"), session_id="s2"),
            Known(entry()),
            {"s1": AGENT},
            START + 950,
            others,
        ),
        "killed": lambda: news_of_processes({"s1": AGENT}, {AGENT}, START + 950, others),
    }[how]()

    mine = [signal for signal in news if signal.session_id == "s1"]
    assert kinds(mine)[how == "killed" :] == ["ProcessSeen", "StatusReported"]
    seen, told = mine[-2:]
    assert isinstance(seen, ProcessSeen)
    assert (seen.pid, seen.at, seen.again) == (50, START + 950, True)
    assert isinstance(told, StatusReported)
    since = START + 950 if how == "killed" else START + 501
    assert (told.status, told.at, told.seen) == ("waiting", since, START + 950)


def test_a_dead_process_is_told_for_each_of_its_sessions() -> None:
    other = AgentProcess(200, START)
    watching = {"s1": AGENT, "s2": AGENT, "s3": other}

    news = news_of_processes(watching, {AGENT}, 7)

    assert {signal.session_id for signal in news} == {"s1", "s2"}
    assert all(isinstance(signal, ProcessGone) and signal.started == START for signal in news)


def test_an_entry_bears_the_start_that_the_system_tells() -> None:
    found = read_entry([status(started=START + 140)], started=START)

    assert found is not None
    assert found.process == AGENT
    assert found.signals == (status(started=START),)


def test_a_file_left_by_a_dead_agent_is_no_entry() -> None:
    assert read_entry([status()], started=None) is None
    assert read_entry([status()], started=START + 60_000) is None  # its number, given out again
    assert read_entry([], started=START) is None


def test_what_is_watched_follows_the_signals() -> None:
    seen = ProcessSeen(session_id="s1", at=1, seen=1, pid=100, started=START)
    state: dict[str, bytes] = {"offset:x": b"1"}
    state |= {k: v for k, v in state_changes([seen], state).items() if v is not None}

    assert watched(state) == {"s1": AGENT}
    ended = SessionEnded(session_id="s1", at=1, seen=1)
    assert state_changes([ended], state) == {"process:s1": None}
    closed = SessionEnded(session_id="s1", at=1, seen=1, source="transcript", reason="closed")
    assert (
        state_changes([closed], state) == {}
    )  # its end is still to come, and nobody else may tell it
    assert state_changes([status()], state) == {}


def kept(*signals: AnySignal, before: Mapping[str, bytes] = {}) -> dict[str, bytes]:
    changes = state_changes(signals, before)
    return {key: value for key, value in {**before, **changes}.items() if value is not None}


def named(pid: int, started: int, at: int = 1_000, **how: bool) -> ProcessSeen:
    return ProcessSeen(session_id="s1", at=at, seen=1, pid=pid, started=started, **how)


@pytest.mark.parametrize(
    ("at", "source"), [(2_501, "hook"), (1_001, "registry"), (1_001, "process")]
)
def test_of_two_terminals_the_late_hook_of_the_closed_one_ends_no_watch(
    at: int, source: Any
) -> None:
    late = SessionEnded(session_id="s1", at=2_500, seen=1)
    state = kept(named(100, START, again=True), late, named(100, START, at=1_200))

    assert watched(state) == {"s1": AGENT}
    assert state_changes([late], state) == {}
    assert kept(SessionEnded(session_id="s1", at=at, seen=1, source=source), before=state) == {}


def test_the_end_of_a_session_that_its_process_came_to_alone_is_one() -> None:
    ended = SessionEnded(session_id="s1", at=1_001, seen=1)

    assert kept(named(100, START, moved=True), ended) == {}


def test_who_came_last_is_watched_whoever_speaks() -> None:
    older, younger = named(100, START), named(200, START + 5)
    for order in permutations((older, younger, older)):
        assert watched(kept(*order))["s1"].pid == 200
    state = kept(younger, named(100, START, at=START + 9, moved=True), younger)
    assert watched(state)["s1"].pid == 100
    assert watched(kept(named(300, START + 10), before=state))["s1"].pid == 300


def test_what_an_older_collector_has_kept_is_read() -> None:
    state = {"process:s1": b"100 %d" % START, "process:s2": b"7 1 codex", "process:s3": b"rot"}

    assert watched(state) == {"s1": AGENT, "s2": AgentProcess(7, 1, "codex")}


def test_a_start_measured_twice_is_told_the_same_way(monkeypatch: pytest.MonkeyPatch) -> None:
    starts = {100: START}
    monkeypatch.setattr(processes_module, "look_up", starts.get)
    table = ProcessTable([AgentProcess(100, START - 900)])

    assert table.started_of(100) == START - 900  # as an earlier run has told it
    assert table.lives(AgentProcess(100, START))
    starts[100] = START + 60_000
    assert table.started_of(100) == START + 60_000  # another process with this number
    assert not table.lives(AGENT)
    del starts[100]
    assert table.started_of(100) is None
    assert not table.lives(AgentProcess(100, START + 60_000))


def test_a_process_that_works_gives_a_sign_of_life_for_each_of_its_sessions() -> None:
    watching, known = {"s1": AGENT, "s2": AGENT}, {AGENT: Work(START, 1000)}
    now = START + CPU_INTERVAL_MS

    news, work = news_of_work(known, watching, lambda _pid: 1300, now)

    assert sorted(signal.session_id for signal in news) == ["s1", "s2"]
    assert news[0] == Alive(
        session_id=news[0].session_id, at=now, seen=now, source="process", event="cpu"
    )
    assert work == {AGENT: Work(now, 1300)}


def test_a_process_that_computes_nothing_is_found_still_unless_it_rests() -> None:
    known, now = {AGENT: Work(START, 1000)}, START + CPU_INTERVAL_MS

    (news,), _ = news_of_work(known, {"s1": AGENT}, lambda _pid: 1299, now)

    assert isinstance(news, ProcessStill)
    assert news.connected is None  # nobody tells
    rests = {AGENT.pid}
    assert not news_of_work(known, {"s1": AGENT}, lambda _pid: 1299, now, resting=rests)[0]


def test_a_process_gives_no_sign_where_there_is_nothing_to_compare() -> None:
    known = {AGENT: Work(START, 1000)}

    assert news_of_work({}, {"s1": AGENT}, lambda _pid: 9000, START)[0] == []  # the first look
    assert news_of_work(known, {"s1": AGENT}, lambda _pid: 9000, START - 1)[0] == []
    assert news_of_work(known, {"s1": AGENT}, lambda _pid: None, START * 2) == ([], {})
    assert news_of_work(known, {}, lambda _pid: 9000, START * 2) == ([], {})


@pytest.mark.parametrize(
    ("used", "ago", "said"),
    [
        (1400, 29_000, Alive),  # a ping of the model's API
        (1400, 31_000, ProcessStill),  # it draws its spinner, and receives nothing
        (1400, None, ProcessStill),
        (9000, 31_000, Alive),  # a server below it computes
    ],
)
def test_where_the_system_tells_what_comes_in_that_counts_and_a_spinner_does_not(
    used: int, ago: int | None, said: type[Alive | ProcessStill]
) -> None:
    known, now = {AGENT: Work(START, 0)}, START + CPU_INTERVAL_MS

    (news,), work = news_of_work(
        known, {"s1": AGENT}, lambda _pid: used, now, lambda pids: dict.fromkeys(pids, ago)
    )

    assert (type(news), work) == (said, {AGENT: Work(now, used)})
    assert not isinstance(news, ProcessStill) or news.connected == (ago is not None)


def test_nobody_asks_what_comes_in_for_a_process_at_rest_or_at_its_first_look() -> None:
    def received(pids: Iterable[int]) -> dict[int, int | None]:
        assert not list(pids)
        return {}

    now, watching = START + CPU_INTERVAL_MS, {"s1": AGENT}
    rests = {AGENT.pid}

    known = {AGENT: Work(START, 0)}
    assert not news_of_work(known, watching, lambda _pid: 1, now, received, rests)[0]
    assert not news_of_work({}, watching, lambda _pid: 1, now, received)[0]


def test_work_is_measured_no_more_often_than_it_is_told() -> None:
    known = {AGENT: Work(START, 1000)}

    def never(_pid: int) -> int:
        raise AssertionError("measured too early")

    assert news_of_work(known, {"s1": AGENT}, never, START + CPU_INTERVAL_MS - 1) == ([], known)
