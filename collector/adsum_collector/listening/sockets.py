"""Local sockets: those we listen on, and which users are at the other end or could be."""

from __future__ import annotations

import contextlib
import http.client
import os
import pwd
import socket
import struct
import sys
from collections.abc import Iterable, Iterator, MutableMapping
from pathlib import Path
from typing import Final

import psutil

from adsum_collector.errors import StartError
from adsum_collector.settings import CollectorSettings
from adsum_collector.state_dir import renew_token

SOCKET_FILE = "collector.sock"
_FIRST_PASSED = 3
_ESTABLISHED = "01"
_LISTEN = "0A"
#: Shells of accounts that nobody logs in to.
_NO_LOGIN: Final = frozenset({"nologin", "false", "true", "sync", "halt", "shutdown"})
#: Where accounts come from that `pwd` lists in full.
_LISTED: Final = frozenset({"files", "compat", "altfiles", "systemd", "mymachines"})
_SSSD = Path("/var/lib/sss/pipes/nss")


def passed_sockets(environ: MutableMapping[str, str]) -> list[socket.socket]:
    """What systemd holds open for us, so that a restart refuses no hook. Asked once."""
    if environ.get("LISTEN_PID") != str(os.getpid()):
        return []
    count = int(environ.get("LISTEN_FDS", "0"))
    for name in ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"):
        environ.pop(name, None)  # not for our children
    passed = [socket.socket(fileno=_FIRST_PASSED + at) for at in range(count)]
    for each in passed:
        each.settimeout(0)
        os.set_inheritable(each.fileno(), False)  # noqa: FBT003 - the library's own signature
    return passed


def _listen_http(settings: CollectorSettings) -> socket.socket:
    """Loopback only. Raises StartError that says who has the port."""
    port = settings.collector_port
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
        listener.listen(512)
    except OSError as error:
        listener.close()
        text = _why_not(port, error)
        if stranger := stranger_on(port):
            # Hooks that are posted show it their token.
            renew_token(settings.state_dir)
            text += (
                f" The user {stranger} listens there, and hears whatever hooks post. Their token is "
                "renewed. Next: adsum hooks install, which takes them off the port."
            )
        raise StartError(text) from error
    listener.settimeout(0)
    return listener


def _why_not(port: int, error: OSError) -> str:
    if _is_collector(port):
        return (
            f"Port {port} is in use by another Adsum collector. Stop that one, or give this one "
            "its own port with ADSUM_COLLECTOR_PORT and install the hooks again."
        )
    return (
        f"Port {port} on 127.0.0.1 cannot be opened ({error.strerror}); another program may have "
        "it. Set ADSUM_COLLECTOR_PORT to a free port and install the hooks again."
    )


def _is_collector(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=1.0)
    with contextlib.closing(connection):
        try:
            connection.request("GET", "/livez")
            return connection.getresponse().getheader("x-adsum") == "collector"
        except (OSError, http.client.HTTPException):
            return False


