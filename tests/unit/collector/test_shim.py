"""The shim and the socket it talks to: a real process against a real socket."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

import adsum_collector.listening.local_socket as local_socket_module
from adsum_collector import shim
from adsum_collector.agents.claude_code.status import signals_from_statusline
from adsum_collector.errors import SpoolUnavailable, StartError
from adsum_collector.intake import HookDoor, Intake
from adsum_collector.listening.local_socket import MOST_CONNECTIONS, LocalSocket, Ticks
from adsum_collector.listening.sockets import listen_unix, unix_peer_uid
from adsum_collector.processes import ProcessTable, watched
from adsum_collector.spool.spool import Rows, Spool
from adsum_collector.spool.spool_file import SpoolLimits
from adsum_shared.signals import Alive, AnySignal, ProcessSeen, decode_signal
from tests.collectors import adapt_hook
from tests.support import wait_until

SHIM = Path(shim.__file__)
WORDS = ("test", "CLAUDE_PID", "claude")
BODY = b'{"session_id": "s1",\n "note": "a\\nb",\r\n "hook_event_name": "SessionStart"}\n'


class StandInTable(ProcessTable):
    def started_of(self, pid: int) -> int | None:
        return 1234 if pid > 1 else None


class Door:
    """A local socket on a real spool, served by the test's own loop."""

    def __init__(self, path: Path, spool: Spool) -> None:
        self.path = path
        self.spool = spool
        self.ticks = Ticks(signals_from_statusline)
        self.local = LocalSocket(
            {"test": HookDoor(adapt_hook, Intake(spool, lambda signal: signal))},
            self.ticks,
            table=StandInTable(),
            now=lambda: time.time_ns() // 1_000_000,
        )
        self._serving: asyncio.Task[None] | None = None

    def open(self) -> None:
        self._serving = asyncio.create_task(self.local.serve(listen_unix(self.path)))

    async def close(self) -> None:
        if self._serving is not None:
            self._serving.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._serving

    async def signals(self) -> list[AnySignal]:
        found = await self.spool.read(0, 1000, 1 << 20)
        return [decode_signal(body) for body in found.bodies] if isinstance(found, Rows) else []

    async def say(self, line: bytes) -> Any:
        reader, writer = await asyncio.open_unix_connection(str(self.path))
        writer.write(line)
        with contextlib.suppress(OSError):
            await writer.drain()
        with contextlib.suppress(OSError):
            reply = await reader.readline()
            writer.close()
            return json.loads(reply) if reply else None
        return None


@pytest.fixture
async def door(tmp_path: Path) -> AsyncIterator[Door]:
    spool = await Spool.open(tmp_path / "spool", SpoolLimits(min_free_bytes=0))
    door = Door(tmp_path / "collector.sock", spool)
    door.open()
    yield door
    await door.close()
    await spool.close()


async def run_shim(path: Path, body: bytes = BODY, **env: str) -> tuple[int, bytes, bytes]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-S", str(SHIM), str(path), *WORDS),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={"PATH": os.environ["PATH"], **env},
    )
    out, err = await process.communicate(body)
    return process.returncode or 0, out, err


def message(**fields: Any) -> bytes:
    whole = {"v": 1, "id": "m1", "at": 1, "pid": os.getpid(), "body": {"session_id": "s1"}}
    return json.dumps(whole | fields).encode() + b"\n"


async def test_the_shim_hands_over_the_hook_and_whose_process_it_is(door: Door) -> None:
    assert await run_shim(door.path, CLAUDE_PID=str(os.getpid())) == (0, b"", b"")

    hook, process = await door.signals()
    assert isinstance(hook, Alive)
    assert hook.note == "a\nb"
    assert isinstance(process, ProcessSeen)
    assert (process.session_id, process.pid, process.started) == ("s1", os.getpid(), 1234)
    assert watched(door.spool.state)["s1"].pid == os.getpid()


async def test_the_hook_is_dated_by_when_the_shim_started(door: Door) -> None:
    before = time.time_ns() // 1_000_000
    await run_shim(door.path)

    (hook, *_) = await door.signals()
    assert before <= hook.at <= hook.seen <= time.time_ns() // 1_000_000


