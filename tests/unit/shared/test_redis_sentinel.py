"""Asking Sentinels for the master: who is asked, what is believed, and what is told where none knows."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import pytest
from redis.asyncio.connection import Connection
from redis.asyncio.sentinel import SentinelManagedConnection
from redis.exceptions import AuthenticationError, NoPermissionError, ResponseError
from redis.exceptions import ConnectionError as RedisConnectionError

from adsum_shared import connect
from adsum_shared.connect import Sentinels, every_server, open_redis
from adsum_shared.redis_errors import UnsettledError, WayError
from adsum_shared.redis_url import read_url

MASTER = [b"10.0.0.1", b"6379"]


class Asked:
    """Sentinels by host: what each answers, and who was asked, in order."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.order: list[str] = []
        self.closed = 0
        hosts = ",".join(answers)
        self.sentinels = Sentinels(read_url(f"redis+sentinel://{hosts}/mymaster"), self.open)

    def open(self, url: str) -> Any:
        asked, host = self, urlsplit(url).hostname or ""

        class Client:
            async def execute_command(self, *_words: Any) -> Any:
                asked.order.append(host)
                answer = asked.answers[host]
                if isinstance(answer, Exception):
                    raise answer
                return answer

            async def aclose(self) -> None:
                asked.closed += 1

        return Client()


async def test_who_answered_last_is_asked_first_until_it_is_in_doubt() -> None:
    asked = Asked(a=RedisConnectionError("away"), b=MASTER, c=MASTER)

    for _ in range(2):
        assert await asked.sentinels.discover_master("mymaster") == ("10.0.0.1", 6379)
    asked.sentinels.doubt()
    await asked.sentinels.discover_master("mymaster")

    assert asked.order == ["a", "b", "b", "a", "c"]
    assert asked.closed == 5


async def test_one_that_does_not_know_the_master_may_be_new() -> None:
    asked = Asked(a=None, b=MASTER)

    assert await asked.sentinels.discover_master("mymaster") == ("10.0.0.1", 6379)


@pytest.mark.parametrize("stranger", [None, ResponseError("ERR No such master with that name")])
async def test_a_name_that_none_knows_is_told(stranger: Any) -> None:
    asked = Asked(a=stranger, b=RedisConnectionError("away"))

    with pytest.raises(WayError, match=r"no Sentinel knows a master named mymaster \(a:26379"):
        await asked.sentinels.discover_master("mymaster")


async def test_all_that_were_tried_are_told_with_their_causes() -> None:
    asked = Asked(
        a=RedisConnectionError("away"),
        b=AuthenticationError("invalid password: s3cr"),
        c=TimeoutError(),
    )

    with pytest.raises(WayError) as refused:
        await asked.sentinels.discover_master("mymaster")

    told = str(refused.value)
    assert "a:26379: away" in told
    assert "b:26379 refuses the login: put sentinel_username" in told
    assert "c:26379: no answer" in told
    assert "s3cr" not in told


async def test_replicas_are_those_that_are_up() -> None:
    def told(ip: bytes, flags: bytes) -> list[bytes]:
        return [b"ip", ip, b"port", b"1", b"flags", flags]

    asked = Asked(a=[told(b"10.0.0.2", b"slave"), told(b"10.0.0.3", b"s_down,slave")])

    assert await asked.sentinels.replicas() == [("10.0.0.2", 1)]


@pytest.mark.parametrize("answer", [b"OK", 7, [b"h"], [b"h", b"x"], [[b"ip"]]])
async def test_an_answer_that_is_no_sentinels_is_told(answer: Any) -> None:
    asked = Asked(a=answer)

    with pytest.raises(WayError, match="no sense of a Sentinel"):
        await asked.sentinels.discover_master("mymaster")
    with pytest.raises(WayError, match="no sense of a Sentinel"):
        await asked.sentinels.replicas()


class Answering(SentinelManagedConnection):
    """Connects to nothing, and answers ROLE."""

    role: Any = None

    async def connect_check_health(self, *_words: Any, **_options: Any) -> None:
        pass

    async def send_command(self, *_words: Any, **_options: Any) -> None:
        pass

    async def read_response(self, *_words: Any, **_options: Any) -> Any:
        if isinstance(self.role, Exception):
            raise self.role
        return self.role


class Pool:
    check_connection = False
    is_master = True

    def __init__(self, sentinels: Sentinels) -> None:
        self.sentinel_manager = sentinels


def connection(asked: Asked, role: Any) -> Any:
    made: Any = connect._of_master(Answering)(connection_pool=Pool(asked.sentinels))
    made.role = role
    return made


async def test_a_master_that_is_one_no_more_is_left_and_another_sentinel_asked() -> None:
    asked = Asked(a=MASTER, b=MASTER)

    with pytest.raises(UnsettledError, match=r"10\.0\.0\.1:6379.*is a replica.*failover"):
        await connection(asked, [b"slave"]).connect_to(("10.0.0.1", 6379))

    await asked.sentinels.discover_master("mymaster")
    assert asked.order == ["b"]


@pytest.mark.parametrize(
    ("role", "words"),
    [
        ([b"sentinel", [b"m"]], "is a Sentinel itself"),
        (b"OK", "not answer as a Redis"),
        ([], "not"),
    ],
)
async def test_what_is_neither_master_nor_replica_is_told_as_what_it_is(
    role: Any, words: str
) -> None:
    with pytest.raises(WayError, match=rf"10\.0\.0\.1:6379.*{words}.*Sentinels monitor") as told:
        await connection(Asked(a=MASTER), role).connect_to(("10.0.0.1", 6379))

    assert "failover" not in str(told.value)


@pytest.mark.parametrize("role", [[b"master"], NoPermissionError("no permissions")])
async def test_a_master_is_taken_and_who_may_not_ask_takes_it_at_its_word(role: Any) -> None:
    await connection(Asked(a=MASTER), role).connect_to(("10.0.0.1", 6379))


async def test_all_servers_are_the_master_and_its_replicas() -> None:
    asked = Asked(a=[[b"ip", b"10.0.0.2", b"port", b"1", b"flags", b"slave"]])
    client: Any = open_redis("redis+sentinel://a/mymaster")
    client.connection_pool.sentinel_manager = asked.sentinels

    async with every_server(client) as servers:
        assert [is_master for _, is_master in servers] == [True, False]

    assert asked.closed == 2


def test_its_connections_are_those_that_ask() -> None:
    client = open_redis("redis+sentinel://a/mymaster")
    made = client.connection_pool.make_connection()

    assert isinstance(made, SentinelManagedConnection)
    assert isinstance(made, Connection)
