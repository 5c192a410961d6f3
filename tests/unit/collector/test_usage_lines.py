"""What one line of a transcript tells about tokens: one test per way in which it can be odd."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import reduce
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adsum_collector.agents.claude_code.usage_lines import LAST, Meter, has_usage, own_time
from adsum_collector.agents.records import NO_WRITES, SPLIT, UNSPLIT, UsageRecord, joined

AT = 1_795_303_906_260
#: As Claude Code 2.1.330 writes it, with its order of keys.
NEW = (
    b'{"parentUuid":"fecc7aa0-f380-4317-8753-593d6edf228d","isSidechain":false,"message":{"id":"msg_0'
    b'1c8c0741f1ffc4ecdaafa65","type":"message","role":"assistant","model":"claude-opus-5-5","content"'
    b':[{"type":"text","text":"Hello \\"usage\\":{ there."}],"stop_reason":"end_turn","stop_sequence":null,'
    b'"usage":{"input_tokens":1200,"cache_creation_input_tokens":300,"cache_read_input_tokens":4000,'
    b'"output_tokens":40,"output_tokens_details":{"thinking_tokens":0},"server_tool_use":{"web_search_r'
    b'equests":2,"web_fetch_requests":0},"service_tier":"standard","cache_creation":{"ephemeral_1h_inpu'
    b't_tokens":200,"ephemeral_5m_input_tokens":100},"inference_geo":"us","iterations":[],"speed":"fast"'
    b',"fallback_credit":null},"stop_details":null},"apiBlockIndex":0,"requestId":"req_74d065023dcc42b'
    b'398e6","type":"assistant","uuid":"112e5a06-0b33-48e8-bc4b-6f14696bed72","timestamp":"2026-11-21T2'
    b'3:31:46.260Z","cwd":"/home/dev","sessionId":"69d5f2b4-8a96-4b2a-9ddf-c489364155b3","version":"2.1.330"}'
)
#: As older ones did.
OLD = (
    b'{"parentUuid":null,"isSidechain":true,"userType":"external","cwd":"/home/dev","sessionId":"s1","ver'
    b'sion":"2.0.14","gitBranch":"main","message":{"model":"claude-sonnet-4-5","id":"msg_01c8c0741f1ffc4ec'
    b'daafa65","type":"message","role":"assistant","content":[],"usage":{"input_tokens":4,"output_tokens":5}}'
    b',"requestId":"req_1","type":"assistant","uuid":"u","timestamp":"2026-11-21T23:31:46.260Z"}'
)


def line(**fields: Any) -> bytes:
    """usage: of the message; None leaves it out. Others are the line's own."""
    usage = fields.pop("usage", {"input_tokens": 1, "output_tokens": 2})
    message = {"id": "msg_1", "model": "m", "role": "assistant", "usage": usage}
    message |= fields.pop("message", {})
    whole = {
        "type": "assistant",
        "message": {name: value for name, value in message.items() if value is not None},
        "timestamp": "2026-11-21T23:31:46.260Z",
        "requestId": "req_1",
    }
    return json.dumps(whole | fields).encode()


def read(*lines: bytes) -> tuple[list[UsageRecord], dict[str, int]]:
    meter = Meter()
    meter.take(lines)
    return meter.records(), dict(meter.faults)


def one(raw: bytes) -> UsageRecord:
    (record,), faults = read(raw)
    assert not faults
    return record


def test_a_line_tells_all_there_is_to_pay_for() -> None:
    record = one(NEW)

    assert record == UsageRecord(
        key=record.key,
        request=record.request,
        at=AT,
        model="claude-opus-5-5",
        fast=True,
        geo="us",
        input=1200,
        output=40,
        cache_read=4000,
        cache_5m=100,
        cache_1h=200,
        writes=SPLIT,
        web_searches=2,
    )
    assert 0 < record.key < 2**61
    assert 0 < record.request < 2**32


def test_a_messages_key_is_the_same_on_every_machine() -> None:
    assert one(NEW).key == int.from_bytes(b"msg_01c8c0741f1ffc4ecdaafa65") % (2**61 - 1)


def test_the_order_of_keys_does_not_matter() -> None:
    record = one(OLD)

    assert record.key == one(NEW).key
    assert (record.model, record.sidechain, record.at) == ("claude-sonnet-4-5", True, AT)
    assert (record.input, record.output, record.writes) == (4, 5, NO_WRITES)


