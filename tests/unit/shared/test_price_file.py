"""A file of prices that cannot be used is told of: which file, which entry, why, what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from adsum_shared.prices import SHIPPED, PriceFileError, load_book, read_prices

GOOD = {
    "models": '["own"]',
    "input": "1",
    "output": "2",
    "cache_read": "0.1",
    "cache_write_5m": "1.25",
    "cache_write_1h": "2",
}
RATES = "input = 1, output = 2, cache_read = 0.1, cache_write_5m = 1, cache_write_1h = 2"


def entry(**fields: str | None) -> str:
    lines = [f"{name} = {value}" for name, value in {**GOOD, **fields}.items() if value is not None]
    return "\n".join(["[[price]]", *lines, ""])


def complaint(tmp_path: Path, text: str | bytes) -> str:
    file = tmp_path / "prices.toml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(PriceFileError) as caught:
        load_book(file)
    told = str(caught.value)
    assert told.startswith(str(file))
    assert told.endswith(".")
    return told.removeprefix(str(file))


def test_a_good_entry_is_read(tmp_path: Path) -> None:
    file = tmp_path / "prices.toml"
    file.write_text(entry(models='["Own", "own", "other"]', effective_from="2026-01-01"))

    prices = read_prices(file)

    assert prices.keys() == {"own", "other"}
    assert prices["own"][0].since == "2026-01-01"


def test_an_empty_file_has_no_prices(tmp_path: Path) -> None:
    file = tmp_path / "prices.toml"
    file.write_text("# nothing yet\n")

    assert read_prices(file) == {}


@pytest.mark.parametrize(
    ("fields", "cause"),
    [
        ({"input": "-3"}, "Expected `float` >= 0.0 - at `input`"),
        ({"output": "25_000"}, "Expected `float` <= 10000.0 - at `output`"),
        ({"output": "inf"}, "Expected `float` <= 10000.0 - at `output`"),
        ({"output": "9" * 400}, "at `output`"),
        ({"output": "nan"}, "Expected `float` >= 0.0 - at `output`"),
        ({"web_search": "nan"}, "Expected `float` >= 0.0 - at `web_search`"),
        ({"fast": "nan"}, "Expected `float` > 0.0 - at `fast`"),
        ({"cache_read": '"cheap"'}, "Expected `float`, got `str` - at `cache_read`"),
        ({"cache_read": "true"}, "Expected `float`, got `bool` - at `cache_read`"),
        ({"cache_write_1h": None}, "missing required field `cache_write_1h`"),
        ({"inputs": "1"}, "unknown field `inputs`"),
        ({"models": '"own"'}, "Expected `array`, got `str` - at `models`"),
        ({"models": "[]"}, "Expected `array` of length >= 1 - at `models`"),
        ({"models": '["own", ""]'}, "Expected `str` of length >= 1 - at `models[1]`"),
        ({"models": '["own", "  "]'}, "a model's name is empty"),
        ({"models": None}, "missing required field `models`"),
        ({"fast": "0"}, "Expected `float` > 0.0 - at `fast`"),
        ({"us": "500"}, "Expected `float` <= 100.0 - at `us`"),
        ({"limit": "1.5"}, "Expected `int | null`, got `float` - at `limit`"),
        ({"limit": "0", "long": f"{{{RATES}}}"}, "Expected `int` >= 1 - at `limit`"),
        ({"limit": "1000"}, "`limit` and `long` are only given together"),
        ({"long": f"{{{RATES}}}"}, "`limit` and `long` are only given together"),
        ({"limit": "5", "long": "{input = 1}"}, "missing required field `output` - at `long`"),
        ({"limit": "5", "long": f"{{{RATES}, fast = 2}}"}, "unknown field `fast` - at `long`"),
        (
            {"effective_from": '"2026-11-31"'},
            "that is no date such as 2026-11-22 - at `effective_from`",
        ),
        ({"effective_from": '"soon"'}, "that is no date such as 2026-11-22 - at `effective_from`"),
        ({"effective_from": "2026"}, "got `int` - at `effective_from`"),
        ({"effective_from": "2026-11-01T10:00:00"}, "got `datetime` - at `effective_from`"),
    ],
)
def test_a_wrong_entry_is_named_with_its_fault(
    tmp_path: Path, fields: dict[str, str | None], cause: str
) -> None:
    told = complaint(tmp_path, entry(models='["first"]') + entry(**fields))

    assert told.startswith(", price 2")
    if "models" not in fields:
        assert told.startswith(", price 2 (own): ")
    assert cause in told
    assert "$" not in told
    assert "Correct it; an entry has `cache_read`, " in told


def test_a_date_that_is_none_is_no_toml(tmp_path: Path) -> None:
    told = complaint(tmp_path, entry(effective_from="2026-11-31"))

    assert "no TOML" in told
    assert "line 8" in told


def test_two_prices_from_one_day_on(tmp_path: Path) -> None:
    dated = entry(effective_from="2026-01-01")

    assert complaint(tmp_path, dated + dated) == (
        ", price 2 (own): own has a price from 2026-01-01 on already. "
        "Remove one of the two, or give the later one its `effective_from`."
    )
    assert "own has a price from its first day on already" in complaint(
        tmp_path, entry() + entry(models='["OWN"]')
    )


def test_two_limits_of_one_model(tmp_path: Path) -> None:
    one = entry(limit="5", long=f"{{{RATES}}}")
    other = entry(limit="6", long=f"{{{RATES}}}", effective_from="2026-01-01")

    assert complaint(tmp_path, one + other) == (
        ", price 2 (own): own has another `limit` in another entry. "
        "Give all entries of a model the same limit."
    )


def test_what_is_no_entry(tmp_path: Path) -> None:
    assert complaint(tmp_path, "input = 3\n") == (
        ": `input` stands outside of any entry. Begin every entry with a line [[price]]."
    )
    assert "`price` is not a list of entries" in complaint(tmp_path, "[price]\ninput = 1\n")
    assert ", price 1: Expected `object`, got `int`" in complaint(tmp_path, "price = [1]\n")


def test_what_is_no_toml(tmp_path: Path) -> None:
    told = complaint(tmp_path, "[[price]]\ninput = = 1\n")

    assert told.startswith(": it is no TOML (Invalid value (at line 2, column 9)). ")


def test_what_is_no_text(tmp_path: Path) -> None:
    assert complaint(tmp_path, b"\xff\xfe[") == ": it is not UTF-8. Save it as UTF-8."


def test_what_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(PriceFileError, match=r"it cannot be read \(Is a directory\)\. Make it"):
        load_book(tmp_path)


def test_a_number_that_python_will_not_read(tmp_path: Path) -> None:
    assert "it is no TOML (Exceeds the limit" in complaint(tmp_path, f"input = {'9' * 5000}\n")


def test_a_file_that_cannot_be_is_not_taken_for_one_that_is_not(tmp_path: Path) -> None:
    (tmp_path / "adsum").write_text("")

    with pytest.raises(PriceFileError, match=r"it cannot be read \(Not a directory\)\. Make it"):
        load_book(tmp_path / "adsum" / "prices.toml")


def test_our_own_file_may_not_be_missing(tmp_path: Path) -> None:
    with pytest.raises(PriceFileError, match=r"it cannot be read \(No such file"):
        read_prices(tmp_path / "prices.toml")


def test_a_broken_file_leaves_a_book_without_it(tmp_path: Path) -> None:
    complaint(tmp_path, "broken")

    assert load_book().context("claude-opus-5") == 1_000_000


def test_the_shipped_file_has_its_models_in_the_form_that_is_looked_for() -> None:
    from adsum_shared.prices import names_of

    for model in read_prices(SHIPPED):
        names = names_of(model)
        assert names is not None
        assert names.bare == names.exact == model
