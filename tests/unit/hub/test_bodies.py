"""Bodies of requests: what is no JSON of the known shape, too long or too slow is refused in words."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from starlette.requests import Request

from adsum_hub.rest import api
from adsum_hub.rest.api import MOST_BYTES, BadRequestError, read


class Named(msgspec.Struct):
    name: str


def request(*parts: bytes, kind: str = "application/json", ends: bool = True) -> Any:
    async def received() -> AsyncIterator[dict[str, Any]]:
        for part in parts:
            yield {"type": "http.request", "body": part, "more_body": True}
        if not ends:
            await asyncio.Event().wait()
        yield {"type": "http.request", "body": b"", "more_body": False}

    messages = received()
    headers = [(b"content-type", kind.encode())]
    return Request({"type": "http", "headers": headers}, lambda: anext(messages))


async def refusal(asked: Any) -> tuple[int, str]:
    with pytest.raises(BadRequestError) as refused:
        await read(asked, Named)
    return refused.value.answer.status_code, str(refused.value)


async def test_a_body_in_parts_is_read_whole() -> None:
    assert await read(request(b'{"na', b'me": "oak"}'), Named) == Named("oak")


@pytest.mark.parametrize(
    ("asked", "status", "said"),
    [
        (request(b"{}", kind="text/plain"), 415, "JSON only"),
        (request(b" " * MOST_BYTES, b"{}"), 413, "too long"),
        (request(b'{"name": 1}'), 400, "cannot be read"),
        (request(b"[" * 5_000), 400, "cannot be read"),
    ],
    ids=["no JSON", "too long", "another shape", "too deep"],
)
async def test_what_cannot_be_taken_is_refused_in_words(asked: Any, status: int, said: str) -> None:
    found, words = await refusal(asked)
    assert (found, said in words) == (status, True)


async def test_who_sends_slowly_holds_no_connection_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "BODY_S", 0.05)

    assert await refusal(request(b'{"na', ends=False)) == (
        408,
        "The request did not arrive within 0 s.",
    )
