"""The listening sockets: handed over by the service manager, or opened here."""

from __future__ import annotations

import contextlib
import http.client
import os
import socket
from collections.abc import MutableMapping

from adsum_collector.errors import StartError

_FIRST_PASSED = 3


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


def listen_http(port: int) -> socket.socket:
    """Loopback only. Raises StartError that says who has the port."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
        listener.listen(512)
    except OSError as error:
        listener.close()
        raise StartError(_why_not(port, error)) from error
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