def listen_unix(path: Path) -> socket.socket:
    """Bound and private. Replaces the file a dead collector left; raises StartError for a live one."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if path.exists() and _is_answered(path):
            raise StartError(
                f"Another program listens on {path}. Stop it, or name another ADSUM_STATE_DIR."
            )
        path.unlink(missing_ok=True)
        before = os.umask(0o177)
        try:
            listener.bind(str(path))
        finally:
            os.umask(before)
        listener.listen(64)
    except StartError:
        listener.close()
        raise
    except OSError as error:
        listener.close()
        raise StartError(
            f"The socket {path} cannot be opened ({error}). A path longer than about 100 bytes is "
            "too long for the system: then name a shorter ADSUM_STATE_DIR."
        ) from error
    listener.settimeout(0)
    return listener


def _is_answered(path: Path) -> bool:
    with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except OSError:
            return False
        return True


@contextlib.contextmanager
def open_sockets(settings: CollectorSettings) -> Iterator[tuple[socket.socket, socket.socket]]:
    passed = {each.family: each for each in passed_sockets(os.environ)}
    http = passed.get(socket.AF_INET) or _listen_http(settings)
    with http:
        unix = passed.get(socket.AF_UNIX) or listen_unix(settings.state_dir / SOCKET_FILE)
        with unix:
            yield http, unix


def tcp_peer_uid(client: tuple[str, int], server: tuple[str, int]) -> int | None:
    """The user whose socket `client` is; None if nobody can tell."""
    if sys.platform == "linux":
        table = "/proc/net/tcp6" if ":" in client[0] else "/proc/net/tcp"
        return find_uid(Path(table).read_text(), client, server)
    return _uid_by_process(client)


def find_uid(table: str, client: tuple[str, int], server: tuple[str, int]) -> int | None:
    """Looks a connection up in the text of /proc/net/tcp or tcp6."""
    wanted = [_kernel_address(*client), _kernel_address(*server), _ESTABLISHED]
    return next((int(row[7]) for row in _rows(table) if row[1:4] == wanted), None)


def _rows(table: str) -> Iterator[list[str]]:
    return map(str.split, table.splitlines()[1:])


def _kernel_address(host: str, port: int) -> str:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    packed = socket.inet_pton(family, host)
    # the kernel prints each 32-bit word in the machine's own byte order
    words = (packed[at : at + 4] for at in range(0, len(packed), 4))
    order = (int.from_bytes(word, sys.byteorder) for word in words)
    return "".join(f"{word:08X}" for word in order) + f":{port:04X}"


def _uid_by_process(client: tuple[str, int]) -> int | None:
    """Where the kernel has no such table: only our own user's processes can be asked at all."""
    for process in psutil.process_iter():
        try:
            mine = process.net_connections("tcp")
            if any(connection.laddr == client for connection in mine):
                return process.uids().real
        except psutil.Error:
            continue
    return None


def unix_peer_uid(connection: socket.socket) -> int | None:
    """The user at the other end of a unix socket; None where the system has no way to ask."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return None
    _, uid, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, option, 12))
    return int(uid)


def listener_uid(table: str, port: int) -> int | None:
    """Who listens on the port, in the text of /proc/net/tcp or tcp6."""
    listening = (row for row in _rows(table) if row[3] == _LISTEN)
    ports = ((int(row[1].rpartition(":")[2], 16), int(row[7])) for row in listening)
    return next((uid for each, uid in ports if each == port), None)


def stranger_on(port: int) -> str | None:
    """The user who listens on the port, if that is neither we nor root; None where nobody can tell."""
    for table in (Path("/proc/net/tcp"), Path("/proc/net/tcp6")):
        try:
            uid = listener_uid(table.read_text(), port)
        except OSError:  # not Linux, or no IPv6
            continue
        if uid not in (None, 0, os.geteuid()):
            return _name_of(uid)
    return None


def _name_of(uid: int | None) -> str:
    try:
        return pwd.getpwuid(uid or 0).pw_name
    except KeyError:
        return str(uid)


def others_here() -> list[str]:
    """Who else could listen on a port of this machine: as `others_of`."""
    try:
        switch = Path("/etc/nsswitch.conf").read_text()
    except OSError:
        switch = ""
    return others_of(pwd.getpwall(), os.geteuid(), switch, sssd=_SSSD.exists())


def others_of(
    accounts: Iterable[pwd.struct_passwd], me: int, switch: str, *, sssd: bool = False
) -> list[str]:
    """Accounts that people log in to, but for our own and root's, who needs no port to be us.

    Not services' accounts, without a shell: every system has two dozen, so to count them would be
    to count always. switch: the text of nsswitch.conf; a directory's accounts are not all listed.
    """
    named = [
        each.pw_name
        for each in accounts
        if each.pw_uid not in (0, me)
        and not each.pw_name.startswith("_")  # macOS's own
        and Path(each.pw_shell).name not in _NO_LOGIN
    ]
    lines = (line.partition("#")[0].partition(":") for line in switch.splitlines())
    sources = {word for key, _, rest in lines if key.strip() == "passwd" for word in rest.split()}
    directories = {each for each in sources - _LISTED if not each.startswith("[")}
    if not sssd:  # distributions name it whether it runs or not
        directories.discard("sss")
    return sorted(named) + [f"all of {each}" for each in sorted(directories)]
