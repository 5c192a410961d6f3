"""The fallback: what genai-prices knows, when it is loaded, and what it must not answer."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from adsum_hub.usage.prices import Wanted, complete_book, known_price, open_book
from adsum_shared.prices import load_book
from adsum_shared.signals import UsageTotalled

TODAY = "2026-11-22"
USED = UsageTotalled(
    session_id="s", at=0, seen=0, day=TODAY, model="any", input_tokens=1_000_000, output_tokens=1000
)


def test_a_model_that_our_table_lacks_has_a_price() -> None:
    book = load_book(fallback=known_price)

    assert load_book().cost("claude-3-opus-20240229", TODAY, USED) is None
    assert book.cost("claude-3-opus-20240229", TODAY, USED) == pytest.approx(15.075)
    assert book.cost("us.anthropic.claude-3-opus-20240229-v1:0", TODAY, USED) == pytest.approx(
        15.075
    )
    assert book.context("claude-3-opus") == 200_000


def test_another_vendor_s_model_behind_a_gateway() -> None:
    book = load_book(fallback=known_price)

    for model in ("gpt-4o", "GPT-4o", "gpt-4o-2024-08-06"):
        assert book.cost(model, TODAY, USED) == pytest.approx(2.51)


def test_a_cache_without_a_rate_of_its_own_is_billed_as_input() -> None:
    price = known_price("gpt-4o", TODAY)

    assert price is not None
    assert price.cache_write_5m == price.cache_write_1h == price.input


def test_a_newer_claude_model_costs_more_where_its_place_is_set() -> None:
    new, old = known_price("claude-opus-5-5", TODAY), known_price("claude-3-opus", TODAY)

    assert new is not None
    assert old is not None
    assert (new.us, new.regional) == (1.1, 1.1)
    assert (old.us, old.regional) == (1.0, 1.0)


def test_a_price_is_the_day_s() -> None:
    assert known_price("claude-opus-4-6", "2026-03-12") is None, "its tiers are not for us"
    price = known_price("claude-opus-4-6", "2026-03-13")

    assert price is not None
    assert price.input == 5


@pytest.mark.parametrize(
    "model",
    ["claude-opus-6", "claude-opus-4-9", "claude-opus-4-8-fast", "claude-haiku-4-5-mini",
     "claude-opus-5-fast", "gpt-4o-of-ours", "us-gov.anthropic.claude-opus-5", "my-own-model", "", "claude-"],
)  # fmt: skip
def test_what_only_begins_like_a_model_has_no_price(model: str) -> None:
    assert known_price(model, TODAY) is None


def test_a_model_whose_price_depends_on_the_prompt_has_none() -> None:
    """Its limit is not known where prompts are counted, so a price would be too low at times."""
    assert known_price("claude-haiku-5-5", TODAY) is None


@pytest.mark.parametrize("day", ["", "soon", "2026-11-31", "2026-11-22T10:00"])
def test_a_day_that_is_none_has_no_price(day: str) -> None:
    assert known_price("claude-3-opus", day) is None


def test_it_is_loaded_when_it_is_asked_and_not_before() -> None:
    script = """
import sys
from adsum_hub.usage.prices import known_price
from adsum_shared.prices import load_book
from adsum_shared.signals import UsageTotalled
import adsum_hub.app, adsum_collector.app
book = load_book(fallback=known_price)
used = UsageTotalled(session_id="s", at=0, seen=0, day="2026-11-22", model="any", input_tokens=1)
book.cost("claude-opus-5", "2026-11-22", used)
book.limit("gpt-4o")
print("genai_prices" in sys.modules)
book.cost("gpt-4o", "2026-11-22", used)
print("genai_prices" in sys.modules)
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert run.stdout.split() == ["False", "True"]


async def test_the_bigger_table_is_loaded_beside_the_loop_and_only_if_it_is_wanted(tmp_path: Path):
    wanted, got = Wanted(), []
    first = open_book(tmp_path / "none.toml", wanted).book
    waiting = asyncio.create_task(complete_book(wanted, tmp_path / "none.toml", got.append))
    assert first.cost("claude-opus-5-5", TODAY, USED)
    await asyncio.sleep(0)
    assert not wanted.asked.is_set()

    assert first.cost("gpt-4o", TODAY, USED) is None
    await waiting
    assert got[0].cost("gpt-4o", TODAY, USED) == pytest.approx(2.51)


def test_until_it_is_wanted_nothing_loads_it():
    code = (
        "import sys; from pathlib import Path; from adsum_hub.usage.prices import Wanted, open_book;"
        "book = open_book(Path('/nowhere'), Wanted()).book;"
        "from adsum_hub.facts import Usage; book.cost('gpt-4o', '2026-11-22', Usage(messages=1));"
        "book.context('gpt-4o'); sys.exit('genai_prices' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
