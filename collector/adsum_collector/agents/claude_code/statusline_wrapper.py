"""Runs the user's own status line command as it is, and reports the tick.

Run as `exec python -I -S statusline_wrapper.py SOCKET -- 'USER COMMAND'`. Claude Code shows what the command
prints, so this program prints nothing, and whatever is wrong with us the command runs all the same.
As in shim.py, only what the interpreter has built in is imported: every tick pays for it.
"""

# What `signal` and `os` are made of, without the modules that come with them.
import _signal  # type: ignore[import-not-found] # undescribed
import posix as os
import sys
import time
from posix import _exit as leave

VERSION = 1
#: A tick is worth no more waiting than this, in all.
TOTAL_S = 0.05
#: A command that takes longer is said to hang. It is left alone.
HUNG_S = 5
MOST_BYTES = 1_000_000
#: Claude Code runs a status line by this shell.
SHELL = "/bin/sh"
ENDS = (
    _signal.SIGHUP,
    _signal.SIGINT,
    _signal.SIGQUIT,
    _signal.SIGTERM,
    _signal.SIGUSR1,
    _signal.SIGUSR2,
)
#: Of these we die as the command did; others may dump core, and are told as a shell tells them.
SILENT_ENDS = (_signal.SIGHUP, _signal.SIGINT, _signal.SIGKILL, _signal.SIGPIPE, _signal.SIGTERM)
PR_SET_PDEATHSIG = 1


def send(path: str, kind: bytes, rest: bytes) -> None:
    """One line to the collector, which does not answer it. Never raises, hardly waits."""
    import _socket  # as in shim.py

    line = b'{"v":%d,"kind":"%s","at":%d,%s}\n' % (VERSION, kind, time.time() * 1000, rest)
    deadline = time.monotonic() + TOTAL_S
    try:
        if os.lstat(path).st_uid not in (os.getuid(), 0):
            return  # a link or a socket that somebody else has placed there
        connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        connection.settimeout(TOTAL_S)
        connection.connect(path)
        connection.settimeout(max(0.001, deadline - time.monotonic()))
        connection.sendall(line)
        connection.close()
    except OSError:
        pass


def send_tick(path: str, body: bytes) -> None:
    # outside its strings, JSON may hold a newline only where it may hold a space
    flat = body.replace(b"\r", b" ").replace(b"\n", b" ").strip()
    if len(flat) <= MOST_BYTES:
        send(path, b"statusline", b'"body":%s' % flat)


def send_outcome(path: str, outcome: bytes, code: int = 0) -> None:
    send(path, b"statusline outcome", b'"outcome":"%s","exit":%d' % (outcome, code))


def die_with(parent: int) -> None:
    """Linux: whatever kills the wrapper kills the command too. Elsewhere nothing."""
    try:
        import _ctypes  # a tenth of what `ctypes` costs

        prctl = _ctypes.dlsym(_ctypes.dlopen(None, 0), "prctl")  # type: ignore[arg-type] # None is the program itself
        _ctypes.call_function(prctl, (PR_SET_PDEATHSIG, int(_signal.SIGKILL), 0, 0, 0))
    except Exception:  # noqa: BLE001 - undocumented and optional; the command must run without it
        return
    if os.getppid() != parent:
        os.kill(os.getpid(), _signal.SIGKILL)


def environment() -> dict[bytes, bytes]:
    """As it was before Python started: in the C locale, Python sets LC_CTYPE of its own accord."""
    env = dict(os.environ)
    try:
        with open("/proc/self/environ", "rb") as file:  # noqa: PTH123 - no pathlib here
            given = file.read().split(b"\0")
    except OSError:
        return env
    env.pop(b"LC_CTYPE", None)
    for pair in given:
        if pair.startswith(b"LC_CTYPE="):
            env[b"LC_CTYPE"] = pair[9:]
    return env


def undo_python() -> None:
    """Signals as they were before Python started. `yes | head` needs SIGPIPE."""
    for number in (_signal.SIGPIPE, _signal.SIGXFSZ):
        _signal.signal(number, _signal.SIG_DFL)
    if _signal.getsignal(_signal.SIGINT) == _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)


def become(command: str) -> None:
    os.execve(SHELL, [SHELL, "-c", command], environment())


class Run:
    """The user's command while it runs."""

    def __init__(self, path: str, command: str) -> None:
        """Raises OSError, with everything as it was, if there is no process to be had."""
        self.path = path
        self.cancelled = False
        self.hung = False
        stdin, self.feed = os.pipe()
        wrapper = os.getpid()
        # A signal between fork and exec would be lost to the command.
        before = _signal.pthread_sigmask(_signal.SIG_BLOCK, ENDS)
        try:
            self.pid = os.fork()
            if self.pid == 0:
                self.start(command, stdin, wrapper, before)
            self.listen()
        finally:
            os.close(stdin)
            _signal.pthread_sigmask(_signal.SIG_SETMASK, before)

    def start(self, command: str, stdin: int, wrapper: int, mask: set[int]) -> None:
        """In the fork: never returns."""
        try:
            die_with(wrapper)
            os.dup2(stdin, 0)
            undo_python()
            _signal.pthread_sigmask(_signal.SIG_SETMASK, mask)
            become(command)
        finally:
            leave(127)

    def listen(self) -> None:
        for number in ENDS:
            # One that is ignored was ignored for the command too, and stays so.
            if _signal.getsignal(number) != _signal.SIG_IGN:
                _signal.signal(number, self.forward)
        _signal.signal(_signal.SIGALRM, self.note_hung)
        _signal.alarm(HUNG_S)

    def forward(self, number: int, _frame: object) -> None:
        """Claude Code cancels a run when the next one comes: no fault of the command's."""
        self.cancelled = True
        try:  # noqa: SIM105 - contextlib costs more than this program
            os.kill(self.pid, number)
        except OSError:
            pass

    def note_hung(self, _number: int, _frame: object) -> None:
        self.hung = True
        send_outcome(self.path, b"hung")

    def pass_stdin(self) -> bytes:
        """Hands on what comes, as it comes, and returns all of it."""
        parts = []
        wanted = True
        try:
            while part := os.read(0, 1 << 16):
                parts.append(part)
                while part and wanted:
                    try:
                        part = part[os.write(self.feed, part) :]
                    except OSError:  # a command need not read its stdin
                        wanted = False
        finally:
            os.close(self.feed)
        return b"".join(parts)

    def finish(self) -> None:
        """Ends as the command ends."""
        _, status = os.waitpid(self.pid, 0)
        _signal.alarm(0)
        killed = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        code = 128 + killed if killed else os.WEXITSTATUS(status)
        if code and not self.cancelled and not self.hung:
            send_outcome(self.path, b"failed", code)
        if killed in SILENT_ENDS:
            if killed != _signal.SIGKILL:
                _signal.signal(killed, _signal.SIG_DFL)
            os.kill(os.getpid(), killed)
        leave(code)


def main() -> None:
    path, command = sys.argv[1], sys.argv[3] if len(sys.argv) > 3 else None
    if command is None:
        send_tick(path, sys.stdin.buffer.read())
        return
    try:
        run = Run(path, command)
    except OSError:
        undo_python()
        become(command)
        return
    try:
        send_tick(path, run.pass_stdin())
    finally:
        run.finish()


if __name__ == "__main__":
    try:
        main()
    finally:
        # Not sys.exit: no traceback of ours belongs on the user's screen.
        leave(0)