@pytest.mark.parametrize(
    "raw",
    [
        line(type="user"),
        line(usage=None),
        line(message={"model": "<synthetic>"}),
        line(isApiErrorMessage=True),
        line(type="user", message={"usage": None}, toolUseResult={"usage": {"input_tokens": 9}}),
        line(type="progress", message={}, data={"message": {"usage": {"input_tokens": 9}}}),
        b'{"type":"assistant","message":null}',
        b'{"type":"assistant","message":{"usage":null}}',
        b'{"type":"assistant","message":[]}',
        b'{"type":"assistant"}',
        b'{"type":"user","message":42}',
        b"[]",
        b"null",
        b'"assistant"',
    ],
)
def test_a_line_about_something_else_tells_nothing_and_is_no_fault(raw: bytes) -> None:
    assert read(raw) == ([], {})
    assert not has_usage(raw)


@pytest.mark.parametrize(
    "number", [-1, 10**8 + 1, 2**32, 10**400, 1.5, 1e300, True, "12", [1], {"a": 1}]
)
@pytest.mark.parametrize(
    "name",
    ["input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"],
)
def test_a_number_of_tokens_that_cannot_be_is_a_fault_and_never_counted(
    name: str, number: object
) -> None:
    assert read(line(usage={"input_tokens": 5, "output_tokens": 5, name: number})) == (
        [],
        {"odd usage": 1},
    )


@pytest.mark.parametrize("number", ["1" + "0" * 5000, "NaN", "Infinity", "-Infinity", "1e999"])
def test_a_number_no_decoder_likes_is_a_fault(number: str) -> None:
    raw = line(usage={"input_tokens": 77777, "output_tokens": 5}).replace(b"77777", number.encode())

    records, faults = read(raw)

    assert not records
    assert sum(faults.values()) == 1


def test_what_cannot_be_is_refused_below_too() -> None:
    for usage in (
        {"cache_creation": {"ephemeral_1h_input_tokens": -1}},
        {"server_tool_use": {"web_search_requests": -1}},
        {"iterations": [{"type": "advisor_message", "model": "m", "input_tokens": -1}]},
    ):
        assert read(line(usage={"input_tokens": 1} | usage)) == ([], {"odd usage": 1})


def test_the_largest_number_that_can_be_is_counted() -> None:
    assert one(line(usage={"output_tokens": 10**8})).output == 10**8


@pytest.mark.parametrize("number", [256, 300, 10**30, 1e300])
def test_more_searches_than_can_be_are_a_fault_and_lose_no_tokens(number: float) -> None:
    searches = {"server_tool_use": {"web_search_requests": number}}

    (record,), faults = read(line(usage={"output_tokens": 7} | searches))

    assert (record.output, record.web_searches) == (7, 255)
    assert faults == {"odd usage": 1}


def test_null_is_nothing() -> None:
    record = one(
        line(
            usage={
                "input_tokens": None,
                "output_tokens": 7,
                "cache_creation": {"ephemeral_5m_input_tokens": None},
                "server_tool_use": None,
                "speed": None,
                "iterations": None,
            }
        )
    )

    assert (record.input, record.output, record.writes) == (0, 7, NO_WRITES)


def test_a_field_of_another_type_than_expected_loses_no_tokens() -> None:
    (record,), faults = read(
        line(
            usage={
                "output_tokens": 7,
                "speed": {"tier": 1},
                "inference_geo": ["us"],
                "iterations": "none",
                "server_tool_use": 3,
                "cache_creation": "all",
            },
            message={"model": 5},
            isSidechain="no",
            requestId=17,
            isApiErrorMessage="",
        )
    )

    assert (record.output, record.model, record.fast, record.geo) == (7, "unknown", False, "")
    assert (record.sidechain, record.request) == (False, 0)
    assert faults == {"odd name": 1}


