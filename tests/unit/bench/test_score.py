"""The score itself: what counts as settled, early, weighted, missed, a flicker, within reach."""

from __future__ import annotations

from bench.misses import explained
from bench.replay import Change
from bench.score import Score, interval, score, within_reach
from bench.traces import Label, Trace

S = "S"


def label(
    start: int, stop: int, group: str | None, *states: str, known: str = "hook line"
) -> Label:
    return Label(S, start, stop, group, [*states] or None, "", known.split())


def shown(t: int, group: str, state: str) -> Change:
    return Change(t, group, state, "hook", 1.0, "")


def scored(labels: list[Label], *line: Change, witnesses: tuple[str, ...] = ("hooks",)) -> Score:
    total = Score()
    trace = Trace("trace", 0, (), [], labels, [])
    score(trace, {S: [*line]}, total, witnesses)
    return total


WORK = label(0, 4_000, "autonomous")
IDLE = label(4_000, 9_000, "needs_you", "idle")


def test_a_span_is_settled_by_what_stands_just_before_its_end() -> None:
    late = scored(
        [WORK, IDLE], shown(0, "autonomous", "thinking"), shown(8_900, "needs_you", "idle")
    )

    assert (late.settled, late.segments, late.misses) == (2, 2, [])


def test_the_right_group_in_the_wrong_state_is_a_miss_where_the_state_is_known() -> None:
    found = scored([IDLE], shown(4_000, "needs_you", "error"))

    assert [(miss.want, miss.got) for miss in found.misses] == [("idle", "error by hook")]


def test_a_listed_session_that_no_label_names_counts() -> None:
    ready, hidden = shown(0, "needs_you", "idle"), Change(9, None, "unlisted", "hook", 1.0, "")  # type: ignore[arg-type]
    trace, total = Trace("trace", 0, (), [], [WORK], []), Score()
    score(trace, {S: [], "phantom": [ready, hidden], "never": [hidden]}, total, ("hooks",))
    score(Trace("unlabelled", 0, (), [], [], []), {"other": [ready]}, total, ("hooks",))

    assert total.unlabelled == ["trace phantom"]


def test_nothing_shown_is_a_miss() -> None:
    assert [miss.got for miss in scored([WORK]).misses] == ["nothing"]


def test_a_change_half_a_second_early_towards_what_is_next_is_no_miss() -> None:
    early = (shown(0, "autonomous", "thinking"), shown(3_600, "needs_you", "idle"))
    assert scored([WORK, IDLE], *early).settled == 2

    sooner = (shown(0, "autonomous", "thinking"), shown(3_400, "needs_you", "idle"))
    assert scored([WORK, IDLE], *sooner).settled == 1

    elsewhere = (shown(0, "autonomous", "thinking"), shown(3_600, "needs_you", "error"))
    assert scored([WORK, IDLE], *elsewhere).settled == 0


def test_who_never_showed_the_span_right_was_not_early() -> None:
    short = label(0, 400, "autonomous")

    assert (
        scored([short, label(400, 900, None)], shown(50, "delivered", "session_ended")).settled == 0
    )


def test_a_span_too_short_to_be_judged_is_not_counted() -> None:
    assert scored([label(0, 249, "autonomous")]).segments == 0


def test_ends_of_sessions_are_counted_apart() -> None:
    found = scored(
        [label(0, 900, "delivered", "session_ended")], shown(0, "delivered", "session_ended")
    )

    assert (found.segments, found.ended, found.ended_segments) == (0, 1, 1)


def test_time_is_weighed_away_from_the_boundaries() -> None:
    found = scored(
        [WORK, IDLE], shown(0, "autonomous", "thinking"), shown(6_000, "needs_you", "idle")
    )

    assert found.scored_ms == 3_000 + 4_000
    assert found.right_ms == 3_000 + 2_500
    assert found.missed_ms == 1_500
    assert found.false_ms == 0


def test_a_false_call_for_a_human_is_counted_in_time() -> None:
    found = scored([WORK], shown(0, "autonomous", "thinking"), shown(2_000, "needs_you", "idle"))

    assert found.false_ms == 1_500


def test_the_delay_counts_from_the_boundary() -> None:
    found = scored(
        [WORK, IDLE], shown(0, "autonomous", "thinking"), shown(4_140, "needs_you", "idle")
    )

    assert found.delays == [0, 140]


def test_a_change_undone_within_a_second_is_a_flicker() -> None:
    there_and_back = (
        shown(0, "autonomous", "thinking"),
        shown(2_000, "needs_you", "idle"),
        shown(2_300, "autonomous", "thinking"),
    )

    assert scored([WORK], *there_and_back).flickers == 1
    assert scored([label(0, 2_000, "autonomous"), label(2_000, 2_300, "needs_you")],
                  *there_and_back).flickers == 0  # fmt: skip


