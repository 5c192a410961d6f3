"""Tables fit, ages are short, and nothing an agent writes reaches the terminal as a command."""

from __future__ import annotations

import io
from typing import Any

import msgspec
import pytest
from rich.console import Console

from adsum.text.tables import UNBOUND, counts_line, first_line, session_table
from adsum.text.words import age
from adsum_shared.redact import clean
from adsum_shared.state import (
    AgentState,
    ContextView,
    Group,
    HostView,
    HostWitness,
    Reachability,
    SessionView,
    UsageView,
    WitnessView,
)

NOW = 1_000_000_000


def view(
    title: str = "Fix the build",
    state: str = "needs_permission",
    group: Group = Group.NEEDS_YOU,
    reachability: Reachability = "live",
    label: str = "Needs permission: Bash",
    host: str = "laptop",
    session_id: str = "0123456789abcdef",
) -> SessionView:
    return SessionView(
        id=f"h:{session_id}",
        host_id="h",
        host=host,
        session_id=session_id,
        agent="claude_code",
        state=AgentState(group, state, label, 1.0, "hook", NOW - 65_000),
        reachability=reachability,
        updated_at=NOW,
        rank=0,
        title=title,
        project="adsum",
    )


def host(label: str = "laptop", reachability: Reachability = "live", **more: object) -> HostView:
    return HostView("h", label, reachability, NOW - 240_000, **more)  # type: ignore[arg-type]  # test builder


def table_text(*views: SessionView, width: int = 80, encoding: str = "utf-8") -> str:
    file = io.TextIOWrapper(io.BytesIO(), encoding)
    console = Console(file=file, width=width, highlight=False)
    console.print(session_table(views, NOW, console))
    file.seek(0)
    return file.read()


LONG = view(
    title="A title that goes on " * 9,
    label="Needs permission: " + "x" * 50,
    host="a-long-host-name",
)


@pytest.mark.parametrize("width", [80, 110, 200])
def test_a_row_is_one_line_however_long_its_words(width: int) -> None:
    wide = view(title="日本語のタイトル" * 20, reachability="offline")
    lines = table_text(LONG, wide, width=width).splitlines()
    assert len(lines) == 3
    assert all(Console().measure(line).maximum <= width for line in lines)
    assert "Needs permission: xxx" in lines[1]
    assert "offline" in lines[2]


def test_a_row_says_state_title_project_host_id_and_age() -> None:
    row = table_text(view(), width=92).splitlines()[1].split()
    words = "▲ Needs permission: Bash Fix the build adsum laptop 012345 1m"
    assert row == words.split()


USED = msgspec.structs.replace(
    view(),
    usage=UsageView(1_000, 200, 90_000, 8_800, 0, 1.234, "computed"),
    context=ContextView(84_000, 200_000),
)


def test_a_wide_terminal_has_room_for_what_a_session_used_up() -> None:
    head, used, unknown = table_text(USED, view(), width=130).splitlines()
    assert head.split()[4:] == ["ID", "COST", "TOKENS", "CTX", "FOR"]
    assert used.split()[-6:] == ["01234567", "≈", "$1.23", "100k", "42%", "1m"]
    assert unknown.split()[-5:] == ["01234567", "-", "-", "-", "1m"]


@pytest.mark.parametrize("width", [80, 129])
def test_a_terminal_that_is_not_wide_does_without_it(width: int) -> None:
    """By its width alone: no column may come and go while somebody watches."""
    assert "COST" not in table_text(USED, width=width)
    assert "COST" in table_text(view(), width=130)


def test_absurd_amounts_leave_a_row_one_line() -> None:
    absurd = msgspec.structs.replace(
        LONG, usage=UsageView(10**30, cost_usd=1e300), context=ContextView(10**30, 1)
    )
    lines = table_text(absurd, LONG, USED, width=130).splitlines()
    assert len(lines) == 4
    assert all(Console().measure(line).maximum <= 130 for line in lines)
    assert lines[1].split()[-4:] == ["$>999P", ">999P", "999%", "1m"]


def test_a_terminal_without_unicode_gets_other_icons() -> None:
    assert table_text(view(), encoding="ascii").splitlines()[1].startswith("! Needs")


def test_a_state_nobody_has_heard_of_shows_by_its_group() -> None:
    odd = view(state="pondering", group=Group.AUTONOMOUS, label="Pondering deeply")
    assert "● Pondering deeply" in table_text(odd)


def test_titles_cannot_steer_the_terminal() -> None:
    evil = view(title="a\x1b]0;owned\x07b\x1b[2J\u202ec [red]markup[/red]")
    text = table_text(evil, width=120)
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "[red]markup[/red]" in text
    assert clean("a\r\nb\x9b") == "a b"


def test_an_offline_session_claims_no_age() -> None:
    row = table_text(view(reachability="offline")).splitlines()[1]
    assert row.rstrip().endswith("offline")
    assert "1m" not in row


@pytest.mark.parametrize(
    ("ms", "short"),
    [(-5, "0s"), (59_999, "59s"), (60_000, "1m"), (3_600_000, "1h"), (86_400_000 * 3, "3d")],
)
def test_ages(ms: int, short: str) -> None:
    assert age(ms) == short


def test_counts_leave_offline_hosts_out_and_name_them() -> None:
    views = [view(), view(group=Group.AUTONOMOUS), view(reachability="offline")]
    line = counts_line(views, [host("desk", "offline"), host()], NOW).plain
    assert line == (
        "1 needs you · 1 working · 0 delivered · desk offline, last seen 4m ago, 1 needed you then"
    )


