"""Which requests are asked about twice, as they may read as something else."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from adsum_shared.cautions import cautions_of

DATA = Path(__file__).parents[2] / "data" / "spoofs" / "commands.json"


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (": \u061c; python3 x.py \u061c # git log --oneline", "nobody can see: U+061C"),
        ("ls\rx", "nobody can see: U+000D"),
        ("echo 'g\u0456t'", "mixes Cyrillic and Latin letters: g\\u{456}t"),
        ("\u0433\u0438\u0442 push", "program is not plain ASCII"),
        ("ls | x=1 \u0433\u0438\u0442", "program is not plain ASCII"),
        ('echo "$(\u0433\u0438\u0442 push)"', "program is not plain ASCII"),
        ("'\u0433\u0438\u0442' push", "program is not plain ASCII"),
        ("sudo \u0433\u0438\u0442", "program is not plain ASCII"),
        ("cat a\n\u0433\u0438\u0442", "program is not plain ASCII"),
        ("curl https://\u043f\u0440\u0438\u043c\u0435\u0440.example/x", "host is not plain ASCII"),
        ("ssh ada@münchen.example", "host is not plain ASCII"),
        ("cat 'docs/Über sicht'", "path segment is not plain ASCII: \\u{dc}ber"),
    ],
)
def test_a_command_that_may_read_as_another_names_the_reason(command: str, reason: str) -> None:
    assert any(reason in each for each in cautions_of({"command": command}))


@pytest.mark.parametrize(
    "command",
    [
        "git commit -m 'Änderung: é, ö, 漢'",
        "echo 検索とテスト; echo 한국어漢字",
        ": \u05d0; python3 x.py \u05d0 # git log --oneline",
        "git commit -m \"$(cat <<'EOF'\nÜber uns\n\nÄnderung\nEOF\n)\"",
        "sleep 5µs\r\nls",
    ],
)
def test_letters_of_one_script_in_an_argument_are_no_reason(command: str) -> None:
    assert cautions_of({"command": command}) == ()


@pytest.mark.parametrize(
    ("payload", "count"),
    [
        ({"command": "ls", "description": "👨‍👩‍👧 ❤️ g\u0456t"}, 0),
        ({"command": "ls", "description": "a\u202eb"}, 1),
        ({"file_path": "/srv/ä.py", "content": "x"}, 1),
        ({"file_path": "/srv/a.py", "content": "x = 'ä'"}, 0),
        ({"edits": [{"new_string": "\u200b"}]}, 1),
        ({"url": "https://\u043f\u0440\u0438\u043c\u0435\u0440.example"}, 1),
        ({"plan": "# 計画 ❤️"}, 0),
    ],
)
def test_every_field_counts_and_prose_keeps_what_belongs_to_writing(
    payload: dict[str, Any], count: int
) -> None:
    assert len(cautions_of(payload)) == count


def test_a_rule_that_always_would_add_counts() -> None:
    assert len(cautions_of({"command": "ls"}, ["Bash(ls\u2060:*)"])) == 1


def test_of_fifty_commands_with_arguments_in_other_languages_ten_are_asked_about_twice() -> None:
    commands = json.loads(DATA.read_text("utf-8"))
    twice = {
        language: sum(bool(cautions_of({"command": each})) for each in listed)
        for language, listed in commands.items()
    }

    assert sum(map(len, commands.values())) == 50
    assert twice == {"German": 3, "Japanese": 5, "Hebrew": 2}


@pytest.mark.parametrize(
    "part",
    [
        "'",
        '"\\',
        '"$(',
        "<<a\n",
        "a=b ",
        "sudo ",
        " ",
        "\n",
        ";\n",
        "=",
        "://",
        "@",
        "/",
        "<<a\n\n",
        "|a=",
        "(a= ",
    ],
)
def test_no_text_of_64_kb_takes_long(part: str) -> None:
    begun = time.process_time()
    cautions_of({"command": part * (64_000 // len(part)) + "\u00e9"})

    assert time.process_time() - begun < 0.5
