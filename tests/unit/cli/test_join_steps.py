"""The steps of joining: what is found before a token is used up, and what a failed one leaves."""

from __future__ import annotations

import http.server
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from adsum.access import create_join_token
from adsum.hooks import Setup
from adsum.join.join import Wish, check_settings, join, put_hooks, until_listening
from adsum.join.leave import Folder, Undo
from adsum.outcome import CommandError, Exit
from adsum_collector.state_dir import LOCK_FILE as LOCK


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("REDIS_URL", "HUB_URL", "STATE_DIR"):
        monkeypatch.delenv(f"ADSUM_{name}", raising=False)


@pytest.fixture
def setup(tmp_path: Path) -> Setup:
    return Setup(tmp_path / "claude" / "settings.json", tmp_path / "state", 1)


def dangling(setup: Setup, which: str) -> None:
    setup.path.parent.parent.mkdir(exist_ok=True)
    if which == "file":
        setup.path.parent.mkdir()
        setup.path.symlink_to(setup.path.parent / "gone" / "settings.json")
    else:
        setup.path.parent.symlink_to(setup.path.parent.with_name("gone"))


@pytest.mark.parametrize("which", ["file", "folder"])
def test_settings_that_lead_to_no_folder_are_told_before_a_token_is_used_up(
    setup: Setup, which: str
) -> None:
    dangling(setup, which)

    with pytest.raises(CommandError, match=r"gone is no folder[^\n]*\n.*--no-hooks"):
        check_settings(setup, wanted=True)
    check_settings(setup, wanted=False)


def test_a_link_to_a_folder_that_is_there_will_do(setup: Setup) -> None:
    setup.path.parent.mkdir()
    (setup.path.parent / "kept").mkdir()
    setup.path.symlink_to(setup.path.parent / "kept" / "settings.json")

    check_settings(setup, wanted=True)


if os.getuid() != 0:  # nothing is forbidden to root

    @pytest.mark.parametrize("there", [True, False])
    def test_a_folder_that_takes_no_file_is_told_before_a_token_is_used_up(
        setup: Setup, there: bool
    ) -> None:
        folder = setup.path.parent if there else setup.path.parent.parent
        folder.mkdir(exist_ok=True)
        mode = folder.stat().st_mode
        folder.chmod(0o555)
        try:
            with pytest.raises(CommandError, match="--no-hooks"):
                check_settings(setup, wanted=True)
        finally:
            folder.chmod(mode)


def test_hooks_that_could_not_be_installed_leave_no_record(setup: Setup) -> None:
    dangling(setup, "file")
    folder = Folder(setup.state_dir)

    with pytest.raises(CommandError, match="--no-hooks"):
        put_hooks(setup, Undo())

    folder.restore()
    assert not setup.state_dir.exists()


def test_a_file_for_ca_that_is_not_there_is_told_whichever_way_the_hub_is(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"--ca .*none\.pem cannot be used") as wrong:
        join("http://127.0.0.1:1", tmp_path, Wish("t", tmp_path / "none.pem"))
    assert wrong.value.code is Exit.USAGE


@pytest.mark.parametrize("given", ["40d", "1s"])
def test_a_join_token_that_would_last_too_long_is_told_how_long_it_may(
    tmp_path: Path, given: str
) -> None:
    with pytest.raises(CommandError, match="at most 31d") as wrong:
        create_join_token("http://127.0.0.1:1", tmp_path, given, "", reusable=False, as_json=False)
    assert wrong.value.code is Exit.USAGE


#: A process that listens, but not where hooks go.
ELSEWHERE = "import socket; held = socket.create_server(('127.0.0.1', 0)); input()"


class Others(http.server.HTTPServer):
    """Another collector: it refuses every hook, and counts them."""

    def __init__(self) -> None:
        self.refused = 0
        owner = self

        class Answer(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                owner.refused += 1
                self.send_error(401)

            def log_message(self, *_: Any) -> None: ...

        super().__init__(("127.0.0.1", 0), Answer)


@pytest.mark.parametrize("lock", ["none yet", "of nobody", "of before", "ours, which has no port"])
def test_where_another_collector_has_the_port_it_is_left_alone_and_the_cause_is_told(
    tmp_path: Path, lock: str
) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "collector.log").write_text("begun\nPort 1 is taken: choose another.\n")
    with (
        Others() as others,
        subprocess.Popen([sys.executable, "-c", ELSEWHERE], stdin=subprocess.PIPE) as ours,
    ):
        threading.Thread(target=others.serve_forever, args=(0.01,)).start()
        port = others.server_port
        if lock != "none yet":
            ended = subprocess.Popen([sys.executable, "-c", ""])
            ended.wait()
            holders = {"of nobody": -1, "of before": ended.pid}
            (tmp_path / LOCK).write_text(f"{holders.get(lock, ours.pid)} {port}\n")
        began = time.monotonic()
        setup = Setup(tmp_path / "settings.json", tmp_path, port)
        try:
            threading.Timer(0.5, ours.kill).start()
            with pytest.raises(CommandError) as wrong:
                until_listening(setup, lambda: ours.poll() is not None)
        finally:
            others.shutdown()

    told = "The collector has ended. Its log ends: Port 1 is taken: choose another."
    assert str(wrong.value) == told
    assert others.refused == 0
    assert time.monotonic() - began < 10
