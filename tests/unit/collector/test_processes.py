"""What a session's processes have used: the agent's own, and those of all that it runs."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from adsum_collector.processes import (
    cpu_ms,
    read_ages,
    read_unix_paths,
    received_ago,
    unix_paths,
)
from tests.support import wait_until

BUSY = f'{sys.executable} -c "while True: pass"'
#: Works for two tenths of a second, and is over.
BRIEFLY = "import time\nwhile time.process_time() < 0.2: pass"


@contextmanager
def shell(script: str) -> Iterator[subprocess.Popen[bytes]]:
    """Its children end with it."""
    process = subprocess.Popen(
        ["sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, process_group=0
    )
    try:
        yield process
    finally:
        subprocess.run(["kill", "-9", "--", f"-{process.pid}"], check=False)
        process.communicate()


@pytest.mark.parametrize("script", [f"{BUSY}; :", f"sh -c '{BUSY}; :'; :"])
async def test_what_a_command_uses_its_agent_uses(script: str) -> None:
    """Also if another command runs it."""
    with shell(script) as agent:
        await wait_until(lambda: (cpu_ms(agent.pid) or 0) > 100)


def test_what_a_command_used_that_is_over_stays_used() -> None:
    with shell(f"{sys.executable} -c '{BRIEFLY}'; echo over; read rest") as agent:
        assert agent.stdout is not None
        agent.stdout.readline()

        assert (cpu_ms(agent.pid) or 0) >= 100


def test_of_a_process_that_is_gone_nothing_is_known() -> None:
    with shell(":") as agent:
        agent.wait()

        assert cpu_ms(agent.pid) is None


def message(kind: int, inode: int = 0, *attributes: bytes) -> bytes:
    """As the kernel's, with what nobody reads left empty."""
    body = struct.pack("=68xI", inode) + b"".join(attributes)
    return struct.pack("=IHHII", 16 + len(body), kind, 0, 1, 0) + body


def attribute(kind: int, data: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(data), kind) + data + bytes(-len(data) % 4)


def info(age: int) -> bytes:
    """A tcp_info that tells nothing but how long ago something came."""
    return attribute(2, bytes(52) + struct.pack("=I", age) + bytes(80))


def test_of_all_sockets_the_ages_of_those_asked_for_are_read() -> None:
    ages: dict[int, int] = {}
    some = message(20, 7, attribute(8, b"\1"), info(1_500)) + message(20, 8, info(9))

    assert read_ages(some, {7, 9}, ages)
    assert not read_ages(message(20, 9, info(2)) + message(3), {7, 9}, ages)
    assert ages == {7: 1_500, 9: 2}


@pytest.mark.parametrize(
    "odd",
    [
        b"",
        message(20, 7)[:40],
        message(20, 7),
        message(20, 7, info(5)[:30]),
        message(20, 7, struct.pack("=HH", 0, 9) * 3),
        message(20, 7, attribute(2, b"short")),
    ],
)
def test_a_message_that_is_cut_off_or_odd_tells_nothing(odd: bytes) -> None:
    ages: dict[int, int] = {}

    assert read_ages(odd, {7}, ages)
    assert ages == {}


@pytest.mark.parametrize("raw", [message(2), struct.pack("=IHHII", 0, 20, 0, 1, 0)])
def test_a_kernel_without_diagnostics_is_an_error_and_no_endless_loop(raw: bytes) -> None:
    with pytest.raises(OSError, match="diagnostics"):
        read_ages(raw, {7}, {})


@pytest.mark.skipif(sys.platform != "linux", reason="nobody else tells")
@pytest.mark.parametrize(
    ("family", "host"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")]
)
async def test_what_comes_in_on_a_connection_is_seen_and_what_goes_out_is_not(
    family: socket.AddressFamily, host: str
) -> None:
    """Of another process, which holds its end of a real connection."""
    server = socket.create_server((host, 0), family=family)
    address = server.getsockname()[:2]
    script = f"import socket; s = socket.create_connection({address!r}); s.send(b'x'); input()"
    with server, subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE) as agent:
        try:
            connection, _ = server.accept()
            with connection:
                assert connection.recv(1) == b"x"
                opened = await wait_until(lambda: _older_than(agent.pid, 300))
                connection.send(b"pong")
                heard = await wait_until(lambda: _younger_than(agent.pid, 300))
                assert heard < opened
            agent.communicate(b"\n")
        finally:
            agent.kill()
    assert received_ago([agent.pid]) == {}


def _older_than(pid: int, ms: int) -> int | None:
    ago = received_ago([pid])[pid]
    return ago if ago is not None and ago > ms else None


def _younger_than(pid: int, ms: int) -> int | None:
    ago = received_ago([pid])[pid]
    return ago + 1 if ago is not None and ago < ms else None


@pytest.mark.skipif(sys.platform != "linux", reason="nobody else tells")
def test_a_process_without_a_connection_is_told_of_and_strangers_are_not() -> None:
    """A socket that only listens is none."""
    with socket.create_server(("127.0.0.1", 0)):
        assert set(received_ago([os.getpid(), 1 << 30])) == {os.getpid()}


@pytest.mark.skipif(sys.platform != "linux", reason="the names are of Linux alone")
def test_a_line_that_somebody_wrote_into_a_name_hides_no_socket(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as odd, socket.socket(socket.AF_UNIX) as ours:
        odd.bind(f"\0{os.getpid()}\nb c")
        ours.bind(path)

        assert unix_paths(os.getpid()).count(path) == 1


def test_a_socket_of_which_two_lines_tell_has_no_path() -> None:
    """Else whoever writes such a line would have keys typed into a tmux of theirs."""
    start = b"0000: 00000002 00000000 00010000 0001 01 "
    forged = start + b"    7 @x\n" + start + b"7 /tmp/theirs\n"
    table = b"Num RefCount Protocol Flags Type St Inode Path\n" + start + b"    7 /run/with space\n"

    assert read_unix_paths(table + start + b"8 /run/other\n" + start + b"9", {7, 9}) == [
        "/run/with space"
    ]
    assert read_unix_paths(forged + table, {7}) == []
    assert read_unix_paths(start + b"7\n" + start + b"7 /tmp/theirs\n", {7}) == []