def test_the_counts_name_a_living_host_whose_witnesses_are_unwell() -> None:
    """Hooks taken out while a session works: it may have nothing else to say for minutes."""
    sick = host(witnesses=(HostWitness("hook", "missing"), HostWitness("registry", "ok")))
    line = counts_line([view(group=Group.AUTONOMOUS)], [sick], NOW).plain
    assert line.endswith(" · laptop: hook unwell, see adsum hosts")


def test_the_counts_name_a_living_host_with_a_problem() -> None:
    sick = host(problem="Its disk is full.", witnesses=(HostWitness("hook", "missing"),))
    line = counts_line([view()], [sick, host("desk", problem="Full.")], NOW).plain
    assert " · laptop: a problem and hook unwell, see adsum hosts · " in line
    assert line.endswith(" · desk: a problem, see adsum hosts")


def test_the_counts_tell_of_how_many_something_is_missing() -> None:
    part = msgspec.structs.replace(view(), incomplete=True)
    line = counts_line([part, view(), part], [host()], NOW).plain
    assert line.endswith(" · parts of 2 missing, see adsum hosts")


def test_the_counts_tell_who_needed_somebody_on_a_host_that_is_gone() -> None:
    away = view(reachability="offline")
    line = counts_line([away], [host("desk", "offline")], NOW).plain
    assert line.endswith("desk offline, last seen 4m ago, 1 needed you then")


def test_no_color_is_obeyed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    console = Console(file=io.StringIO(), width=80, force_terminal=True, highlight=False)
    console.print(session_table([view()], NOW, console))
    assert isinstance(console.file, io.StringIO)
    assert "\x1b[33" not in console.file.getvalue()
    assert "\x1b[1;33" not in console.file.getvalue()


def unwell(problem: str, **more: Any) -> SessionView:
    hook = WitnessView("hook", NOW - 60_000, problem)  # type: ignore[arg-type]
    return msgspec.structs.replace(view(**more), witnesses=(hook, WitnessView("transcript", NOW)))


@pytest.mark.parametrize(("encoding", "mark"), [("utf-8", "✗"), ("ascii", "x")])
@pytest.mark.parametrize("problem", ["missing", "doubled"])
def test_a_session_with_unwell_hooks_bears_a_mark(problem: str, encoding: str, mark: str) -> None:
    text = table_text(unwell(problem), encoding=encoding)
    assert f" {mark} Fix the build" in text.splitlines()[1]


def test_the_mark_makes_no_row_wider_than_its_terminal() -> None:
    sick = unwell("missing", title=LONG.title or "", label="wide " * 30, host="a-long-host-name")
    for line in table_text(sick, LONG).splitlines():
        assert Console().measure(line).maximum <= 80


def test_the_counts_explain_the_mark() -> None:
    views = [unwell("missing"), unwell("missing"), unwell("doubled"), view()]
    line = counts_line(views, [host()], NOW).plain
    assert line == "4 need you · 0 working · 0 delivered · hooks doubled in 1, missing in 2"


def test_of_a_part_of_the_list_no_group_is_counted_as_empty() -> None:
    assert counts_line([view(), view()], [host()], NOW, part=True).plain == "of these 2 need you"


def test_of_a_host_nobody_hears_no_hooks_are_missed() -> None:
    away = unwell("missing", reachability="offline")
    assert "✗" not in table_text(away)
    assert "hooks" not in counts_line([away], [host()], NOW).plain


def test_nothing_but_the_id_is_cut_in_a_pipe() -> None:
    long = msgspec.structs.replace(LONG, project="p" * 99)
    assert "p" * 99 in table_text(long, width=UNBOUND)
    assert long.session_id not in table_text(long, width=UNBOUND)


PLAIN_TITLE = "Fix the race in the queue"


def test_in_eighty_columns_a_title_can_be_read() -> None:
    row = view(title=PLAIN_TITLE, label="Waiting for your next prompt", host="a-long-host-name")
    assert PLAIN_TITLE in table_text(row)


def test_in_a_hundred_columns_the_usual_states_are_whole() -> None:
    row = view(title="word " * 30, label="Waiting for your next prompt", host="a-long-host-name")
    assert "Waiting for your next prompt " in table_text(row, width=100)


def test_a_session_without_a_title_is_called_by_the_end_of_its_directory() -> None:
    row = msgspec.structs.replace(view(title=""), cwd="/home/dev/work/a/long/way/to/parcels")
    assert " parcels " in table_text(row)
    nowhere = msgspec.structs.replace(row, cwd=None, project=None)
    assert "(untitled)" in table_text(nowhere)


def test_who_is_first_is_said_with_the_reason_and_the_next_step() -> None:
    line = first_line(view(), NOW).plain
    assert line == "First: Needs permission: Bash, for 1m. adsum show 012345"


@pytest.mark.parametrize("width", [60, 80, 100, 120, 140])
def test_no_cell_is_cut_while_the_row_has_room_for_it(width: int) -> None:
    row = view(title="Rewrite the whole quick start", label="Over budget: $12.40 of $10.00")
    line = table_text(row, width=width).splitlines()[1]
    assert "…" not in line or len(line) == width


@pytest.mark.parametrize(
    ("width", "gone"), [(40, {"HOST", "PROJECT"}), (60, {"PROJECT"}), (92, set())]
)
def test_a_narrow_terminal_has_fewer_columns_and_whole_ones(width: int, gone: set[str]) -> None:
    head, line = table_text(LONG, width=width).splitlines()
    assert {"STATE", "TITLE", "HOST", "PROJECT", "ID", "FOR"} - set(head.split()) == gone
    assert "A title" in line
    assert line.endswith(" 1m")
