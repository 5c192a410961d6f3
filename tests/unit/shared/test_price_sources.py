"""Adsum's prices against two tables that others keep; where they differ, the reason stands here."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from adsum_shared.prices import load_book
from adsum_shared.signals import UsageTotalled

FOLDER = Path(__file__).parents[2] / "data" / "prices"
TAKEN = "2026-11-22"
LONG_AGO = "2026-01-01"
BOOK = load_book()
COLUMNS = {
    "input": "input_tokens",
    "output": "output_tokens",
    "cache_read": "cache_read_tokens",
    "cache_write_5m": "cache_5m_tokens",
    "cache_write_1h": "cache_1h_tokens",
}

CLAUDE_3 = "not in our table: Claude Code has never worked with it; genai-prices tells its price"
PREVIEW = "not in our table: it has had two prices, and no source says from when"
ONE_REGION = "no region before `anthropic.` is the global price there; it is one region's, +10 %"
OLD_VERTEX = "what Google once asked for; Anthropic's and genai-prices' tables say 0.80 and 4"
DIFFERENT: dict[str, dict[str, str]] = {
    "litellm": {
        "claude-mythos-preview": PREVIEW,
        "vertex_ai/claude-3-haiku@20240307": CLAUDE_3,
        "vertex_ai/claude-3-opus@20240229": CLAUDE_3,
        "vertex_ai/claude-3-sonnet@20240229": CLAUDE_3,
        "vertex_ai/claude-3-5-haiku@20241022": OLD_VERTEX,
        "anthropic.claude-fable-5-1": ONE_REGION,
        "anthropic.claude-haiku-4-5-20251001-v1:0": ONE_REGION,
        "anthropic.claude-haiku-4-5@20251001": ONE_REGION,
        "anthropic.claude-haiku-5-5": ONE_REGION,
        "anthropic.claude-opus-4-5-20251101-v1:0": ONE_REGION,
        "anthropic.claude-opus-5": ONE_REGION,
        "anthropic.claude-opus-5-5": ONE_REGION,
        "anthropic.claude-sonnet-4-5-20250929-v1:0": ONE_REGION,
        "bedrock_mantle/anthropic.claude-haiku-4-5": ONE_REGION,
    },
    "genai_prices": {
        "claude-2": CLAUDE_3,
        "claude-v1": CLAUDE_3,
        "claude-3-haiku": CLAUDE_3,
        "claude-3-opus-latest": CLAUDE_3,
        "claude-3-sonnet": CLAUDE_3,
        "regional.anthropic.claude-3-haiku-20240307-v1:0": CLAUDE_3,
        "regional.anthropic.claude-3-opus-20240229-v1:0": CLAUDE_3,
        "regional.anthropic.claude-3-sonnet-20240229-v1:0": CLAUDE_3,
    },
}


def table(name: str) -> dict[str, Any]:
    prices: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text())["prices"]
    return prices


def cost(model: str, day: str, column: str, **way: Any) -> float | None:
    usage = UsageTotalled(
        session_id="s", at=0, seen=0, day=day, model=model, **{COLUMNS[column]: 1_000_000}
    )
    return BOOK.cost(model, day, usage, **way)


def differences(model: str, day: str, row: dict[str, Any]) -> Iterator[str]:
    for column in COLUMNS:
        for long, rates in ((False, row), (True, row.get("long", {}))):
            theirs = rates.get(column)
            ours = cost(model, day, column, long=long)
            if theirs is not None and ours != pytest.approx(theirs):
                yield f"{column} long={long} on {day}: {ours}, there {theirs}"


def named(name: str) -> str:
    """Their names for a place in their table, as the ids that a request has."""
    return name.replace("regional.", "us.").removeprefix("bedrock_mantle/")


@pytest.mark.parametrize("name", table("litellm"))
def test_litellm_agrees(name: str) -> None:
    found = list(differences(named(name), TAKEN, table("litellm")[name]))

    assert bool(found) == (name in DIFFERENT["litellm"]), found


@pytest.mark.parametrize("name", table("genai_prices"))
def test_genai_prices_agrees(name: str) -> None:
    rows = table("genai_prices")[name]
    days = [row.get("from", LONG_AGO if len(rows) > 1 else TAKEN) for row in rows]
    found = [each for day, row in zip(days, rows, strict=True)
             for each in differences(named(name), day, row)]  # fmt: skip

    assert bool(found) == (name in DIFFERENT["genai_prices"]), found


@pytest.mark.parametrize(
    "name", [name for name in table("litellm") if name.startswith(("claude-", "gpt-"))]
)
def test_the_same_surcharges_and_fast_prices_as_litellm(name: str) -> None:
    row = table("litellm")[name]
    plain = cost(name, TAKEN, "input")
    if plain is None:
        assert name in DIFFERENT["litellm"]
        return
    fast = cost(name, TAKEN, "input", fast=True)

    assert cost(name, TAKEN, "input", geo="us") == pytest.approx(plain * row.get("us", 1))
    if "opus-4-6" in name or "opus-4-7" in name:
        # Its fast price is not in a table of today's prices, but in the days before 2026-07-24.
        assert "fast" not in row
        assert fast == pytest.approx(plain * 6)
    else:
        assert (fast is None) == ("fast" not in row)
        assert fast is None or fast == pytest.approx(plain * row["fast"])


def test_the_same_limits() -> None:
    """litellm has forgotten those of the past; genai-prices has not, and neither have we."""
    of_today = {name: row["above"] for name, row in table("litellm").items() if "above" in row}
    of_ever = {
        name: row["above"]
        for name, rows in table("genai_prices").items()
        for row in rows
        if "above" in row
    }

    assert all(BOOK.limit(named(name)) == limit for name, limit in {**of_today, **of_ever}.items())
    assert {name for name in of_ever if "." not in name} == {
        "claude-haiku-5-5", "claude-opus-4-6", "claude-sonnet-4-5", "claude-sonnet-4-6",
        "gpt-6-astra", "gpt-6-luna", "gpt-6-sol",
    }  # fmt: skip


def test_every_model_of_ours_is_in_one_of_them() -> None:
    from adsum_shared.prices import SHIPPED, names_of, read_prices

    theirs = {names_of(name) for name in (*table("litellm"), *table("genai_prices"))}
    bare = {names.bare for names in theirs if names is not None}
    # An alias, and one that has the price of the other Mythos models.
    aliases = {"claude-opus-4", "claude-sonnet-4"}

    assert read_prices(SHIPPED).keys() - bare - aliases == set()
