"""Which message a line tells of where ids lack, and names that nobody would take: no tokens are lost."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC
from typing import Any

import pytest

from adsum_collector.agents.records import UsageRecord
from adsum_collector.usage.merge import UsageSource
from adsum_hub.inbox import wrong_with
from adsum_shared.signals import UsageTotalled
from tests.ledgers import Totals
from tests.unit.collector.test_usage_lines import AT, line, read

LATER = "2026-11-21T23:31:48.260Z"
GEO = "inference_geo"


def told(record: UsageRecord) -> UsageTotalled:
    return UsageTotalled(
        session_id="s",
        at=AT,
        seen=AT,
        source="transcript",
        day="2026-11-21",
        model=record.model,
        geo=record.geo,
        output_tokens=record.output,
    )


@pytest.mark.parametrize(
    ("model", "known_as"),
    [
        (None, "unknown"),
        ("", "unknown"),
        (" \n\x7f", "unknown"),
        ("weird\nmodel\x00", "weirdmodel"),
        ("m" * 500, "m" * 200),
        ("m" * 201, "m" * 200),
    ],
)
def test_a_model_with_an_odd_name_or_none_loses_no_tokens(model: str | None, known_as: str) -> None:
    (record,), faults = read(line(message={"model": model}))

    assert (record.model, record.output) == (known_as, 2)
    assert faults == {"odd name": 1}
    assert wrong_with(told(record)) is None


def test_a_model_that_is_null_loses_no_tokens() -> None:
    raw = line().replace(b'"model": "m"', b'"model": null')

    (record,), faults = read(raw)

    assert (record.model, record.output, faults) == ("unknown", 2, {"odd name": 1})


@pytest.mark.parametrize("region", ["not available", "g" * 41, "g" * 5000, "us\n"])
def test_a_region_with_an_odd_name_loses_no_tokens(region: str) -> None:
    (record,), faults = read(line(usage={"output_tokens": 2, GEO: region}))

    assert (record.geo, record.output) == ("", 2)
    assert faults == {"odd name": 1}
    assert wrong_with(told(record)) is None


@pytest.mark.parametrize("name", ["claude-opus-5-5[1m]", "gateway/coder large", "m" * 200, "模型"])
def test_other_names_are_told_as_they_are(name: str) -> None:
    (record,), faults = read(line(message={"model": name}, usage={GEO: "eu.west-1"}))

    assert (record.model, record.geo, faults) == (name, "eu.west-1", {})
    assert wrong_with(told(record)) is None


def test_an_advisor_with_an_odd_name_loses_no_tokens() -> None:
    advice = {"type": "advisor_message", "model": "a\nb", "output_tokens": 9}

    records, _ = read(line(usage={"output_tokens": 2, "iterations": [advice]}))

    assert [(each.model, each.output) for each in records] == [("m", 2), ("ab", 9)]


# ---- which message, without ids ---------------------------------------------------------------


def messages(*raws: bytes) -> int:
    return len({(record.key, record.request) for record in read(*raws)[0]})


def nameless(second: int, **fields: Any) -> bytes:
    stamp = f"2026-11-21T23:31:{second:02}.260Z"
    return line(requestId=None, message={"id": None}, timestamp=stamp, **fields)


def test_answers_without_any_id_do_not_fall_together() -> None:
    assert messages(*(nameless(each, uuid=f"u{each}") for each in range(5))) == 5
    assert messages(*(nameless(each) for each in range(5))) == 5


def test_an_answer_without_any_id_is_the_same_in_a_fork() -> None:
    assert messages(nameless(1, uuid="u1"), nameless(1, uuid="u1", sessionId="fork")) == 1
    assert messages(nameless(1), nameless(1, sessionId="fork")) == 1


def test_the_clis_own_id_of_a_request_makes_copies_one_and_answers_apart() -> None:
    def answer(ref: str, second: int, identity: str | None, output: int) -> bytes:
        raw = nameless(second, requestRef=ref, uuid=f"u{second}", usage={"output_tokens": output})
        return (
            raw.replace(b'"message": {', b'"message": {"id": "%b", ' % identity.encode())
            if identity
            else raw
        )

    for identity in (None, "ocgo", "chatcmpl-1", "msg_1"):
        copies = [answer("a", 1, identity, 1), answer("a", 2, identity, 500)]
        assert messages(*copies) == 1
        assert messages(*copies, answer("b", 3, identity, 1), answer("b", 4, identity, 1)) == 2


def answers(identity: str, numbers: Sequence[int], *, side: bool) -> list[bytes]:
    """Each in two lines, as the CLI writes a text and a call of one answer."""
    return [
        nameless(each, requestRef=f"r{each}", isSidechain=side).replace(
            b'"message": {', b'"message": {"id": "%b", ' % identity.encode()
        )
        for number in numbers
        for each in (number, number)
    ]


@pytest.mark.parametrize("identity", ["chatcmpl", "ocgo-2", "chatcmpl-12345678"])
@pytest.mark.parametrize("side_first", [False, True])
def test_where_a_gateway_repeats_an_id_no_answer_of_a_subagent_falls_onto_another(
    identity: str, *, side_first: bool
) -> None:
    files = [
        (UsageSource(1, "a"), answers(identity, range(5), side=False)),
        (UsageSource(2, "a"), answers(identity, range(10, 15), side=True)),
        (UsageSource(3, "b"), answers(identity, range(20, 25), side=False)),
        (UsageSource(4, "b"), answers(identity, range(30, 35), side=True)),
        (UsageSource(5, "fork"), answers(identity, range(5), side=False)),
    ]
    found = Totals(UTC, lambda _model: None)

    for source, raws in reversed(files) if side_first else files:
        found.add(source, read(*raws)[0])

    told = {total.group.session_id: (total.messages, total.output) for total in found}
    assert {each: sums for each, sums in told.items() if sums[0]} == {"a": (10, 20), "b": (10, 20)}


def test_an_id_of_the_makers_own_is_one_message_whatever_the_request_is_called() -> None:
    found = Totals(UTC, lambda _model: None)

    for number, side in ((1, False), (2, True)):
        raws = answers("msg_01", [number], side=side)
        found.add(UsageSource(number, "a"), read(*raws)[0])

    assert len(found) == 1


def gateway(identity: str, **usage: int) -> bytes:
    return line(requestId=None, message={"id": identity}, usage=usage, timestamp=LATER)


@pytest.mark.parametrize(
    "identity",
    [
        "chatcmpl-B9MBs8CjcvOU2jLn4n570S5qMJKcT",
        "chatcmpl-1a2b3c4d",
        "gen-1718345013-AbC_d",
        "resp_0b1c67ccd2bed1ec",
        "3f2504e0-4f89-41d3-9a0c-0305e82c3301",
        "msg_01",
    ],
)
def test_a_gateways_message_that_grows_while_it_streams_is_one(identity: str) -> None:
    first = gateway(identity, input_tokens=9000, output_tokens=1)
    grown = gateway(identity, input_tokens=10_000, output_tokens=500, cache_read_input_tokens=9000)

    assert messages(first, grown) == 1


@pytest.mark.parametrize(
    "identity", ["gpt-4o", "ocgo-2", "chatcmpl-7", "completion", "claude-sonnet-4-20250514"]
)
def test_a_word_that_a_gateway_gives_to_all_is_not_one_message_a_day(identity: str) -> None:
    asked = [gateway(identity, input_tokens=size, output_tokens=9) for size in (10, 20, 30)]

    assert messages(*asked, *asked) == 3


@pytest.mark.parametrize("identity", ["r-1", "r-00000001", "chatcmpl"])
def test_an_id_that_a_gateway_gives_again_another_day_is_another_message(identity: str) -> None:
    days = ("2026-11-20T12:00:00Z", "2026-11-21T12:00:00Z")
    told = [
        read(line(requestId=None, message={"id": identity}, timestamp=at))[0]
        for at in (*days, days[0])
    ]

    assert len({record.key for records in told for record in records}) == 2
