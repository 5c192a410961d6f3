"""Absurd numbers are set aside before they are folded, counted and told of."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from adsum_hub.inbox import read_entry, wrong_with
from adsum_shared import signals as s
from adsum_shared.envelope import Unread, encode_batch
from tests.spenders import NOON, TODAY

COMMON: dict[str, Any] = {"session_id": "s", "at": NOON, "seen": NOON, "source": "transcript"}


def used(**more: Any) -> s.UsageTotalled:
    return s.UsageTotalled(**COMMON, **{"day": TODAY, "model": "m", **more})


GOOD = [
    used(input_tokens=5, cache_1h_tokens=10**12),
    used(day="2026-11-21"),  # where the machine is, it is tomorrow
    s.CostReported(**COMMON, cost_usd=0.0, models={"m": s.ModelCost(1.5, 3)}),
    s.GaugesReported(**COMMON, context_tokens=0, limits=[s.RateLimit("five_hour", 101.5, NOON)]),
    s.Alive(**COMMON),
]
BAD = {
    "negative tokens": used(output_tokens=-1),
    "absurd tokens": used(cache_read_tokens=10**18),
    "negative searches": used(web_searches=-1),
    "no date": used(day="yesterday"),
    "no day of the calendar": used(day="2026-02-30"),
    "another form of a date": used(day="20261120"),
    "the day after tomorrow": used(day="2026-11-22"),
    "before there were agents": used(day="1970-01-01"),
    "no model": used(model=""),
    "a model with a line end": used(model="m\n"),
    "an endless model": used(model="m" * 300),
    "a region with a comma": used(geo="us,eu"),
    "negative dollars": s.CostReported(**COMMON, cost_usd=-0.01),
    "no number of dollars": s.CostReported(**COMMON, cost_usd=float("nan")),
    "endless dollars": s.CostReported(**COMMON, cost_usd=float("inf")),
    "absurd dollars": s.CostReported(**COMMON, cost_usd=1e30),
    "absurd dollars of a model": s.CostReported(
        **COMMON, cost_usd=1, models={"m": s.ModelCost(float("nan"))}
    ),
    "negative tokens of a model": s.CostReported(
        **COMMON, cost_usd=1, models={"m": s.ModelCost(1.0, -5)}
    ),
    "too many models": s.CostReported(
        **COMMON, cost_usd=1, models={f"m{n}": s.ModelCost(1.0) for n in range(101)}
    ),
    "a negative context": s.GaugesReported(**COMMON, context_tokens=-1),
    "a limit that is no number": s.GaugesReported(
        **COMMON, limits=[s.RateLimit("five_hour", float("nan"))]
    ),
    "a reset before all time": s.GaugesReported(
        **COMMON, limits=[s.RateLimit("five_hour", 1.0, -1)]
    ),
}


@pytest.mark.parametrize("signal", GOOD)
def test_what_can_be_is_believed(signal: s.Signal) -> None:
    assert wrong_with(signal) is None  # type: ignore[arg-type]


@pytest.mark.parametrize("signal", BAD.values(), ids=BAD)
def test_what_cannot_be_is_not(signal: s.Signal) -> None:
    assert wrong_with(signal)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("field", "number"),
    [
        (b'"input_tokens":5', b'"input_tokens":1' + b"0" * 30),
        (b'"input_tokens":5', b'"input_tokens":-5'),
    ],
)
def test_it_is_set_aside_alone_and_its_neighbours_are_kept(field: bytes, number: bytes) -> None:
    good = s.encode_signal(used(input_tokens=5))
    bad = good.replace(field, number)
    fields = encode_batch(
        spool_id="sp", first=1, nonce="n", sent_at=NOON, signals=[good, bad, good]
    )

    batch = read_entry("1-3", fields)

    assert [isinstance(each, Unread) for each in batch.signals] == [False, True, False]
    cause = batch.signals[1]
    assert isinstance(cause, Unread)
    assert len(cause.cause) < 300


def test_dollars_beyond_any_float_are_set_aside() -> None:
    good = s.encode_signal(s.CostReported(**COMMON, cost_usd=5.0))
    assert msgspec.json.decode(good)["cost_usd"] == 5.0
    bad = good.replace(b"5.0", b"1e999")
    fields = encode_batch(spool_id="sp", first=1, nonce="n", sent_at=NOON, signals=[bad])

    assert isinstance(read_entry("1-1", fields).signals[0], Unread)
