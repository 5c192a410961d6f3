"""The status line in the user's settings: wrapped where that harms nobody, and restored exactly."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adsum_collector.agents.claude_code.agent import inspect_hooks, install_hooks, remove_hooks
from adsum_collector.agents.claude_code.settings_text import statusline_in, unwrapped, wrapped
from adsum_collector.agents.installer import Installation, Mode, Target

NEW = (2, 1, 330)
TARGET = Target(
    1,
    "t",
    "/opt/my py/bin/python3",
    Path("/opt/it's/adsum_collector/shim.py"),
    Path("/s/ö/c.sock"),
    "http",
)


def line_of(text: str) -> Any:
    return json.loads(text)["statusLine"]


COMMANDS = [
    '"~/.claude/statusline.sh"',
    '"echo \\"$PWD\\" | sed \'s/\\\\/x/\'"',
    '"it\\u0027s \\u00e4 \\/ ä \\\\u0027 \\n\'\\"\'"',
    '"\'\\"\'\\"\'"',
    '""',
    '"a -- b"',
    '"\\ud800"',
]


@pytest.mark.parametrize("literal", COMMANDS)
def test_only_the_command_is_written_and_every_byte_of_it_comes_back(literal: str) -> None:
    text = (
        '{\n  "statusLine" : {"padding": 0, "type": "command",\n'
        f'    "command":  {literal} , "refreshInterval": 5}}, "z": 1e5\n}}\n'
    )

    with_ours = wrapped(text, TARGET, "wrap")

    held = line_of(with_ours)
    assert shlex.split(held["command"])[-1] == json.loads(literal)
    assert {**held, "command": ""} == {**line_of(text), "command": ""}
    line = statusline_in(json.loads(with_ours))
    assert (line.kind, line.command, line.socket) == ("wrapped", json.loads(literal), "/s/ö/c.sock")
    assert line.programs == (
        TARGET.python,
        "/opt/it's/adsum_collector/agents/claude_code/statusline_wrapper.py",
    )
    assert unwrapped(with_ours) == text


def test_one_that_another_program_has_written_anew_comes_back_in_other_letters() -> None:
    text = '{"statusLine": {"type": "command", "command": "it\'s \\u00e4"}}'

    anew = json.dumps(json.loads(wrapped(text, TARGET, "wrap")), indent=1, ensure_ascii=True)

    assert line_of(unwrapped(anew)) == line_of(text)


@settings(max_examples=200, deadline=None)
@given(
    st.text().filter(lambda text: "\0" not in text),
    st.booleans(),
    st.sampled_from([None, 2, "\t"]),
    st.dictionaries(st.sampled_from(["padding", "refreshInterval", "x"]), st.integers(0, 9)),
)
def test_any_command_comes_back(command: str, ascii_only: bool, layout: Any, more: Any) -> None:
    whole = {"a": 1, "statusLine": {"type": "command", "command": command, **more}, "z": []}
    text = json.dumps(whole, indent=layout, ensure_ascii=ascii_only)

    with_ours = wrapped(text, TARGET, "wrap")

    assert shlex.split(line_of(with_ours)["command"])[7:] == [command]
    assert unwrapped(with_ours) == text


@pytest.mark.parametrize("mode", ["wrap", "fill"])
@pytest.mark.parametrize(
    "held",
    [
        "null",
        "7",
        "[]",
        "{}",
        '{"type": "command"}',
        '{"type": "command", "command": 7}',
        '{"type": "command", "command": "a\\u0000b"}',
        '{"type": "static", "command": "date"}',
        '{"command": "date"}',
        '{"type": "command", "command": "date", "command": "pwd"}',
    ],
)
def test_what_is_no_command_is_left_alone(held: str, mode: Mode) -> None:
    text = f'{{"statusLine": {held}}}'
    assert wrapped(text, TARGET, mode) == unwrapped(text) == text


def test_an_empty_slot_is_filled_only_when_asked_for() -> None:
    text = '{\n  "a": 1\n}\n'
    assert wrapped(text, TARGET, "wrap") == wrapped(text, TARGET, "leave") == text

    filled = wrapped(text, TARGET, "fill")

    assert statusline_in(json.loads(filled)).kind == "filled"
    assert unwrapped(filled) == text


def test_a_users_own_is_left_when_that_is_asked_for() -> None:
    text = '{"statusLine": {"type": "command", "command": "date"}}'
    assert wrapped(text, TARGET, "leave") == text


@pytest.mark.parametrize(
    ("before", "after"),
    [("'date'", "'date' | tail -1"), ("'date'", "'date"), ("exec ", ""), (" -- ", " ")],
)
def test_a_wrapper_changed_by_hand_is_known_for_one_and_left_alone(before: str, after: str) -> None:
    text = wrapped('{"statusLine": {"type": "command", "command": "date"}}', TARGET, "wrap")
    changed = text.replace(before, after)

    assert statusline_in(json.loads(changed)).kind == "altered"
    assert wrapped(changed, TARGET, "fill") == unwrapped(changed) == changed


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "settings.json"


OWN = '{\r\n\t"statusLine": { "command": "say \\u0027hi\\u0027", "type":"command" }\r\n}'


def test_a_file_survives_install_and_removal_with_and_without_a_receipt(
    path: Path, tmp_path: Path
) -> None:
    path.write_bytes(OWN.encode())
    for state in (tmp_path / "state", tmp_path / "another"):
        install_hooks(Installation(path, tmp_path / "state", TARGET, NEW, statusline="wrap"))
        assert inspect_hooks(path).statusline.kind == "wrapped"
        remove_hooks(path, state)
        assert path.read_bytes() == OWN.encode()


def test_an_install_over_another_wraps_once_and_reports_to_the_new_collector(
    path: Path, tmp_path: Path
) -> None:
    path.write_bytes(OWN.encode())
    install_hooks(Installation(path, tmp_path / "state", TARGET, NEW, statusline="wrap"))
    once = path.read_bytes()
    assert not install_hooks(
        Installation(path, tmp_path / "state", TARGET, NEW, statusline="wrap")
    ).needed
    moved = replace(TARGET, socket=Path("/elsewhere"), python="python3")

    install_hooks(Installation(path, tmp_path / "state", moved, NEW, statusline="wrap"))

    line = inspect_hooks(path).statusline
    assert (line.kind, line.command, line.socket) == ("wrapped", "say 'hi'", "/elsewhere")
    assert path.read_bytes() != once
    install_hooks(Installation(path, tmp_path / "state", moved, NEW, statusline="leave"))
    assert json.loads(path.read_bytes())["statusLine"] == json.loads(OWN)["statusLine"]


def test_the_receipt_of_an_install_that_knew_no_status_line_still_works(
    path: Path, tmp_path: Path
) -> None:
    path.write_bytes(OWN.encode())
    install_hooks(Installation(path, tmp_path / "state", TARGET, NEW))
    assert inspect_hooks(path).statusline.kind == "own"

    install_hooks(Installation(path, tmp_path / "state", TARGET, NEW, statusline="wrap"))

    assert inspect_hooks(path).statusline.kind == "wrapped"
    remove_hooks(path, tmp_path / "state")
    assert path.read_bytes() == OWN.encode()


def test_a_status_line_chosen_after_the_install_survives_the_removal(
    path: Path, tmp_path: Path
) -> None:
    path.write_bytes(OWN.encode())
    install_hooks(Installation(path, tmp_path / "state", TARGET, NEW, statusline="wrap"))
    chosen = json.loads(path.read_bytes())
    chosen["statusLine"]["command"] = "new.sh"
    path.write_text(json.dumps(chosen))

    remove_hooks(path, tmp_path / "state")

    assert json.loads(path.read_text()) == {"statusLine": {"command": "new.sh", "type": "command"}}


def test_a_dry_run_shows_both_commands(path: Path, tmp_path: Path) -> None:
    path.write_text('{\n  "statusLine": {"type": "command", "command": "date"}\n}\n')
    diff = install_hooks(
        Installation(path, tmp_path, TARGET, NEW, statusline="wrap", dry_run=True)
    ).diff()
    assert '-  "statusLine": {"type": "command", "command": "date"}' in diff
    assert "statusline_wrapper.py' /s/ö/c.sock -- 'date'\"" in diff.replace(
        "'/s/ö/c.sock'", "/s/ö/c.sock"
    )
