"""The way through a hub: what is asked of it, and what people are told when it fails."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from adsum_collector.delivery.http_line import Answer
from adsum_collector.delivery.hub_transport import (
    MOST_WAIT_S,
    PACE_S,
    PEOPLE_S,
    HubLine,
    HubPlace,
    HubTransport,
    away,
    refusal,
)
from adsum_collector.errors import HubError
from adsum_shared.host_keys import Asked, NewEntry, Told
from adsum_shared.ingest import PATH, decode_asked, encode
from tests.authorities import Authority

URL = "https://hub.example.net"
SECRET = "adsum_machine_secret"


class Http:
    """Answers each request as `answer` does, which may raise."""

    def __init__(self, answer: Callable[[Asked], Answer]) -> None:
        self._answer = answer

    async def post(self, path: str, headers: dict[str, str], body: bytes) -> Answer:
        assert (path, headers["authorization"]) == (PATH, f"Bearer {SECRET}")
        return self._answer(decode_asked(body))


def line(answer: Callable[[Asked], Answer]) -> HubLine:
    return HubLine(Http(answer), HubPlace(URL, SECRET))


def ok(told: Told) -> Answer:
    return Answer(200, {}, encode(told))


async def test_what_is_asked_arrives_byte_for_byte_and_so_does_what_is_told() -> None:
    seen: list[Asked] = []

    def answer(asked: Asked) -> Answer:
        seen.append(asked)
        return ok(Told(added="there", want=b"\xff:1", server="r"))

    entry = NewEntry("1-2", {b"b": b'["\xc3\xa4\xff"]'})
    told = await line(answer).ask("h", Asked(add=entry, beat=b"\x00"))

    assert (told.added, told.want) == ("there", b"\xff:1")
    assert (seen[0].add, seen[0].beat, seen[0].host_id) == (entry, b"\x00", "h")


async def test_it_says_which_redis_it_knows_and_ends_with_another() -> None:
    servers = ["one", "one", "two"]
    known: list[str] = []

    def answer(asked: Asked) -> Answer:
        known.append(asked.server)
        return ok(Told(server=servers[len(known) - 1]))

    asking = line(answer)
    await asking.ask("h", Asked())
    await asking.ask("h", Asked())
    with pytest.raises(HubError, match="another Redis"):
        await asking.ask("h", Asked())

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
        await line(lambda _: Answer(status, headers, body)).ask("h", Asked())

    assert words in str(caught.value)
    assert URL in str(caught.value)
    assert caught.value.wait_s == at_least
    assert SECRET not in str(caught.value)


async def test_what_is_no_answer_of_a_hub_is_told_so() -> None:
    with pytest.raises(HubError, match="no hub of Adsum, or a proxy"):
        await line(lambda _: Answer(200, {}, b"<html>")).ask("h", Asked())


async def test_a_hub_that_is_away_and_a_wrong_certificate_are_told_apart() -> None:
    def refuse(_: Asked) -> Answer:
        raise ConnectionRefusedError("Connection refused")

    with pytest.raises(HubError, match=r"cannot be reached .*firewall") as caught:
        await line(refuse).ask("h", Asked())
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
    asking = line(lambda _: ok(Told(added="new")))
    entry = Asked(add=NewEntry("1-1", {b"b": b"[]"}))

    began = loop.time()
    await asking.ask("h", entry)
    assert loop.time() - began < PACE_S
    for _ in range(5):
        await asking.ask("h", entry)
    assert loop.time() - began >= 5 * PACE_S
