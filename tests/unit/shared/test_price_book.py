"""What tokens cost: the vendor's list row by row, every modifier, who is asked first, and laws."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adsum_shared.prices import Book, Price, load_book
from adsum_shared.signals import UsageTotalled

TODAY = "2026-11-22"
MILLION = 1_000_000
BOOK = load_book()

#: input, 5 min write, 1 h write, cache read, output: as the vendor's page lists them
LIST = {
    "claude-fable-5-2": (8, 10, 16, 0.20, 40),
    "claude-fable-5-1": (10, 12.50, 20, 0.25, 50),
    "claude-fable-5": (10, 12.50, 20, 1.00, 50),
    "claude-mythos-5": (10, 12.50, 20, 1.00, 50),
    "claude-opus-5-5": (4, 5, 8, 0.20, 20),
    "claude-opus-5": (5, 6.25, 10, 0.50, 25),
    "claude-opus-4-8": (5, 6.25, 10, 0.50, 25),
    "claude-opus-4-7": (5, 6.25, 10, 0.50, 25),
    "claude-opus-4-6": (5, 6.25, 10, 0.50, 25),
    "claude-opus-4-5": (5, 6.25, 10, 0.50, 25),
    "claude-opus-4-1": (15, 18.75, 30, 1.50, 75),
    "claude-opus-4": (15, 18.75, 30, 1.50, 75),
    "claude-sonnet-5-5": (2, 2.50, 4, 0.10, 10),
    "claude-sonnet-5": (2, 2.50, 4, 0.20, 10),
    "claude-sonnet-4-6": (3, 3.75, 6, 0.30, 15),
    "claude-sonnet-4-5": (3, 3.75, 6, 0.30, 15),
    "claude-sonnet-4": (3, 3.75, 6, 0.30, 15),
    "claude-haiku-5-5": (0.10, 0.125, 0.20, 0.01, 0.50),
    "claude-haiku-4-5": (1, 1.25, 2, 0.10, 5),
    "claude-3-5-haiku": (0.80, 1, 1.60, 0.08, 4),
}
COLUMNS = (
    "input_tokens", "cache_5m_tokens", "cache_1h_tokens", "cache_read_tokens", "output_tokens",
)  # fmt: skip
FAST = {
    "claude-fable-5-2": (16, 20, 32, 0.40, 80),
    "claude-opus-5-5": (8, 10, 16, 0.40, 40),
    "claude-opus-5": (10, 12.50, 20, 1.00, 50),
    "claude-opus-4-8": (10, 12.50, 20, 1.00, 50),
    "claude-opus-4-7": (30, 37.50, 60, 3.00, 150),
    "claude-opus-4-6": (30, 37.50, 60, 3.00, 150),
}
NOT_IN_THE_US_ONLY = {
    "claude-opus-4-5", "claude-opus-4-1", "claude-opus-4", "claude-sonnet-4-5", "claude-sonnet-4",
    "claude-haiku-4-5", "claude-3-5-haiku",
}  # fmt: skip
NOT_DEARER_IN_A_REGION = {
    "claude-opus-4-1", "claude-opus-4", "claude-sonnet-4", "claude-3-5-haiku",
}  # fmt: skip
LONG_ONCE = {
    "claude-opus-4-6": (10, 12.50, 20, 1.00, 37.50),
    "claude-sonnet-4-6": (6, 7.50, 12, 0.60, 22.50),
    "claude-sonnet-4-5": (6, 7.50, 12, 0.60, 22.50),
    "claude-sonnet-4": (6, 7.50, 12, 0.60, 22.50),
}


def used(**tokens: int) -> UsageTotalled:
    return UsageTotalled(session_id="s", at=0, seen=0, day=TODAY, model="any", **tokens)


def rates(
    book: Book,
    model: str,
    day: str = TODAY,
    *,
    fast: bool = False,
    geo: str = "",
    long: bool = False,
) -> tuple[float | None, ...]:
    """Of a million tokens of each kind, one kind at a time."""
    return tuple(
        book.cost(model, day, used(**{column: MILLION}), fast=fast, geo=geo, long=long)
        for column in COLUMNS
    )


def times(factor: float, row: tuple[float, ...]) -> tuple[object, ...]:
    return tuple(pytest.approx(factor * rate) for rate in row)


def book_of(tmp_path: Path, text: str) -> Book:
    file = tmp_path / "prices.toml"
    file.write_text(text)
    return load_book(file)


def entry(model: str, rate: float, more: str = "") -> str:
    return (
        f'[[price]]\nmodels = ["{model}"]\ninput = {rate}\noutput = {rate}\ncache_read = {rate}\n'
        f"cache_write_5m = {rate}\ncache_write_1h = {rate}\n{more}\n"
    )


def flat(model: str, rate: float) -> Price:
    return Price(
        models=[model],
        input=rate,
        output=rate,
        cache_read=rate,
        cache_write_5m=rate,
        cache_write_1h=rate,
    )


@pytest.mark.parametrize("model", LIST)
def test_every_row_of_the_list(model: str) -> None:
    assert rates(BOOK, model) == times(1, LIST[model])


@pytest.mark.parametrize("model", LIST)
def test_a_web_search_costs_a_cent_wherever_and_however_fast(model: str) -> None:
    searches = used(web_searches=1000)

    assert BOOK.cost(model, TODAY, searches) == pytest.approx(10)
    assert BOOK.cost(model, TODAY, searches, geo="us", long=True) == pytest.approx(10)
    if model in FAST:
        assert BOOK.cost(model, TODAY, searches, fast=True) == pytest.approx(10)


@pytest.mark.parametrize("model", FAST)
def test_fast_mode_multiplies_every_rate(model: str) -> None:
    assert rates(BOOK, model, fast=True) == times(1, FAST[model])


@pytest.mark.parametrize("model", sorted(LIST.keys() - FAST.keys()))
def test_fast_tokens_of_a_model_without_a_fast_price_have_none(model: str) -> None:
    assert rates(BOOK, model, fast=True) == (None,) * 5


@pytest.mark.parametrize("model", LIST)
def test_inference_in_the_us_only_costs_a_tenth_more_since_4_6(model: str) -> None:
    factor = 1 if model in NOT_IN_THE_US_ONLY else 1.1

    assert rates(BOOK, model, geo="us") == times(factor, LIST[model])
    assert rates(BOOK, model, geo="global") == times(1, LIST[model])


@pytest.mark.parametrize("model", LIST)
def test_a_region_in_the_id_costs_a_tenth_more_since_4_5(model: str) -> None:
    factor = 1 if model in NOT_DEARER_IN_A_REGION else 1.1

    assert rates(BOOK, f"eu.anthropic.{model}-v1:0") == times(factor, LIST[model])
    assert rates(BOOK, f"global.anthropic.{model}-v1:0") == times(1, LIST[model])


def test_the_place_costs_once_though_id_and_answer_both_name_it() -> None:
    model = "us.anthropic.claude-opus-5-5"

    assert rates(BOOK, model, geo="us") == times(1.1, LIST["claude-opus-5-5"])


def test_fast_mode_and_place_multiply() -> None:
    assert rates(BOOK, "claude-opus-5-5", fast=True, geo="us") == times(
        1.1, FAST["claude-opus-5-5"]
    )


def test_haiku_5_5_has_other_prices_for_long_prompts() -> None:
    assert BOOK.limit("claude-haiku-5-5") == 100_000
    assert rates(BOOK, "claude-haiku-5-5", long=True) == times(1, (0.50, 0.625, 1, 0.05, 2.50))


@pytest.mark.parametrize("model", LONG_ONCE)
def test_long_prompts_of_older_models(model: str) -> None:
    after = LIST[model] if model.endswith("4-6") else LONG_ONCE[model]

    assert BOOK.limit(model) == 200_000
    assert rates(BOOK, model, "2026-03-12", long=True) == times(1, LONG_ONCE[model])
    assert rates(BOOK, model, "2026-03-13", long=True) == times(1, after)


@pytest.mark.parametrize("model", sorted(LIST.keys() - LONG_ONCE.keys() - {"claude-haiku-5-5"}))
def test_long_prompts_cost_no_more_where_there_is_no_limit(model: str) -> None:
    assert BOOK.limit(model) is None
    assert rates(BOOK, model, long=True) == times(1, LIST[model])


def test_cache_reads_of_sonnet_5_5_were_halved_on_a_day() -> None:
    model, reads = "claude-sonnet-5-5", used(cache_read_tokens=MILLION)

    assert BOOK.cost(model, "2026-10-06", reads) == pytest.approx(0.20)
    assert BOOK.cost(model, "2026-10-07", reads) == pytest.approx(0.10)


def test_before_the_first_price_there_was_one_too(tmp_path: Path) -> None:
    text = entry("own", 3, "effective_from = 2026-05-01")
    text += entry("own", 2, "effective_from = 2026-01-01")
    book = book_of(tmp_path, text)

    days = ["2025-12-31", "2026-01-01", "2026-04-30", "2026-05-01"]
    assert [rates(book, "own", day)[0] for day in days] == [2, 2, 2, 3]


@pytest.mark.parametrize(
    "model",
    ["claude-opus-6", "claude-opus-4-9", "claude-opus", "claude-opus-5-6", "claude-opus-5-fast",
     "claude-opus-5-mini", "claude-haiku-5", "us-gov.anthropic.claude-opus-5", "kyma/claude-opus-5",
     "gpt-6", "<synthetic>", "", " "],
)  # fmt: skip
def test_an_unknown_model_is_not_free(model: str) -> None:
    assert BOOK.cost(model, TODAY, used(input_tokens=1)) is None
    assert BOOK.cost(model, TODAY, used()) is None
    assert BOOK.limit(model) is None
    assert BOOK.context(model) is None


def test_windows_of_contexts() -> None:
    assert BOOK.context("claude-opus-5-5") == MILLION
    assert BOOK.context("claude-haiku-4-5-20251001") == 200_000
    assert BOOK.context("claude-sonnet-4-6") == 200_000
    assert BOOK.context("claude-sonnet-4-6[1m]") == MILLION
    assert BOOK.context("a-gateway-s-model[1m]") == MILLION


def test_the_user_s_price_is_before_ours(tmp_path: Path) -> None:
    book = book_of(tmp_path, entry("claude-opus-5-5", 1))

    assert rates(book, "anthropic/claude-opus-5-5-20260922") == times(1, (1,) * 5)
    assert rates(book, "claude-opus-5") == times(1, LIST["claude-opus-5"])
    assert book.context("claude-opus-5-5") == MILLION


def test_the_user_s_price_is_all_that_holds(tmp_path: Path) -> None:
    """A discount is not multiplied with surcharges that its owner did not write down."""
    book = book_of(tmp_path, entry("claude-opus-5-5", 1) + entry("claude-opus-5", 1, "fast = 3"))

    assert rates(book, "claude-opus-5-5", geo="us") == times(1, (1,) * 5)
    assert rates(book, "claude-opus-5-5", fast=True) == (None,) * 5
    assert rates(book, "claude-opus-5", fast=True) == times(3, (1,) * 5)


def test_a_dated_price_of_the_user_leaves_the_days_before_it_to_us(tmp_path: Path) -> None:
    book = book_of(tmp_path, entry("claude-opus-5-5", 1, "effective_from = '2026-11-01'"))

    assert rates(book, "claude-opus-5-5", "2026-10-31") == times(1, LIST["claude-opus-5-5"])
    assert rates(book, "claude-opus-5-5", "2026-11-01") == times(1, (1,) * 5)


def test_a_whole_id_can_be_overridden_alone(tmp_path: Path) -> None:
    """What is named as it is spelt has its region in its price."""
    book = book_of(
        tmp_path,
        entry("US-GOV.anthropic.claude-opus-5", 6)
        + entry("EU.anthropic.claude-opus-5", 7, "regional = 1.1"),
    )

    assert rates(book, "us-gov.anthropic.claude-opus-5") == times(1, (6,) * 5)
    assert rates(book, "eu.anthropic.claude-opus-5") == times(1, (7,) * 5)
    assert rates(book, "us.anthropic.claude-opus-5") == times(1.1, LIST["claude-opus-5"])
    assert rates(book, "claude-opus-5") == times(1, LIST["claude-opus-5"])


def test_the_price_of_a_bare_name_has_a_surcharge_if_the_user_says_so(tmp_path: Path) -> None:
    book = book_of(tmp_path, entry("claude-opus-5", 6, "regional = 1.5"))

    assert rates(book, "us.anthropic.claude-opus-5") == times(1.5, (6,) * 5)


def test_the_user_s_limit_is_before_ours(tmp_path: Path) -> None:
    row = "input = 9, output = 9, cache_read = 9, cache_write_5m = 9, cache_write_1h = 9"
    more = f"limit = 50_000\nlong = {{ {row} }}"
    book = book_of(tmp_path, entry("claude-haiku-5-5", 1, more))

    assert book.limit("claude-haiku-5-5") == 50_000
    assert rates(book, "claude-haiku-5-5", long=True) == times(1, (9,) * 5)


def test_no_file_overrides_nothing(tmp_path: Path) -> None:
    book = load_book(tmp_path / "prices.toml")

    assert rates(book, "claude-opus-5") == times(1, LIST["claude-opus-5"])


def test_the_fallback_is_asked_only_for_what_neither_knows(tmp_path: Path) -> None:
    asked: list[tuple[str, str]] = []

    def fallback(model: str, day: str) -> Price | None:
        asked.append((model, day))
        return flat(model, 7) if model == "gpt-6" else None

    file = tmp_path / "prices.toml"
    file.write_text(entry("own", 2, "effective_from = 2026-05-01"))
    book = load_book(file, fallback)

    assert book.cost("claude-opus-5", TODAY, used(input_tokens=MILLION)) == pytest.approx(5)
    assert book.cost("own", TODAY, used(input_tokens=MILLION)) == pytest.approx(2)
    assert not asked
    for _ in range(3):
        assert book.cost("gpt-6", TODAY, used(input_tokens=MILLION)) == pytest.approx(7)
        assert book.cost("claude-opus-6", TODAY, used(input_tokens=MILLION)) is None
    assert book.cost("own", "2026-04-30", used(input_tokens=MILLION)) == pytest.approx(2)
    assert asked == [("gpt-6", TODAY), ("claude-opus-6", TODAY), ("own", "2026-04-30")]


def test_fast_tokens_are_not_sold_at_the_fallback_s_price() -> None:
    book = load_book(fallback=lambda model, _: flat(model, 7))

    assert rates(book, "gpt-6", fast=True) == (None,) * 5


amounts = st.fixed_dictionaries(
    {
        name: st.integers(0, 10**12)
        for name in (*COLUMNS, "web_searches")
    }
)  # fmt: skip
ways = st.fixed_dictionaries(
    {"fast": st.booleans(), "geo": st.sampled_from(["", "us", "eu"]), "long": st.booleans()}
)
days = st.dates().map(lambda day: day.isoformat())


@given(st.sampled_from(sorted(LIST)), days, amounts, amounts, ways)
def test_cost_is_additive_never_negative_and_never_less_for_more(
    model: str, day: str, one: dict[str, int], other: dict[str, int], way: dict[str, bool]
) -> None:
    both = {name: one[name] + other[name] for name in one}

    first, second, whole = (
        BOOK.cost(model, day, used(**each), **way)  # type: ignore[arg-type]
        for each in (one, other, both)
    )

    if first is None or second is None or whole is None:
        assert first is second is whole is None
        return
    assert first >= 0
    assert whole == pytest.approx(first + second)
    assert whole >= max(first, second)


@given(st.text(max_size=400), st.text(max_size=20), ways)
def test_no_text_in_a_transcript_breaks_the_book(
    model: str, day: str, way: dict[str, bool]
) -> None:
    cost = BOOK.cost(model, day, used(input_tokens=1), **way)  # type: ignore[arg-type]

    assert cost is None or cost > 0


def test_a_hub_s_start_is_not_held_up() -> None:
    usage = used(input_tokens=5, output_tokens=6, cache_read_tokens=7)
    days = [f"2026-{month:02}-{day:02}" for month in range(1, 11) for day in range(1, 29)]

    started = time.process_time()
    for day in days * 20:
        for model in LIST:
            BOOK.cost(model, day, usage)

    assert time.process_time() - started < 5, "112 000 prices; they take a quarter of a second"