def test_half_an_emoji_in_a_name_loses_no_tokens() -> None:
    raw = NEW.replace(b'"req_', rb'"\ud83d_').replace(b'"msg_', rb'"\ud83d_')

    assert one(raw).output == 40


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"cache_creation_input_tokens": 300}, (300, 0, UNSPLIT)),
        # what the CLI writes when it was not told
        (
            {
                "cache_creation_input_tokens": 300,
                "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
            },
            (300, 0, UNSPLIT),
        ),
        (
            {
                "cache_creation_input_tokens": 300,
                "cache_creation": {
                    "ephemeral_5m_input_tokens": 0,
                    "ephemeral_1h_input_tokens": 298,
                },
            },
            (2, 298, SPLIT),
        ),
        (
            {
                "cache_creation_input_tokens": 300,
                "cache_creation": {"ephemeral_5m_input_tokens": 302},
            },
            (302, 0, SPLIT),
        ),
        ({"cache_creation": {"ephemeral_1h_input_tokens": 9}}, (0, 9, SPLIT)),
        ({"cache_creation": None}, (0, 0, NO_WRITES)),
        ({}, (0, 0, NO_WRITES)),
    ],
)
def test_what_is_written_to_the_cache(
    usage: dict[str, Any], expected: tuple[int, int, int]
) -> None:
    record = one(line(usage=usage))

    assert (record.cache_5m, record.cache_1h, record.writes) == expected


@pytest.mark.parametrize(
    "wrapped",
    [
        pytest.param(lambda raw: b"\xef\xbb\xbf" + raw, id="BOM"),
        pytest.param(lambda raw: b"\0" * 5000 + raw, id="NUL before"),
        pytest.param(lambda raw: raw + b"\0" * 50, id="NUL behind"),
        pytest.param(lambda raw: raw + b"\r", id="CR"),
        pytest.param(lambda raw: b" \t" + raw + b"  ", id="blanks"),
    ],
)
def test_what_surrounds_a_line_does_not_matter(wrapped: Any) -> None:
    assert one(wrapped(NEW)) == one(NEW)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(rb'"half an emoji \ud83d"', id="lone surrogate"),
        pytest.param(b'"\xff\xfe\xc3("', id="invalid UTF-8"),
        pytest.param(b"1" + b"0" * 400, id="10 to the 400"),
        pytest.param(b'{"__proto__":{"usage":{"input_tokens":9}},"constructor":1}', id="prototype"),
        pytest.param(b'[{"input":{"usage":{"input_tokens":9},"role":"user"}}]', id="usage inside"),
        pytest.param(b'"' + b"x" * 10_000_000 + b'"', id="10 MB"),
        pytest.param(b"NaN", id="NaN"),
        pytest.param(b'"\\u0000 \\"usage\\":{\\"input_tokens\\":9}"', id="usage in a text"),
    ],
)
def test_whatever_a_message_says_its_tokens_are_counted(content: bytes) -> None:
    raw = NEW.replace(b'[{"type":"text","text":"Hello \\"usage\\":{ there."}]', content)
    assert raw != NEW

    assert one(raw) == one(NEW)


@pytest.mark.parametrize(
    "raw",
    [
        b'{"role":"assistant","usage":{',
        b'{"type":"assistant","message":{"role":"assistant","content":' + b"[" * 100_000,
        NEW.replace(b"[{", b"[" * 100_000 + b"{").replace(b"}],", b"}" + b"]" * 100_000 + b","),
        b"\xff" * 50,
        b"\0" * 50,
        b"",
        b"garbage",
        NEW[:-1],
        NEW + NEW,
    ],
)
def test_what_is_no_json_is_a_fault_and_nothing_else(raw: bytes) -> None:
    records, faults = read(raw)

    assert not records
    assert faults == {"no JSON": 1}


def test_of_a_key_given_twice_the_last_counts() -> None:
    raw = NEW.replace(b'"output_tokens":40', b'"output_tokens":4,"output_tokens":40')

    assert raw != NEW
    assert one(raw) == one(NEW)


@given(st.binary(max_size=400), st.integers(0, len(NEW)), st.integers(0, 60))
def test_no_content_raises(noise: bytes, at: int, cut: int) -> None:
    meter = Meter()
    meter.take([noise])
    meter.take([NEW[:at] + noise + NEW[at + cut :], NEW])

    assert one(NEW) in [*meter.records(), one(NEW)]


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "input_tokens",
                        "output_tokens",
                        "cache_creation",
                        "iterations",
                        "type",
                        "model",
                        "speed",
                    ]
                ),
                inner,
                max_size=4,
            )
        ),
        max_leaves=12,
    )
)
def test_whatever_usage_is_it_is_counted_refused_or_nothing(usage: object) -> None:
    records, faults = read(line(usage=usage))

    assert len(faults) <= 1
    assert all(
        0 <= number < 2**32 for record in records for number in (record.input, record.output)
    )


