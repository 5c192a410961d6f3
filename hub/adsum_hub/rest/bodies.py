"""Reading what is sent to REST: JSON of a known shape, of a bounded length, or a clear refusal."""

from __future__ import annotations

import asyncio
from typing import Any, TypeVar

import msgspec
from fastapi import Request

from adsum_hub.rest.answers import Problem, as_json

T = TypeVar("T")
MOST_BYTES = 8 * 1024
#: Some need no sign-in: nobody may hold connections open by sending slowly.
BODY_S = 10.0


class BadRequestError(ValueError):
    def __init__(
        self, status: int, cause: str, step: str, headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(cause)
        self.answer = as_json(Problem(cause, step), status, headers)


async def read(request: Request, of: type[T]) -> T:
    """Raises BadRequestError. Only JSON: a page from elsewhere cannot send it without asking first.

    The request guard refuses its question, as they refuse whatever names another Origin.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        step = "Send it with Content-Type: application/json."
        raise BadRequestError(415, "This takes JSON only.", step)
    body = b""
    try:
        async with asyncio.timeout(BODY_S):
            async for part in request.stream():
                body += part
                if len(body) > MOST_BYTES:
                    step = f"Send at most {MOST_BYTES} bytes."
                    raise BadRequestError(413, "This is too long.", step)
    except TimeoutError as error:
        cause = f"The request did not arrive within {BODY_S:.0f} s."
        raise BadRequestError(408, cause, "Send it again.") from error
    try:
        return msgspec.json.decode(body or b"{}", type=of)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        step = "See /openapi.json for what belongs there."
        raise BadRequestError(400, f"The body cannot be read: {error}.", step) from error


def takes(kind: type) -> dict[str, Any]:
    """For OpenAPI."""
    schema = {"$ref": f"#/components/schemas/{kind.__name__}"}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}
