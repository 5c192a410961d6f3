"""The hub's web half over real sockets: WebSocket protocol, refusals, page, shutdown."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator

import httpx
import pytest
import uvicorn
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from adsum_hub.app import PortTakenError, build_app, listen, server_config
from adsum_hub.consumer.consumer import Link
from adsum_hub.live import broadcast as broadcast_module
from adsum_hub.live import live as live_module
from adsum_hub.live.broadcast import Broadcast
from adsum_hub.request_guard import known_hosts
from adsum_hub.roster import Roster
from adsum_hub.snapshots import Snapshot
from adsum_shared import bounded_http
from adsum_shared.envelope import Batch
from adsum_shared.signals import PromptSubmitted
from tests.support import wait_until


class Running:
    """A served roster; `work` makes a session change."""

    def __init__(self) -> None:
        self.roster = Roster()
        self.roster.add("h", Snapshot(), 1_000)
        self.broadcast = Broadcast(self.roster, lambda: 1_000)
        self.bound = listen("127.0.0.1", 0)
        self.port = self.bound.getsockname()[1]
        app = build_app(
            self.roster, self.broadcast, Link(), lambda: 1_000, known_hosts(self.port, ())
        )
        self.server = uvicorn.Server(server_config(app))
        self.seq = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def work(self, session: str) -> None:
        self.seq += 1
        at = 1_000 + self.seq
        prompt = PromptSubmitted(session_id=session, at=at, seen=at, prompt_id=f"p{self.seq}")
        self.roster.apply("h", Batch("sp", self.seq, self.seq, "n", at, (prompt,)), 1_000)
        self.broadcast.flush()

    def socket(self, **headers: str) -> connect:
        return connect(f"ws://127.0.0.1:{self.port}/ws", additional_headers=headers)


@pytest.fixture
async def hub() -> AsyncIterator[Running]:
    running = Running()
    task = asyncio.create_task(running.server.serve(sockets=[running.bound]))
    await wait_until(lambda: running.server.started)
    yield running
    running.server.should_exit = True
    await task
    running.bound.close()


async def test_a_page_that_is_connected_is_no_request_that_has_to_end(
    hub: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded_http, "HEAD_S", 0.05)
    monkeypatch.setattr(bounded_http, "GRACE_S", 0.01)
    async with hub.socket() as socket:
        await asyncio.sleep(0.3)
        assert (await say(socket, "{}"))["type"] == "snapshot"
        (connection,) = hub.server.server_state.connections
        assert not isinstance(connection, bounded_http.BoundedHttp)


async def say(socket: ClientConnection, message: str) -> dict:
    await socket.send(message)
    return json.loads(await asyncio.wait_for(socket.recv(), 2))


NEW = '{"epoch":null,"offset":null}'


async def test_a_client_gets_a_snapshot_then_deltas_with_the_page_origin(hub: Running):
    hub.work("a")
    async with hub.socket(origin=hub.url) as socket:
        first = await say(socket, NEW)
        hub.work("b")
        second = json.loads(await asyncio.wait_for(socket.recv(), 2))

    assert (first["type"], [each["session_id"] for each in first["sessions"]]) == (
        "snapshot",
        ["a"],
    )
    assert (second["type"], [each["session_id"] for each in second["sessions"]]) == (
        "deltas",
        ["b"],
    )
    assert second["offset"] == first["offset"] + 1


async def test_a_client_that_comes_back_gets_what_it_missed(hub: Running):
    hub.work("a")
    async with hub.socket() as socket:
        first = await say(socket, NEW)
    hub.work("b")
    hub.work("c")
    async with hub.socket() as socket:
        resume = {"epoch": first["epoch"], "offset": first["offset"]}
        missed = await say(socket, json.dumps(resume))

    assert [each["session_id"] for each in missed["sessions"]] == ["b", "c"]


@pytest.mark.parametrize(
    "frame", ["", "hello", "[]", '{"offset":"1"}', "\x00", '{"epoch":7}', '{"offset":1.5}']
)
async def test_a_bad_first_frame_is_closed_with_the_reason(hub: Running, frame: str):
    async with hub.socket() as socket:
        await socket.send(frame)
        with pytest.raises(ConnectionClosed) as caught:
            await asyncio.wait_for(socket.recv(), 2)

    assert caught.value.rcvd is not None
    assert caught.value.rcvd.code == live_module.BAD_FRAME
    assert "epoch" in caught.value.rcvd.reason


async def test_a_binary_first_frame_is_closed_too(hub: Running):
    async with hub.socket() as socket:
        await socket.send(b"\x01\x02")
        with pytest.raises(ConnectionClosed) as caught:
            await asyncio.wait_for(socket.recv(), 2)

    assert caught.value.rcvd is not None
    assert caught.value.rcvd.code == live_module.BAD_FRAME


async def test_silence_instead_of_a_first_frame_is_closed(hub: Running, monkeypatch):
    monkeypatch.setattr(live_module, "FIRST_FRAME_S", 0.05)
    async with hub.socket() as socket:
        with pytest.raises(ConnectionClosed):
            await asyncio.wait_for(socket.recv(), 2)


async def test_an_oversized_frame_is_refused(hub: Running):
    async with hub.socket() as socket:
        await socket.send("x" * 100_000)
        with pytest.raises(ConnectionClosed) as caught:
            await asyncio.wait_for(socket.recv(), 2)

    assert caught.value.rcvd is not None
    assert caught.value.rcvd.code == 1009


@pytest.mark.parametrize("origin", ["http://evil.example", "null"])
async def test_a_foreign_page_gets_no_socket(hub: Running, origin: str):
    async with hub.socket(origin=origin) as socket:
        with pytest.raises(ConnectionClosed) as caught:
            await asyncio.wait_for(socket.recv(), 2)

    assert caught.value.rcvd is not None
    assert caught.value.rcvd.code == 1008
    assert origin in caught.value.rcvd.reason


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """All but of the server's own start and end."""
    ours = ("adsum_hub", "uvicorn.error.")
    return [each.getMessage() for each in caplog.records if each.name.startswith(ours)]


