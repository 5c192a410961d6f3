"""One host's keys: what is asked of Redis in one go, and what its answers mean."""

from __future__ import annotations

from typing import Any

import pytest
from redis.exceptions import NoPermissionError, ReadOnlyError, ResponseError

from adsum_shared.host_keys import (
    FoundEntry,
    KeysReply,
    KeysRequest,
    NewEntry,
    OddReplyError,
    StoredOffsets,
    carry_out,
)

ENTRY = NewEntry("2-9", {b"sp": b"sp", b"n": b"ours", b"b": b"[]"})
THERE = ResponseError(
    "The ID specified in XADD is equal or smaller than the target stream top item"
)


class Server:
    """Answers each command with the next of `replies`; an error among them is raised."""

    def __init__(self, *replies: Any) -> None:
        self.replies = list(replies)
        self.sent: list[list[Any]] = []
        self.connection = self

    async def initialize(self) -> None: ...

    def pack_command(self, *words: Any) -> list[Any]:
        return [words]

    def pack_commands(self, commands: list[Any]) -> list[Any]:
        return list(commands)

    async def send_packed_command(self, commands: list[Any]) -> None:
        self.sent.append([words[0] for words in commands])

    async def read_response(self) -> Any:
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply


async def test_all_that_is_asked_goes_in_one_round_trip_in_its_order() -> None:
    server = Server(
        b"2-9",
        b"OK",
        1,
        [b"last-generated-id", b"2-9", b"last-entry", [b"2-9", [b"sp", b"sp", b"n", b"ours"]]],
        [[b"3-1", [b"sp", b"x", b"n", b"y"]]],
        [b"1-1", b"{}", None],
        b"sp:1",
        b"{}",
    )
    everything = KeysRequest(
        add=ENTRY, beat=b"{}", head=True, after="2-9", stored=True, want=True, last_beat=True
    )

    told = await carry_out(server, "h", everything)

    assert server.sent == [["XADD", "SET", "SADD", "XINFO", "XRANGE", "HMGET", "GET", "GET"]]
    assert told == KeysReply(
        added="new",
        head=FoundEntry("2-9", b"sp", b"ours"),
        beyond=FoundEntry("3-1", b"x", b"y"),
        stored=StoredOffsets(b"1-1", b"{}", None),
        want=b"sp:1",
        beat=b"{}",
    )


@pytest.mark.parametrize(
    ("lies_there", "added"),
    [
        ([[b"2-9", [b"sp", b"sp", b"n", b"ours"]]], "there"),
        ([[b"2-9", [b"sp", b"sp", b"n", b"a copy's"]]], "moved"),
        ([[b"2-9", [b"sp", b"another", b"n", b"ours"]]], "moved"),
        ([], "moved"),
    ],
)
async def test_an_id_that_is_refused_is_ours_or_anothers(lies_there: Any, added: str) -> None:
    server = Server(THERE, lies_there)

    assert (await carry_out(server, "h", KeysRequest(add=ENTRY))).added == added


async def test_an_id_after_which_none_can_follow_is_told() -> None:
    server = Server(ResponseError("The stream has exhausted the last possible ID"))

    assert (await carry_out(server, "h", KeysRequest(add=ENTRY))).added == "exhausted"


async def test_what_is_not_there_or_not_allowed_to_be_listed_is_no_error() -> None:
    server = Server(b"OK", NoPermissionError("sadd"), ResponseError("no such key"), [], [None] * 3)

    told = await carry_out(server, "h", KeysRequest(beat=b"{}", head=True, after="", stored=True))

    assert told == KeysReply(listed=False)


LAST = [b"last-generated-id", b"2-9", b"last-entry", [b"2-9", [b"sp", b"sp", b"n", b"ours"]]]


@pytest.mark.parametrize(
    ("end", "head"),
    [(b"2-9", FoundEntry("2-9", b"sp", b"ours")), (b"3-1", FoundEntry("3-1"))],
)
async def test_a_shared_login_reads_where_a_stream_ends_and_no_entry(
    end: bytes, head: FoundEntry
) -> None:
    groups = [[b"name", b"other"], [b"name", b"end", b"last-delivered-id", end]]
    server = Server(ResponseError("BUSYGROUP"), b"OK", groups, LAST, [b"1-1", None, None])
    asked = KeysRequest(head=True, after="2-9", stored=True)

    reply = await carry_out(server, "h", asked, reads=False)

    assert server.sent == [["XGROUP", "XGROUP", "XINFO", "XINFO", "HMGET"]]
    assert reply == KeysReply(head=head, stored=StoredOffsets(b"1-1"))


async def test_a_shared_login_finds_no_stream() -> None:
    absent = [ResponseError("The XGROUP subcommand requires the key to exist")] * 2
    server = Server(*absent, ResponseError("no such key"), LAST)

    assert await carry_out(server, "h", KeysRequest(head=True), reads=False) == KeysReply()


@pytest.mark.parametrize(
    ("replies", "added"),
    [
        ([b"2-9", b"2-9"], "new"),
        ([THERE, b"2-9"], "moved"),
        ([THERE, THERE, LAST], "there"),
        ([THERE, THERE, [b"last-generated-id", b"3-1"]], "moved"),
    ],
)
async def test_a_shared_login_tells_its_entry_by_what_it_wrote_beside_the_stream(
    replies: list[Any], added: str
) -> None:
    server = Server(*replies)

    assert (await carry_out(server, "h", KeysRequest(add=ENTRY), reads=False)).added == added
    assert server.sent[0] == ["XADD", "XADD"]
    assert not server.replies


async def test_the_first_refusal_is_raised_once_every_answer_was_read() -> None:
    server = Server(ReadOnlyError("replica"), 1, ResponseError("another"))

    with pytest.raises(ReadOnlyError):
        await carry_out(server, "h", KeysRequest(beat=b"{}", want=True))
    assert server.replies == []


@pytest.mark.parametrize(
    ("asked", "reply", "words"),
    [
        (
            KeysRequest(want=True),
            ResponseError("WRONGTYPE Operation against a key"),
            "redis-cli DEL",
        ),
        (KeysRequest(want=True), 7, "makes no sense"),
        (KeysRequest(head=True), [b"last-generated-id"], "makes no sense"),
        (KeysRequest(head=True), [], "makes no sense"),
        (KeysRequest(after=""), [b"1"], "makes no sense"),
        (KeysRequest(stored=True), b"OK", "makes no sense"),
    ],
)
async def test_what_no_redis_would_answer_is_told_so(
    asked: KeysRequest, reply: Any, words: str
) -> None:
    with pytest.raises(OddReplyError, match=words):
        await carry_out(Server(reply), "h", asked)


async def test_of_a_cluster_each_command_finds_its_node() -> None:
    class Cluster:
        connection = None

        def __init__(self) -> None:
            self.sent: list[Any] = []

        async def initialize(self) -> None: ...

        async def execute_command(self, *words: Any) -> Any:
            self.sent.append(words[0])
            if words[0] == "SADD":
                raise NoPermissionError("sadd")
            return {"XRANGE": [(b"1-1", {b"sp": b"x"})], "SET": True}[words[0]]

    cluster = Cluster()

    told = await carry_out(cluster, "h", KeysRequest(beat=b"{}", after=""))

    assert (cluster.sent, told.beyond) == (["SET", "SADD", "XRANGE"], FoundEntry("1-1", b"x"))
