"""What sessions of Codex use up: each response once, for whose it is, as rollouts of two versions tell."""

from __future__ import annotations

import os
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest

from adsum_collector.agents.codex.agent import Codex
from adsum_collector.agents.codex.usage_lines import ODD, TOKENS_MAX, RolloutMeter, tells
from adsum_collector.agents.records import TranscriptFile, UsageRecord
from adsum_collector.usage.ledger import Ledger
from adsum_collector.usage.reading import Errand, UsageReading
from adsum_collector.usage.scan import Scanner
from bench.corpus_codex import Rollouts
from tests.unit.collector.test_codex import (
    CHILD,
    CHILDS_TURN,
    MODEL,
    ROOT,
    TURN,
    begins,
    context,
    event,
    item,
    line,
    meta,
)

NEVER = 10**12


def spent(plain: int, output: int = 5, read: int = 0, written: int = 0) -> dict[str, int]:
    told = {"input_tokens": plain + read + written, "cached_input_tokens": read}
    told |= {"cache_write_input_tokens": written, "output_tokens": output}
    return told | {"reasoning_output_tokens": 1, "total_tokens": plain + read + written + output}


def response(ms: int, name: str, usage: dict[str, int]) -> bytes:
    return line(ms, "token_usage_record", response_id=name, usage=usage, thread_token_usage=usage)


def total(ms: int, usage: dict[str, int], sum_: dict[str, int] | None = None) -> bytes:
    info = {"total_token_usage": sum_ or usage, "last_token_usage": usage}
    return event(ms, "token_count", info=info, rate_limits=None)


def read(*lines: bytes) -> list[UsageRecord]:
    """In one go, and line by line, as a file grows, the meter is another one each time."""
    whole = RolloutMeter()
    whole.take(lines)
    records, known = whole.records(), ""
    bit_by_bit: list[UsageRecord] = []
    for each in lines:
        meter = RolloutMeter(known)
        meter.take([each])
        bit_by_bit += meter.records()
        known = meter.context
    assert bit_by_bit == records
    assert known == whole.context
    return records


def inputs(records: list[UsageRecord]) -> list[int]:
    return [record.input for record in records]


def test_a_response_is_told_by_a_line_of_its_own_and_not_again_by_the_total() -> None:
    one, two = spent(100, 7, read=40, written=20), spent(1)
    (first, second) = read(
        *(meta(), begins(), context(), response(3, "resp_1", one), total(4, one)),
        *(total(5, one), response(6, "resp_2", two), total(7, two, spent(101))),
    )
    assert (first.input, first.output, first.cache_read, first.cache_5m) == (100, 7, 40, 20)
    assert (first.model, first.fast, second.input) == (MODEL, False, 1)


def test_two_responses_that_used_the_same_are_two() -> None:
    one = spent(100)
    lines = (response(3, "resp_1", one), total(4, one), response(5, "resp_2", one))
    assert inputs(read(meta(), begins(), context(), *lines)) == [100, 100]


@pytest.mark.parametrize(
    ("read_", "written", "parts"),
    [(200, 9, (0, 100, 0)), (60, 70, (0, 60, 40)), (0, 7, (93, 0, 7))],
)
def test_no_more_counts_than_went_in(read_: int, written: int, parts: tuple[int, ...]) -> None:
    told = spent(100) | {"cached_input_tokens": read_, "cache_write_input_tokens": written}
    (record,) = read(meta(), context(), response(3, "resp_1", told))
    assert (record.input, record.cache_read, record.cache_5m) == parts


def test_before_that_a_total_tells_of_a_response_unless_it_was_told_before() -> None:
    one, two = spent(100), spent(30)
    records = read(
        *(meta(), begins(), context(), event(3, "token_count", info=None), total(4, one)),
        *(total(5, one), total(6, two, spent(130)), total(7, spent(0, 0), spent(130))),
    )
    assert inputs(records) == [100, 30]


def test_a_session_that_an_older_version_took_up_again_is_told_by_totals_from_there_on() -> None:
    one, two = spent(100), spent(30)
    records = read(
        *(meta(), context(), response(3, "resp_1", one), total(4, one)),
        total(5, two, spent(130)),
    )
    assert inputs(records) == [100, 30]


def test_a_killed_turn_that_has_no_total_counts() -> None:
    assert inputs(read(meta(), context(), response(3, "resp_1", spent(8)))) == [8]


def test_a_fork_that_repeats_its_parents_lines_counts_its_own() -> None:
    one, two = spent(100), spent(30)
    records = read(
        *(meta(CHILD, session_id=CHILD, forked_from_id=ROOT), meta(), begins(1, TURN)),
        *(context(), total(4, one), begins(5, CHILDS_TURN), total(6, one)),
        *(context(model="other"), total(7, two, spent(130))),
    )
    assert [(record.input, record.model) for record in records] == [(30, "other")]


