"""Help fits eighty columns, and nothing of it is cut."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from typer.main import get_command

from adsum.app import app


def groups(words: str, command: Any) -> Iterator[tuple[str, Any]]:
    if getattr(command, "commands", None):
        yield words, command
        for name, child in command.commands.items():
            yield from groups(f"{words} {name}", child)


GROUPS = dict(groups("adsum", get_command(app)))


@pytest.mark.parametrize("words", GROUPS)
def test_what_a_list_says_of_a_command_is_a_whole_sentence(words: str) -> None:
    children = GROUPS[words].commands
    room = 80 - 2 - 6 - max(map(len, children))
    cut = {
        name for name, child in children.items() if child.get_short_help_str(room).endswith("...")
    }
    assert not cut


@pytest.mark.parametrize("words", GROUPS)
def test_every_option_says_what_it_is_for(words: str) -> None:
    found = [
        (name, option.opts)
        for name, child in (*GROUPS[words].commands.items(), (words, GROUPS[words]))
        for option in child.params
        if option.param_type_name == "option" and not option.help
    ]
    assert not found


@pytest.mark.parametrize("words", GROUPS)
def test_no_name_of_an_argument_brings_the_signs_that_help_puts_around_it(words: str) -> None:
    found = [
        (name, argument.metavar)
        for name, child in GROUPS[words].commands.items()
        for argument in child.params
        if argument.param_type_name == "argument" and not (argument.metavar or "X").isalpha()
    ]
    assert not found