async def test_the_agent_is_the_nearest_ancestor_that_looks_like_one(
    door: Door, tmp_path: Path
) -> None:
    agent = tmp_path / "claude"
    agent.symlink_to("/bin/sh")
    command = f"{sys.executable} -I -S {SHIM} {door.path} {' '.join(WORDS)}; true"
    process = await asyncio.create_subprocess_exec(
        *(str(agent), "-c", f"/bin/sh -c '{command}'; true"), stdin=subprocess.PIPE
    )
    await process.communicate(BODY)

    *_, seen = await door.signals()
    assert isinstance(seen, ProcessSeen)
    assert seen.pid == process.pid


async def test_a_retry_with_the_same_id_is_one_message(door: Door) -> None:
    first = await door.say(message(id="same"))
    again = await door.say(message(id="same"))

    assert first == again == {"ok": True, "seq": 2}
    assert len(await door.signals()) == 2


async def test_the_shim_waits_for_a_collector_that_is_just_starting(door: Door) -> None:
    await door.close()
    running = asyncio.create_task(run_shim(door.path))
    await asyncio.sleep(0)  # let it start; whether it tries before or after `open`, it arrives
    door.open()

    assert await running == (0, b"", b"")
    assert await door.signals()


@pytest.mark.parametrize("body", [b"", b"not json", b'{"session_id": 7}', b"\xff\xfe", b"[1"])
async def test_the_shim_says_nothing_about_what_is_refused(door: Door, body: bytes) -> None:
    assert await run_shim(door.path, body) == (0, b"", b"")
    assert await door.signals() == []


async def test_without_a_collector_the_shim_is_silent_and_quick(tmp_path: Path) -> None:
    started = time.monotonic()

    assert await run_shim(tmp_path / "none.sock") == (0, b"", b"")
    assert time.monotonic() - started < 5


@pytest.mark.slow
async def test_a_collector_that_does_not_answer_costs_at_most_five_seconds(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as deaf:
        deaf.bind(str(tmp_path / "deaf.sock"))
        deaf.listen(8)
        started = time.monotonic()

        assert await run_shim(tmp_path / "deaf.sock") == (0, b"", b"")
        assert 4 < time.monotonic() - started < 7


async def test_a_shim_that_is_killed_leaves_the_socket_working(door: Door) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-S", str(SHIM), str(door.path)), stdin=subprocess.PIPE
    )
    process.send_signal(signal.SIGKILL)
    await process.wait()

    assert (await door.say(message()))["ok"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (message(v=2), "version 2"),
        (message(body={"session_id": None}), "session_id"),
        (message(body="text"), "object"),
        (b"{}\n", "missing"),
        (b"nonsense\n", "malformed"),
        (b"\xff\n", "malformed"),
    ],
    ids=["newer", "no session", "no object", "empty", "no JSON", "no text"],
)
async def test_a_refusal_says_why_and_is_not_worth_a_retry(
    door: Door, line: bytes, words: str
) -> None:
    reply = await door.say(line)

    assert (reply["ok"], reply["retry"]) == (False, False)
    assert words in reply["error"]
    assert door.local.refused["malformed"] == 1


@pytest.mark.slow
async def test_a_line_without_end_is_broken_off(door: Door) -> None:
    assert await door.say(b"x" * (2 << 20)) is None
    assert (await door.say(message()))["ok"]


async def test_a_large_status_line_is_read_beside_the_loop(door: Door) -> None:
    """Else one session's status line would hold up the hooks of all others."""
    threads: list[bool] = []

    def adapt(_body: bytes, _seen: int) -> list[AnySignal]:
        threads.append(threading.current_thread() is threading.main_thread())
        return []

    door.ticks._adapt = adapt
    for size in (10, 900_000):
        body = json.dumps({"session_id": "s", "padding": "x" * size})
        at = time.time_ns() // 1_000_000
        line = f'{{"v":1,"kind":"statusline","at":{at},"body":{body}}}\n'
        _, writer = await asyncio.open_unix_connection(str(door.path))
        writer.write(line.encode())
        await writer.drain()
        writer.close()
        await wait_until(lambda size=size: len(threads) == (1 if size == 10 else 2))

    assert threads == [True, False]