def test_a_fork_that_refers_to_its_parents_lines_does_not_count_a_total_of_theirs() -> None:
    records = read(
        meta(CHILD, session_id=CHILD, forked_from_id=ROOT, history_base={"thread_id": ROOT}),
        *(begins(5, CHILDS_TURN), context(), total(6, spent(30), spent(130))),
        *(response(7, "resp_2", spent(4)), total(8, spent(4), spent(134))),
    )
    assert inputs(records) == [4]


@pytest.mark.parametrize(
    ("source", "about"),
    [("subagent", {"thread_spawn": {"parent_thread_id": ROOT}}), ("guardian_review", "guardian")],
)
def test_what_a_subagent_or_a_review_used_up_is_its_sessions(source: str, about: Any) -> None:
    meter = RolloutMeter()
    lines = [meta(CHILD, thread_source=source, source={"subagent": about}), meta()]
    meter.take([*lines, begins(2, CHILDS_TURN), context(), response(3, "resp_1", spent(9))])

    assert meter.whose == TranscriptFile(ROOT, CHILD)
    assert inputs(meter.records()) == [9]


def test_a_review_counts_apart_by_its_model() -> None:
    hidden = meta(CHILD, thread_source="guardian_review", source={"subagent": "guardian"})
    (record,) = read(hidden, context(model="codex-auto-review"), response(3, "resp_1", spent(9)))
    assert record.model == "codex-auto-review"


def test_the_quick_tier_counts_from_where_it_was_chosen_and_a_word_without_one_changes_nothing() -> (
    None
):
    def tier(**said: Any) -> bytes:
        return event(2, "thread_settings_applied", thread_settings=said)

    records = read(
        *(meta(), context(), tier(service_tier="priority"), tier(model=MODEL)),
        *(response(3, "r1", spent(1)), tier(service_tier="default"), response(4, "r2", spent(2))),
        *(tier(service_tier="flex"), response(5, "r3", spent(3))),
    )
    assert [record.fast for record in records] == [True, False, False]
    assert [record.model for record in records] == [MODEL, MODEL, f"{MODEL}-flex"]


def test_impossible_numbers_count_as_a_fault_and_nothing_else_does() -> None:
    meter = RolloutMeter()
    wrong = [response(3, "r1", spent(TOKENS_MAX + 1)), response(3, "r2", {"input_tokens": -1})]
    other = [item(3, "AgentMessage", content=[]), b'{"type":"world_state"', b"{}", b""]
    meter.take([meta(), context(), *wrong, *other])
    assert (meter.records(), meter.faults) == ([], {ODD: 2})


def test_lines_written_with_spaces_or_in_another_order_are_found(tmp_path: Path) -> None:
    one = spent(100)
    lines = [meta(), begins(), context(), response(3, "resp_1", one), total(4, one)]
    path = tmp_path / f"rollout-2026-11-23T09-40-00-{ROOT}.jsonl"
    path.write_bytes(b"".join(each + b"\n" for each in lines))
    (record,) = Scanner(lambda: NEVER, Codex.usage).scan(str(path)).records
    assert record.model == MODEL
    assert all(map(tells, lines))
    assert not tells(item(3, "AgentMessage"))


def test_a_line_that_is_torn_counts_once_it_is_whole(tmp_path: Path) -> None:
    whole = b"\n".join((meta(), begins(), context(), response(3, "resp_1", spent(100)), b""))
    path, scanner = tmp_path / "rollout.jsonl", Scanner(lambda: NEVER, Codex.usage)
    path.write_bytes(whole[:-40])
    torn = scanner.scan(str(path))
    path.write_bytes(whole)

    assert torn.records == []
    assert inputs(scanner.scan(str(path), torn.place).records) == [100]


def test_a_history_adds_up_to_what_it_was_made_with_and_again_when_read_twice(
    tmp_path: Path,
) -> None:
    truth = Rollouts(tmp_path, 3_000_000, 3).write()
    ledger, codex = Ledger.in_memory(lambda _model: None, UTC), Codex()
    paths = sorted(tmp_path.glob("sessions/*/*/*/*.jsonl"))
    whose = [codex.transcripts.file_of(path.name) for path in paths]
    errands = [
        Errand(os.fsencode(path), file)
        for path, file in zip(paths, whose, strict=True)
        if file is not None
    ]
    for each in (errands, errands[::-1]):
        reading = UsageReading(ledger, codex, lambda: 2 * NEVER)
        assert not any(batch.faults for batch in reading.read(each))

    sessions: dict[str, int] = {}
    sums = dict.fromkeys(truth.sums, 0)
    for kept in ledger:
        sessions[kept.group.session_id] = sessions.get(kept.group.session_id, 0) + kept.output
        for name in sums:
            sums[name] += getattr(kept, name)
    assert len(errands) == truth.files > 5
    assert (len(ledger), sums, sessions) == (truth.messages, dict(truth.sums), dict(truth.sessions))


def test_archived_sessions_are_read_too() -> None:
    found = Codex().transcript_dirs([Path("/c")], {}, Path("/h"))
    assert found == (Path("/c/sessions"), Path("/c/archived_sessions"))
