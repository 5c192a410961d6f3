"""Every way out of the command line, with signs of ill will: what is printed is what it looks like."""

from __future__ import annotations

import json
from io import StringIO

import pytest
from rich.panel import Panel
from rich.text import Text

from adsum import app
from adsum.outcome import agrees, put, put_json, say
from adsum.text.tables import open_console, show
from tests.hostile import NAME, is_plain

Capture = pytest.CaptureFixture[str]


def test_what_is_said_asked_and_put_is_plain(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", StringIO("y\n"))
    say(NAME)
    assert agrees(NAME)
    put(f"{NAME}\n\tlaid out")

    out, err = capsys.readouterr()
    assert is_plain(out)
    assert is_plain(err)
    assert out.endswith("\n\tlaid out\n")


def test_json_is_plain_and_holds_the_very_value(capsys: Capture) -> None:
    put_json({NAME: [NAME]})

    out = capsys.readouterr().out
    assert is_plain(out)
    assert json.loads(out) == {NAME: [NAME]}


def test_whatever_is_drawn_is_plain_but_for_its_own_colours(capsys: Capture) -> None:
    console = open_console()
    show(console, Panel(Text(NAME)), NAME)
    console.print(NAME, markup=False)
    coloured = StringIO()
    other = type(console)(file=coloured, force_terminal=True, color_system="standard")
    other.print(Text(NAME, "red"))

    assert is_plain(capsys.readouterr().out)
    assert is_plain(coloured.getvalue().replace("\x1b[31m", "").replace("\x1b[0m", ""))


def test_a_fault_of_ours_quotes_nothing_that_a_terminal_obeys(capsys: Capture) -> None:
    fault = ValueError(NAME)

    app._print_fault(ValueError, fault, None)

    err = capsys.readouterr().err
    assert err.startswith("ValueError: =cmd")
    assert is_plain(err)