@pytest.mark.parametrize(
    ("frame", "code", "named"),
    [
        ("hello", live_module.BAD_FRAME, "was not understood: JSON is malformed"),
        (b"\x01", live_module.BAD_FRAME, "was not understood: it is a binary frame."),
        ('{"x":' + "[" * 60_000, live_module.BAD_FRAME, "was not understood: maximum recursion"),
        ("x" * 100_000, 1009, "cannot be read: 1009 (message too big)"),
    ],
)
async def test_a_frame_that_cannot_be_used_is_one_line_however_often_it_comes(
    hub: Running, caplog: pytest.LogCaptureFixture, frame: str | bytes, code: int, named: str
):
    caplog.set_level(logging.INFO)
    for _ in range(3):
        async with hub.socket() as socket:
            await socket.send(frame)
            with pytest.raises(ConnectionClosed) as caught:
                await asyncio.wait_for(socket.recv(), 2)
        assert caught.value.rcvd is not None
        assert caught.value.rcvd.code == code

    (line,) = lines(caplog)
    assert line.startswith("refused 127.0.0.1 at '/ws', because: ")
    assert named in line


async def test_a_later_frame_that_is_too_long_or_no_text_is_a_line_and_no_traceback(
    hub: Running, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.INFO)
    for frame, code in (("x" * 100_000, 1009), (b"\xff\xfe", 1007)):
        caplog.clear()
        async with hub.socket() as socket:
            await say(socket, NEW)
            await socket.send(frame, text=True)
            with pytest.raises(ConnectionClosed) as caught:
                await asyncio.wait_for(socket.recv(), 2)
        assert caught.value.rcvd is not None
        assert caught.value.rcvd.code == code
        assert "Traceback" not in caplog.text
        assert all("cannot be read" in line for line in lines(caplog))


