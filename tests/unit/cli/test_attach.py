"""`adsum attach`: which command leads to a session's terminal, and why none does."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from io import StringIO
from pathlib import Path
from typing import Any

import msgspec
import pytest

from adsum.outcome import CommandError
from adsum.reach import (
    OURS,
    Pane,
    command_for,
    local_command,
    pane_of,
    panes_in,
    remote_script,
    require_agreed,
    run_ssh,
)
from adsum_shared.state import AgentState, Group, SessionView
from tests.hubs import session
from tests.support import wait_until

SUSPENDED = AgentState(Group.DELIVERED, "suspended", "Suspended", 1.0, "hook", 0)
PANES = [Pane("/dev/pts/1", 10, "%0"), Pane("/dev/pts/2", 20, "%3")]


def view(**more: Any) -> SessionView:
    return msgspec.structs.replace(session("0a1b2c3d"), **{"pid": 77, **more})


@pytest.fixture(autouse=True)
def _programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ssh", "tmux"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))


def test_a_pane_is_found_by_its_terminal_or_by_an_ancestor() -> None:
    assert pane_of(PANES, "/dev/pts/2", [77, 10]) == PANES[1]
    assert pane_of(PANES, "/dev/pts/9", [77, 10, 1]) == PANES[0]
    assert pane_of(PANES, None, [77, 1]) is None
    assert panes_in("/dev/pts/1 10 %0\nno server running\n") == PANES[:1]


def test_what_its_agent_keeps_in_the_background_is_opened_by_the_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    entry = tmp_path / ".claude" / "sessions" / f"{os.getpid()}.json"
    entry.parent.mkdir(parents=True)
    told = {"pid": os.getpid(), "sessionId": "0a1b2c3d", "cwd": "/", "jobId": "0a1b2c3d"}
    living = view(pid=os.getpid(), session_id="0a1b2c3d")

    def says(**more: str) -> list[str]:
        entry.write_text(json.dumps(told | more))
        return command_for(living, "laptop-id")

    assert says(kind="bg") == ["claude", "attach", "0a1b2c3d"]
    for other in ({"kind": "interactive"}, {"kind": "bg", "jobId": "--x"}, {"sessionId": "other"}):
        with pytest.raises(CommandError, match="outside tmux"):
            says(**({"kind": "bg"} | other))


def test_within_tmux_the_client_goes_there_and_none_is_nested() -> None:
    assert local_command(PANES[0], {})[-3:] == ["attach-session", "-t", "%0"]
    assert local_command(PANES[0], {"TMUX": "x"})[-3:] == ["switch-client", "-t", "%0"]


def test_on_another_machine_ssh_goes_there_by_its_label_or_by_a_given_name() -> None:
    command = command_for(view(), "another-id")
    assert command[:4] == ["ssh", "-t", "--", "laptop"]
    assert command_for(view(), None, "dev@10.0.0.7")[3] == "dev@10.0.0.7"


def test_where_ssh_fails_another_name_for_the_machine_is_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def said(code: int) -> str:
        (tmp_path / "ssh").write_text(f"#!/bin/sh\nexit {code}\n")
        assert run_ssh(command_for(view(), "another-id"), view()) == code
        return capsys.readouterr().err

    assert "adsum attach 0a1b2c3d --ssh NAME" in said(255)
    assert said(1) == "", "it got there"


def test_the_first_ssh_to_a_label_asks_and_another_machine_that_bears_it_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(CommandError, match="Nobody has agreed to ssh to laptop"):
        require_agreed(view(), tmp_path)  # no terminal

    answers = StringIO("y\nn\n")
    monkeypatch.setattr(answers, "isatty", lambda: True)
    monkeypatch.setattr("sys.stdin", answers)
    require_agreed(view(), tmp_path / "state")
    require_agreed(view(), tmp_path / "state")
    with pytest.raises(CommandError, match="--ssh NAME"):
        require_agreed(view(host_id="another"), tmp_path / "state")
    assert answers.read() == ""


@pytest.mark.parametrize("label", ["-oProxyCommand=x", "a b", "", "$(x)", "root@laptop"])
def test_a_label_that_ssh_would_misread_is_not_given_to_it(label: str) -> None:
    with pytest.raises(CommandError, match="--ssh"):
        command_for(view(host=label), "another-id")


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"pid": None}, "which process"),
        ({"pid": None, "ended_at": 1}, "has ended"),
        ({"reachability": "offline"}, "nobody hears"),
        ({"state": SUSPENDED}, "adsum resume 0a1b2c3d"),
    ],
)
def test_why_there_is_nothing_to_attach_to(more: dict[str, Any], why: str) -> None:
    with pytest.raises(CommandError, match=why):
        command_for(view(**more), "another-id")


def test_a_process_that_is_gone_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = subprocess.Popen(["/bin/true"])
    ended.wait()
    with pytest.raises(CommandError, match="is gone"):
        command_for(view(pid=ended.pid), "laptop-id")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(CommandError, match="tmux is not installed"):
        command_for(view(), "laptop-id")


def test_on_another_server_a_client_is_nested_because_none_can_go_there() -> None:
    ours = Pane("/dev/pts/1", 10, "%0", OURS)

    assert local_command(ours, {})[:3] == ["tmux", *OURS]
    within = local_command(ours, {"TMUX": "x"})
    assert (within[:4], within[-3]) == (["env", "-u", "TMUX", "tmux"], "attach-session")


@pytest.mark.parametrize("server", [(), OURS], ids=["usual", "resumed"])
async def test_the_pane_of_a_real_tmux_is_found_here_and_by_the_script_for_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: tuple[str, ...]
) -> None:
    monkeypatch.setenv("PATH", "/usr/local/bin:/usr/bin:/bin")
    monkeypatch.delenv("TMUX", raising=False)
    monkeypatch.setenv("TMUX_TMPDIR", str(tmp_path))
    if shutil.which("tmux") is None:
        pytest.skip("needs tmux")
    note = tmp_path / "pid"
    keep = f"sh -c 'echo $$ > {note}; exec sleep 60'; true"
    start = ["tmux", *server, "-f", "/dev/null", "new-session", "-d", "-s", "x", keep]
    subprocess.run(start, check=True)
    try:
        await wait_until(lambda: note.exists() and note.read_text().strip(), timeout=15)
        here = command_for(view(pid=int(note.read_text())), "laptop-id")
        assert here[-3:] == ["attach-session", "-t", "%0"]
        # What would attach needs a terminal; all before it does not.
        script = remote_script(int(note.read_text())).replace("exec tmux -L $S attach -t", "echo")
        ended = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=False)
        assert (ended.returncode, ended.stdout) == (0, "%0\n"), ended.stderr
        outside = subprocess.run(
            ["sh", "-c", remote_script(1)], capture_output=True, text=True, check=False
        )
        assert outside.returncode == 1
        assert "does not run within tmux" in outside.stderr
    finally:
        subprocess.run(["tmux", *server, "kill-server"], check=False)