# ---- which message it is ----------------------------------------------------------------------


def test_the_same_id_and_request_are_the_same_message_and_another_request_is_not() -> None:
    records = [one(line(requestId=request)) for request in ("a", "a", "b")]

    assert len({(record.key, record.request) for record in records}) == 2
    assert len({record.key for record in records}) == 1


def test_without_a_request_the_id_alone_counts() -> None:
    first, other = (line(requestId=None, usage={"input_tokens": tokens}) for tokens in (0, 5))

    assert one(first).key == one(other).key
    assert one(first).request == 0


def test_with_a_request_any_id_alone_counts() -> None:
    first, other = (
        line(message={"id": "chat"}, usage={"input_tokens": tokens}) for tokens in (0, 5)
    )

    assert one(first).key == one(other).key


def test_a_gateway_that_gives_one_word_for_an_id_to_all_does_not_make_them_one_message() -> None:
    asked = [
        line(
            requestId=None,
            message={"id": "chat"},
            usage={"input_tokens": tokens, "output_tokens": 3},
        )
        for tokens in (5, 5, 6)
    ]

    assert [record.input for record in read(*asked)[0]] == [5, 6]
    assert len({one(raw).key for raw in asked}) == 2


def test_without_any_id_the_request_names_the_message() -> None:
    records = [one(line(message={"id": None}, requestId=request)) for request in ("a", "b", "a")]

    assert len({record.key for record in records}) == 2


def test_keys_are_the_same_in_every_process() -> None:
    assert (one(NEW).key, one(NEW).request) == (1940694683514004684, 4239877446)


# ---- copies that follow each other ------------------------------------------------------------


def copies(*outputs: int) -> list[bytes]:
    return [line(usage={"input_tokens": 3, "output_tokens": output}) for output in outputs]


@pytest.mark.parametrize("outputs", [(8, 8, 631), (40, 40), (5,), (631, 8, 8), (8, 631, 9)])
def test_copies_of_a_message_are_one_record_with_the_most_output(outputs: tuple[int, ...]) -> None:
    records, _ = read(*copies(*outputs))

    assert [record.output for record in records] == [max(outputs)]


def test_copies_are_one_also_where_the_reading_is_interrupted() -> None:
    meter = Meter()
    for raw in copies(8, 631):
        meter.take([raw])

    assert [record.output for record in meter.records()] == [631]
    assert meter.records() == []


def test_a_copy_told_later_and_dated_earlier_dates_the_message() -> None:
    records, _ = read(line(), line(timestamp="2026-11-21T20:00:00Z"))

    assert min(record.at for record in records) == AT - 12_706_260
    assert len({record.key for record in records}) == 1


def test_a_line_that_tells_nothing_adds_nothing_to_the_message_it_names() -> None:
    grown = {"usage": {"input_tokens": 1, "output_tokens": 900}}

    records, _ = read(
        line(), line(type="user", **grown), line(), line(isApiErrorMessage=True, **grown)
    )

    assert {record.output for record in records} == {2}


def test_another_message_of_the_same_id_adds_nothing_to_the_one_before() -> None:
    records, _ = read(
        *(
            line(
                requestId=None,
                message={"id": "chat"},
                usage={"input_tokens": n, "output_tokens": n},
            )
            for n in (1, 900)
        )
    )

    assert [record.output for record in records] == [1, 900]


