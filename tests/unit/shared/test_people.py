"""Names of people: which may be given, and which two a reader takes for one."""

from __future__ import annotations

import pytest

from adsum_shared.people import is_alike, is_plain, is_reserved


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("Ann's phone (2)", True),
        ("Jos\u00e9", True),
        ("Jose\u0301", True),
        ("\u0410\u043d\u043d\u0430", True),
        ("\u7530\u4e2d\u3055\u3093", True),
        ("\u0905\u0928\u0941", True),
        ("A\u043dn", False),
        ("Ann\u0941", False),
        ("Ann\u200b", False),
        ("Ann\u3164", False),
        ("rule\u2236x", False),
        ("a\nb", False),
    ],
)
def test_a_name_has_letters_and_marks_of_one_script(name: str, *, plain: bool) -> None:
    assert is_plain(name) is plain


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("ann", " ANN"),
        ("ann", "\uff21\uff2e\uff2e"),
        ("BOB", "\u0412\u041e\u0412"),
        ("pace", "\u0440\u0430\u0441\u0435"),
        ("\u0432\u043e\u0432", "\u0412\u041e\u0412"),
        ("Al", "AI"),
        ("rn", "m"),
        ("ann", "\u0251nn"),
    ],
)
def test_names_that_look_the_same_are_one(one: str, other: str) -> None:
    assert is_alike(one, other)
    assert is_alike(other, one)


@pytest.mark.parametrize(("one", "other"), [("ann", "anna"), ("Ali", "All"), ("bob", "rob")])
def test_names_that_look_different_are_two(one: str, other: str) -> None:
    assert not is_alike(one, other)


@pytest.mark.parametrize(
    ("name", "reserved"),
    [
        ("this machine", True),
        ("This  Machine", True),
        ("RULE:tests", True),
        ("ru1e:tests", True),
        ("auto-suspend", True),
        ("\u0430ut\u043e-suspend", True),
        ("rule", False),
        ("machine", False),
    ],
)
def test_names_of_what_is_no_person_are_reserved(name: str, *, reserved: bool) -> None:
    assert is_reserved(name) is reserved