def test_a_session_nobody_labelled_is_not_scored() -> None:
    total = Score()
    lines = {"other": [shown(0, "needs_you", "idle")]}
    score(Trace("trace", 0, (), [], [WORK], []), lines, total, ["hooks"])

    assert (total.segments, total.false_ms) == (1, 0)


# -- the ceiling -----------------------------------------------------------------------------------


def test_what_no_witness_heard_was_told_of_is_out_of_reach() -> None:
    escape = label(4_000, 9_000, "needs_you", "idle", known="line")

    assert within_reach([WORK, escape], {"hook"}) == [True, False]
    assert within_reach([WORK, escape], {"line"}) == [True, True]
    assert within_reach([WORK, escape], None) == [True, True]


def test_what_was_right_before_is_within_reach_though_nobody_tells() -> None:
    untold = label(4_000, 9_000, "autonomous", "waiting_for_agent", known="")
    other = label(9_000, 9_900, "autonomous", "compacting", known="")

    assert within_reach([WORK, untold], {"hook"}) == [True, True]
    assert within_reach([label(0, 1, "autonomous", "acting"), other], {"hook"}) == [True, False]


def test_after_an_unscored_span_anything_may_be_shown() -> None:
    dark = label(0, 900, None)

    assert within_reach([dark, label(900, 1_900, "needs_you", known="")], {"hook"}) == [True, True]
    unheard = [label(0, 900, None, known=""), label(900, 1_900, "needs_you", known="")]
    assert within_reach(unheard, {"hook"}) == [False, False]


def test_a_ceiling_is_never_below_what_was_reached() -> None:
    untold = label(4_000, 9_000, "needs_you", "idle", known="")
    found = scored(
        [WORK, untold], shown(0, "autonomous", "thinking"), shown(5_000, "needs_you", "idle")
    )

    assert (found.settled, found.reachable, found.segments) == (2, 2, 2)
    assert found.right_ms <= found.reachable_ms < found.scored_ms


def test_registry_process_and_status_line_count_as_knowing_everything() -> None:
    untold = label(0, 900, "needs_you", known="")

    for witness in ("registry", "process", "statusline"):
        assert scored([untold], witnesses=("hooks", witness)).reachable == 1
    assert scored([untold], witnesses=("hooks", "transcript")).reachable == 0


# -- why a span was missed -------------------------------------------------------------------------


def missed(want: Label, got: Change, *witnesses: str) -> str:
    (miss,) = scored([want], got, witnesses=witnesses).misses
    return explained(miss, witnesses)


def test_a_miss_names_what_these_witnesses_cannot_know() -> None:
    acting = shown(4_000, "autonomous", "acting")
    escape = label(4_000, 9_000, "needs_you", "idle", known="line")
    dialog = label(4_000, 9_000, "needs_you", "needs_permission")

    assert "no hook fires on Esc or No" in missed(escape, acting, "hooks")
    assert "shows no open permission dialog" in missed(dialog, acting, "transcript")
    assert "told to line only" in missed(
        label(4_000, 9_000, "needs_you", known="line"), acting, "hooks"
    )


def test_a_miss_of_what_was_told_is_called_a_true_one() -> None:
    acting = shown(4_000, "autonomous", "acting")
    dialog = label(4_000, 9_000, "needs_you", "needs_permission")

    assert "TRUE MISS: known to hook and line" in missed(dialog, acting, "hooks")
    assert "TRUE MISS" in missed(IDLE, acting, "hooks", "transcript")
    assert "TRUE MISS" in missed(label(0, 900, "needs_you", known=""), acting, "registry")


# -- doubt and causes ------------------------------------------------------------------------------


def test_an_interval_is_wilsons_and_never_certain() -> None:
    assert [round(each, 4) for each in interval(1.0, 100)] == [0.963, 1.0]
    assert [round(each, 4) for each in interval(0.9, 100)] == [0.8256, 0.9448]
    assert interval(1.0, 0) == (0.0, 1.0)


def test_one_span_that_lasts_as_long_as_all_others_makes_the_time_doubtful() -> None:
    even = [label(at, at + 10_000, "autonomous") for at in range(0, 100_000, 10_000)]
    uneven = [*even[:-1], label(90_000, 900_000, "autonomous")]
    thinking = shown(0, "autonomous", "thinking")

    assert scored(even, thinking).weighted_interval[0] > 0.7
    assert scored(uneven, thinking).weighted_interval[0] < 0.3


def test_seconds_of_false_and_missed_needs_you_have_their_cause() -> None:
    found = scored(
        [WORK, IDLE], shown(0, "needs_you", "stuck"), shown(4_000, "autonomous", "acting")
    )

    assert found.false_by == {"stuck, while autonomous": 3_000}
    assert found.missed_by == {"idle (needs_you), shown as acting": 4_000}
