"""Comments on lines of their own are left out of a script; whatever else looks like one stays."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adsum_hub.app import WEB
from adsum_hub.comments import without_comments

SCRIPTS = sorted(path for path in WEB.rglob("*.js") if "vendor" not in path.parts)


@pytest.mark.parametrize(
    ("source", "left"),
    [
        ("// a\nx();\n", "x();\n"),
        ("  /** a */\n  x();\n", "  x();\n"),
        ("/**\n * a `b\n * 'c\n */\nx();\n// d", "x();\n"),
        ("x(); // stays\n", "x(); // stays\n"),
        ("/** @type {A} */ (x)\n", "/** @type {A} */ (x)\n"),
        ("/* a */ /* b */\nx();\n", "/* a */ /* b */\nx();\n"),
        ("x(\n  // a\n  y,\n);\n", "x(\n  y,\n);\n"),
        ("const p = /[`'\"/]/g;\n// a\nx();\n", "const p = /[`'\"/]/g;\nx();\n"),
        ("return /`/.test(x);\n// a\n", "return /`/.test(x);\n"),
        ("a = b / c;\n// a\nd = e / f;\n", "a = b / c;\nd = e / f;\n"),
        ("`${/`/}`;\n// a\n", "`${/`/}`;\n"),
        ("`${\n// a\nx}`;\n", "`${\nx}`;\n"),
    ],
)
def test_what_stands_alone_goes(source: str, left: str) -> None:
    assert without_comments(source) == left


@pytest.mark.parametrize(
    "source",
    [
        "x = `\n// no comment\n`;\n",
        "x = `a ${b(`c\n// no comment\n`)}\n// nor this\n`;\n",
        "x = `${{ a: `}\n// no comment\n` }}`;\n",
        "x = `\\`\n// no comment\n`;\n",
        "x = `$\n// no comment\n$`;\n",
        "x = 'http://a';\n",
        "x = '/*';\ny = '*/';\n",
        "x = '\\\n// no comment\\\n';\n",
    ],
)
def test_what_lies_in_a_text_stays(source: str) -> None:
    assert without_comments(source) == source


@pytest.mark.parametrize(
    "source",
    [
        "// a\nif (x) /`/.test(y);\n",
        "// a\nif (x) /'/.test(y);\n",
        "// a\nx = `unended\n",
        "// a\nx = ${;\n",
        "// a\n}\n",
        "// a\nf({\n",
    ],
)
def test_what_is_not_understood_is_sent_as_it_is(source: str) -> None:
    assert without_comments(source) == source


PIECES = ["`", "${", "}", "{", "'", '"', "/", "*", "//", "/*", "*/", "\\", "\n", " ", "a", "(", ")"]


@given(st.lists(st.sampled_from(PIECES), max_size=40).map("".join))
def test_only_whole_lines_go_that_begin_as_comments(source: str) -> None:
    left = without_comments(source)
    lines, kept = source.splitlines(keepends=True), left.splitlines(keepends=True)

    rest = iter(lines)
    assert all(line in rest for line in kept)
    assert len(kept) == len(lines) or re.search(r"^\s*/[/*]", source, re.MULTILINE)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.relative_to(WEB).as_posix())
def test_every_script_of_the_page_is_understood(path: Path) -> None:
    """One that is not would be sent whole, and nobody would notice."""
    left = without_comments(path.read_text())

    assert not left.startswith("// @ts-check")
    assert re.findall(r"^\s*//.*", left, re.MULTILINE) == []
