"""What of a full spool may go: each kind with its reason, and what must never go."""

from __future__ import annotations

import msgspec
import pytest

from adsum_collector.spool.worth import Worth
from adsum_shared import signals as s
from tests.spools import signal


def kept(*bodies: bytes) -> list[int]:
    """Which of them stay, counted from 0."""
    worth = Worth(100, len(bodies))
    for seq, body in enumerate(bodies, 100):
        worth.consider(seq, body)
    for _ in worth.judge_calls():
        pass
    return [seq - 100 for seq in range(100, 100 + len(bodies)) if not worth.is_spare(seq)]


def started(tool_use_id: str, at: int = 0, **more: object) -> bytes:
    return signal(s.ToolStarted, at, tool="Bash", tool_use_id=tool_use_id, **more)


def finished(tool_use_id: str, at: int = 0, **more: object) -> bytes:
    return signal(s.ToolFinished, at, tool="Bash", tool_use_id=tool_use_id, **more)


#: The newest call of each agent stays, so another one follows those under test.
LATER = started("later", 99)


@pytest.mark.parametrize("kind", sorted(s.KINDS))
def test_of_each_kind_the_only_one_stays(kind: str) -> None:
    required = {"pid": 1, "tool": "Bash", "tool_use_id": "t", "request_kind": "permission"}
    required |= {"why": "answered", "child_id": "c", "task_id": "t", "day": "d", "model": "m"}
    body = msgspec.json.encode({"kind": kind, "session_id": "s", "at": 1, "seen": 1, **required})

    assert kept(body) == [0]


@pytest.mark.parametrize(
    "kind", sorted(s.KINDS - {"alive", "status.reported", "retry.scheduled", "child.changed",
                              "meta.changed", "usage.totalled", "cost.reported", "gauges.reported",
                              "tool.started", "tool.finished"})
)  # fmt: skip
def test_of_these_kinds_all_stay(kind: str) -> None:
    required = {"pid": 1, "request_kind": "permission", "why": "answered", "child_id": "c"}
    fields = {"kind": kind, "session_id": "s", "task_id": "t", **required}
    bodies = [msgspec.json.encode({**fields, "at": at, "seen": at}) for at in range(5)]

    assert kept(*bodies) == [0, 1, 2, 3, 4]


def test_of_signs_of_life_the_newest_of_each_sort_and_session_stays() -> None:
    ticks = [signal(s.Alive, at, event="tick", source="statusline") for at in range(3)]
    other = signal(s.Alive, 1, "other", event="tick", source="statusline")
    message = signal(s.Alive, 1, event="message", source="transcript")
    assert kept(*ticks, other, message) == [2, 3, 4]


def test_the_newest_is_what_happened_last_not_what_came_last() -> None:
    assert kept(*(signal(s.Alive, at, event="tick") for at in (1, 9, 5))) == [1]


def test_of_each_status_the_newest_stays() -> None:
    said = ["busy", "waiting", "busy", "idle", "busy"]
    assert kept(*(signal(s.StatusReported, at, status=x) for at, x in enumerate(said))) == [1, 3, 4]


def test_meta_stays_as_long_as_it_has_the_last_word_on_a_field() -> None:
    assert kept(
        signal(s.MetaChanged, 1, title="a", cwd="/x"),
        signal(s.MetaChanged, 2, title="b"),
        signal(s.MetaChanged, 3, title="c"),
        signal(s.MetaChanged, 4, title="named", source="registry"),
    ) == [0, 2, 3]


def test_of_two_titles_of_one_instant_the_one_that_fold_takes_stays() -> None:
    assert kept(signal(s.MetaChanged, 1, title="b"), signal(s.MetaChanged, 1, title="a")) == [0]


def test_of_totals_the_last_of_each_day_and_model_stays() -> None:
    assert kept(
        signal(s.UsageTotalled, 1, day="d", model="m", input_tokens=5),
        signal(s.UsageTotalled, 2, day="d", model="m", input_tokens=9),
        signal(
            s.UsageTotalled, 3, day="d", model="m", input_tokens=7
        ),  # two were another session's
        signal(s.UsageTotalled, 4, day="e", model="m", input_tokens=1),
        signal(s.UsageTotalled, 5, day="e", model="m", long=True, input_tokens=1),
    ) == [2, 3, 4]


def test_a_call_that_is_over_goes_with_all_its_witnesses() -> None:
    assert kept(
        started("a", 1),
        started("a", 2, source="transcript"),
        finished("a", 3),
        finished("a", 4, source="transcript"),
        LATER,
    ) == [4]


def test_a_call_that_still_runs_stays() -> None:
    assert kept(started("a"), LATER) == [0, 1]


def test_the_end_of_a_call_that_began_in_an_earlier_file_stays() -> None:
    assert kept(finished("a"), LATER) == [0, 1]


def test_a_call_whose_hook_lies_in_an_earlier_file_stays() -> None:
    """Its request may lie there too, and this end closes it."""
    assert kept(
        started("a", source="transcript"), finished("a"), signal(s.Alive, event="x"), LATER
    ) == [0, 1, 2, 3]


def test_without_any_hook_the_transcript_alone_tells_that_a_call_is_over() -> None:
    calls = [started("a", source="transcript"), finished("a", source="transcript")]
    assert kept(*calls, started("later", source="transcript")) == [2]


@pytest.mark.parametrize(
    "request_", [{"digest": "d"}, {"tool_use_id": "a"}], ids=["by digest", "by id"]
)
def test_a_call_about_which_a_human_was_asked_stays(request_: dict[str, str]) -> None:
    ask = signal(s.RequestOpened, 2, request_kind="permission", tool="Bash", **request_)
    assert kept(started("a", 1, digest="d"), ask, finished("a", 3, digest="d"), LATER) == [
        0, 1, 2, 3,
    ]  # fmt: skip


def test_the_input_that_the_human_is_asked_about_is_the_hooks() -> None:
    ask = signal(s.RequestOpened, 2, request_kind="permission", tool="Bash", digest="d")
    late = started("a", 4, digest="another", source="transcript")
    assert kept(started("a", 1, digest="d"), ask, finished("a", 3), late, LATER) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    "end",
    [{"denied": True}, {"answered": True}, {"is_interrupt": True}, {"background": True},
     {"child_id": "c"}],
    ids=lambda end: next(iter(end)),
)  # fmt: skip
def test_a_call_that_a_human_ended_or_that_launched_something_stays(end: dict[str, object]) -> None:
    assert kept(started("a"), finished("a", **end), LATER) == [0, 1, 2]


def test_the_newest_call_of_each_agent_stays() -> None:
    assert kept(
        started("a"), finished("a"),
        started("b", agent_id="x"), finished("b", agent_id="x"),
        started("c", agent_id="x"), finished("c", agent_id="x"),
        started("d"), finished("d"),
    ) == [4, 5, 6, 7]  # fmt: skip


def test_calls_of_one_id_in_two_sessions_are_two() -> None:
    assert kept(started("a"), signal(s.ToolFinished, 1, "other", tool="B", tool_use_id="a")) == [
        0, 1,
    ]  # fmt: skip


def test_what_this_version_does_not_know_stays() -> None:
    new = msgspec.json.encode({"kind": "new.kind", "session_id": "s", "at": 1, "seen": 1})
    assert kept(new, new, b"no signal at all", b"[" * 5000) == [0, 1, 2, 3]