async def test_connections_that_send_no_line_keep_no_hook_waiting(door: Door) -> None:
    """Neither do those of which one line came and then nothing."""
    idle = [await asyncio.open_unix_connection(str(door.path)) for _ in range(MOST_CONNECTIONS)]
    for reader, writer in idle[::2]:
        writer.write(b"{}\n")
        await reader.readline()

    reply = await door.say(message())

    assert reply["ok"] is True
    assert door.local.refused["too many connections"] == 1
    assert door.local.refused["broken off"] == 0  # none was over by itself
    for _, writer in idle:
        writer.close()


async def test_another_user_is_not_served(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_socket_module, "unix_peer_uid", lambda _connection: 65534)

    assert await door.say(message()) is None
    assert await door.signals() == []


async def test_when_the_spool_is_full_the_shim_may_come_again(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_args: object, **_kwargs: object) -> int:
        raise SpoolUnavailable("the disk is full")

    monkeypatch.setattr(door.spool, "append", refuse)

    assert await door.say(message()) == {"ok": False, "error": "the disk is full", "retry": True}


async def test_a_message_from_the_far_past_is_dated_now(door: Door) -> None:
    await door.say(message(at=1))

    (hook, *_) = await door.signals()
    assert hook.at == hook.seen or hook.seen - hook.at < 1000


