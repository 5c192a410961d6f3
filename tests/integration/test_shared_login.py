"""The login that machines share in Redis: it delivers, and reads nothing of what other machines sent."""

from __future__ import annotations

import itertools
import socket
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
import redis
from redis.connection import Connection

from adsum.doctor.checks import check_redis
from adsum_shared import streams
from adsum_shared.connect import open_redis
from adsum_shared.signals import PromptSubmitted
from tests.collectors import CollectorProcess, batches
from tests.deciding import BINDING, MACHINE, FakeMachine
from tests.hub_processes import HubProcess
from tests.support import wait_until
from tests.test_deploy_scripts import Server

pytestmark = [
    pytest.mark.redis, pytest.mark.timeout(120), pytest.mark.slow, pytest.mark.core
]  # fmt: skip

MARK = "mauve-walrus-7731"
READS = "return redis.call('XRANGE',KEYS[1],'-','+')"
#: Each command is tried with every row of up to three of these and a key of the other machine.
WORDS = ("0", "1", "-", "+", "STREAMS", "FULL", "s:s", READS)
#: Redis lets everybody say these, and they end the connection.
ENDING = {"quit", "reset"}
ALLOWED = {
    *("auth", "get", "hello", "hmget", "info", "ping", "sadd", "select", "set", "xadd"),
    *("xgroup|create", "xgroup|setid", "xinfo|groups", "xinfo|stream"),
}
END = "no more replies"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """Redis with the users of deploy/."""
    (tmp_path / "data").mkdir()
    server = Server(tmp_path / "data")
    server.start()
    yield server
    server.stop()


def url(server: Server, user: str) -> str:
    return f"redis://{user}:{user}-word@127.0.0.1:{server.port}"


def packed(words: Sequence[str]) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(
        b"$%d\r\n%s\r\n" % (len(raw), raw) for raw in map(str.encode, words)
    )


def replies(server: Server, rows: Iterable[Sequence[str]]) -> bytes:
    """All that Redis answers to the shared login, as it comes."""
    with socket.create_connection(("127.0.0.1", server.port), 20) as connection:
        rows = (["AUTH", "machines", "machines-word"], *rows, ["PING", END])
        connection.sendall(b"".join(map(packed, rows)))
        answered = b""
        while not answered.endswith(END.encode() + b"\r\n"):
            answered += connection.recv(1 << 20)
    return answered


def commands(server: Server) -> list[tuple[str, int]]:
    """(name, arity) of each command of this Redis; of one with subcommands, those."""
    connection = Connection(port=server.port, username="hub", password="hub-word")
    connection.send_command("COMMAND")
    found: list[Any] = connection.read_response()
    connection.disconnect()
    return [(each[0].decode(), each[1]) for row in found for each in (row[9] or [row])]


def rows_with(key: str) -> list[tuple[str, ...]]:
    """The key at each place among up to three words."""
    return [
        (*words[:place], key, *words[place:])
        for count in range(4)
        for words in itertools.product(WORDS, repeat=count)
        for place in range(min(count, 2) + 1)
    ]


@pytest.fixture
async def machine(server: Server, tmp_path: Path) -> AsyncIterator[FakeMachine]:
    """It asks in its stream, a hub has that in its snapshot, and a command waits for it."""
    machine = FakeMachine(url(server, "hub"))
    machine.tell("s", PromptSubmitted, prompt_id="p", text=MARK)
    machine.asks(payload={"command": MARK})
    hub = HubProcess(tmp_path / "hub", url(server, "hub"))
    try:
        hub.start()
        await wait_until(lambda: machine.redis.hget(streams.stored(MACHINE), streams.CURSOR), 20)
    finally:
        hub.kill()
    machine.asks(asked="r2", payload={"command": MARK})
    machine.redis.xadd(streams.commands(MACHINE), {"c": MARK})
    machine.redis.xadd(streams.last(MACHINE), {"sp": "sp", "n": "n"}, id="1-5")
    yield machine
    machine.redis.close()


def test_it_reads_no_byte_of_another_machines_by_any_command(
    server: Server, machine: FakeMachine
) -> None:
    allowed: set[str] = set()
    for name, arity in commands(server):
        words = name.split("|")
        words += [streams.inbox(MACHINE)] * (abs(arity) - len(words))
        verdict = machine.redis.execute_command("ACL", "DRYRUN", "machines", *words)
        if b"no permissions to run" not in bytes(verdict):
            allowed.add(name)
    assert allowed - ENDING == ALLOWED

    kinds = (streams.inbox, streams.snapshot, streams.commands, streams.stored, streams.last)
    keys = [kind(MACHINE) for kind in (*kinds, streams.beat)]
    for name in sorted(ALLOWED):
        for key in keys:
            said = replies(server, ((*name.split("|"), *words) for words in rows_with(key)))
            assert MARK.encode() not in said, f"{name} of {key}"
            assert BINDING.encode() not in said, f"{name} of {key}"
        stored = machine.redis.hget(streams.snapshot(MACHINE), "s:s")
        for lies_there in (stored, machine.redis.xrange(streams.inbox(MACHINE))):
            assert MARK in str(lies_there), name
            assert BINDING in str(lies_there), name


async def test_it_delivers_after_a_restart_of_redis_of_the_collector_and_of_hubs(
    server: Server, tmp_path: Path
) -> None:
    collector = CollectorProcess(tmp_path / "oak", url(server, "machines"))
    hub = HubProcess(tmp_path / "hub", url(server, "hub"))
    client = open_redis(url(server, "hub"))
    async with httpx.AsyncClient(timeout=10) as http:
        try:
            collector.start()
            hub.start()
            for number, restart in enumerate((None, server, collector, hub), 1):
                if restart is not None:
                    restart.stop()
                    restart.start()
                seq = await collector.post(http, f"note {number}")
                await wait_until(lambda seq=seq: hub.applied(collector.host_id) == seq, 30)
            await wait_until(lambda: collector.ready()["spool"]["acked"] == seq, 20)

            hub.stop()
            first = await collector.post(http, "while no hub runs")
            await wait_until(lambda: collector.ready()["stream"]["sent"] == first, 20)
            collector.kill()
            collector.start()
            last = await collector.post(http, "after a restart")
            await wait_until(lambda: collector.ready()["stream"]["sent"] == last, 20)
            notes = [s.note for b in await batches(client, collector.host_id) for s in b.signals]
            assert notes[-2:] == ["while no hub runs", "after a restart"]
            assert collector.ready()["problem"] is None
        finally:
            await client.aclose()
            collector.kill()
            hub.kill()


def test_doctor_names_a_login_that_reads_what_others_send(server: Server, tmp_path: Path) -> None:
    assert check_redis(url(server, "machines"), tmp_path).result == "ok"
    assert check_redis(url(server, "hub"), tmp_path).result == "ok"
    hub = redis.Redis(port=server.port, username="hub", password="hub-word")
    hub.acl_setuser("machines", enabled=True, keys=["adsum:{*}:in"], commands=["+xinfo"])

    found = check_redis(url(server, "machines"), tmp_path)

    assert found.result == "warn"
    assert "read what every machine sends" in found.what
