"""Text that is safe to show: what a terminal would obey, or nobody would see, is gone or escaped."""

from __future__ import annotations

import io
import json
import logging
import unicodedata

import pytest

from adsum import foreground
from adsum_shared.redact import clean, safe, to_json
from tests.hostile import HOSTILE, is_plain


@pytest.mark.parametrize("sign", HOSTILE, ids=ascii)
def test_no_hostile_sign_is_left(sign: str) -> None:
    text = f"before{sign}after"

    assert is_plain(clean(text))
    assert "\n" not in clean(text)
    assert is_plain(safe(text))
    assert is_plain(to_json({text: [text]}))
    assert json.loads(to_json({text: [text]}, 2)) == {text: [text]}


def test_every_control_and_direction_of_unicode_is_taken_out() -> None:
    shown = {"\t", "\n"}
    wanted = [
        sign
        for sign in map(chr, range(0x110000))
        if unicodedata.category(sign) in ("Cc", "Zl", "Zp", "Cs")
    ]
    wanted += [
        s
        for s in map(chr, range(0x110000))
        if unicodedata.bidirectional(s)
        in ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
    ]

    assert [sign for sign in wanted if sign in safe(f"a{sign}b") and sign not in shown] == []
    assert [sign for sign in wanted if sign in clean(f"a{sign}b")] == []


@pytest.mark.parametrize("text", ["👨‍👩‍👧 team", "می‌خواهم", "naïve façade 日本語", "a b"])
def test_what_people_write_stays_as_it_is(text: str) -> None:
    assert clean(text) == safe(text) == text
    assert json.loads(to_json(text)) == text


def test_lines_and_tabs_stay_where_text_is_laid_out() -> None:
    assert safe("a\tb\r\nc\rd\n") == "a\tb\r\nc d\n"


@pytest.mark.parametrize("kind", ["plain", "json"])
def test_no_log_entry_forges_a_line_or_moves_a_cursor(kind: foreground.LogFormat) -> None:
    before = logging.getLogger().handlers[:], logging.getLogger().level
    stream = io.StringIO()
    try:
        foreground.configure_logging("INFO", kind, stream)
        logging.getLogger("adsum").warning("began %s", "".join(HOSTILE).replace("\ud800", ""))
    finally:
        logging.getLogger().handlers[:], _ = before
        logging.getLogger().setLevel(before[1])

    assert is_plain(stream.getvalue())
    assert stream.getvalue().count("\n") == 1