def test_the_socket_is_the_owners_alone_and_a_stale_one_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "collector.sock"
    listen_unix(path).close()  # its file stays

    with listen_unix(path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        with pytest.raises(StartError, match="ADSUM_STATE_DIR"):
            listen_unix(path)


def test_a_path_too_long_for_a_socket_is_explained(tmp_path: Path) -> None:
    with pytest.raises(StartError, match="shorter ADSUM_STATE_DIR"):
        listen_unix(tmp_path / ("x" * 120) / "collector.sock")


async def test_the_real_peer_of_a_connection_is_known(tmp_path: Path) -> None:
    seen: list[int | None] = []

    def connected(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(unix_peer_uid(writer.get_extra_info("socket")))
        writer.close()

    server = await asyncio.start_unix_server(connected, path=tmp_path / "x.sock")
    reader, writer = await asyncio.open_unix_connection(tmp_path / "x.sock")
    await reader.read()
    writer.close()
    server.close()

    assert seen == [os.getuid() if sys.platform == "linux" else None]


def test_where_the_shim_looks_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    from platformdirs import user_state_path

    for name in ("ADSUM_STATE_DIR", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    assert shim.default_socket() == f"{user_state_path('adsum')}/collector.sock"

    monkeypatch.setenv("XDG_STATE_HOME", "/xdg")
    assert shim.default_socket() == f"{user_state_path('adsum')}/collector.sock"
    monkeypatch.setenv("ADSUM_STATE_DIR", "/named")
    assert shim.default_socket() == "/named/collector.sock"


TICK = b'{"v":1,"kind":"statusline","at":%d,"body":{"session_id":"s1"}}\n'


async def test_a_status_line_is_kept_and_not_answered(door: Door) -> None:
    reader, writer = await asyncio.open_unix_connection(str(door.path))
    writer.write(TICK % (time.time_ns() // 1_000_000) + message())
    reply = json.loads(await reader.readline())
    writer.close()

    assert reply["ok"], "of the hook that came after it"
    tick, hook, _process = await door.signals()
    assert (tick.source, hook.source) == ("statusline", "hook")  # type: ignore[union-attr]
    assert door.local.accepted == 1
    assert door.local.heard_at >= door.ticks.heard_at > 0


async def test_a_status_line_that_has_hung_up_is_kept_and_no_fault(door: Door) -> None:
    with socket.socket(socket.AF_UNIX) as hasty:
        hasty.connect(str(door.path))
        hasty.sendall(TICK % (time.time_ns() // 1_000_000))

    await wait_until(lambda: door.ticks.heard_at)
    await wait_until(lambda: not door.local._connections)
    assert len(await door.signals()) == 1
    assert not door.local.refused


async def test_a_status_line_that_is_no_json_is_counted_as_such(door: Door) -> None:
    await door.say((TICK % (time.time_ns() // 1_000_000)).replace(b'"s1"', b"s1") + message())

    assert door.ticks.outcomes == {"malformed": 1}
    assert not door.local.refused


async def test_when_the_spool_is_full_the_next_tick_says_it_again(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_args: object, **_kwargs: object) -> int:
        raise SpoolUnavailable("the disk is full")

    tick = TICK % (time.time_ns() // 1_000_000)
    with monkeypatch.context() as full:
        full.setattr(door.spool, "append", refuse)
        await door.say(tick + message())
    await door.say(tick + message())

    assert door.local.refused["spool"] == 1, "the hook"
    assert door.ticks.outcomes == {"not kept": 1}
    assert len(await door.signals()) == 3


class Stranger:
    """Listens where the collector's socket should be."""

    def __init__(self, path: Path, uid: int) -> None:
        self.heard = b""
        listener = socket.socket(socket.AF_UNIX)
        self._closing = listener
        with contextlib.ExitStack() as back:
            if uid != os.getuid():  # what a peer is told is who called listen()
                os.seteuid(uid)
                back.callback(os.seteuid, 0)
            listener.bind(str(path))
            listener.listen()
        listener.settimeout(1.0)

    def hear(self) -> bytes:
        with self._closing, contextlib.suppress(TimeoutError):
            connection, _ = self._closing.accept()
            with connection:
                connection.settimeout(1.0)
                with contextlib.suppress(TimeoutError):
                    return connection.recv(1 << 16)
        return b""


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """Where everybody may make sockets, as no state directory is."""
    folder = Path(tempfile.mkdtemp(prefix="adsum-"))
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


async def test_a_socket_of_our_own_is_told(open_folder: Path) -> None:
    stranger = Stranger(open_folder / "collector.sock", os.getuid())
    told = asyncio.get_running_loop().run_in_executor(None, stranger.hear)
    await run_shim(open_folder / "collector.sock")
    assert b"SessionStart" in await told


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be somebody else")
async def test_a_socket_of_another_user_is_told_nothing(open_folder: Path) -> None:
    stranger = Stranger(open_folder / "collector.sock", 12345)
    told = asyncio.get_running_loop().run_in_executor(None, stranger.hear)
    assert await run_shim(open_folder / "collector.sock") == (0, b"", b"")
    assert await told == b""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be somebody else")
async def test_a_socket_that_was_given_our_name_by_another_listener_is_told_nothing(
    open_folder: Path,
) -> None:
    """The file is ours, the listener is not: the kernel names who listens."""
    stranger = Stranger(open_folder / "collector.sock", 12345)
    os.chown(open_folder / "collector.sock", 0, 0)
    told = asyncio.get_running_loop().run_in_executor(None, stranger.hear)
    assert await run_shim(open_folder / "collector.sock") == (0, b"", b"")
    assert await told == b""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be somebody else")
async def test_a_link_that_another_user_has_placed_is_not_followed(open_folder: Path) -> None:
    ours = Stranger(open_folder / "ours.sock", 0)
    link = open_folder / "collector.sock"
    link.symlink_to("ours.sock")
    os.lchown(link, 12345, -1)
    told = asyncio.get_running_loop().run_in_executor(None, ours.hear)
    assert await run_shim(link) == (0, b"", b"")
    assert await told == b""


async def test_a_hook_as_large_as_one_that_is_posted_comes_through(door: Door) -> None:
    body = json.dumps({"session_id": "s1", "note": "a", "output": "x" * (9 << 20)}).encode()
    await run_shim(door.path, body)
    assert isinstance((await door.signals())[0], Alive)


async def test_beyond_that_a_line_is_refused(door: Door) -> None:
    await door.say(message(body={"session_id": "s1", "output": "x" * (17 << 20)}))
    await wait_until(lambda: door.local.refused["too long"] == 1)


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
async def test_hooks_are_stamped_in_the_order_in_which_they_fired(door: Door) -> None:
    """Many Pythons that start at once on a busy machine are ready in any order."""
    slow = (sys.executable, "-c", SLOW_START, str(SHIM), str(door.path))
    fired: list[asyncio.subprocess.Process] = []
    for number in range(4):
        process = await asyncio.create_subprocess_exec(
            *slow, str(0.4 - 0.1 * number), stdin=asyncio.subprocess.PIPE
        )
        fired.append(process)
        await asyncio.sleep(0.03)
    bodies = (b'{"session_id": "s1", "note": "%d"}' % number for number in range(4))
    await asyncio.gather(
        *(each.communicate(body) for each, body in zip(fired, bodies, strict=True))
    )

    heard = [signal for signal in await door.signals() if isinstance(signal, Alive)]

    assert [each.note for each in sorted(heard, key=lambda each: each.at)] == ["0", "1", "2", "3"]


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_a_hook_is_stamped_no_earlier_than_it_fired_however_slow_the_machine() -> None:
    before = time.time() * 1000
    slow = [sys.executable, "-c", SLOW_READ, str(SHIM)]
    done = subprocess.run(slow, capture_output=True, text=True, check=True)

    assert before <= float(done.stdout)


#: Prints when the shim says that it was started, where a look at /proc takes 0.3 s.
SLOW_READ = """
import builtins, runpy, sys, time
fired_at, read = runpy.run_path(sys.argv[1])["fired_at"], open
def slow(*words):
    time.sleep(0.3)
    return read(*words)
builtins.open = slow
print(fired_at())
"""
#: The shim as a machine starts it that takes its time.
SLOW_START = (
    "import runpy, sys, time; time.sleep(float(sys.argv[3])); sys.argv = sys.argv[1:3]; "
    "runpy.run_path(sys.argv[0], run_name='__main__')"
)


@pytest.mark.parametrize(
    ("answers", "printed"),
    [
        ((b'{"ok":true,"held":true}\n', b'{"a":1}\n'), b'{"a":1}\n'),
        ((b'{"ok":true,"held":true}\n', b'{"a":'), b""),
        ((b'{"ok":true,"held":true}\n', b"no\n"), b""),
        ((b'{"ok":true,"held":true}\n',), b""),
        ((b'{"ok":true}\n', b'{"a":1}\n'), b""),
    ],
)
async def test_half_a_decision_is_none(
    tmp_path: Path, answers: tuple[bytes, ...], printed: bytes
) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert b'"hold":true' in await reader.readline()
        for each in answers:
            writer.write(each)
        await writer.drain()
        writer.close()

    path = tmp_path / "s.sock"
    async with await asyncio.start_unix_server(answer, path):
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", str(SHIM), str(path), *WORDS, shim.HOLD),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert await process.communicate(BODY) == (printed, b"")
        assert process.returncode == 0


def test_each_pause_between_tries_is_twice_as_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(shim.time, "sleep", pauses.append)
    monkeypatch.setattr(sys, "argv", ["shim.py", str(tmp_path / "none.sock"), *WORDS])
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(BODY)))

    shim.main()

    assert pauses == [0.1, 0.2, 0.4]


@pytest.mark.parametrize(("attended", "told"), [("0", b"true"), ("1", b"false"), ("", b"false")])
async def test_it_says_whether_anybody_sits_there(
    tmp_path: Path, attended: str, told: bytes
) -> None:
    heard: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.readline())
        writer.write(b'{"ok":true}\n')
        writer.close()

    path = tmp_path / "s.sock"
    async with await asyncio.start_unix_server(answer, path):
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", str(SHIM), str(path), *WORDS, f"{shim.HOLD}=SITS"),
            stdin=subprocess.PIPE,
            env={"PATH": os.environ["PATH"], "SITS": attended},
        )
        await process.communicate(BODY)
    assert b'"hold":true,"unattended":' + told in heard[0]
