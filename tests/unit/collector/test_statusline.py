"""The status line's wrapper as a process: the user's command must not notice it."""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from adsum_collector.agents.claude_code import statusline_wrapper

WRAPPER = Path(statusline_wrapper.__file__)
BODY = b'{"session_id": "s1",\n "cwd": "/x y", "note": "a\\nb"}\n'
ENV = {"PATH": os.environ["PATH"], "OWN": "a b\n'c'"}


class Listener:
    """A collector that only listens. raw: what came, by arrival."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.raw: list[bytes] = []
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(str(path))
        self._socket.listen(16)
        self._thread = threading.Thread(target=self._listen)
        self._thread.start()

    def _listen(self) -> None:
        while True:
            connection, _ = self._socket.accept()
            with connection, connection.makefile("rb") as file:
                line = file.readline()
            if line == b"end\n":
                return
            self.raw.append(line)

    def close(self) -> None:
        """Once all that was sent has been read."""
        with socket.socket(socket.AF_UNIX) as last:
            last.connect(str(self.path))
            last.sendall(b"end\n")
        self._thread.join()
        self._socket.close()

    @property
    def lines(self) -> list[dict[str, Any]]:
        """Return what was reported; a sender that was killed may have connected and written nothing."""
        return [json.loads(line) for line in self.raw if line]


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[Listener]:
    listener = Listener(tmp_path / "collector.sock")
    yield listener
    if listener._thread.is_alive():
        listener.close()


def command_line(path: Path, command: str, wrapper: Path = WRAPPER) -> str:
    words = [sys.executable, "-I", "-S", str(wrapper), str(path), "--", command]
    return f"exec {shlex.join(words)}"


def run(
    command: str, body: bytes = BODY, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    """As Claude Code runs a status line: by this shell, in a session of its own."""
    return subprocess.run(
        ["/bin/sh", "-c", command],
        input=body,
        capture_output=True,
        env=ENV if env is None else env,
        start_new_session=True,
        timeout=20,
        check=False,
    )


def start(command: str) -> subprocess.Popen[bytes]:
    """As from a terminal: whoever runs the tests in the background has signals ignored."""
    return subprocess.Popen(
        ["/bin/sh", "-c", command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=ENV,
        start_new_session=True,
        preexec_fn=heed_signals,  # noqa: PLW1509 - it takes no lock
    )


def heed_signals() -> None:
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)


@pytest.mark.parametrize("env", [ENV, {**ENV, "LC_CTYPE": "C"}, {**ENV, "LANG": "C.UTF-8"}])
def test_the_command_sees_the_same_stdin_folder_and_environment(
    env: dict[str, str], tmp_path: Path
) -> None:
    # A shell counts itself in SHLVL, and notes in `_` what it was run by.
    command = "cat; pwd; env -0 | sort -z | grep -zv -e ^SHLVL= -e ^_=; umask; echo oops >&2"
    bare, wrapped = run(command, env=env), run(command_line(tmp_path / "no", command), env=env)

    assert bare.stdout.startswith(BODY)
    assert (wrapped.stdout, wrapped.stderr) == (bare.stdout, bare.stderr)


def test_bytes_that_are_no_text_come_through(tmp_path: Path) -> None:
    body = bytes(range(256)) * 2
    assert run(command_line(tmp_path / "no", "cat"), body).stdout == body


def test_a_body_beyond_what_a_pipe_holds_comes_through(tmp_path: Path) -> None:
    body = b"x" * 3_000_000
    assert run(command_line(tmp_path / "no", "wc -c"), body).stdout.strip() == b"3000000"


def test_a_command_need_not_read_its_stdin(tmp_path: Path) -> None:
    assert run(command_line(tmp_path / "no", "echo hi"), b"x" * 3_000_000).stdout == b"hi\n"


@pytest.mark.parametrize(
    "command",
    ["exit 0", "exit 1", "exit 127", "exit 143", "no-such-program", "kill -TERM $$", "kill -9 $$"],
)
def test_it_ends_as_the_command_ends(command: str, tmp_path: Path) -> None:
    bare, wrapped = run(command), run(command_line(tmp_path / "no", command))
    assert (wrapped.returncode, wrapped.stderr) == (bare.returncode, bare.stderr)


def test_a_crash_is_told_as_a_shell_tells_it_and_dumps_no_core_of_ours(tmp_path: Path) -> None:
    assert run(command_line(tmp_path / "no", "kill -SEGV $$")).returncode == 139


def test_a_broken_pipe_ends_a_command_as_it_should(tmp_path: Path) -> None:
    done = run(command_line(tmp_path / "no", "yes | head -1"))
    assert (done.stdout, done.stderr) == (b"y\n", b"")


def test_what_was_ignored_stays_ignored(tmp_path: Path) -> None:
    wrapped = command_line(tmp_path / "no", "kill -HUP $$; echo alive")
    assert run(f"trap '' HUP; {wrapped}").stdout == b"alive\n"


def test_without_a_process_to_be_had_the_command_runs_all_the_same(tmp_path: Path) -> None:
    wrapped = command_line(tmp_path / "no", "cat; exit 3")
    done = run(f"ulimit -n 4; {wrapped}")  # no room for a pipe
    assert (done.stdout, done.returncode) == (BODY, 3)


def test_the_collector_hears_the_tick_and_of_a_good_command_no_more(listener: Listener) -> None:
    before = time.time_ns() // 1_000_000
    run(command_line(listener.path, "cat"))
    listener.close()

    (tick,) = listener.lines
    assert (tick["v"], tick["kind"], tick["body"]) == (1, "statusline", json.loads(BODY))
    assert before <= tick["at"] <= time.time_ns() // 1_000_000


def test_a_tick_is_heard_of_a_command_that_never_reads_it(listener: Listener) -> None:
    body = json.dumps({"session_id": "s1", "filling": "x" * 300_000}).encode()
    run(command_line(listener.path, "true"), body)
    listener.close()

    assert listener.lines[0]["body"] == json.loads(body)


@pytest.mark.parametrize(("command", "code"), [("exit 7", 7), ("kill -9 $$", 137)])
def test_a_command_that_fails_is_reported(command: str, code: int, listener: Listener) -> None:
    run(command_line(listener.path, command))
    listener.close()

    told = listener.lines[1]
    assert (told["kind"], told["outcome"], told["exit"]) == ("statusline outcome", "failed", code)


def test_a_command_that_hangs_is_reported_once_and_left_alone(
    listener: Listener, tmp_path: Path
) -> None:
    hasty = tmp_path / "statusline.py"
    hasty.write_text(WRAPPER.read_text().replace("HUNG_S = 5", "HUNG_S = 1"))
    done = run(command_line(listener.path, "sleep 1.5; echo late; exit 4", hasty))
    listener.close()

    assert (done.stdout, done.returncode) == (b"late\n", 4)
    assert [line.get("outcome") for line in listener.lines] == [None, "hung"]


def test_a_body_that_is_no_json_is_passed_on_to_both(listener: Listener) -> None:
    assert run(command_line(listener.path, "cat"), b"no json").stdout == b"no json"
    listener.close()
    assert listener.raw[0].endswith(b'"body":no json}\n')


def test_without_a_command_it_reports_and_shows_nothing(listener: Listener) -> None:
    done = run(command_line(listener.path, "").removesuffix(" -- ''"))
    listener.close()

    assert (done.stdout, done.stderr, done.returncode) == (b"", b"", 0)
    assert listener.lines[0]["body"] == json.loads(BODY)


@pytest.mark.parametrize("filled", [False, True])
def test_a_collector_that_hears_nothing_costs_next_to_nothing(filled: bool, tmp_path: Path) -> None:
    """filled: even its queue takes no more."""
    with socket.socket(socket.AF_UNIX) as deaf, socket.socket(socket.AF_UNIX) as queued:
        deaf.bind(str(tmp_path / "deaf.sock"))
        deaf.listen(0)
        if filled:
            queued.connect(str(tmp_path / "deaf.sock"))
        began = time.monotonic()
        done = run(command_line(tmp_path / "deaf.sock", "echo hi"), b"x" * 900_000)

    assert done.stdout == b"hi\n"
    assert time.monotonic() - began < 2.0


def pid_from(path: Path) -> int:
    wait_until(lambda: path.exists() and path.read_text().endswith("\n"))
    return int(path.read_text())


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat")
        return not state.exists() or ") Z " not in state.read_text()
    except (ProcessLookupError, FileNotFoundError):
        return False


@pytest.mark.parametrize(
    "number",
    [
        signal.SIGTERM,
        signal.SIGHUP,
        signal.SIGINT,
        signal.SIGQUIT,
        signal.SIGUSR1,
        pytest.param(
            signal.SIGKILL, marks=pytest.mark.skipif(sys.platform != "linux", reason="Linux only")
        ),
    ],
)
def test_whatever_ends_the_wrapper_alone_ends_the_command(
    number: signal.Signals, listener: Listener, tmp_path: Path
) -> None:
    child = tmp_path / "pid"
    running = start(command_line(listener.path, f"echo $$ > {child}; exec sleep 60"))
    assert running.stdin is not None
    running.stdin.write(BODY)
    running.stdin.close()
    pid = pid_from(child)

    os.kill(running.pid, number)
    running.wait(10)

    wait_until(lambda: not is_alive(pid))
    assert running.stdout is not None
    running.stdout.close()
    listener.close()
    assert "outcome" not in [key for line in listener.lines for key in line], "cancelled, no fault"


def test_a_cancelled_command_may_clean_up_and_its_last_words_are_kept(tmp_path: Path) -> None:
    child = tmp_path / "pid"
    trap = f"trap 'echo bye; exit 3' TERM; echo $$ > {child}; while :; do sleep 0.05; done"
    running = start(command_line(tmp_path / "no", trap))
    pid_from(child)

    os.kill(running.pid, signal.SIGTERM)
    out, _ = running.communicate(timeout=10)

    assert (out, running.returncode) == (b"bye\n", 3)


def wait_until(so: Callable[[], bool], timeout: float = 10.0) -> None:
    deadline = time.monotonic() + timeout
    while not so():
        assert time.monotonic() < deadline
        time.sleep(0.01)