async def test_what_comes_after_a_refusal_or_a_close_is_passed_over(
    hub: Running, caplog: pytest.LogCaptureFixture
):
    async with hub.socket(origin="http://evil.example") as socket:
        with contextlib.suppress(ConnectionClosed):
            for _ in range(3):
                await socket.send(b"\xff\xfe", text=True)
    async with hub.socket() as socket:
        await say(socket, NEW)
        socket.transport.write(2 * b"\x81\x82\0\0\0\0\xff\xfe")  # in one packet
        with pytest.raises(ConnectionClosed):
            await asyncio.wait_for(socket.recv(), 2)

    assert "Traceback" not in caplog.text
    assert "Fatal error" not in caplog.text


async def test_a_foreign_page_is_a_line_that_says_refused_and_none_that_says_accepted(
    hub: Running, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.INFO)
    for _ in range(2):
        async with hub.socket(origin="http://evil.example") as socket:
            with pytest.raises(ConnectionClosed):
                await asyncio.wait_for(socket.recv(), 2)

    assert lines(caplog) == [
        "refused 127.0.0.1 at '/ws', because: Pages of 'http://evil.example' may not use this hub."
    ]
    assert "accepted" not in caplog.text


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_another_name_of_this_hub_gets_no_socket_either(hub: Running, scheme: str):
    async with hub.socket(origin=f"{scheme}://localhost:{hub.port}") as socket:
        with pytest.raises(ConnectionClosed) as caught:
            await asyncio.wait_for(socket.recv(), 2)

    assert caught.value.rcvd is not None
    assert caught.value.rcvd.code == 1008


async def test_what_is_not_there_and_what_takes_no_such_method_are_told_of_as_other_errors(
    hub: Running,
):
    async with httpx.AsyncClient(base_url=hub.url) as client:
        missing = await client.get("/api/v1/nope")
        posted = await client.post("/api/v1/sessions")

    assert (missing.status_code, posted.status_code) == (404, 405)
    assert missing.json() == {
        "error": "There is nothing here.",
        "next": "See /openapi.json for what there is.",
    }
    assert posted.json()["error"] == "This address does not take POST."
    assert posted.headers["allow"] == "GET"
    assert "default-src 'none'" in posted.headers["content-security-policy"]


async def test_a_frame_more_is_ignored(hub: Running):
    async with hub.socket() as socket:
        await say(socket, NEW)
        await socket.send("anything")
        hub.work("a")

        assert json.loads(await asyncio.wait_for(socket.recv(), 2))["type"] == "deltas"


async def test_a_client_that_never_reads_is_let_go_and_delays_nobody(hub: Running, monkeypatch):
    monkeypatch.setattr(live_module, "SEND_S", 0.3)
    monkeypatch.setattr(broadcast_module, "RING_MESSAGES", 8)
    stuck = await connect(
        f"ws://127.0.0.1:{hub.port}/ws", max_queue=1, compression=None, ping_interval=None
    )
    await stuck.send(NEW)
    async with hub.socket() as socket:
        await say(socket, NEW)
        await wait_until(lambda: hub.broadcast.clients == 2)
        stuck.transport.pause_reading()
        big = "x" * 20_000

        async def pour() -> bool:
            hub.work(big + str(hub.seq % 5))
            message = json.loads(await asyncio.wait_for(socket.recv(), 2))
            assert message["type"] in ("deltas", "snapshot")
            return hub.broadcast.clients == 1

        await wait_until(pour, timeout=15)
    stuck.transport.abort()


async def test_the_page_and_its_parts_are_served_under_the_policy(hub: Running):
    async with httpx.AsyncClient(base_url=hub.url) as client:
        page = await client.get("/")
        outside = await client.get("/static/../app.py")

    assert page.status_code == 200
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert outside.status_code == 404


async def test_a_taken_port_is_named_with_the_next_step(hub: Running):
    with pytest.raises(PortTakenError, match=rf"{hub.port}.*ADSUM_HUB_PORT"):
        listen("127.0.0.1", hub.port)
