"""Which processes are ended, which never, and how a session comes back."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest

from adsum_collector.agents.base import Agent
from adsum_collector.agents.claude_code.agent import ClaudeCode
from adsum_collector.control import suspending
from adsum_collector.control.terminal import TmuxPane
from adsum_collector.errors import SpoolUnavailable
from adsum_shared.commands import NotObeyedError
from adsum_shared.signals import (
    ALL_CHILDREN,
    AnySignal,
    BackgroundTask,
    ChildFinished,
    ChildKind,
    ChildStarted,
    ProcessGone,
    ProcessSeen,
    PromptSubmitted,
    SessionEnded,
    SessionSuspended,
    TurnEnded,
)
from tests.resting import Machine, tmux
from tests.support import wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

ID = "0a1b2c3d-0000-4000-8000-000000000001"
OTHER = "0a1b2c3e-0000-4000-8000-000000000002"


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    sockets = tempfile.mkdtemp()  # Not below tmp_path: a socket's path is short.
    monkeypatch.setenv("TMUX_TMPDIR", sockets)
    machine = Machine(tmp_path)
    yield machine
    machine.claude.end()
    tmux("kill-server")
    shutil.rmtree(sockets)


async def test_a_session_that_rests_is_ended_and_what_it_frees_is_said(machine: Machine) -> None:
    pid = await machine.claude.start(ID)

    said = await machine.suspender.suspend(ID, "ann")

    assert not machine.claude.lives(pid)
    told = machine.intake.accepted[-1]
    assert isinstance(told, SessionSuspended)
    assert (told.by, told.auto) == ("ann", False)
    assert told.freed_bytes > 1 << 20
    assert said == f"{told.freed_bytes >> 20} MB are free again"
    kept = machine.state_dir / "suspended" / f"{ID}.json"
    assert (kept.stat().st_mode & 0o777, kept.parent.stat().st_mode & 0o777) == (0o600, 0o700)


NOT_NOW: dict[str, tuple[dict[str, Any], str]] = {
    "works": ({"status": "busy"}, "it works"),
    "asks": ({"status": "waiting"}, "asks something"),
    "has a shell": ({"status": "shell"}, "in the background"),
    "says nothing": ({"status": None}, "it works"),
    "has rested for no time": ({"statusUpdatedAt": 1 << 50}, "until just now"),
    "is in the background": ({"kind": "bg"}, "another program runs it"),
    "is an editor's": ({"entrypoint": "sdk-ts"}, "another program runs it"),
    "began at another time": ({"procStart": "1"}, "no process of it"),
    "bears another id": ({"sessionId": OTHER}, "no process of it"),
}


@pytest.mark.parametrize(("changes", "why"), NOT_NOW.values(), ids=NOT_NOW)
async def test_no_process_is_ended_but_one_that_rests(
    machine: Machine, changes: dict[str, Any], why: str
) -> None:
    pid = await machine.claude.start(ID)
    machine.claude.say(ID, **changes)

    with pytest.raises(NotObeyedError, match=why):
        await machine.suspender.suspend(ID, "ann")

    assert machine.claude.lives(pid)
    assert not machine.intake.accepted
    assert not machine.suspender.is_suspended(ID)


async def test_another_users_process_is_not_ended(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    pid = await machine.claude.start(ID)
    monkeypatch.setattr(os, "geteuid", lambda: 4_000_000)

    with pytest.raises(NotObeyedError, match="another user"):
        await machine.suspender.suspend(ID, "ann")

    assert machine.claude.lives(pid)


async def test_what_other_parts_know_keeps_it_alive(machine: Machine) -> None:
    pid = await machine.claude.start(ID)
    machine.why = "a message waits for it"

    with pytest.raises(NotObeyedError, match="message waits"):
        await machine.suspender.suspend(ID, "ann")

    assert machine.claude.lives(pid)


async def test_a_registry_that_lags_behind_a_prompt_is_not_believed(machine: Machine) -> None:
    pid = await machine.claude.start(ID)
    now = time.time_ns() // 1_000_000
    machine.suspender.hear([PromptSubmitted(session_id=ID, at=now, seen=now)])

    with pytest.raises(NotObeyedError, match="until just now"):
        await machine.suspender.suspend(ID, "ann")

    assert machine.claude.lives(pid)


async def test_what_wakes_it_later_keeps_it_alive_until_it_is_over(machine: Machine) -> None:
    pid = await machine.claude.start(ID)
    cron = ChildStarted(session_id=ID, at=1, seen=1, child_id="c", child_kind="cron")
    machine.suspender.hear([cron])

    with pytest.raises(NotObeyedError, match="still to run"):
        await machine.suspender.suspend(ID, "ann")
    assert machine.claude.lives(pid)

    machine.suspender.hear([ChildFinished(session_id=ID, at=2, seen=2, child_id="c")])
    await machine.suspender.suspend(ID, "ann")
    assert not machine.claude.lives(pid)


async def test_a_draft_at_the_prompt_is_not_lost(machine: Machine) -> None:
    pid = await machine.claude.start(ID)
    machine.box = "half of a tho"

    with pytest.raises(NotObeyedError, match="typed at its prompt"):
        await machine.suspender.suspend(ID, "ann")

    assert machine.claude.lives(pid)


async def test_a_prompt_that_nobody_can_see_takes_a_minute_of_rest(machine: Machine) -> None:
    machine.box = None
    pid = await machine.claude.start(ID)
    machine.claude.say(ID, statusUpdatedAt=time.time_ns() // 1_000_000 - 30_000)
    with pytest.raises(NotObeyedError, match="cannot be seen"):
        await machine.suspender.suspend(ID, "ann")
    assert machine.claude.lives(pid)

    machine.claude.say(ID, statusUpdatedAt=time.time_ns() // 1_000_000 - 61_000)
    assert "is lost" in await machine.suspender.suspend(ID, "ann")


async def test_a_session_in_which_nothing_was_said_could_not_come_back(machine: Machine) -> None:
    pid = await machine.claude.start(ID, said=False)

    with pytest.raises(NotObeyedError, match="nothing was said"):
        await machine.suspender.suspend(ID, "ann")

    assert machine.claude.lives(pid)


@pytest.mark.parametrize("kind", ["pipe", "long", "gone"])
async def test_settings_that_cannot_be_read_keep_it_alive(machine: Machine, kind: str) -> None:
    settings = machine.claude.work / "my.json"
    if kind == "pipe":
        os.mkfifo(settings)
    elif kind == "long":
        settings.write_text(" " * (1 << 20) + "{}")
    pid = await machine.claude.start(ID, "--settings", "my.json")

    with pytest.raises(NotObeyedError, match="cannot be read"):
        await machine.suspender.suspend(ID, "ann")

    assert machine.claude.lives(pid)


async def test_flags_that_cannot_be_repeated_keep_it_alive(machine: Machine) -> None:
    pid = await machine.claude.start(ID, "--unheard-of")

    with pytest.raises(NotObeyedError, match="--unheard-of"):
        await machine.suspender.suspend(ID, "ann")

    assert machine.claude.lives(pid)


async def test_a_session_that_its_user_has_stopped_is_not_ended_at_fg(machine: Machine) -> None:
    pid = await machine.claude.start(ID)
    os.kill(pid, signal.SIGSTOP)
    await wait_until(lambda: psutil.Process(pid).status() == psutil.STATUS_STOPPED)

    with pytest.raises(NotObeyedError, match="stopped"):
        await machine.suspender.suspend(ID, "ann")

    os.kill(pid, signal.SIGCONT)
    await wait_until(lambda: psutil.Process(pid).status() != psutil.STATUS_STOPPED)
    assert machine.claude.lives(pid)
    assert not machine.suspender.is_suspended(ID)


@pytest.mark.parametrize("in_front", [True, False])
def test_of_who_is_not_in_front_no_prompt_is_seen(
    monkeypatch: pytest.MonkeyPatch, in_front: bool
) -> None:
    monkeypatch.setattr(suspending, "pane_of", lambda _pid: TmuxPane("s", "%0"))
    monkeypatch.setattr(suspending, "is_in_front", lambda _pane, _pid: in_front)
    monkeypatch.setattr(suspending, "box_of", lambda _pane, _keyboard: "a draft")

    assert suspending.box_in_tmux(ClaudeCode(), 7) == ("a draft" if in_front else None)


async def test_what_begins_while_it_is_looked_at_is_seen(machine: Machine) -> None:
    """Between the first look and the signal somebody presses Enter."""
    pid = await machine.claude.start(ID)

    def type_meanwhile(_agent: Agent, _pid: int) -> str:
        machine.claude.say(ID, status="busy")
        return ""

    machine.suspender._see_box = type_meanwhile
    with pytest.raises(NotObeyedError, match="just begun"):
        await machine.suspender.suspend(ID, "ann")

    assert machine.claude.lives(pid)
    assert not machine.suspender.is_suspended(ID)


async def test_a_turn_that_begins_while_it_is_told_is_not_ended(machine: Machine) -> None:
    """A commit takes seconds on a busy disk."""
    pid = await machine.claude.start(ID)
    machine.intake.meanwhile = lambda: machine.claude.say(ID, status="busy")

    with pytest.raises(NotObeyedError, match="just begun"):
        await machine.suspender.suspend(ID, "ann")

    assert machine.claude.lives(pid)
    assert not machine.suspender.is_suspended(ID)


async def test_a_draft_that_is_typed_while_it_is_told_is_not_lost(machine: Machine) -> None:
    pid = await machine.claude.start(ID)
    machine.intake.meanwhile = lambda: setattr(machine, "box", "half of a tho")

    with pytest.raises(NotObeyedError, match="typed at its prompt"):
        await machine.suspender.suspend(ID, "ann")

    assert machine.claude.lives(pid)
    assert [getattr(each, "undone", None) for each in machine.intake.accepted] == [False, True]


async def test_what_cannot_be_told_is_not_ended(machine: Machine) -> None:
    """The disk is full."""
    pid = await machine.claude.start(ID)

    def fail() -> None:
        raise SpoolUnavailable("no space is left")

    machine.intake.meanwhile = fail
    with pytest.raises(NotObeyedError, match="cannot be told"):
        await machine.suspender.suspend(ID, "ann")

    assert machine.claude.lives(pid)
    assert not machine.suspender.is_suspended(ID)


@pytest.mark.parametrize("where", ["flag", "variable"])
async def test_what_is_no_text_keeps_it_alive(machine: Machine, where: str) -> None:
    """It could not be written down, nor said in a reason."""
    odd = os.fsdecode(b"/caf\xe9")
    flags, env = ([f"--{odd}"], {}) if where == "flag" else ([], {"XDG_DATA_DIRS": odd})
    pid = await machine.claude.start(ID, *flags, **env)

    with pytest.raises(NotObeyedError, match="no text") as told:
        await machine.suspender.suspend(ID, "ann")

    str(told.value).encode()
    assert machine.claude.lives(pid)
    assert not machine.suspender.is_suspended(ID)


def about(at: int = 1) -> dict[str, Any]:
    return {"session_id": ID, "at": at, "seen": at}


async def may_end(machine: Machine) -> bool:
    """Whether anything is known to be scheduled in it."""
    machine.why = "it was asked for nothing but that"
    with pytest.raises(NotObeyedError) as told:
        await machine.suspender.suspend(ID, "ann")
    return "still to run" not in str(told.value)


def cron(kind: ChildKind = "cron", until: int | None = None, child: str = "c") -> ChildStarted:
    return ChildStarted(**about(), child_id=child, child_kind=kind, until=until)


OVER: dict[str, tuple[AnySignal, AnySignal, bool]] = {
    "a wake-up that is due": (cron(until=1 << 50), cron("agent"), False),
    "one whose time has passed": (cron(until=1), cron("agent"), True),
    "all of its kind": (
        cron("monitor"),
        ChildFinished(**about(), child_id=ALL_CHILDREN, child_kind="monitor"),
        True,
    ),
    "all of another kind": (
        cron("monitor"),
        ChildFinished(**about(), child_id=ALL_CHILDREN, child_kind="agent"),
        False,
    ),
    "a list without it": (cron(), TurnEnded(**about(), background=[]), True),
    "a list that names it": (
        cron("agent"),
        TurnEnded(**about(), background=[BackgroundTask("m", "monitor")]),
        False,
    ),
    "a list of what is over": (
        cron("agent"),
        TurnEnded(**about(), background=[BackgroundTask("m", "monitor", "completed")]),
        True,
    ),
    "a list never names wake-ups": (
        cron(until=1 << 50),
        TurnEnded(**about(), background=[]),
        False,
    ),
    "no list": (cron(), TurnEnded(**about()), False),
    "a subagent's list": (cron(), TurnEnded(**about(), agent_id="a", background=[]), False),
    "the session's end": (cron(), SessionEnded(**about()), True),
    "its process's end": (cron(), ProcessGone(**about(), pid=7), True),
}


@pytest.mark.parametrize(("first", "then", "ends"), OVER.values(), ids=OVER)
async def test_what_is_scheduled_is_known_as_it_was_told(
    machine: Machine, first: AnySignal, then: AnySignal, ends: bool
) -> None:
    await machine.claude.start(ID)
    machine.suspender.hear([first, then])

    assert await may_end(machine) is ends


async def test_the_end_of_an_earlier_process_takes_nothing_from_the_next(machine: Machine) -> None:
    await machine.claude.start(ID)
    seen, gone = ProcessSeen(**about(), pid=8), ProcessGone(**about(2), pid=7)
    machine.suspender.hear([seen, cron(), gone])

    assert not await may_end(machine)


async def test_what_is_remembered_is_bounded_and_what_is_forgotten_is_not_ended(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suspending, "MOST_HEARD", 2)
    await machine.claude.start(ID)
    assert machine.suspender.rested(lambda _cwd: 1) == [ID]
    await asyncio.sleep(0.02)  # a tick of the system's, by which starts are counted

    others = [msgspec.structs.replace(cron(), session_id=f"other-{n}") for n in range(9)]
    machine.suspender.hear(others)

    assert len(machine.suspender._heard) == 2
    assert machine.suspender.rested(lambda _cwd: 1) == []


async def test_of_one_session_a_bounded_number_is_remembered(machine: Machine) -> None:
    machine.suspender.hear([cron(child=str(n)) for n in range(1000)])

    assert len(machine.suspender._heard[ID].scheduled) == 256


async def test_a_process_that_does_not_end_is_not_killed(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suspending, "ENDS_S", 0.3)
    pid = await machine.claude.start(ID, MAX_STUBBORN="1")

    with pytest.raises(NotObeyedError, match="is not killed"):
        await machine.suspender.suspend(ID, "ann")

    assert machine.claude.lives(pid)
    # It may end yet, and is taken up again then.
    machine.suspender.tidy()
    with pytest.raises(NotObeyedError, match="still ending"):
        await machine.suspender.sleeps(ID)
    with pytest.raises(NotObeyedError, match="still ending"):
        await machine.suspender.resume(ID)
    assert machine.suspender.is_suspended(ID)
    os.kill(pid, signal.SIGKILL)
    await wait_until(lambda: not machine.claude.lives(pid))
    assert await machine.suspender.sleeps(ID)


@pytest.mark.parametrize("again", [True, False])
async def test_the_way_back_stays_if_the_first_signal_ends_it_while_it_is_told_again(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, again: bool
) -> None:
    """One that was told for the first time has been ended by its user."""
    monkeypatch.setattr(suspending, "ENDS_S", 0.3)
    pid = await machine.claude.start(ID, MAX_STUBBORN="1")
    if again:
        with pytest.raises(NotObeyedError, match="is not killed"):
            await machine.suspender.suspend(ID, "ann")

    def ends() -> None:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        machine.intake.meanwhile = lambda: None

    machine.intake.meanwhile = ends
    with pytest.raises(NotObeyedError, match="just ended"):
        await machine.suspender.suspend(ID, "ann")

    assert machine.suspender.is_suspended(ID) is again


# -- and back ------------------------------------------------------------------------------------

needs_tmux = pytest.mark.skipif(shutil.which("tmux") is None, reason="there is no tmux")


async def put_aside(machine: Machine, *flags: str, **env: str) -> None:
    await machine.claude.start(ID, *flags, **env)
    await machine.suspender.suspend(ID, "ann")


@needs_tmux
async def test_it_comes_back_under_its_id_with_its_flags_and_what_is_said(machine: Machine) -> None:
    flags = ("--model", "opus", "--dangerously-skip-permissions", "first prompt")
    await put_aside(machine, *flags, ANTHROPIC_API_KEY="secret", GITHUB_TOKEN="t")

    said = await machine.restarted().resume(ID, "go on")

    given = machine.claude.given(ID)
    assert given["words"] == ["--resume", ID, "--model", "opus", "--", "go on"]
    assert given["cwd"] == str(machine.claude.work)
    assert given["env"]["ANTHROPIC_API_KEY"] == "secret"
    assert "GITHUB_TOKEN" not in given["env"]
    assert "tmux -L adsum attach -t adsum-0a1b2c3d" in said
    assert "it skipped permissions" in said
    assert not machine.suspender.is_suspended(ID)
    # The key stands on nobody's command line, and in no file that is left.
    shown = [process.info["cmdline"] or () for process in psutil.process_iter(["cmdline"])]
    assert not any("secret" in word for words in shown for word in words)
    assert not list((machine.state_dir / "suspended").iterdir())


async def test_what_lives_is_not_started_twice(machine: Machine) -> None:
    """Its user took it up again in a terminal."""
    await put_aside(machine)
    await machine.claude.start(ID)

    with pytest.raises(NotObeyedError, match="lives already"):
        await machine.suspender.resume(ID)

    assert not machine.suspender.is_suspended(ID)


async def test_what_was_not_suspended_here_is_not_started(machine: Machine) -> None:
    for named in (ID, "../../etc/passwd", "x"):
        with pytest.raises(NotObeyedError, match="not suspended on this machine"):
            await machine.suspender.resume(named)


@needs_tmux
async def test_an_untrusted_directory_is_said_and_nothing_stays(machine: Machine) -> None:
    await put_aside(machine, MAX_UNTRUSTED="1")
    machine.suspender.comes_s = 1.0

    with pytest.raises(NotObeyedError, match="screen says: Do you trust the files"):
        await machine.suspender.resume(ID)

    assert machine.suspender.is_suspended(ID)
    await wait_until(lambda: tmux("ls") != 0)


SECRET = "ghp_" + "a1B2" * 9


@needs_tmux
async def test_a_screen_is_quoted_without_its_secrets(machine: Machine) -> None:
    await put_aside(machine, MAX_UNTRUSTED=f"https://x:{SECRET}@example.org token={SECRET}")
    machine.suspender.comes_s = 1.0

    with pytest.raises(NotObeyedError, match="screen says: Do you trust") as told:
        await machine.suspender.resume(ID)

    assert "a1B2" not in str(told.value)


def test_of_a_screen_its_end_is_quoted() -> None:
    screen = "\n".join(f"line {n}" for n in range(30))

    assert suspending._last_words(screen) == "; its screen says: " + " ".join(
        f"line {n}" for n in range(22, 30)
    )
    key = "\n".join(["-----BEGIN PRIVATE KEY-----", *["MIIEvQ"] * 20, "-----END PRIVATE KEY-----"])
    assert "MIIEvQ" not in suspending._last_words(f"its key:\n{key}")
    secret = f"header: {SECRET}\n│ password = hun$ter=2 │"
    assert "ter" not in suspending._last_words(secret)


@needs_tmux
async def test_a_file_with_keys_does_not_stay_if_tmux_fails(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put_aside(machine)

    async def fail(*_words: str) -> str:
        raise OSError("no more processes")

    monkeypatch.setattr(suspending, "_tmux", fail)
    with pytest.raises(OSError, match="no more"):
        await machine.suspender.resume(ID)

    assert [each.name for each in (machine.state_dir / "suspended").iterdir()] == [f"{ID}.json"]


async def test_what_a_killed_collector_left_is_swept(machine: Machine) -> None:
    await put_aside(machine)
    folder = machine.state_dir / "suspended"
    for name in ("launch-0a", f".{ID}.json.7.0a", ".launch-0a.7.0a"):
        (folder / name).touch()

    machine.restarted().sweep()

    assert [each.name for each in folder.iterdir()] == [f"{ID}.json"]


@needs_tmux
async def test_settings_that_skip_permissions_by_now_are_not_used(machine: Machine) -> None:
    settings = machine.claude.work / "my.json"
    settings.write_text("{}")
    await put_aside(machine, "--settings", "my.json")
    settings.write_text('{"permissions": {"defaultMode": "bypassPermissions"}}')

    with pytest.raises(NotObeyedError, match="skip permissions"):
        await machine.suspender.resume(ID)

    assert machine.suspender.is_suspended(ID)


async def test_what_its_user_took_up_is_tidied_away(machine: Machine) -> None:
    await put_aside(machine)
    machine.suspender.tidy()
    assert machine.suspender.is_suspended(ID)
    await machine.claude.start(ID)

    machine.suspender._under_way.add(ID)
    machine.suspender.tidy()
    assert machine.suspender.is_suspended(ID)
    machine.suspender._under_way.clear()
    machine.suspender.tidy()
    assert not machine.suspender.is_suspended(ID)


async def test_a_directory_that_is_gone_is_named(machine: Machine) -> None:
    await put_aside(machine)
    machine.claude.work.rmdir()

    with pytest.raises(NotObeyedError, match=f"{machine.claude.work}, is gone"):
        await machine.suspender.resume(ID)


async def test_who_rests_for_long_is_found(machine: Machine) -> None:
    await machine.claude.start(ID)
    await machine.claude.start(OTHER)
    machine.claude.say(OTHER, statusUpdatedAt=time.time_ns() // 1_000_000 - 1_000)

    elsewhere = str(machine.claude.work.parent)
    assert machine.suspender.rested(lambda cwd: 600_000 if cwd != elsewhere else 1) == [ID]
    assert machine.suspender.rested(lambda _cwd: None) == []


async def test_who_began_before_the_collector_is_not_ended_by_rest(machine: Machine) -> None:
    """Whether a wake-up is due there, it did not hear."""
    await machine.claude.start(ID)
    await asyncio.sleep(0.02)  # as above

    assert machine.restarted().rested(lambda _cwd: 1) == []
