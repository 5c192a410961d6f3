"""Which user is at the other end of a local connection."""

from __future__ import annotations

import socket
import struct
import sys
from pathlib import Path

import psutil

_ESTABLISHED = "01"


def tcp_peer_uid(client: tuple[str, int], server: tuple[str, int]) -> int | None:
    """The user whose socket `client` is; None if nobody can tell."""
    if sys.platform == "linux":
        table = "/proc/net/tcp6" if ":" in client[0] else "/proc/net/tcp"
        return find_uid(Path(table).read_text(), client, server)
    return _uid_by_process(client)


def find_uid(table: str, client: tuple[str, int], server: tuple[str, int]) -> int | None:
    """Looks a connection up in the text of /proc/net/tcp or tcp6."""
    local, remote = _kernel_address(*client), _kernel_address(*server)
    for line in table.splitlines()[1:]:
        fields = line.split()
        if fields[1:4] == [local, remote, _ESTABLISHED]:
            return int(fields[7])
    return None


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