COPIES = st.builds(
    lambda name, request, output, flags, second: line(
        message={"id": f"msg_{name}", "model": flags[0]},
        requestId=request,
        isSidechain=flags[1],
        timestamp=f"2026-11-21T23:31:{second:02}Z",
        usage={"input_tokens": output // 2, "output_tokens": output, "speed": flags[2]}
        | ({"cache_creation_input_tokens": 30} if flags[3] else {})
        | ({"cache_creation": {"ephemeral_1h_input_tokens": 30}} if flags[4] else {}),
    ),
    st.sampled_from("ab"),
    st.sampled_from(["r", "s", None]),
    st.integers(0, 5),
    st.tuples(
        st.sampled_from(["m", "n"]),
        st.booleans(),
        st.sampled_from(["fast", None]),
        st.booleans(),
        st.booleans(),
    ),
    st.integers(0, 2),
)


def by_message(records: Iterable[UsageRecord]) -> dict[tuple[int, int, bool], UsageRecord]:
    """Apart by what kind of agent told it: what outweighs what is the totals' business."""
    found: dict[tuple[int, int, bool], list[UsageRecord]] = {}
    for record in records:
        found.setdefault((record.key, record.request, record.sidechain), []).append(record)
    return {message: reduce(joined, alike) for message, alike in found.items()}


@given(st.lists(COPIES, max_size=12))
def test_lines_read_together_tell_the_same_as_each_alone(lines: list[bytes]) -> None:
    together, _ = read(*lines)
    alone = [record for raw in lines for record in read(raw)[0]]

    assert by_message(together) == by_message(alone)
    assert len(together) <= len(alone)


# ---- advice, times ----------------------------------------------------------------------------


def test_advice_of_another_model_is_a_record_of_its_own() -> None:
    advice = {
        "type": "advisor_message",
        "model": "claude-fable-5",
        "input_tokens": 1000,
        "output_tokens": 2000,
        "cache_creation_input_tokens": 7,
    }
    own = {"type": "message", "model": "m", "input_tokens": 1, "output_tokens": 2}
    nobodys = {"type": "advisor_message", "model": None, "input_tokens": 9}
    raw = line(
        usage={"input_tokens": 1, "output_tokens": 2, "iterations": [own, advice, nobodys, advice]}
    )

    records, faults = read(raw, raw)

    assert [(each.model, each.input, each.output, each.cache_5m) for each in records] == [
        ("m", 1, 2, 0),
        ("claude-fable-5", 1000, 2000, 7),
        ("claude-fable-5", 1000, 2000, 7),
    ]
    assert len({each.key for each in records}) == 3
    assert not faults


def test_advice_that_only_the_last_copy_tells_or_that_is_oddly_written_is_counted() -> None:
    asked = {
        "type": "advisor_message",
        "model": "a\ud83d",
        "input_tokens": None,
        "output_tokens": 9,
    }
    first = line(usage={"input_tokens": 1, "output_tokens": 2, "iterations": []})
    last = line(usage={"input_tokens": 1, "output_tokens": 2, "iterations": [7, asked]})

    for raws in ([first, last], [first, last.replace(b"req_1", rb"\ud83d")]):
        records, faults = read(*raws)
        assert [(each.model, each.output) for each in records] == [("m", 2), ("m", 2), ("a?", 9)]
        assert not faults


def test_advice_in_a_text_is_none() -> None:
    raw = line(message={"content": '"iterations":[{"type":"advisor_message"}]'})

    assert one(raw) == one(line())


@pytest.mark.parametrize(
    ("stamp", "at"),
    [
        ("2026-11-21T23:31:46.260Z", AT),
        ("2026-11-22T00:31:46.260+01:00", AT),
        ("2026-11-21T23:31:46.260", AT),
        ("2026-11-21T23:31:46.260999Z", AT),
        ("1970-01-01T00:00:00Z", 0),
    ],
)
def test_times_are_milliseconds_of_utc(stamp: str, at: int) -> None:
    assert one(line(timestamp=stamp)).at == at


@pytest.mark.parametrize(
    "stamp",
    [
        None,
        5,
        "",
        "yesterday",
        "1969-12-31T23:59:59Z",
        "2106-02-07T06:28:16Z",
        "9999-12-31T23:59:59Z",
    ],
)
def test_a_message_of_no_time_is_a_fault(stamp: object) -> None:
    assert read(line(timestamp=stamp)) == ([], {"odd usage": 1})


def test_the_last_second_that_fits_is_counted() -> None:
    assert LAST == 2**32 * 1000
    assert one(line(timestamp="2106-02-07T06:28:15.999Z")).at == LAST - 1


def test_the_time_of_a_line_that_a_fork_does_not_repeat() -> None:
    assert own_time(b'{"type":"queue-operation","timestamp":"2026-11-21T23:31:46.260Z"}') == AT
    for raw in (b'{"type":"queue-operation"}', b'{"type":"queue-operation","timestamp":3}', b"{"):
        assert own_time(raw) is None
