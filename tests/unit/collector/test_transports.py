"""The way through a hub: what is asked of it, and what people are told when it fails."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

import adsum_collector.delivery.transports as module
from adsum_collector.delivery.transports import (
    BROKEN,
    MOST_WAIT_S,
    PACE_S,
    PEOPLE_S,
    Answer,
    HttpConnection,
    HubConnection,
    HubPlace,
    HubTransport,
    away,
    refusal,
)
from adsum_collector.errors import HubError
from adsum_shared.host_keys import PATH, KeysReply, KeysRequest, NewEntry, decode_request, encode
from tests.authorities import Authority

URL = "https://hub.example.net"
SECRET = "adsum_machine_secret"


class Http:
    """Answers each request as `answer` does, which may raise."""

    def __init__(self, answer: Callable[[KeysRequest], Answer]) -> None:
        self._answer = answer

    async def post(self, path: str, headers: dict[str, str], body: bytes) -> Answer:
        assert (path, headers["authorization"]) == (PATH, f"Bearer {SECRET}")
        return self._answer(decode_request(body))


def line(answer: Callable[[KeysRequest], Answer]) -> HubConnection:
    return HubConnection(Http(answer), HubPlace(URL, SECRET))


def ok(told: KeysReply) -> Answer:
    return Answer(200, {}, encode(told))


async def test_what_is_asked_arrives_byte_for_byte_and_so_does_what_is_told() -> None:
    seen: list[KeysRequest] = []

    def answer(asked: KeysRequest) -> Answer:
        seen.append(asked)
        return ok(KeysReply(added="there", want=b"\xff:1", server="r"))

    entry = NewEntry("1-2", {b"b": b'["\xc3\xa4\xff"]'})
    told = await line(answer).ask("h", KeysRequest(add=entry, beat=b"\x00"))

    assert (told.added, told.want) == ("there", b"\xff:1")
    assert (seen[0].add, seen[0].beat, seen[0].host_id) == (entry, b"\x00", "h")


async def test_it_says_which_redis_it_knows_and_ends_with_another() -> None:
    servers = ["one", "one", "two"]
    known: list[str] = []

    def answer(asked: KeysRequest) -> Answer:
        known.append(asked.server)
        return ok(KeysReply(server=servers[len(known) - 1]))

    asking = line(answer)
    await asking.ask("h", KeysRequest())
    await asking.ask("h", KeysRequest())
    with pytest.raises(HubError, match="another Redis"):
        await asking.ask("h", KeysRequest())

    assert known == ["", "one", "one"]


@pytest.mark.parametrize(
    ("status", "body", "headers", "words", "at_least"),
    [
        (401, b'{"error":"Not valid.","next":"Join."}', {}, "adsum join --again", PEOPLE_S),
        (403, b'{"error":"Another\'s.","next":"Join again."}', {}, "Join again.", PEOPLE_S),
        (404, b"Not Found", {}, "Upgrade it", PEOPLE_S),
        (413, b"<html>", {}, "client_max_body_size", PEOPLE_S),
        (429, b'{"error":"Too often."}', {"retry-after": "7"}, "asked too often", 7.0),
        (429, b"", {}, "HTTP 429", 1.0),
        (503, b'{"error":"Redis hangs.","next":"Wait."}', {"retry-after": "2"}, "Redis hangs.", 2),
        (502, b"<html>", {}, "a proxy before a hub that does not run", 0.0),
        (302, b"", {"location": "/login"}, "Something else answers there", PEOPLE_S),
        (503, b"", {"retry-after": "99999"}, "HTTP 503", MOST_WAIT_S),
        (503, b"", {"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT"}, "HTTP 503", 0.0),
    ],
)
async def test_every_refusal_names_the_hub_the_cause_and_the_next_step(
    status: int, body: bytes, headers: dict[str, str], words: str, at_least: float
) -> None:
    with pytest.raises(HubError) as caught:
        await line(lambda _: Answer(status, headers, body)).ask("h", KeysRequest())

    assert words in str(caught.value)
    assert URL in str(caught.value)
    assert caught.value.wait_s == at_least
    assert SECRET not in str(caught.value)


async def test_what_is_no_answer_of_a_hub_is_told_so() -> None:
    with pytest.raises(HubError, match="no hub of Adsum, or a proxy"):
        await line(lambda _: Answer(200, {}, b"<html>")).ask("h", KeysRequest())


async def test_a_hub_that_is_away_and_a_wrong_certificate_are_told_apart() -> None:
    def refuse(_: KeysRequest) -> Answer:
        raise ConnectionRefusedError("Connection refused")

    with pytest.raises(HubError, match=r"cannot be reached .*firewall") as caught:
        await line(refuse).ask("h", KeysRequest())
    assert caught.value.wait_s == 0.0

    wrong = ssl.SSLCertVerificationError(1, "certificate verify failed")
    wrong.verify_code, wrong.verify_message = 19, "self-signed certificate in chain"
    told = away(URL, wrong)
    assert "--ca FILE" in str(told)
    assert told.wait_s == PEOPLE_S


async def test_an_authority_that_is_gone_is_named_and_no_reason_to_end(tmp_path: Any) -> None:
    transport = HubTransport(HubPlace(URL, SECRET, str(tmp_path / "gone.pem")))

    with pytest.raises(HubError, match=r"gone\.pem.*No such file"):
        async with transport.open():
            pass

    assert (transport.place, transport.via) == (f"the hub at {URL}", "hub")


def test_an_authority_that_was_renewed_is_taken_and_a_spoilt_file_is_not(tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    one, two = Authority(tmp_path / "one", "One"), Authority(tmp_path / "two", "Number two")
    file.write_bytes(one.file.read_bytes())
    transport = HubTransport(HubPlace(URL, SECRET, str(file)))

    def trusted() -> str:
        return str(transport._tls.context().get_ca_certs())

    assert "'One'" in trusted()
    file.write_bytes(two.file.read_bytes())
    assert "'Number two'" in trusted()
    file.unlink()
    assert "'Number two'" in trusted()


def test_a_refusal_by_the_hub_stays_told_until_it_takes_something() -> None:
    assert refusal(URL, 401, {}, b"").refused
    assert not refusal(URL, 503, {}, b'{"error":"Redis hangs."}').refused


async def test_batches_that_follow_each_other_quickly_are_paced_and_a_lone_one_is_not() -> None:
    loop = asyncio.get_running_loop()
    asking = line(lambda _: ok(KeysReply(added="new")))
    entry = KeysRequest(add=NewEntry("1-1", {b"b": b"[]"}))

    began = loop.time()
    await asking.ask("h", entry)
    assert loop.time() - began < PACE_S
    for _ in range(5):
        await asking.ask("h", entry)
    assert loop.time() - began >= 5 * PACE_S


OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nretry-after: 7\r\n\r\nok"
CHUNKED = b"HTTP/1.1 503 no\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"


class Server:
    """Answers each request with the next of `answers`; None: it closes without one."""

    def __init__(self, *answers: bytes | None) -> None:
        self.answers = list(answers)
        self.requests: list[bytes] = []
        self.connections = 0
        self.port = 0
        self.serving: list[asyncio.Task[None] | None] = []
        self.after: Callable[[asyncio.StreamWriter], None] = lambda _: None

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.serving.append(asyncio.current_task())
        with contextlib.suppress(asyncio.IncompleteReadError, OSError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
                self.requests.append(head + await reader.readexactly(length))
                answer = self.answers.pop(0)
                if answer is None:
                    break
                writer.write(answer)
                await writer.drain()
                self.after(writer)
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


@contextlib.asynccontextmanager
async def served(*answers: bytes | None) -> AsyncIterator[tuple[Server, HttpConnection]]:
    server = Server(*answers)
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.port = listening.sockets[0].getsockname()[1]
    line = HttpConnection(f"http://127.0.0.1:{server.port}", None)
    try:
        yield server, line
    finally:
        await line.close()
        listening.close()
        await asyncio.gather(*(task for task in server.serving if task is not None))


async def test_one_connection_serves_all_requests() -> None:
    async with served(OK, CHUNKED, OK) as (server, line):
        answers = [await line.post("/ingest", {"x": "y"}, b"a" * n) for n in (0, 3, 1 << 20)]

        assert [(each.status, each.body) for each in answers] == [
            (200, b"ok"),
            (503, b"ok"),
            (200, b"ok"),
        ]
        assert answers[0].headers["retry-after"] == "7"
        assert server.connections == 1
        first = server.requests[1].lower()
        assert first.startswith(b"post /ingest http/1.1\r\n")
        assert b"host: 127.0.0.1:%d\r\n" % server.port in first
        assert first.endswith(b"x: y\r\n\r\naaa")


async def test_an_idle_connection_that_the_server_closed_is_opened_anew() -> None:
    async with served(OK, OK) as (server, line):
        server.after = lambda writer: writer.close()
        await line.post("/", {}, b"")
        await asyncio.sleep(0.05)

        assert (await line.post("/", {}, b"")).status == 200
        assert server.connections == 2


async def test_an_answer_that_ends_the_connection_is_still_one() -> None:
    closing = b"HTTP/1.1 401 no\r\nconnection: close\r\ncontent-length: 2\r\n\r\nno"
    async with served(closing, OK) as (server, line):
        assert (await line.post("/", {}, b"")).status == 401
        assert (await line.post("/", {}, b"")).status == 200
        assert server.connections == 2


async def test_what_comes_beyond_an_answer_is_not_the_next_one() -> None:
    async with served(OK + OK.replace(b"200 OK", b"299 no"), OK) as (server, line):
        assert (await line.post("/", {}, b"")).status == 200
        assert (await line.post("/", {}, b"")).status == 200
        assert server.connections == 2


async def test_what_comes_unasked_on_an_idle_line_answers_nothing() -> None:
    """As a proxy says that it waited too long."""
    writers: list[asyncio.StreamWriter] = []
    async with served(OK, OK) as (server, line):
        server.after = writers.append
        await line.post("/", {}, b"")
        writers[0].write(b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\n\r\n")
        await asyncio.sleep(0.05)

        assert (await line.post("/", {}, b"")).status == 200
        assert server.connections == 2


@pytest.mark.parametrize(
    "answer",
    [None, b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nok", b"-ERR\r\n\r\n", b"\x00\xff\r\n\r\n"],
    ids=["none", "half", "another protocol", "garbage"],
)
async def test_an_answer_that_is_none_breaks_the_line(answer: bytes | None) -> None:
    async with served(answer) as (server, line):
        server.after = lambda writer: writer.close()
        with pytest.raises(BROKEN):
            await line.post("/", {}, b"")


async def test_a_server_that_is_silent_is_not_waited_for_without_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "ANSWER_S", 0.05)
    async with served(b"") as (_, line):
        with pytest.raises(TimeoutError, match="no answer"):
            await line.post("/", {}, b"")


async def test_an_answer_without_end_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 10)
    async with served(b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n" + b"x" * 99) as (_, line):
        with pytest.raises(OSError, match="no end"):
            await line.post("/", {}, b"")


async def test_a_write_that_the_loop_refuses_is_a_line_that_broke() -> None:
    """uvloop says RuntimeError of a transport that closed a moment ago, which would end the process."""

    class Closed:
        transport: Any = None

        def write(self, _: bytes) -> None:
            raise RuntimeError("the handler is closed")

        def is_closing(self) -> bool:
            return False

    async with served(OK) as (_, line):
        await line.post("/", {}, b"")
        assert line._streams is not None
        reader, writer = line._streams
        line._streams = reader, Closed()  # type: ignore[assignment] # as far as it is used
        with pytest.raises(BROKEN, match=r"Connection lost\."):
            await line.post("/", {}, b"")
        line._streams = reader, writer
