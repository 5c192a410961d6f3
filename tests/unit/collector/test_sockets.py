"""Whose connection it is: the kernel's table, and real connections."""

from __future__ import annotations

import asyncio
import os
import pwd
import socket
import sys
from pathlib import Path

import pytest

from adsum_collector.errors import StartError
from adsum_collector.listening.sockets import (
    _uid_by_process,
    find_uid,
    listener_uid,
    open_sockets,
    others_of,
    stranger_on,
    tcp_peer_uid,
    unix_peer_uid,
)
from adsum_collector.settings import CollectorSettings
from adsum_collector.state_dir import token_of

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


def account(name: str, uid: int, shell: str) -> pwd.struct_passwd:
    return pwd.struct_passwd((name, "x", uid, uid, "", "/", shell))


ALONE = [
    account("root", 0, "/bin/bash"),
    account("ann", 1000, "/usr/bin/zsh"),
    account("sync", 4, "/bin/sync"),
    account("www-data", 33, "/usr/sbin/nologin"),
    account("_mbsetupuser", 248, "/bin/bash"),
    account("nobody", 65534, "/usr/bin/false"),
]


def test_accounts_that_nobody_logs_in_to_are_not_others() -> None:
    switch = "passwd: files systemd sss [NOTFOUND=return]\ngroup: ldap\n"
    assert others_of(ALONE, 1000, switch) == []


def test_who_can_log_in_is_another() -> None:
    bob, service = account("bob", 1001, ""), account("postgres", 101, "/bin/bash")
    assert others_of([*ALONE, bob, service], 1000, "") == ["bob", "postgres"]


def test_accounts_of_a_directory_count_though_they_are_not_listed() -> None:
    assert others_of(ALONE, 1000, "passwd: files ldap # all of us\n") == ["all of ldap"]
    assert others_of(ALONE, 1000, "passwd: files sss\n", sssd=True) == ["all of sss"]


def test_who_listens_on_a_port_is_known_and_we_are_no_stranger() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        assert stranger_on(port) is None
        if sys.platform == "linux":
            table = Path("/proc/net/tcp").read_text()
            assert listener_uid(table, port) == os.geteuid()
    assert stranger_on(port) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_another_user_on_a_port_is_a_stranger() -> None:
    os.seteuid(12345)
    try:
        listener = socket.socket()
    finally:
        os.seteuid(0)
    with listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        assert stranger_on(listener.getsockname()[1]) == "12345"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_a_collector_whose_port_another_user_holds_renews_the_hooks_token(tmp_path: Path) -> None:
    handed = token_of(tmp_path)
    os.seteuid(12345)
    try:
        listener = socket.socket()
    finally:
        os.seteuid(0)
    with listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        settings = CollectorSettings(state_dir=tmp_path, collector_port=listener.getsockname()[1])
        told = "The user 12345 listens there.*Next: adsum hooks install"
        with pytest.raises(StartError, match=told), open_sockets(settings):
            pass
    assert token_of(tmp_path) != handed
