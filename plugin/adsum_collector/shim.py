"""The shim: a command hook that hands what the agent gave it to the collector.

Run as `python -I -S shim.py SOCKET AGENT VARIABLE NAME…`: SOCKET is the collector's, or - for where it
usually is; AGENT is whose hook it is; VARIABLE of the environment holds the id of the agent's process,
or, if that is not set, it bears one of these NAMEs, or begins with it. ADSUM_WITHIN_S: when it gives
up at the latest. It prints nothing, ends with 0 whatever happens, and imports
only what the interpreter has loaded or built in: `socket`, `json` and `subprocess` would each cost
more than the rest of this program, for every event.

With --hold as its last word, or --hold=NAME, it waits for as long as the collector holds the request, and prints what
was decided. Nothing printed means that the terminal decides, whatever the reason. NAME is a variable
that is 0 where nobody sits at a terminal.
"""

from __future__ import annotations

import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

VERSION = 1
TOTAL_S = 5.0
#: After each try the pause is twice as long: a collector that starts anew takes some tenths of a second.
TRIES = 4
FIRST_PAUSE_S = 0.1
MOST_BYTES = 16 << 20
#: The last word of a hook that waits begins so.
HOLD = "--hold"
HELD = b'"held":true'


def default_socket() -> str:
    """As platformdirs has it, which is too slow to import."""
    state_dir = os.environ.get("ADSUM_STATE_DIR")
    if not state_dir and sys.platform == "darwin":
        state_dir = os.path.expanduser("~/Library/Application Support/adsum")  # noqa: PTH111 - no pathlib here
    if not state_dir:
        base = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")  # noqa: PTH111 - no pathlib here
        state_dir = base + "/adsum"
    return state_dir + "/collector.sock"


def agent_pid(variable: str, names: tuple[bytes, ...]) -> int:
    """The agent's process: it says so, or it is the nearest ancestor that looks like it."""
    named = os.environ.get(variable, "")
    if named.isdigit():
        return int(named)
    pid = os.getppid()
    for _ in range(10):
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 - no pathlib here
                stat = file.read()
        except OSError:
            break
        name = stat[stat.index(b"(") + 1 : stat.rindex(b")")]
        if name.startswith(names):
            return pid
        pid = int(stat[stat.rindex(b")") + 2 :].split()[1])
        if pid <= 1:
            break
    return os.getppid()


def fired_at() -> float:
    """Milliseconds: when this process was started, which is when its hook fired.

    Hooks that nobody waits for overtake each other while Python starts; these times keep their
    order. The kernel counts in ticks, so the end of the tick: never before an event that came first.
    """
    try:
        with open("/proc/self/stat", "rb") as file:  # noqa: PTH123 - no pathlib here
            tick = int(file.read().rpartition(b")")[2].split()[19]) + 1
        start = tick / os.sysconf("SC_CLK_TCK")
        # Both clocks at once: on a busy machine the lines above may take longer than hooks lie apart.
        now, age = time.time(), time.clock_gettime(time.CLOCK_BOOTTIME) - start
    except (OSError, ValueError, IndexError, AttributeError):  # not Linux
        return time.time() * 1000
    return (now - age if 0 < age < TOTAL_S else now) * 1000


def message(body: bytes, agent: str, pid: int, more: bytes = b"") -> bytes:
    # outside its strings, JSON may hold a newline only where it may hold a space
    flat = body.replace(b"\r", b" ").replace(b"\n", b" ").strip()
    return b'{"v":%d,"id":"%s","at":%d,"agent":"%s","pid":%d%s,"body":%s}\n' % (
        VERSION,
        os.urandom(12).hex().encode(),
        fired_at(),
        agent.encode(),
        pid,
        more,
        flat,
    )


def peer_uid(connection: Any, _socket: Any) -> int:
    """The user who listens."""
    if sys.platform == "darwin":
        # LOCAL_PEERCRED of SOL_LOCAL: a struct xucred, its version before the user
        return int.from_bytes(connection.getsockopt(0, 1, 76)[4:8], sys.byteorder)
    ucred = connection.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)
    return int.from_bytes(ucred[4:8], sys.byteorder)


def print_whole(connection: Any, answer: bytes) -> None:
    """What was decided, if it came whole: half an answer is none."""
    connection.settimeout(None)
    try:
        while part := connection.recv(65536):
            answer += part
    except OSError:  # not tried again: what it was held by has gone
        return
    if answer.startswith(b"{") and answer.endswith(b"}\n"):
        sys.stdout.buffer.write(answer)
        sys.stdout.buffer.flush()


def exchange(path: str, line: bytes, timeout: float) -> bool:
    """True if the collector has taken it, or never will."""
    import _socket  # what `socket` is made of, without the ten modules that come with it

    friends = (os.getuid(), 0)
    # Of the link, if it is one: who placed it there would choose who hears.
    if os.lstat(path).st_uid not in friends:
        return True
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    connection.settimeout(timeout)
    try:
        connection.connect(path)
        if peer_uid(connection, _socket) not in friends:
            return True
        connection.sendall(line)
        reply = b""
        while b"\n" not in reply:
            part = connection.recv(4096)
            if not part:
                return False
            reply += part
        told, _, answer = reply.partition(b"\n")
        if HELD in told:
            print_whole(connection, answer)
        return b'"retry":true' not in told
    finally:
        connection.close()


def main() -> None:
    deadline = time.monotonic() + float(os.environ.get("ADSUM_WITHIN_S", TOTAL_S))
    given = sys.argv[1:]
    more = b""
    if given and given[-1].startswith(HOLD):
        attended = os.environ.get(given.pop()[len(HOLD) + 1 :], "1")
        more = b',"hold":true,"unattended":%s' % (b"true" if attended == "0" else b"false")
    path, agent, variable = (given + ["-", "", ""][len(given) :])[:3]
    pid = agent_pid(variable, tuple(name.encode() for name in given[3:]))
    line = message(sys.stdin.buffer.read(MOST_BYTES), agent, pid, more)
    if path == "-":
        path = default_socket()
    for tries in range(1, TRIES + 1):
        left = deadline - time.monotonic()
        if left <= 0:
            return
        try:
            if exchange(path, line, left / (TRIES + 1 - tries)):
                return
        except OSError:
            pass
        if tries < TRIES:
            time.sleep(min(FIRST_PAUSE_S * 2 ** (tries - 1), max(0.0, deadline - time.monotonic())))


if __name__ == "__main__":
    try:
        main()
    finally:
        # Not sys.exit: whatever went wrong must neither print a traceback nor fail the hook.
        os._exit(0)
