"""A hub whose certificate no public authority vouches for says so where it prints the line to join by."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from fakeredis import FakeAsyncRedis
from fastapi import Request

from adsum_hub.join import joining as joining_module
from adsum_hub.join.joining import LOCAL_HUB, Joining, vouched
from adsum_hub.join.rights import Addresses
from adsum_hub.join.tokens import JoinTokenAsked, JoinTokenStore
from tests.authorities import Authority
from tests.seals import seal


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@contextlib.asynccontextmanager
async def served(pem: Path, key: Path) -> AsyncIterator[str]:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(pem, key)
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", ssl=tls)
    async with server:
        yield f"https://localhost:{server.sockets[0].getsockname()[1]}"


async def test_who_signed_the_hubs_certificate_is_asked_of_its_address(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(*authority.sign("localhost")) as url:
        told = await vouched(url)
        assert told is not None
        assert "certificate of localhost" in told
        assert "--ca FILE" in told
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))  # the system trusts it
        assert await vouched(url) is None


async def test_a_certificate_that_is_wrong_otherwise_is_no_matter_of_authorities(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    async with served(*authority.sign("elsewhere")) as url:
        assert await vouched(url) is None


NO_NAMES = ("https://hub..example.net", f"https://{'a' * 64}.example.net")


@pytest.mark.parametrize("url", ["http://hub", "https://127.0.0.1:1", *NO_NAMES])
async def test_where_nobody_can_say_nothing_is_said(url: str) -> None:
    assert await vouched(url) is None


async def test_an_address_where_nobody_answers_keeps_nobody_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert joining_module.ASK_S <= 2
    monkeypatch.setattr(joining_module, "ASK_S", joining_module.ASK_S / 30)
    kept: list[asyncio.StreamWriter] = []
    async with await asyncio.start_server(lambda _, writer: kept.append(writer), "127.0.0.1") as to:
        url = f"https://127.0.0.1:{to.sockets[0].getsockname()[1]}"
        assert await asyncio.wait_for(vouched(url), 5) is None
        for writer in kept:
            writer.close()


def joining(redis: Any, url: str) -> Joining:
    parts: dict[str, Any] = dict.fromkeys(Joining.__dataclass_fields__)
    parts |= {"tokens": JoinTokenStore(redis, seal()), "clock": lambda: 0}
    parts["addresses"] = Addresses("redis://r", None, url)
    return Joining(**parts)


REACHED = Request({"type": "http", "scheme": "http", "headers": [(b"host", b"127.0.0.1:1")]})


@pytest.mark.parametrize(
    ("url", "found", "note"),
    [
        ("https://hub.example.net", "Add --ca FILE.", "Add --ca FILE."),
        ("https://hub.example.net", None, None),
        ("https://localhost", "Add --ca FILE.", LOCAL_HUB),
    ],
)
async def test_the_line_to_join_by_says_it(
    url: str, found: str | None, note: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    async def ask(url: str) -> str | None:
        asked.append(url)
        return found

    monkeypatch.setattr(joining_module, "vouched", ask)
    async with FakeAsyncRedis() as redis:
        made = await joining(redis, url).make_join_token(REACHED, JoinTokenAsked())

    assert made.note == note
    assert made.command.startswith(f"adsum join {url} --token adsum_join_")


async def test_a_token_that_could_not_be_answered_is_not_stored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def ask(_: str) -> str | None:
        raise ConnectionAbortedError

    monkeypatch.setattr(joining_module, "vouched", ask)
    async with FakeAsyncRedis() as redis:
        made = joining(redis, "https://hub.example.net")
        with pytest.raises(ConnectionAbortedError):
            await made.make_join_token(REACHED, JoinTokenAsked())
        assert await made.tokens.all(0) == []
