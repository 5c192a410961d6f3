"""Whose connection it is: the kernel's table, and real connections."""

from __future__ import annotations

import asyncio
import os
import socket
import sys

import pytest

from adsum_collector.peer import _uid_by_process, find_uid, tcp_peer_uid, unix_peer_uid

TABLE = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:BB14 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 1 1 0
   1: 0100007F:D431 0100007F:BB14 06 00000000:00000000 00:00000000 00000000     0        0 0 3 0
   2: 0100007F:D431 0100007F:BB14 01 00000000:00000000 00:00000000 00000000  1001        0 2 1 0
   3: 0100007F:BB14 0100007F:D431 01 00000000:00000000 00:00000000 00000000  1000        0 3 1 0
"""


@pytest.mark.skipif(sys.byteorder != "little", reason="the sample is from a little-endian machine")
def test_the_client_end_of_the_living_connection_counts() -> None:
    client, server = ("127.0.0.1", 0xD431), ("127.0.0.1", 0xBB14)

    assert find_uid(TABLE, client, server) == 1001
    assert find_uid(TABLE, server, client) == 1000
    assert find_uid(TABLE, ("127.0.0.1", 1), server) is None


async def connected(family: socket.AddressFamily, host: str) -> tuple[socket.socket, socket.socket]:
    listener = socket.socket(family)
    listener.bind((host, 0))
    listener.listen()
    client = socket.create_connection(listener.getsockname()[:2])
    server, _ = listener.accept()
    listener.close()
    return client, server


@pytest.mark.parametrize(
    ("family", "host"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")]
)
async def test_a_real_connection_is_ours(family: socket.AddressFamily, host: str) -> None:
    client, server = await connected(family, host)
    with client, server:
        ends = client.getsockname()[:2], server.getsockname()[:2]
        assert tcp_peer_uid(*ends) == os.getuid()
    assert tcp_peer_uid(*ends) is None


async def test_where_the_kernel_has_no_table_our_processes_are_asked() -> None:
    client, server = await connected(socket.AF_INET, "127.0.0.1")
    with client, server:
        assert _uid_by_process(client.getsockname()) == os.getuid()


async def test_the_user_behind_a_unix_socket() -> None:
    one, other = socket.socketpair()
    with one, other:
        assert unix_peer_uid(one) == (os.getuid() if sys.platform == "linux" else None)
    await asyncio.sleep(0)
