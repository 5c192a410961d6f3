"""Sessions that are over: a table that fits, what they cost, and how to see one in full."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import msgspec
import pytest
import typer
from rich.console import Console

from adsum.listing import Freshness, no_history
from adsum.listing import history as history_command
from adsum.text.tables import history_footer, history_table, show
from adsum_shared.state import Group, History, SessionView, UsageView
from tests.hubs import NOW, host, session, stand_in_hub

HOUR = 3_600_000


def over(name: str, title: str = "Fix the build", **more: Any) -> SessionView:
    more = {"ended_at": NOW - 3 * HOUR, **more}
    return session(name, Group.DELIVERED, "session_ended", title=title, **more)


REPORTED = UsageView(1_000_000, 234_567, cost_usd=3.5, cost_source="reported")
OVER = [
    over("0a1b2c3d4e", "Fix the login page's redirect loop when cookies are off", usage=REPORTED),
    over("1a1b2c3d4e", usage=UsageView(90, 10, unpriced_tokens=100), host="a-build-machine"),
    over("2a1b2c3d4e", "", ended_at=None, cwd="/src/adsum"),
]


@pytest.fixture
def drawn(capsys: pytest.CaptureFixture[str]) -> Any:
    def drawn(sessions: list[SessionView], width: int = 80, total: int | None = None) -> list[str]:
        console = Console(file=io.TextIOWrapper(io.BytesIO(), "utf-8"), width=width)
        history = History(1, NOW, total or len(sessions), sessions)
        show(console, history_table(history, console), history_footer(history))
        return capsys.readouterr().out.splitlines()

    return drawn


def test_history_at_80_columns(drawn: Any) -> None:
    assert drawn(OVER) == [
        "ENDED  TITLE                       PROJECT  HOST        TOKENS      COST  ID",
        "3h     Fix the login page's redi…  adsum    laptop        1.2M     $3.50  0a1b2c",
        "3h     Fix the build               adsum    a-build-m…     100  unpriced  1a1b2c",
        "1m     /src/adsum                  adsum    laptop           -         -  2a1b2c",
        "3 sessions · one in full: adsum show ID",
    ]


def test_a_narrow_terminal_keeps_when_what_and_the_id(drawn: Any) -> None:
    assert drawn(OVER, 60)[0].split() == ["ENDED", "TITLE", "HOST", "TOKENS", "COST", "ID"]
    assert drawn(OVER, 30)[0].split() == ["ENDED", "TITLE", "ID"]


@pytest.mark.parametrize("width", [200, 110, 80, 60, 40, 25])
def test_no_line_is_wider_than_the_terminal(drawn: Any, width: int) -> None:
    wide = over("x" * 36, "日本語のタイトル" * 20, host="h" * 99, usage=UsageView(cost_usd=9e99))
    lines = drawn([*OVER, wide], width)
    assert all(Console().measure(line).maximum <= width for line in lines)
    assert lines[1].endswith(" 0a1b2c3d" if width >= 110 else " 0a1b2c")


@pytest.mark.parametrize(
    ("shown", "total", "words"),
    [
        (1, 1, "1 session · one in full: adsum show ID"),
        (2, 3_210, "2 of 3,210 sessions, more with --limit N · one in full: adsum show ID"),
    ],
)
def test_the_footer_counts_and_says_the_next_step(
    drawn: Any, shown: int, total: int, words: str
) -> None:
    assert drawn(OVER[:shown], total=total)[-1] == words


def test_a_title_cannot_steer_the_terminal(drawn: Any) -> None:
    evil = drawn([over("\x1b[2J", "\x1b]0;owned\x07\u202e[red]x[/red]")])[1]
    assert "\x1b" not in evil
    assert "\u202e" not in evil
    assert "[red]x[/red]" in evil


@pytest.mark.parametrize(
    ("filtered", "hosts", "words"),
    [
        (True, [host()], "All of them: adsum history"),
        (False, [], "adsum up"),
        (False, [host()], "adsum agents"),
    ],
)
def test_nothing_to_show_says_what_to_do_next(filtered: bool, hosts: Any, words: str) -> None:
    assert words in no_history(Freshness(hosts, NOW), filtered=filtered)


def test_words_that_are_all_blank_ask_for_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with stand_in_hub() as hub:
        hub.hosts = [host()]
        with pytest.raises(typer.Exit):
            history_command(["  ", ""], hub.url, tmp_path)
    assert "No session is over yet" in capsys.readouterr().err


def test_a_name_that_nothing_bears_is_told_as_the_hub_tells_it() -> None:
    fresh = Freshness([host()], NOW)

    said = no_history(fresh, ["There is no host `nope`."], filtered=True)

    assert said == "There is no host `nope`."


@pytest.mark.parametrize("width", [180, 10_000])
def test_nothing_is_cut_where_there_is_room(drawn: Any, width: int) -> None:
    project = "a-project-with-a-name-of-some-length"
    one = msgspec.structs.replace(over("0a1b2c3d", host="h" * 30), project=project)
    assert project in drawn([one], width)[1]
    assert "h" * 30 in drawn([one], width)[1]


def test_a_project_has_what_the_title_leaves(drawn: Any) -> None:
    project = "p" * 60
    one = msgspec.structs.replace(over("0a1b2c3d", "t" * 70), project=project)
    assert "t" * 70 in drawn([one], 160)[1]
    assert "p" * 30 in drawn([one], 160)[1]


def test_the_longest_title_is_whole_in_a_pipe(drawn: Any) -> None:
    assert "t" * 900 in drawn([over("0a1b2c3d", "t" * 900)], 10_000)[1]
