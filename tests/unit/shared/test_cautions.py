"""Tests which requests need a second press, because a person may misread them."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from adsum_shared.cautions import cautions_of

DATA = Path(__file__).parents[2] / "data" / "spoofs" / "commands.json"
#: Four Cyrillic letters that look like Latin ones.
COCO = "\u0441\u043e\u0441\u043e"


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (": \u061c; python3 x.py \u061c # git log --oneline", "invisible characters: U+061C"),
        ("ls\rx", "invisible characters: U+000D"),
        ("echo 'g\u0456t'", "mixes Cyrillic and Latin letters: g\\u{456}t"),
        ("\u0433\u0438\u0442 push", "may run is not plain ASCII"),
        ("ls | x=1 \u0433\u0438\u0442", "may run is not plain ASCII"),
        ('echo "$(\u0433\u0438\u0442 push)"', "may run is not plain ASCII"),
        ("'\u0433\u0438\u0442' push", "may run is not plain ASCII"),
        ("sudo \u0433\u0438\u0442", "may run is not plain ASCII"),
        ("cat a\n\u0433\u0438\u0442", "may run is not plain ASCII"),
        ("curl https://\u043f\u0440\u0438\u043c\u0435\u0440.example/x", "host is not plain ASCII"),
        ("ssh ada@münchen.example", "host is not plain ASCII"),
        ("cat 'docs/Über sicht'", "path segment is not plain ASCII: \\u{dc}ber"),
    ],
)
def test_a_command_that_may_read_as_another_names_the_reason(command: str, reason: str) -> None:
    assert any(reason in caution for caution in cautions_of({"command": command}))


@pytest.mark.parametrize(
    "command",
    [
        "sudo -u root NAME",
        "env -i NAME",
        "if NAME; then ls; fi",
        "! NAME",
        "timeout 5 NAME",
        "nice NAME",
        "2>x NAME",
        "find . -exec NAME {} +",
        "eval NAME",
        "eval 'NAME x'",
        "bash -c 'NAME -x'",
        "bash <<EOF\nNAME\nEOF",
        "cat <<EOF\n$(NAME x)\nEOF",
        "cat <<EOF\nNAME\n",
        "echo it\\'s ; NAME 'x y'",
        "echo $'\\'' ; NAME 'x y'",
        "echo \\<<a\nNAME\na",
        "echo $((1<<a))\nNAME\na",
        "git log #x' ; NAME",
        "git log #x'\nNAME 'x'",
        "echo '<<a'\nNAME",
        "echo '<<a'\nNAME\na",
        "cat <<< a\nNAME\na",
        "cat <<'a'; NAME\nx\na",
        "ls; 'NAME' push",
        'echo "$(cat <<\'a\'\nx\na\n) " ; NAME "x"',
        "curl NAME.рф",
        "ssh NAME",
    ],
)
def test_a_program_or_host_of_other_letters_is_a_reason(command: str) -> None:
    reason = "A word that the shell may run is not plain ASCII"
    assert cautions_of({"command": command.replace("NAME", COCO)})[0].startswith(reason)


@pytest.mark.parametrize(
    ("command", "count"),
    [
        (["git", "commit", "-m", "Größe"], 0),
        ([COCO, "-x"], 1),
        ("*** Begin Patch\n*** Update File: a.py\n+Änderung ist schön\n*** End Patch", 0),
        (f"*** Begin Patch\n*** Update File: {COCO}.py\n+x\n*** End Patch", 1),
    ],
)
def test_a_patch_and_a_list_of_words_are_no_shell_command(command: Any, count: int) -> None:
    assert len(cautions_of({"command": command})) == count


@pytest.mark.parametrize(
    "command",
    [
        "git commit -m 'Änderung: é, ö, 漢' && git push",
        "echo '検索とテスト'; echo \"한국어漢字\"",
        "npm run build -- --name=größe",
        "git commit -m \"$(cat <<'EOF'\nÜber uns\n\nÄnderung\nEOF\n)\"",
        'git commit -m "$(cat <<\'EOF\'\nDas `ä` und "ö" ist\'s\nEOF\n)"',
        "cat > a.md <<-'EOF'\n\tÜber uns\n\tEOF\nls",
        "sleep '5µs'\r\nls",
    ],
)
def test_letters_of_one_script_in_a_quoted_argument_are_no_reason(command: str) -> None:
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
        ({"changes": {f"/tmp/{COCO}.py": {"diff": "+ä/ö"}}}, 1),
        ({"paths": [f"{COCO}.py"]}, 1),
        ({"uri": f"file:///{COCO}"}, 1),
        ({"directory": COCO}, 1),
        ({"endpoint": f"https://{COCO}.example"}, 1),
        ({"options": {"target": f"/tmp/{COCO}"}}, 1),
        ({"edits": [{"old_string": "ä/ö", "new_string": "ü/ß"}], "content": "ä/ö"}, 0),
    ],
)
def test_every_field_counts_and_prose_keeps_what_belongs_to_writing(
    payload: dict[str, Any], count: int
) -> None:
    assert len(cautions_of(payload)) == count


def test_an_invisible_character_is_named_once() -> None:
    assert len(cautions_of({"command": ": \u061c; ls \u061c"})) == 1


def test_a_rule_that_always_would_add_counts() -> None:
    assert len(cautions_of({"command": "ls"}, ["Bash(ls\u2060:*)"])) == 1


def test_of_fifty_commands_with_arguments_in_other_languages_twelve_are_asked_about_twice() -> None:
    commands = json.loads(DATA.read_text("utf-8"))
    twice = {
        language: sum(bool(cautions_of({"command": command})) for command in listed)
        for language, listed in commands.items()
    }

    assert sum(map(len, commands.values())) == 50
    assert twice == {"German": 3, "Japanese": 6, "Hebrew": 3}


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
        "<<a",
        "<<-'a'",
        "<<a\n<<b\n",
        "<<'a",
        "$'\\'",
        '\\"',
        "\\'\"",
        " #",
        "`' ",
        "{ ",
    ],
)
def test_no_text_of_64_kb_takes_long(part: str) -> None:
    begun = time.process_time()
    cautions_of({"command": part * (64_000 // len(part)) + "\u00e9"})

    assert time.process_time() - begun < 0.5
